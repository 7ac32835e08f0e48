"""LSTM layers of integers, docs/numerics.md section 10: 8 bits with 16-bit cells, and the older cell of bytes."""
from pylite.ir.values import Call, Packed, Scratch
from pylite.numerics.quantization import f32, power_of_two, quantize_multiplier
from pylite.ops import products

LOCAL = 4096                # elements of scratch that the kernels have room for themselves
_NONE = (0, 0)


def lower_layer(node, layer, x, y):
    """The Call for int8 x and y, Views of (steps, rows, depth)."""
    o = node.options
    middle = node.intermediates
    if len(middle) == 12 and node.name == "LSTM":
        return _lower_narrow(node, layer, x, y)
    if len(middle) != 5:
        raise node.error("an LSTM of int8 needs 5 intermediate tensors, which tell scales"
                         f"{', or 12 of them' if node.name == 'LSTM' else ''}; it has {len(middle)}. Convert the model "
                         "with int8 activations and a cell state of int16, as the converter does by itself")
    x_value, y_value = node.inputs[0], node.outputs[0]
    h, c, hidden = layer.h, layer.c, middle[4]
    _check_scales(node, x_value, h, c, hidden, y_value)
    cell_log2 = power_of_two(c.scale)
    if cell_log2 is None or not -15 <= cell_log2 <= -9:
        raise node.error(f"its scale {c.scale} must be a power of two from 2^-15 to 2^-9", c)
    normal = layer.gates[1][5] is not None
    peephole = layer.gates[3][3] is not None
    if peephole and layer.outputs > layer.cells:
        raise node.error(f"has peepholes and more outputs ({layer.outputs}) than cells ({layer.cells}), for which no "
                         "arithmetic is defined. Leave the peepholes out, or convert the layer with float activations")
    operands = []
    for k, (w, _, r, p, bias, norm) in enumerate(layer.gates):
        if w is None:
            operands += [None] * 7
            continue
        unit = f32(2.0**-12)
        if normal:
            _check_scales(node, middle[k])
            unit = middle[k].scale
        multipliers = [quantize_multiplier(w.scale * x_value.scale / unit),
                       quantize_multiplier(r.scale * h.scale / unit), _NONE, _NONE, 1]
        if p is not None:
            multipliers[2] = quantize_multiplier(f32(2.0**cell_log2 * float(p.scale) / float(unit)))
        if norm is not None:
            multipliers[3] = quantize_multiplier(norm.scale)
            multipliers[4] = max(1, int(f32(10000) * norm.scale))
        contents = products.contents(node, bias, "bias")
        operands += [_packed(node, w), None if normal else contents, _packed(node, r), _words(node, p),
                     _words(node, norm), contents if normal else None, multipliers]
    w = layer.projection[0]
    operands += _projection(node, layer, None if w is None else w.scale * hidden.scale / h.scale)
    clips = _clip(o.cell_clip, c.scale, 32767), _clip(o.proj_clip, y_value.scale, 127)
    return _call(layer, x, y, 0 if w is None else 1, (x_value.zero_point, h.zero_point, hidden.zero_point),
                 quantize_multiplier(f32(2.0**-15 / float(hidden.scale) * 2.0**-15)), cell_log2, clips,
                 getattr(o, "time_major", True), None, operands)


def _lower_narrow(node, layer, x, y):
    """The Call where gates are kept in 8 bits: intermediate tensors are sum, x's part and h's part for every gate.

    As the reference has it, peepholes and an input gate are passed over (the input is what is not forgotten), and the
    state's part of the output gate has the zero point of the cell's input and a multiplier that leaves nothing of it.
    """
    for missing, what in ((layer.gates[3][5], "layer normalization"), (layer.projection[0], "a projection")):
        if missing is None:
            raise node.error("has 12 intermediate tensors, so its gates are kept in 8 bits, for which arithmetic is "
                             f"defined only with {what}. Convert the model so that the layer has 5 of them")
    o, middle = node.options, node.intermediates
    x_value, y_value, h, c, w = node.inputs[0], node.outputs[0], layer.h, layer.c, layer.projection[0]
    _check_scales(node, x_value, h, c, y_value, w, *middle[3:])
    operands, narrow, log2 = [None] * 7, [None], []
    for k, (w_x, _, w_h, _, bias, norm) in enumerate(layer.gates[1:], 1):
        _check_scales(node, w_x, w_h, norm)
        whole, part_x, part_h = middle[3 * k:3 * k + 3]
        m_h, e_h = quantize_multiplier(part_h.scale / whole.scale)
        log2.append(e_h)
        zero_h = part_h.zero_point
        if k == 3:
            zero_h, m_h = middle[7].zero_point, log2[0]
        m, e = quantize_multiplier(norm.scale)
        narrow.append(((_int8(part_x.zero_point), *quantize_multiplier(part_x.scale / whole.scale)),
                       (_int8(zero_h), m_h, e_h), m * 2.0**(e - 31)))
        operands += [_packed(node, w_x), None, _packed(node, w_h), None, _words(node, norm),
                     products.contents(node, bias, "bias"),
                     [quantize_multiplier(w_x.scale * x_value.scale / part_x.scale),
                      quantize_multiplier(w_h.scale * h.scale / part_h.scale), _NONE, _NONE, 1]]
    operands += _projection(node, layer, f32(float(w.scale) * 2.0**-15 / float(h.scale)))
    if operands[-1][1] > 14:
        raise node.error("its scale is too large for that of the output", w)
    clips = 0, 0
    if c.scale == 2.0**-15:                 # with another scale, which nothing else depends on, nothing is clipped
        clips = _clip(o.cell_clip, c.scale, 32767) if o.cell_clip < 1 else 0, _clip(o.proj_clip, y_value.scale, 127)
    return _call(layer, x, y, 2, (x_value.zero_point, h.zero_point, 0), _NONE, -15, clips, True, narrow, operands)


def _int8(zero_point):
    """As much of it as 8 bits hold."""
    return (zero_point + 128) % 256 - 128


def _clip(limit, scale, most):
    return int(min(f32(limit) / scale, most)) if limit > 0 else 0


def _projection(node, layer, scale):
    w, bias = layer.projection
    if w is None:
        return [None, None, _NONE]
    return [_packed(node, w), products.contents(node, bias, "bias"), quantize_multiplier(scale)]


def _call(layer, x, y, planes, *args):
    """planes: of bytes, for each row of cells."""
    *args, operands = args
    cells = x.shape[1] * layer.cells
    return Call("recurrent_integer.Lstm", x, y, layer.h.flat, layer.c.flat, scratch(4 * cells, "int16"),
                scratch(planes * cells, "int8"), (layer.cells, layer.outputs), *args, *operands)


def _check_scales(node, *values):
    for value in values:
        if value is None:
            raise node.error("lacks a tensor that tells a scale (weights, layer normalization or an intermediate one)")
        if not value.quantized:
            raise node.error("has no scale, which an integer LSTM needs", value)


def scratch(size, dtype):
    """Scratch of the recurrent kernels, or None where they have room for that much themselves."""
    return Scratch((size,), dtype) if size > LOCAL else None


def _packed(node, w):
    products.contents(node, w, "weights")
    return Packed("matmul.pack_weights", w)


def _words(node, value):
    if value is not None and value.dtype != "int16":
        raise node.error(f"must be int16, not {value.dtype}", value)
    return products.contents(node, value, "weights")


# ---- the basic cell: x, the last output, weights, bias and the last state -----------------------------------
def infer_basic(node):
    if len(node.inputs) != 5 or len(node.outputs) != 4 or None in node.inputs:
        raise node.error("a basic LSTM cell has 5 inputs and 4 outputs")
    x, h, w, b, c = node.inputs
    if len(x.shape) != 2 or len(h.shape) != 2 or x.shape[0] != h.shape[0]:
        raise node.error(f"must have 2 dimensions, as {x!r}, and as many rows", h)
    rows, cells = h.shape
    depth = x.shape[1] + cells
    for value, shape in ((w, (4 * cells, depth)), (b, (4 * cells,)), (c, (rows, cells))):
        if value.shape != shape:
            raise node.error(f"its shape must be {list(shape)}", value)
    for value in (h, c):
        if value.data is not None:
            raise node.error("holds the state of a basic LSTM cell, so it cannot be a constant", value)
    return [(rows, cells), (rows, cells), (rows, depth), (rows, 4 * cells)]


def lower_basic(node):
    x, h, w, b, c = node.inputs
    if w.dtype not in ("float32", "uint8") or x.dtype != w.dtype:
        raise node.error(f"a basic LSTM cell has operands of float32 or uint8, not {w.dtype}", w)
    y, c_out, both, gates = node.outputs
    bias = products.contents(node, b, "bias")
    products.contents(node, w, "weights")
    operands = [x, h, c, y, c_out, both, gates]
    if x.dtype == "float32":
        return Call("recurrent.BasicLstm", *operands, Packed("recurrent.pack", w), bias)
    if not w.quantized or not b.quantized:
        raise node.error("has no scale, which an integer LSTM needs", b if w.quantized else w)
    if power_of_two(c_out.scale or 1.0) != -11:
        raise node.error(f"its scale {c_out.scale} must be 2^-11", c_out)
    return Call("recurrent_integer.BasicLstm", *operands, Packed("matmul.pack_weights", w), bias,
                quantize_multiplier(f32(4096) * b.scale), w.zero_point - 128)
