"""Helpers of element-wise ops: shapes, parameters, and calls to the kernels that run them all."""
import math
from struct import error, pack

from numpy import ndarray

from pylite.ir import shapes
from pylite.ir.values import Call, Packed, Value
from pylite.numerics.quantization import LIMITS

_REAL_TYPES = ("int8", "uint8", "int16")        # as real_q of common.c numbers them
UNBOUNDED = pack("2f", float("-inf"), float("inf"))     # a micro-kernel's parameters for no limits
SHORT, LONG = 64, 1024      # rows of fewer elements than SHORT are repeated, where that is possible, up to LONG


# ---- shapes and parameters -----------------------------------------------------------------------------------
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
    """Refuse tensors of an integer type that this op only defines with a scale."""
    for value in values:
        if not value.scale > 0:
            known = f"the scale {value.scale}" if value.quantized else "no scale"
            raise node.error(f"has {known}; this op needs one above 0 for its type", value)


def parameters(node, layout, *numbers):
    """The parameters of a micro-kernel as bytes; its comment (simd/portable_*.h) describes their layout."""
    try:
        return pack(layout, *numbers)
    except error as problem:
        raise node.error(f"a quantization parameter is out of range ({problem})") from None


def flip(dtype):
    """128 for uint8, whose values kernels take as int8 by inverting the sign bit; else 0."""
    return 128 if dtype == "uint8" else 0


# ---- one operand ---------------------------------------------------------------------------------------------
def unary(node, kernel, p=b"", x=None):
    """The Call for y = f(x), in place where possible.

    kernel: the name of f's micro-kernel; p: its parameters; x: by default the first input.
    """
    x, y = x or node.inputs[0], node.outputs[0]
    inplace = (y, x) if x.nbytes == y.nbytes else None
    return Call("elementwise.Unary", kernel, x.size, x.bytes, y.bytes, p, inplace=inplace)


def lut(node, values):
    """The Call for y = table[x] of 8-bit types: values, one for each byte of x, are clamped to y's type."""
    from pylite.numerics import lookup_tables  # imported on demand: float models need no tables
    return unary(node, "lut8", lookup_tables.byte_table(values, node.outputs[0].dtype))


# ---- two operands --------------------------------------------------------------------------------------------
def binary(node, kernel, p=b"", operands=None):
    """The Call for y = f(a, b) with broadcasting, in place where possible.

    kernel: the name of f's micro-kernel; p: its parameters; operands: a and b, by default the first two inputs.
    """
    a, b = operands or node.inputs[:2]
    y = node.outputs[0]
    if y.itemsize == 1:
        call = _tabulated(node, kernel, p, a, b) or _tabulated(node, kernel, p, b, a, exchanged=True)
        if call is not None:
            return call
    if a.shape == b.shape:
        shape, a_strides, b_strides = (y.size,), (1,), (1,)
    else:
        shape, a_strides, b_strides = shapes.collapse(
            y.shape, shapes.broadcast_strides(a.shape, y.shape), shapes.broadcast_strides(b.shape, y.shape))
    left, right = a.bytes, b.bytes
    if len(shape) > 1 and shape[-1] < SHORT:
        shape, a_strides, b_strides, left, right = _longer(y, shape, (a, a_strides, left), (b, b_strides, right))
    inplace = None
    for x in (a, b):
        if x.data is None and x.size == y.size and x.nbytes == y.nbytes:
            inplace = (y, x)
            break
    return Call("elementwise.Binary", kernel, shape, left, right, y.bytes, a_strides=a_strides,
                b_strides=b_strides, p=p, inplace=inplace)


def by_definition(node, sign, squared=False, low=None, high=None):
    """The Call for y = a + sign b, or its square, of quantized types: computed on real numbers and rounded once."""
    a, b, y = node.inputs[0], node.inputs[1], node.outputs[0]
    limits = LIMITS[y.dtype]
    return binary(node, "real_q", parameters(
        node, "3d7i", a.scale, sign * b.scale, y.scale, a.zero_point, b.zero_point, y.zero_point,
        limits[0] if low is None else low, limits[1] if high is None else high, squared, _REAL_TYPES.index(y.dtype)))


def _tabulated(node, kernel, p, x, c, exchanged=False):
    """The Call that looks the result up for each byte of x, where c is one constant, or None.

    exchanged: c is the first operand of the micro-kernel.
    """
    y = node.outputs[0]
    if c.data is None or c.size != 1 or x.data is not None or x.nbytes != y.nbytes or x.size != y.size:
        return None
    call = unary(node, "lut8", Packed("elementwise.tabulate", c, kernel, p, exchanged), x)
    call.note = "a table, since one operand is a known number"
    return call


def _longer(y, shape, *operands):
    """Longer rows, if one operand is a constant row for each row of the other one: the constant is repeated."""
    n, rows = shape[-1], shape[-2]
    for (x, strides, _), (_, others, view) in (operands, operands[::-1]):
        if x.data is None or x.size != n or not n or strides[-2:] != (0, 1) or others[-2:] != (n, 1):
            continue
        k = _joined(y.shape, len(shape) == 2, n, rows)
        if k == 1:
            break
        repeated = Packed("elementwise.repeat", x, k)
        strides, others = (*strides[:-2], 0, 1), (*others[:-2], k * n, 1)
        shape = (*shape[:-2], rows // k, k * n)
        return (shape, strides, others, repeated, view) if x is operands[0][0] else (
            shape, others, strides, view, repeated)
    (_, a_strides, left), (_, b_strides, right) = operands
    return shape, a_strides, b_strides, left, right


def _joined(shape, batched, n, rows):
    """How many of `rows` rows of n elements become one.

    shape: of the result; batched: are the rows of its first dimension, too?  That is often the one that changes, so
    that it counts only where the rows of one image are few; a small one by powers of two.
    """
    image = math.prod(shape[1:])
    if not batched or not image or image % n or image < SHORT < shape[0]:
        return _divisor(rows, n)
    k = _divisor(image // n, n)
    while k * n < SHORT and k % (image // n) == 0 and rows % (2 * k) == 0:
        k *= 2
    return k


def _divisor(rows, n):
    return max((k for k in range(1, min(LONG // n, rows) + 1) if rows % k == 0), default=1)


# ---- along an axis -------------------------------------------------------------------------------------------
def row_function(name, rows, grain, numbers, *arrays, reals=()):
    """The Call that runs a row function of simd/scanning.h on `rows` rows.

    grain: rows for which a thread pays, 0 if one thread does all; numbers, reals: its integer and real
    parameters; arrays: Values, Scratch or numpy arrays.
    """
    arrays = [a.bytes if isinstance(a, Value) else a.reshape(-1).view("uint8") if isinstance(a, ndarray) else a
              for a in arrays]
    return Call("scanning.RowFunction", name, rows, grain, numbers, *arrays, reals=reals)
