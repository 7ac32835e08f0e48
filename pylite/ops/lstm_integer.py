"""LSTM layers of int8 with 16-bit cells.  docs/numerics.md section 10.

Two forms, by the intermediate tensors: 5, with gates of 16 bits, or 12, with gates that pass through 8 bits.
"""
from pylite._core.kernels.sequences import GATE_NAMES
from pylite.ir.values import Call, Packed
from pylite.numerics.quantization import f32, power_of_two, quantize_multiplier
from pylite.ops import products
from pylite.ops.recurrent_layer import scratch

_NO_MULTIPLIER = (0, 0)


def lower_layer(node, layer, x, y):
    """The Call for int8 x and y, Views (steps, rows, depth)."""
    middle = node.intermediates
    if len(middle) == 12 and node.name == "LSTM":
        return _lower_8bit_gates(node, layer, x, y)
    if len(middle) != 5:
        raise node.error("an LSTM of int8 needs 5 intermediate tensors, which hold scales"
                         f"{', or 12 of them' if node.name == 'LSTM' else ''}; it has {len(middle)}. Convert the model "
                         "with int8 activations and a cell state of int16, as the converter does by default")
    o, x_value, y_value = node.options, node.inputs[0], node.outputs[0]
    h, c, hidden = layer.h, layer.c, middle[4]
    _check_scales(node, x_value, h, c, hidden, y_value)
    cell_log2 = _cell_exponent(node, c, layer)
    if layer.outputs > layer.cells and any(gate.peephole is not None for gate in layer.gates):
        raise node.error(f"has peepholes and more outputs ({layer.outputs}) than cells ({layer.cells}), for which no "
                         "arithmetic is defined. Leave the peepholes out, or convert the layer with float activations")
    if len({gate.norm is None for gate in layer.gates if gate.x is not None}) > 1:
        raise node.error("has the coefficients of layer normalization for some of its gates; give all of them or none")
    operands = {}
    for name, gate, intermediate in zip(GATE_NAMES, layer.gates, middle[:4], strict=True):
        operands |= _gate(node, layer, name, gate, intermediate, cell_log2)
    w = layer.projection[0]
    operands |= _projection(node, layer, None if w is None else w.scale * hidden.scale / h.scale)
    clips = _clip(o.cell_clip, c.scale, 32767), _clip(o.proj_clip, y_value.scale, 127)
    return _call(layer, x, y, 0 if w is None else 1, zeros=(x_value.zero_point, h.zero_point, hidden.zero_point),
                 hidden_multiplier=quantize_multiplier(f32(2.0**-15 / float(hidden.scale) * 2.0**-15)),
                 cell_log2=cell_log2, clips=clips, flat_peepholes=getattr(o, "time_major", True), **operands)


def _cell_exponent(node, c, layer):
    """log2 of the scale of the cell state."""
    exponent = power_of_two(c.scale)
    if exponent is None or not -30 <= exponent <= -9:
        raise node.error(f"its scale {c.scale} must be a power of two from 2^-30 to 2^-9", c)
    if exponent < -15 and layer.gates[0].x is None:
        raise node.error(f"its scale {c.scale} is below 2^-15, where the reference takes the input gate in place of "
                         "tanh(c), and the layer has none. Convert the layer with an input gate", c)
    return exponent


def _gate(node, layer, name, gate, intermediate, cell_log2):
    """The kernel's operands of the gate `name`, by their names.

    The bias is added to the sums, or after layer normalization if there is one.  intermediate: the tensor with the
    scale of the sums before layer normalization.
    """
    if gate.x is None:
        return {}
    normalized = layer.gates[1].norm is not None
    unit = f32(2.0**-12)
    if normalized:
        _check_scales(node, intermediate)
        unit = intermediate.scale
    multipliers = [quantize_multiplier(gate.x.scale * node.inputs[0].scale / unit),
                   quantize_multiplier(gate.h.scale * layer.h.scale / unit), _NO_MULTIPLIER, _NO_MULTIPLIER, 1]
    if gate.peephole is not None:
        multipliers[2] = quantize_multiplier(f32(2.0**cell_log2 * float(gate.peephole.scale) / float(unit)))
    if gate.norm is not None:
        multipliers[3] = quantize_multiplier(gate.norm.scale)
        multipliers[4] = max(1, int(f32(10000) * gate.norm.scale))
    bias = products.contents(node, gate.bias, "bias")
    return {f"{name}_x": _packed(node, gate.x), f"{name}_h": _packed(node, gate.h),
            f"{name}_norm_bias" if normalized else f"{name}_bias": bias,
            f"{name}_peephole": _vector(node, gate.peephole), f"{name}_norm": _vector(node, gate.norm),
            f"{name}_multipliers": multipliers}


# ---- 12 intermediate tensors ---------------------------------------------------------------------------------
def _lower_8bit_gates(node, layer, x, y):
    """The Call where the intermediate tensors of each gate are the sum, the product with x and that with h.

    As in the reference, peepholes and an input gate are ignored (its value is 1 - forget gate), and the output gate's
    product with h has the zero point of the cell gate's product with x and a multiplier that makes it next to 0.
    """
    for missing, what in ((layer.gates[3].norm, "layer normalization"), (layer.projection[0], "a projection")):
        if missing is None:
            raise node.error("has 12 intermediate tensors, so its gates are kept in 8 bits, for which arithmetic is "
                             f"defined only with {what}. Convert the model so that the layer has 5 of them")
    o, middle = node.options, node.intermediates
    x_value, y_value, h, c, w = node.inputs[0], node.outputs[0], layer.h, layer.c, layer.projection[0]
    _check_scales(node, x_value, h, c, y_value, w, *middle[3:])
    operands, gates8, exponents = {}, [None], []
    for k, (name, gate) in enumerate(zip(GATE_NAMES[1:], layer.gates[1:], strict=True), 1):
        _check_scales(node, gate.x, gate.h, gate.norm)
        total, with_x, with_h = middle[3 * k:3 * k + 3]
        m_h, e_h = quantize_multiplier(with_h.scale / total.scale)
        exponents.append(e_h)
        zero_h = with_h.zero_point
        if k == 3:
            zero_h, m_h = middle[7].zero_point, exponents[0]
        m, e = quantize_multiplier(gate.norm.scale)
        gates8.append(((_int8(with_x.zero_point), *quantize_multiplier(with_x.scale / total.scale)),
                       (_int8(zero_h), m_h, e_h), m * 2.0**(e - 31)))
        operands |= {f"{name}_x": _packed(node, gate.x), f"{name}_h": _packed(node, gate.h),
                     f"{name}_norm": _vector(node, gate.norm),
                     f"{name}_norm_bias": products.contents(node, gate.bias, "bias"),
                     f"{name}_multipliers": [
                         quantize_multiplier(gate.x.scale * x_value.scale / with_x.scale),
                         quantize_multiplier(gate.h.scale * h.scale / with_h.scale), _NO_MULTIPLIER, _NO_MULTIPLIER, 1]}
    operands |= _projection(node, layer, f32(float(w.scale) * 2.0**-15 / float(h.scale)))
    if operands["projection_multiplier"][1] > 14:
        raise node.error("its scale is too large for that of the output", w)
    clips = 0, 0
    if c.scale == 2.0**-15:                 # with another scale, which nothing else depends on, nothing is clipped
        clips = _clip(o.cell_clip, c.scale, 32767) if o.cell_clip < 1 else 0, _clip(o.proj_clip, y_value.scale, 127)
    return _call(layer, x, y, 2, zeros=(x_value.zero_point, h.zero_point, 0), hidden_multiplier=_NO_MULTIPLIER,
                 cell_log2=-15, clips=clips, flat_peepholes=True, gates8=gates8, **operands)


def _int8(zero_point):
    """A zero point wrapped to 8 bits."""
    return (zero_point + 128) % 256 - 128


# ---- both forms ----------------------------------------------------------------------------------------------
def _clip(limit, scale, most):
    return int(min(f32(limit) / scale, most)) if limit > 0 else 0


def _projection(node, layer, scale):
    w, bias = layer.projection
    if w is None:
        return {}
    return {"projection": _packed(node, w), "projection_bias": products.contents(node, bias, "bias"),
            "projection_multiplier": quantize_multiplier(scale)}


def _call(layer, x, y, planes, **operands):
    """planes: bytes of scratch for each cell; operands: as the kernel has them."""
    cells = x.shape[1] * layer.cells
    return Call("recurrent_integer.Lstm", x, y, layer.h.flat, layer.c.flat, scratch=scratch(4 * cells, "int16"),
                hidden=scratch(planes * cells, "int8"), sizes=(layer.cells, layer.outputs),
                **{name: operand for name, operand in operands.items() if operand is not None})


def _check_scales(node, *values):
    for value in values:
        if value is None:
            raise node.error("lacks a tensor that holds a scale (weights, layer normalization or an intermediate one)")
        products.require_scales(node, value)


def _packed(node, w):
    if len(w.shape) != 2:
        raise node.error("must be a matrix; a diagonal is possible with float activations", w)
    products.contents(node, w, "weights")
    return Packed("packing.pack_weights", w)


def _vector(node, value):
    """The contents of a vector of int16, or None."""
    if value is not None and value.dtype != "int16":
        raise node.error(f"must be int16, not {value.dtype}", value)
    return products.contents(node, value, "weights")
