"""Stores tensors as float16 that only kernels in float16 write and read."""
from pylite._core.kernels import kernel_class
from pylite.compiler.float16 import FROM_HALF, PRODUCT, TO_HALF
from pylite.ir.dtypes import HALF
from pylite.ir.lowered import UNARY
from pylite.ir.values import Banded, Temporary, Value, View


def run(lowered):
    """The Lowered with such tensors as float16, and without the conversions of them."""
    ends, others = _uses(lowered)
    others.update([value.root for value in lowered.values if value.root in ends and not _may_be_half(value)])
    stored = ends.keys() - others
    for value in lowered.values:
        if value.root in stored:
            value.dtype = HALF
    replaced = {}       # {Temporary of float16: the value that holds its numbers}
    for root in stored:
        root.dtype = HALF
        for call, position in ends[root]:
            if call.kernel == UNARY:
                replaced[call.args[5 - position].value] = call.args[position].value
            else:
                _store(call, position)
    if replaced:
        lowered.calls = [call for call in lowered.calls if not _converts(call, replaced)]
        for call in lowered.calls:
            _replace(call, replaced)
    return lowered


def _may_be_half(value):
    """Is the value a tensor of float32 that only this program sees, at the beginning of its own memory?"""
    root = value.root
    return (root.kind == "temporary" and root.planned and value.dtype == "float32" and value.byte_offset == 0
            and value.nbytes == root.nbytes)


def _uses(lowered):
    """({root: the (call, position) of arguments that may be float16}, the roots with other uses)."""
    ends, others = {}, {lowered.values[i].root for i in (*lowered.subgraph.inputs, *lowered.subgraph.outputs)}
    for call in lowered.calls:
        positions = _positions(call)
        for position, item in enumerate(call.args):
            if isinstance(item, (Value, View, Banded)):
                value = item if isinstance(item, Value) else item.value
                if position in positions and value.dtype == "float32":
                    ends.setdefault(value.root, []).append((call, position))
                else:
                    others.add(value.root)
    return ends, others


def _positions(call):
    """The positions of arguments that may be float16 instead of float32; of a conversion, that of the float32."""
    if call.kernel == UNARY:
        name, _, x, y, *_ = call.args
        if name == TO_HALF and type(y.value) is Temporary:
            return (2,)
        return (3,) if name == FROM_HALF and type(x.value) is Temporary else ()
    if call.kernel != PRODUCT or "half" not in call.names:
        return ()
    weights = call.args[2].value
    return (0, 1) if weights.size <= kernel_class(PRODUCT).DEEPEST_HALF * weights.shape[0] else (0,)


def _store(call, position):
    """Let a product take argument `position` as float16."""
    view = call.args[position]
    args = list(call.args)
    args[position] = View(view.value, view.shape, view.strides, view.offset, "float16")
    call.args = tuple(args)


def _converts(call, replaced):
    """Does the call only convert a tensor that is stored as float16?"""
    return call.kernel == UNARY and call.args[0] in (TO_HALF, FROM_HALF) and not replaced.keys().isdisjoint(
        [call.args[2].value, call.args[3].value])


def _replace(call, replaced):
    """Let the call use the values in `replaced` in place of Temporaries."""
    call.args = tuple([
        View(replaced[item.value], item.shape, item.strides, item.offset, item.dtype)
        if type(item) is View and item.value in replaced else item for item in call.args])
    if call.inplace is not None:
        call.inplace = tuple([replaced.get(value, value) for value in call.inplace])
