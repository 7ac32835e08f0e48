"""What the ops that only move elements have in common: the types they take, and pieces of tensors as views."""
from pylite.ir.graph import DTYPE_BITS
from pylite.ir.values import Call

# Every type whose elements have a fixed size: moving them needs to know no more.  Strings, which are objects, are moved
# by the op's reference instead of its kernels.
MOVABLE = tuple(name for name, bits in DTYPE_BITS.items() if bits is not None or name == "string")
INDICES = "int32|int64"


def movable(signature):
    """A signature for each movable type, which takes the place of `T`: movable("T int32 -> T")."""
    return [signature.replace("T", dtype) for dtype in MOVABLE]


def axis_of(node, axis, rank, value=None):
    """The axis counted from the front, or the node's error."""
    if not -rank <= axis < rank:
        raise node.error(f"axis {axis} is outside its {rank} dimensions", value)
    return axis % rank


def integers(array):
    """The elements of an integer array as a list of int."""
    return array.reshape(-1).tolist()


def scalar(node, i, what):
    """The whole number that input i holds, which must be known while lowering."""
    numbers = node.constant(i, what)
    if numbers.size != 1:
        raise node.error(f"has {numbers.size} elements, but there is one {what}", node.inputs[i])
    return int(numbers.reshape(-1)[0])


def alike(a, b):
    """Do stored integers mean the same in both?"""
    return a.scale == b.scale and a.zero_point == b.zero_point


def unpadded(node, x, outside, reach, pad):
    """(what windows over x can look at instead of x, padding before): where x is padded with what they see outside.

    outside: the number that does not count, or counts as 0; reach: how far a window extends (down, right) from its
    first tap; pad: what x is padded with by the op itself.
    """
    p = x.pad
    if p is None or p.fill != outside or p.pairs[0] != (0, 0) or p.pairs[3] != (0, 0) or not alike(p.x, x):
        return x, pad
    (top, below), (left, right) = p.pairs[1:3]
    if max(pad[0] + top, below) > reach[0] or max(pad[1] + left, right) > reach[1]:
        return x, pad
    p.folded.append(node.index)
    return p.x, (pad[0] + top, pad[1] + left)


def check_same_parameters(node, values):
    """Stored integers are copied as they are, so all must mean the same: one scale and zero point."""
    first = values[0]
    for value in values:
        if not alike(value, first):
            raise node.error(f"its scale {value.scale} and zero point {value.zero_point} differ from the "
                             f"{first.scale} and {first.zero_point} of {first!r}; quantise the model with equal ones",
                             value)


def pixels(value):
    """NHWC images with the bytes of each pixel as the last axis."""
    return value.view((*value.shape[:3], value.shape[3] * value.itemsize), dtype="uint8")


def copy(x, y):
    """The Call that copies one view or value to another of its shape."""
    return Call("movement.Copy", x, y, strided=(0, 1))


def strip(value, outer, width, start, run):
    """Elements [start, start + run) of each of the `outer` rows of `width` elements that `value` consists of."""
    return value.view((outer, run), (width, 1), start)
