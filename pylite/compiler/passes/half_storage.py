"""Stores tensors as float16 if kernels in float16 write and read them.

An example: in conv -> max pooling -> conv, an addition in float32 also reads the first result.  A product in float16
writes that result (convertible), the pooling moves it (a moving call), the addition reads it (a float reader).  The
pass stores the result as float16, the pooling compares float16, and one conversion before the addition serves all float
readers.
"""
import numpy as np

from pylite._core.graph.calls import TEMPORARIES
from pylite._core.kernels import kernel_class
from pylite.compiler.float16 import FROM_HALF, PANELS, PRODUCTS, TO_HALF, rounded
from pylite.ir.dtypes import HALF
from pylite.ir.lowered import COPY, FUNCTION, UNARY, UNARY_X, UNARY_Y
from pylite.ir.values import Banded, Call, Temporary, Value, View

_POOLING = "pooling.Pooling"


def run(lowered):
    """The Lowered in which these tensors are stored as float16, without the conversions that this saves."""
    uses = _Uses(lowered)
    stored = uses.stored()
    for value in lowered.values:
        if value.root in stored:
            value.dtype = HALF
    for call in uses.moving_calls:
        if uses.is_half(call, stored):
            _move_halves(call)
    replaced = {}       # {Temporary of float16: the value that holds its numbers}
    for root in stored:
        root.dtype = HALF
        for call, position in uses.convertible.get(root, ()):
            if call.kernel == UNARY:
                replaced[_half_of(call, position)] = call.args[position].value
            else:
                _store(call, position)
    if replaced:
        lowered.calls = [call for call in lowered.calls if not _converts(call, replaced)]
        for call in lowered.calls:
            _replace(call, replaced)
    readers = {root: uses.float_readers(root, stored) for root in stored}
    _convert_for(lowered, {root: calls for root, calls in readers.items() if calls})
    return lowered


class _Uses:
    """How calls use the memory of tensors.

    convertible: {root: [(call, position)] of arguments that may be float16}
    moving_calls: calls that move or compare numbers, of float16 as well as of float32
    movers_of: {root: the moving calls that read or write it}; float_readers_of: {root: the calls that need float32}
    excluded: roots with other uses
    """

    def __init__(self, lowered):
        self.convertible, self.moving_calls, self.movers_of, self.float_readers_of = {}, [], {}, {}
        self.excluded = {lowered.values[i].root for i in (*lowered.subgraph.inputs, *lowered.subgraph.outputs)}
        for call in lowered.calls:
            positions, moves = _positions(call), _moves(call)
            if moves:
                self.moving_calls.append(call)
                for root in _roots_of(call):
                    self.movers_of.setdefault(root, []).append(call)
            for position, item in enumerate(call.args):
                if isinstance(item, (Value, View, Banded)) and not moves:
                    value = item if isinstance(item, Value) else item.value
                    if position in positions and value.dtype == "float32":
                        self.convertible.setdefault(value.root, []).append((call, position))
                    elif type(item) is View and _only_reads(call, value.root):
                        self.float_readers_of.setdefault(value.root, []).append(call)
                    else:
                        self.excluded.add(value.root)
        self.excluded.update([value.root for value in lowered.values if not _may_be_half(value)])

    def stored(self):
        """The roots to store as float16."""
        stored = (self.convertible.keys() | self.movers_of.keys()) - self.excluded
        while True:
            lost = {root for root in stored if not self._pays(root, stored)}
            if not lost:
                return stored
            stored -= lost

    def is_half(self, mover, stored):
        """Does a mover work on float16?  If so, in all its arguments."""
        return stored.issuperset(_roots_of(mover))

    def float_readers(self, root, stored):
        """The calls that read `root` as float32."""
        return [*self.float_readers_of.get(root, ()), *[
            call for call in self.movers_of.get(root, ())
            if _target(call) is not root and not self.is_half(call, stored)]]

    def _pays(self, root, stored):
        """Does storing `root` pay: does it have a writer and a reader in float16, and no mover that writes float32?"""
        writes = [_writes(call, position) for call, position in self.convertible.get(root, ())]
        for call in self.movers_of.get(root, ()):
            if self.is_half(call, stored):
                writes.append(_target(call) is root)
            elif _target(call) is root:
                return False
        return any(writes) and not all(writes)


def _may_be_half(value):
    """Is the value a tensor of float32 that only this program sees, at the beginning of its own memory?"""
    root = value.root
    return (root.kind == "temporary" and root.planned and value.dtype == "float32" and value.byte_offset == 0
            and value.nbytes == root.nbytes)


def _only_reads(call, root):
    """Does a call read the tensor `root`, and not write it?"""
    node = call.node
    return (root.dtype == "float32" and any(value is not None and value.root is root for value in node.inputs)
            and not any(value is not None and value.root is root for value in node.outputs)
            and (call.inplace is None or call.inplace[0].root is not root))


def _positions(call):
    """The positions of arguments that may be float16; in a conversion between the two, the position of the float32."""
    if call.kernel == UNARY:
        name, _, x, y, *_ = call.args
        if name == TO_HALF and type(y.value) is Temporary:
            return (UNARY_X,)
        return (UNARY_Y,) if name == FROM_HALF and type(x.value) is Temporary else ()
    if call.kernel not in PRODUCTS or "half" not in call.names:
        return ()
    weights = call.args[PANELS].value
    return (0, 1) if weights.size <= kernel_class(PRODUCTS[0]).DEEPEST_HALF * weights.shape[0] else (0,)


def _half_of(conversion, position):
    """The Temporary of float16 of a conversion, whose float32 is at `position`."""
    return conversion.args[UNARY_X if position == UNARY_Y else UNARY_Y].value


def _writes(call, position):
    """Is this argument, one of _positions(), the result?"""
    return position == (UNARY_Y if call.kernel == UNARY else 1)


def _moves(call):
    """Does the call copy float32 numbers or take the largest of them, so that it could do so with float16?"""
    x, y = call.args[:2] if call.kernel in (COPY, _POOLING) else (None, None)
    if call.kernel == _POOLING:
        return call.args[2:4] == ("max", "float32")
    return (isinstance(y, (Value, View)) and y.dtype == "float32"
            and (type(x) is np.ndarray or (isinstance(x, (Value, View)) and x.dtype == "float32")))


def _roots_of(mover):
    """The roots that a mover reads and writes, the written one last; a constant in an array has none."""
    return [item.root if isinstance(item, Value) else item.value.root for item in mover.args[:2]
            if type(item) is not np.ndarray]


def _target(mover):
    """The root that a mover writes."""
    return _roots_of(mover)[-1]


def _move_halves(call):
    """Make a mover work on float16."""
    if call.kernel == COPY:
        x, y = call.args
        call.args = (rounded(x) if type(x) is np.ndarray else _as_half(x)), _as_half(y)
    else:
        x, y, operation, _, *rest = call.args
        call.args = (*[v.value.view((*v.value.shape[:3], v.value.shape[3] * 2), dtype="uint8") for v in (x, y)],
                     operation, "float16", *rest)


def _as_half(item):
    """A Value or View of float32 as a View of float16."""
    if isinstance(item, Value):
        return item.view(dtype="float16")
    return View(item.value, item.shape, item.strides, item.offset, "float16")


def _store(call, position):
    """Make a product read or write argument `position` as float16."""
    args = list(call.args)
    args[position] = _as_half(args[position])
    call.args = tuple(args)


def _converts(call, replaced):
    """Does the call only convert a tensor that is stored as float16?"""
    return call.kernel == UNARY and call.args[FUNCTION] in (TO_HALF, FROM_HALF) and not replaced.keys().isdisjoint(
        [call.args[UNARY_X].value, call.args[UNARY_Y].value])


def _replace(call, replaced):
    """Make the call use other values: replaced[value] in place of `value`."""
    call.args = tuple([
        View(replaced[item.value], item.shape, item.strides, item.offset, item.dtype)
        if type(item) is View and item.value in replaced else
        replaced[item].view(item.shape) if isinstance(item, Value) and item in replaced else item
        for item in call.args])
    if call.inplace is not None:
        call.inplace = tuple([replaced.get(value, value) for value in call.inplace])


def _convert_for(lowered, readers):
    """Make calls in float32 read copies of tensors that are stored as float16.  readers: {root: these calls}."""
    before = {}         # {the first reader: the conversions before it}
    order, sharing = {call: i for i, call in enumerate(lowered.calls)}, {root: [] for root in readers}
    for value in lowered.values:
        if value.root in sharing:
            sharing[value.root].append(value)
    index = min([-TEMPORARIES * (call.node.index + 1) for call in lowered.calls], default=0)  # the last one
    for root, calls in readers.items():
        first = min(calls, key=order.__getitem__)
        copy = Temporary(first.node, root.shape, "float32")
        copy.index = index = index - 1      # a node may read more tensors than it has numbers for Temporaries
        conversion = Call(UNARY, FROM_HALF, root.size, root.bytes, copy.bytes, b"")
        conversion.node = first.node
        before.setdefault(first, []).append(conversion)
        replaced = dict.fromkeys(sharing[root], copy)
        for call in calls:
            _replace(call, replaced)
    if before:
        lowered.calls = [each for call in lowered.calls for each in (*before.get(call, ()), call)]
