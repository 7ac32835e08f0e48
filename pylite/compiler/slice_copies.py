"""Copies between a tensor and its slices: CONCATENATION, PAD, SPLIT, SLICE and similar ops are lowered to these."""
from math import prod

from pylite.ir import registry
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.shapes import contiguous_strides, is_contiguous
from pylite.ir.values import Value, View


class SliceCopy:
    """A copy of a slice into the full tensor (concat), or from the full tensor into the slice (split).

    slice, full: Values; byte_offset: offset of the slice in the full tensor; runs: None if the slice is one run of
    bytes there, else (bytes of a run, bytes from the start of one run to the next); step: number of the Call.
    """
    __slots__ = ("step", "node", "slice", "full", "byte_offset", "is_concat", "runs")

    def __init__(self, step, node, inner, full, byte_offset, is_concat, runs):
        self.step = step
        self.node = node
        self.slice = inner
        self.full = full
        self.byte_offset = byte_offset
        self.is_concat = is_concat
        self.runs = runs

    def view_in_full(self, argument):
        """The View of the full tensor that has the same elements as `argument`, a Value or View of the slice.

        The slice has several runs.  None if no strides describe such a View.
        """
        view = argument if type(argument) is View else argument.view()
        item = NUMPY_DTYPES[view.dtype].itemsize
        run, pitch = self.runs
        first = view.value.byte_offset + view.offset * item
        if run % item or pitch % item or (first + self.byte_offset + self.full.byte_offset) % item:
            return None
        strides, width = [], item       # width: bytes of one run that the view has
        for n, stride in zip(view.shape, view.strides or contiguous_strides(view.shape), strict=True):
            if stride * item % run == 0 and (n > 1 or stride != 1):
                strides.append(stride * item // run * pitch // item)
            elif stride < 0:
                return None
            else:
                strides.append(stride)
                width += (n - 1) * stride * item
        row, column = divmod(first, run)
        if column + width > run:
            return None
        return View(self.full, view.shape, tuple(strides), (row * pitch + column + self.byte_offset) // item,
                    view.dtype)


def slice_copy(call, step):
    """The SliceCopy that `call`, a movement.Copy, performs; None if it copies no slice, or cannot be elided."""
    aliasing = getattr(registry.find(call.node.name), "aliasing", None)
    if aliasing is None:
        return None
    is_concat = aliasing == "concat"
    inner, outer = call.args if is_concat else reversed(call.args)
    inner = _one_run(inner)
    outer = inner and (_one_run(outer) or _equal_runs(outer))
    if outer is None:
        return None
    (value, _, nbytes), (full, byte_offset, _, *runs) = inner, outer
    if not (nbytes == value.nbytes < full.nbytes and _can_move(value.root, nbytes) and _can_hold(full.root, is_concat)):
        return None
    return SliceCopy(step, call.node, value, full, byte_offset, is_concat, runs or None)


def _can_move(root, nbytes):
    """Can `root`, which holds a slice of `nbytes`, be placed elsewhere?  Only if it is a temporary without other
    bytes."""
    return root.kind == "temporary" and root.data is None and root.nbytes == nbytes


def _can_hold(root, is_concat):
    """Can slices be placed in `root`?  A concat's slices only if it is a temporary, because they are written early."""
    return root.data is None and root.kind != "variable" and (root.kind == "temporary" or not is_concat)


def _one_run(argument):
    """(value, byte offset, bytes) of an argument if it is one run of bytes, else None."""
    kind = type(argument)
    if kind is Value:
        return argument, 0, argument.nbytes
    if kind is not View or (argument.strides is not None and not is_contiguous(argument.shape, argument.strides)):
        return None
    item = NUMPY_DTYPES[argument.dtype].itemsize
    return argument.value, argument.offset * item, prod(argument.shape) * item


def _equal_runs(argument):
    """(value, byte offset, bytes, bytes of a run, bytes from run to run) of a View if it has equal runs, else None."""
    if type(argument) is not View or argument.strides is None:
        return None
    run, count, pitch = 1, 1, None
    for n, stride in zip(reversed(argument.shape), reversed(argument.strides), strict=True):
        if n == 1:
            continue
        if pitch is None and stride == run:
            run *= n
        elif pitch is None and stride > run:
            count, pitch = n, stride
        elif pitch is not None and stride == pitch * count:
            count *= n
        else:
            return None
    if pitch is None:
        return None
    item = NUMPY_DTYPES[argument.dtype].itemsize
    return argument.value, argument.offset * item, run * count * item, run * item, pitch * item
