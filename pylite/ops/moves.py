"""Helpers of ops that only move elements: their types, constant operands, slices of tensors as views, copies."""
import numpy as np

from pylite._core.graph.dimensions import computed
from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES
from pylite.ir.shapes import contiguous_strides
from pylite.ir.values import Call

# Every type whose elements have a fixed size; a copy needs no more than that.  Strings, which are objects, are moved by
# way of numbers (compiler/string_ops.py).
MOVABLE = tuple(name for name, bits in DTYPE_BITS.items() if bits is not None or name == "string")
INDICES = "int32|int64"
STORED_INTEGERS = ("int8", "uint8", "int16")    # quantized types whose elements are copied as they are stored


def movable(signature):
    """A signature for each movable type, which takes the place of `T`: movable("T int32 -> T")."""
    return [signature.replace("T", dtype) for dtype in MOVABLE]


# ---- axes and operands that must be known while lowering -----------------------------------------------------
_MOST = 1 << 16     # most integers in a list of sizes or axes


def axis_of(node, axis, rank, value=None):
    """The axis counted from the front.  Raises the node's error when it is not an axis of `rank` dimensions."""
    if not -rank <= axis < rank:
        raise node.error(f"axis {axis} is outside its {rank} dimensions", value)
    return axis % rank


def require_present(node, values):
    """Refuse absent inputs.  values: all of the node's inputs, or the last ones."""
    for i, value in enumerate(values, len(node.inputs) - len(values)):
        if value is None:
            raise node.error(f"input {i} is absent; {node.name} needs all of its inputs")


def integers(array):
    """The elements of an array of sizes, axes or the like as a list of int; ValueError if they are too many."""
    if array.size > _MOST:
        raise ValueError(f"{array.size} integers of shape {list(array.shape)}; expected a few sizes or axes")
    return array.reshape(-1).tolist()


def scalar(node, i, what):
    """The integer in input i, which must be known while lowering."""
    numbers = node.constant(i, what)
    if numbers.size != 1:
        raise node.error(f"has {numbers.size} elements, but there is one {what}", node.inputs[i])
    return int(numbers.reshape(-1)[0])


def shape_operand(node, i, what):
    """The shape in input i, a tuple of int, which must be known while lowering."""
    shape = tuple(integers(node.constant(i, what)))
    if min(shape, default=0) < 0:
        raise node.error(f"has {what} {list(shape)}; none may be negative", node.inputs[i])
    return shape


# ---- quantization parameters of tensors that are copied ------------------------------------------------------
def same_parameters(a, b):
    """Do two values have the same scale and zero point?"""
    return a.scale == b.scale and a.zero_point == b.zero_point


def check_same_parameters(node, values):
    """Stored integers are copied unchanged, so all values must have one scale and zero point."""
    first = values[0]
    for value in values:
        if not same_parameters(value, first):
            raise node.error(f"its scale {value.scale} and zero point {value.zero_point} differ from the "
                             f"{first.scale} and {first.zero_point} of {first!r}; quantize the model with equal ones",
                             value)


# ---- views ---------------------------------------------------------------------------------------------------
def pixels(value):
    """NHWC images with the bytes of each pixel as the last axis."""
    return value.view((*value.shape[:3], value.shape[3] * value.itemsize), dtype="uint8")


def columns(value, rows, width, start, count):
    """Elements [start, start + count) of each of the `rows` rows of `width` elements that `value` consists of."""
    return value.view((rows, count), (width, 1), start)


def region(value, first, shape):
    """The contiguous block of `value` of `shape` that begins at the indices `first`."""
    strides = contiguous_strides(value.shape)
    return value.view(shape, strides, sum(i * s for i, s in zip(first, strides, strict=True)))


def repeated(value, shape):
    """A Value or a numpy array of one element, repeated in an array of `shape`; a Value is not copied."""
    strides = (0,) * len(shape)
    if isinstance(value, np.ndarray):
        return computed(_spread, value, shape)
    return value.view(shape, strides)


def _spread(array, shape):
    """An array of `shape` of which each element is the one of `array`."""
    return np.ndarray(shape, array.dtype, array, 0, (0,) * len(shape))


# ---- calls ---------------------------------------------------------------------------------------------------
def copy(x, y):
    """The Call that copies one view or value to another of its shape."""
    return Call("movement.Copy", x, y, strided=(0, 1))


def filled(y, value):
    """The Call that sets every element of y to `value`, a number or a Value of one element."""
    if isinstance(value, (int, float)):
        value = np.array(value, NUMPY_DTYPES[y.dtype])
    elif value.size != 1:
        raise ValueError(f"{value!r} is the value to fill with, and must have one element")
    return copy(repeated(value, (y.size,)), y.flat)


# ---- pads in front of convolutions and pooling ---------------------------------------------------------------
def fold_pad(node, x, fill, reach, pad, after=(0, 0)):
    """(input, padding before): the input of the FoldablePad that computes x, where windows over that see the same.

    fill: the value outside the image that does not change a window's result; reach: the extent (down, right) of a
    window from its first tap; pad: the op's own padding (top, left); after: that at the other ends, if a window must
    not lie outside the image.  Otherwise x and `pad` unchanged.
    """
    p = x.pad
    if p is None or p.fill != fill or p.pairs[0] != (0, 0) or p.pairs[3] != (0, 0) or not same_parameters(p.x, x):
        return x, pad
    (top, below), (left, right) = p.pairs[1:3]
    if max(pad[0] + top, after[0] + below) > reach[0] or max(pad[1] + left, after[1] + right) > reach[1]:
        return x, pad
    p.folded.append(node.index)
    return p.x, (pad[0] + top, pad[1] + left)
