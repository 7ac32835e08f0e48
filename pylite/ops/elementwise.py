"""What the element-wise ops share: shapes, and calls to the two kernels that run them all."""
from struct import error, pack

import numpy as np
from numpy import ndarray

from pylite.ir import shapes
from pylite.ir.values import Call, Packed, Value

SHORT, LONG = 64, 1024      # elements of rows that are better run together, and of what they become


def infer_same(node):
    """The output has the first input's shape."""
    return [node.inputs[0].shape]


def infer_broadcast(node):
    """Two inputs broadcast by numpy's rules."""
    a, b = node.inputs[:2]
    try:
        return [shapes.broadcast(a.shape, b.shape)]
    except ValueError as problem:
        raise node.error(str(problem), b) from None


def require_quantized(node, *values):
    """Refuse tensors of an integer type that only has a meaning with a scale."""
    for value in values:
        if not value.scale > 0:
            known = f"the scale {value.scale}" if value.quantized else "no scale"
            raise node.error(f"has {known}; this op needs one above 0 for its type", value)


def parameters(node, layout, *numbers):
    """The row's parameters as bytes; each row (simd/portable_*.h) says their layout."""
    try:
        return pack(layout, *numbers)
    except error as problem:
        raise node.error(f"a quantization parameter is out of range ({problem})") from None


def raw(value):
    """The value's bytes."""
    return value.view((value.nbytes,), dtype="uint8")


def unary(node, row, p=b"", x=None):
    """y = f(x) by the row of that name, over x itself where that is possible; x: by default the first input."""
    x, y = x or node.inputs[0], node.outputs[0]
    return Call("elementwise.Unary", row, x.size, raw(x), raw(y), p, inplace=(y, x) if x.nbytes == y.nbytes else None)


def lut(node, values):
    """y = table[x] for 8-bit types: `values` are the outputs, one for each byte of x, still to be clamped."""
    from pylite.numerics import lookup_tables  # what does not need them loads faster
    return unary(node, "lut8", lookup_tables.byte_table(values, node.outputs[0].dtype))


def binary(node, row, p=b"", operands=None):
    """y = f(a, b) by the row of that name, with broadcasting; a, b: the `operands`, by default the first two inputs."""
    a, b = operands or node.inputs[:2]
    y = node.outputs[0]
    if y.itemsize == 1:
        for x, c in ((a, b), (b, a)):
            if c.data is not None and c.size == 1 and x.data is None and x.nbytes == y.nbytes and x.size == y.size:
                call = unary(node, "lut8", Packed("elementwise.tabulate", c, row, p, c is a), x)
                call.note = "a table, since one operand is a known number"
                return call
    if a.shape == b.shape:
        shape, a_strides, b_strides = (y.size,), (1,), (1,)
    else:
        shape, a_strides, b_strides = shapes.collapse(
            y.shape, shapes.broadcast_strides(a.shape, y.shape), shapes.broadcast_strides(b.shape, y.shape))
    left, right = raw(a), raw(b)
    if len(shape) > 1 and shape[-1] < SHORT:
        shape, a_strides, b_strides, left, right = _longer(shape, (a, a_strides, left), (b, b_strides, right))
    inplace = None
    for x in (a, b):
        if x.data is None and x.size == y.size and x.nbytes == y.nbytes:
            inplace = (y, x)
            break
    return Call("elementwise.Binary", row, shape, left, a_strides, right, b_strides, raw(y), p, inplace=inplace)


def _longer(shape, *operands):
    """Rows of a few elements become longer ones where an operand is one constant row: that is repeated."""
    n, rows = shape[-1], shape[-2]
    for (x, strides, _), (_, others, view) in (operands, operands[::-1]):
        if x.data is None or x.size != n or strides[-2:] != (0, 1) or others[-2:] != (n, 1):
            continue
        k = max((k for k in range(1, min(LONG // n, rows) + 1) if rows % k == 0), default=1)
        if k == 1:
            break
        repeated = np.tile(np.ascontiguousarray(x.data).reshape(-1), k).view(np.uint8)
        strides, others = (*strides[:-2], 0, 1), (*others[:-2], k * n, 1)
        shape = (*shape[:-2], rows // k, k * n)
        return (shape, strides, others, repeated, view) if x is operands[0][0] else (
            shape, others, strides, view, repeated)
    (_, a_strides, left), (_, b_strides, right) = operands
    return shape, a_strides, b_strides, left, right


def task(name, rows, grain, numbers, *arrays, reals=()):
    """The Call that runs a task of simd/scanning.h over `rows` rows; arrays: Values, Scratch or numpy arrays."""
    arrays = [raw(a) if isinstance(a, Value) else a.reshape(-1).view("uint8") if isinstance(a, ndarray) else a
              for a in arrays]
    return Call("scanning.Task", name, rows, grain, numbers, reals, *arrays)


def flip(dtype):
    """The bits that take a byte of this type for an int8: uint8 is int8 with the sign bit inverted."""
    return 128 if dtype == "uint8" else 0
