"""Turns lifetimes into arena offsets: decides which values share memory, and where each one is placed."""
import math
import operator

from pylite import errors
from pylite._core.graph.dimensions import estimate
from pylite._core.run import arena
from pylite._core.run.kernel import of_types
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.lowered import COPY
from pylite.ir.values import BAND, Banded, Scratch, Value, View

_MOST = 1 << 47     # bytes that a process can address
_LOGITS = 1 << 16   # bytes; programs read what an output was computed from if it is no larger, such as logits
_index = operator.attrgetter("index")
_IN_MEMORY = frozenset((Value, View, Banded, Scratch))


class Placement:
    """The arena of one lowered subgraph.

    offsets: {root tensor index: byte offset}; scratch: {Scratch: byte offset}; total: bytes; blocks: list of (root
    or Scratch, offset, nbytes, first, last); unreadable: values that are overwritten in place, or are not a single run
    of bytes; banded: roots with guard bands before and after their block.
    """
    __slots__ = ("offsets", "scratch", "total", "blocks", "unreadable", "banded")

    def __init__(self, offsets, scratch, total, blocks, unreadable, banded=()):
        self.offsets = offsets
        self.scratch = scratch
        self.total = total
        self.blocks = blocks
        self.unreadable = unreadable
        self.banded = banded

    def overwritten(self, value):
        """Is the memory of `value` overwritten after its last use?  Then the caller cannot read it after a run."""
        if value in self.unreadable:
            return True
        root = value.root
        mine = next((b for b in self.blocks if b[0] is root), None)
        if mine is None:
            return False
        _, start, size, _, last = mine
        for owner, offset, nbytes, first, _ in self.blocks:
            band = BAND if owner in self.banded else 0
            if first > last and offset - band < start + size and start < offset + nbytes + band:
                return True
        return False

    def peak(self):
        """(step, live bytes) of the first step with the most live bytes, a lower bound for the arena of any layout."""
        change = {}
        for _, _, nbytes, first, last in self.blocks:
            change[first] = change.get(first, 0) + nbytes
            change[last + 1] = change.get(last + 1, 0) - nbytes
        live, most, at = 0, 0, 0
        for step in sorted(change):
            live += change[step]
            if live > most:
                most, at = live, step
        return at, most


class Access:
    """The tensors that the caller of a graph uses in the middle of a run.  It may use all others at any time.

    written: {input: the operator before which the caller writes it}; read: {output: the operator after which it reads}.
    """
    __slots__ = ("written", "read")

    def __init__(self, written, read):
        self.written = written
        self.read = read


class Lifetimes:
    """The live ranges of everything in the arena.

    first, last: {root: step}; scratch: [(Scratch, step)]; sizes: {root or Scratch: bytes}; banded: roots that need
    guard bands before and after them; unreadable: as in Placement; rewritten: {root: the last step that overwrites
    it}; copies: the steps that only copy.
    """
    __slots__ = ("first", "last", "scratch", "sizes", "banded", "unreadable", "rewritten", "copies")
    first: "dict[Value, int]"
    last: "dict[Value, int]"
    scratch: "list[tuple[Scratch, int]]"
    sizes: "dict[Value | Scratch, int]"
    banded: "set[Value]"
    unreadable: "set[Value]"
    rewritten: "dict[Value, int]"
    copies: "list[int]"


def lifetimes(lowered, preserve=False, access=None):
    """The Lifetimes of `lowered`; lets outputs take over the memory of inputs, unless all tensors are preserved.

    access: the caller's Access, or None.
    """
    lifetimes = Lifetimes()
    lifetimes.first, lifetimes.last = dict.fromkeys(lowered.evaluated, 0), dict.fromkeys(lowered.evaluated, 0)
    lifetimes.scratch, lifetimes.banded, lifetimes.copies = [], set(), []
    _scan_calls(lowered.calls, lifetimes)
    _extend_to_caller(lowered, lifetimes, access or Access({}, {}))
    if preserve:
        _extend_throughout(lowered, lifetimes)
        lifetimes.unreadable, lifetimes.rewritten = set(), {}
    else:
        lifetimes.unreadable, lifetimes.rewritten = _share_in_place(lowered, lifetimes.first, lifetimes.last)
    lifetimes.sizes = {root: root.nbytes for root in lifetimes.first}
    for scratch, _ in lifetimes.scratch:
        lifetimes.sizes[scratch] = math.prod(scratch.shape) * NUMPY_DTYPES[scratch.dtype].itemsize
    return lifetimes


def _scan_calls(calls, lifetimes):
    """Record which memory the calls use, and in which steps."""
    first, last, scratch = lifetimes.first, lifetimes.last, lifetimes.scratch
    for step, call in enumerate(calls):
        if call.kernel == COPY:
            lifetimes.copies.append(step)
        for a in of_types(call.args, _IN_MEMORY):
            kind = type(a)
            if kind is Value:
                root = a.root
            elif kind is View:
                root = a.value.root
            elif kind is Banded:
                root = a.value
                lifetimes.banded.add(root)
            else:
                scratch.append((a, step))
                continue
            if root in last:
                last[root] = step
            elif root.planned:
                first[root] = last[root] = step


def _extend_to_caller(lowered, lifetimes, access):
    """The caller writes inputs at any time and reads outputs after the last step, unless its Access says otherwise."""
    values, end = lowered.values, len(lowered.calls)
    for index in lowered.subgraph.inputs:
        root = values[index].root
        if root.kind == "input" and index in access.written:
            lifetimes.first[root] = _steps(lowered, access.written[index] - 1)
            lifetimes.last[root] = max(lifetimes.last.get(root, 0), lifetimes.first[root])
        elif root.kind == "input":
            lifetimes.first[root], lifetimes.last[root] = 0, end
    for index in lowered.subgraph.outputs:
        root = values[index].root
        if root.planned and (root in lifetimes.first or not root.size):     # else no operator computes the output
            lifetimes.first.setdefault(root, 0)
            last = _steps(lowered, access.read[index]) - 1 if index in access.read else end
            lifetimes.last[root] = max(lifetimes.last.get(root, 0), last)


def _steps(lowered, operator):
    """The number of steps until every operator up to this one has run."""
    return max((step + 1 for step, call in enumerate(lowered.calls) if call.node.index <= operator), default=0)


def _extend_throughout(lowered, lifetimes):
    """Extend the lifetime of every tensor to the end."""
    for value in lowered.values:
        root = value.root
        if root.planned and value.index not in lowered.later:
            lifetimes.first[root], lifetimes.last[root] = 0, len(lowered.calls)


def place(lifetimes, guard=False):
    """The Placement with an offset for each root and Scratch.  guard: leave a guard band after each block."""
    first, last, scratch = lifetimes.first, lifetimes.last, lifetimes.scratch
    owners = sorted(first, key=_index)
    count = len(owners)
    firsts = [first[owner] for owner in owners] + [step for _, step in scratch]
    lasts = [last[owner] for owner in owners] + [step for _, step in scratch]
    owners += [s for s, _ in scratch]
    sizes = [lifetimes.sizes[owner] for owner in owners]
    padded = [n + BAND for n in sizes] if guard else sizes
    if lifetimes.banded:
        before = [BAND * (owner in lifetimes.banded) for owner in owners]
        padded = list(map(sum, zip(padded, before, before, strict=True)))
    if sum(padded) > _MOST:
        raise errors.MemoryLimitError("its tensors need more memory than any machine has. Make the inputs smaller")
    offset, total, _ = arena.plan(padded, firsts, lasts)
    if lifetimes.banded:
        offset = list(map(operator.add, offset, before))
    blocks = list(zip(owners, offset, sizes, firsts, lasts, strict=True))
    offsets = {root.index: at for root, at in zip(owners[:count], offset[:count], strict=True)}
    scratch_offsets = dict(zip(owners[count:], offset[count:], strict=True))
    return Placement(offsets, scratch_offsets, total, blocks, lifetimes.unreadable, lifetimes.banded)


def _share_in_place(lowered, first, last):
    """Place an output in the memory of an input whose last use is the same call, but not a small output of the graph.

    Returns (the values that are overwritten by this, {root: the last step that overwrites its contents}).
    """
    members = _members(lowered.values)
    clobbered, rewritten = set(), {}
    outputs = {lowered.values[index].root for index in lowered.subgraph.outputs}
    for step, call in enumerate(lowered.calls):
        if call.inplace is None:
            continue
        y, x = call.inplace
        old, new = x.root, y.root
        if new is y and last.get(old) == step and first.get(new) == step and _fits_in_place(old, new, outputs):
            last[old] = last.pop(new)
            del first[new]
            if new in outputs:
                outputs.add(old)
            moved = members.get(new) or [new]
            for value in moved:
                value.root = old
            clobbered.update([value for value in members.get(old) or [old] if value.tensor is not None])
            members[old] = moved
            rewritten[old] = step
    return clobbered, rewritten


def _members(values):
    """{root: the values in its memory}, for roots that share their memory with other values."""
    members = {}
    for value in values:
        root = value.root
        if root is not value:
            members.setdefault(root, [root]).append(value)
    return members


def _fits_in_place(old, new, outputs):
    """Can `new` take over the memory of `old`?  Only if `old` is another temporary of the same size, which the caller
    does not read.  It may read what a small output was computed from, too.
    """
    if old in outputs or (new in outputs and estimate(new.nbytes) <= _LOGITS):
        return False
    return old is not new and old.data is None and old.kind == "temporary" and old.nbytes == new.nbytes
