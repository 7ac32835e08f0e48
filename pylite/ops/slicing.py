"""SLICE and STRIDED_SLICE: a regular part of a tensor, as a strided view that is copied.

Where only the place of the part is computed, not its size, the kernel looks at it when it runs.
"""
import numpy as np

from pylite._core.graph.dimensions import computed
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ir.values import Alias, Call
from pylite.ops.moves import INDICES, copy, integers, movable


def lower_window(node, window):
    """Copy the part of x that `window` (see `strided_window`) describes, or alias x if that is all of x."""
    x, y = node.inputs[0], node.outputs[0]
    shape, strides, offset = window
    if y.size == x.size and all(stride >= 0 for stride in strides):
        return Alias(y, x)
    return copy(x.view(shape, strides, offset), y)


def floating(node, sized, wrap):
    """(shape, axes) where only the place of the window is computed, not its size, else None; see movement.CopyFrom.

    sized: elements of each of the axes that begin speaks of, None for a whole one; wrap: may places be below 0?
    """
    x = node.inputs[0]
    if node.inputs[1].data is not None or node.inputs[1].shape != (len(sized),) or len(sized) > len(x.shape):
        return None
    axes = [(0, 0, 0) if count is None else (step * NUMPY_DTYPES[x.dtype].itemsize, n - count, n if wrap else 0)
            for count, n, step in zip(sized, x.shape, contiguous_strides(x.shape), strict=False)]
    if any(room < 0 for _, room, _ in axes):
        return None
    shape = [n if count is None else count for n, count in zip(x.shape, sized, strict=False)]
    return (*shape, *x.shape[len(sized):]), computed(_table, tuple(axes))


def _table(axes):
    return np.array(axes, np.int64).reshape(len(axes), 3)


def lower_floating(node, floating):
    x, begin, y = node.inputs[0], node.inputs[1], node.outputs[0]
    shape, axes = floating
    return Call("movement.CopyFrom", x.view(shape, contiguous_strides(x.shape)), y.view(shape), begin, axes, x.bytes)


def floating_slice(node):
    size = node.inputs[2].data
    return None if size is None or (size < 0).any() else floating(node, integers(size), False)


def floating_strided_slice(node):
    """Entries that take one element and drop the axis, or take the whole axis."""
    o, step = node.options, node.inputs[3].data
    if step is None or o.ellipsis_mask or o.new_axis_mask or o.shrink_axis_mask & o.begin_mask:
        return None
    whole, sized = 0 if o.offset else o.begin_mask & o.end_mask, []
    for i, by in enumerate(integers(step)):
        if not o.shrink_axis_mask >> i & 1 and not (whole >> i & 1 and by == 1):
            return None
        sized.append(1 if o.shrink_axis_mask >> i & 1 else None)
    return floating(node, sized, True) if 0 not in step else None


def infer_slice(node):
    floating = floating_slice(node)
    return [slice_window(node)[0] if floating is None else floating[0]]


def lower_slice(node):
    floating = floating_slice(node)
    return lower_window(node, slice_window(node)) if floating is None else lower_floating(node, floating)


def infer_strided_slice(node):
    floating = floating_strided_slice(node)
    if floating is None:
        return [strided_window(node)[0]]
    dropped = node.options.shrink_axis_mask & (1 << node.inputs[3].size) - 1        # it may have more bits than entries
    return [tuple(n for i, n in enumerate(floating[0]) if not dropped >> i & 1)]


def lower_strided_slice(node):
    floating = floating_strided_slice(node)
    return lower_window(node, strided_window(node)) if floating is None else lower_floating(node, floating)


def slice_window(node):
    """SLICE's window: `size` elements from `begin` on along each axis; a size of -1 is all that are left."""
    x = node.inputs[0]
    begin, size = integers(node.constant(1, "begin")), integers(node.constant(2, "size"))
    if len(begin) != len(x.shape) or len(size) != len(x.shape):
        raise node.error(f"has {len(x.shape)} dimensions, but begin has {len(begin)} and size {len(size)} values", x)
    shape = tuple(n - b if s == -1 else s for n, b, s in zip(x.shape, begin, size, strict=True))
    if any(b < 0 or s < 0 or b + s > n for n, b, s in zip(x.shape, begin, shape, strict=True)):
        raise node.error(f"of shape {list(x.shape)} has no part of size {size} at {begin}", x)
    strides = contiguous_strides(x.shape)
    return shape, strides, sum(b * s for b, s in zip(begin, strides, strict=True))


def reference_slice(x, begin, size, options):
    return x[tuple(slice(b, None if s == -1 else b + s) for b, s in zip(begin, size, strict=True))]


register("SLICE", versions=(1, 8), types=movable(f"T {INDICES} {INDICES} -> T"),
         infer=infer_slice, lower=lower_slice, reference=reference_slice, aliasing="split")


def strided_window(node):
    """STRIDED_SLICE's window: (shape, strides, offset) of the part of x that begin, end, strides and masks name.

    Bit i of a mask concerns entry i.  begin_mask, end_mask: the entry starts or ends where the axis does; ellipsis:
    it stands for as many whole axes as the others leave over; new_axis: it adds a dimension of one element;
    shrink_axis: it takes the single element `begin` and drops the axis.  offset: `end` counts from `begin`, and counts
    even where end_mask or an ellipsis of one axis say otherwise, as in the reference.
    """
    x, o = node.inputs[0], node.options
    begin, end, step = (integers(node.constant(i, what)) for i, what in ((1, "begin"), (2, "end"), (3, "strides")))
    entries = len(begin)
    if len(end) != entries or len(step) != entries:
        raise node.error(f"begin, end and strides have {entries}, {len(end)} and {len(step)} values", x)
    if 0 in step:
        raise node.error(f"strides {step} must not be 0", x)
    begin_mask, end_mask, ellipsis, new_axis, spare = _masks(node, entries)
    x_strides = contiguous_strides(x.shape)
    shape, strides, offset, axis = [], [], 0, 0
    for i in range(entries):
        bit = 1 << i
        if ellipsis & bit:
            shape += x.shape[axis:axis + spare]
            strides += x_strides[axis:axis + spare]
            axis += spare
            spare = 0
        elif new_axis & bit:
            shape.append(1)
            strides.append(0)
        else:
            first, count = _span(x.shape[axis], begin[i], end[i], step[i], begin_mask & bit, end_mask & bit, o.offset)
            offset += first * x_strides[axis]
            if not o.shrink_axis_mask & bit:
                shape.append(count)
                strides.append(step[i] * x_strides[axis])
            elif not 0 <= first < x.shape[axis]:
                raise node.error(f"of shape {list(x.shape)} has no index {begin[i]} along axis {axis}", x)
            axis += 1
    return (*shape, *x.shape[axis:]), (*strides, *x_strides[axis:]), offset if 0 not in shape else 0


def _masks(node, entries):
    """(begin, end, ellipsis, new axis, spare): masks, and the axes that no entry names: the ellipsis's, or the last."""
    x, o = node.inputs[0], node.options
    ellipsis, new_axis = o.ellipsis_mask & (1 << entries) - 1, o.new_axis_mask & ~o.ellipsis_mask
    spare = len(x.shape) - sum(not (ellipsis | new_axis) >> i & 1 for i in range(entries))
    if spare < 0:
        raise node.error(f"has {len(x.shape)} dimensions, but {len(x.shape) - spare} are sliced", x)
    if ellipsis & ellipsis - 1:
        raise node.error(f"ellipsis_mask {ellipsis} has several bits; expected one at most")
    if o.offset and spare == 1:
        return o.begin_mask | ellipsis, 0, 0, new_axis, spare
    return o.begin_mask, 0 if o.offset else o.end_mask, ellipsis, new_axis, spare


def _span(size, begin, end, step, from_start, to_end, relative):
    """(first, count) of an entry's elements on an axis of `size`; indices below 0 count from the end."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    if from_start:
        first = 0 if step > 0 else size - 1
    else:
        first = min(max(begin + size if begin < 0 else begin, low), high)
    if to_end:
        stop = size if step > 0 else -1
    else:
        stop = end + first if relative else end
        stop = min(max(stop + size if stop < 0 else stop, low), high)
    return first, max(0, -((first - stop) // step))


def reference_strided_slice(x, begin, end, step, options):
    index = []
    for i, (first, stop, by) in enumerate(zip(begin, end, step, strict=True)):
        bit = 1 << i
        if options.ellipsis_mask & bit:
            index.append(...)
        elif options.new_axis_mask & bit:
            index.append(None)
        elif options.shrink_axis_mask & bit:
            index.append(0 if options.begin_mask & bit else first)
        else:
            stop = first + stop if options.offset else stop
            index.append(slice(None if options.begin_mask & bit else first,
                               None if options.end_mask & bit and not options.offset else stop, by))
    return x[tuple(index)]


register("STRIDED_SLICE", versions=(1, 8), types=movable("T int32 int32 int32 -> T"),
         infer=infer_strided_slice, lower=lower_strided_slice,
         reference=reference_strided_slice, aliasing="split")
