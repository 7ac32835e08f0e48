"""Lifetimes to arena offsets: which values share memory, and where each lies."""
import math
from operator import attrgetter

from pylite._core import arena
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.values import BAND, Banded, Scratch, Value, View

GUARD = BAND        # bytes of guard band behind each block in debug mode
_index = attrgetter("index")


class Plan:
    """The arena of one lowered subgraph.

    offsets: {root tensor index: byte offset}; scratch: {Scratch: byte offset}; total: bytes; bound: the largest sum
    of sizes alive at once, which no plan can undercut; blocks: list of (owner, offset, nbytes, first, last); replaced:
    the values that another one was written over in place.
    """
    __slots__ = ("offsets", "scratch", "total", "bound", "blocks", "replaced")

    def __init__(self, offsets, scratch, total, bound, blocks, replaced):
        self.offsets = offsets
        self.scratch = scratch
        self.total = total
        self.bound = bound
        self.blocks = blocks
        self.replaced = replaced

    def overwritten(self, value):
        """Is the memory of `value` written again after its last use, so that it cannot be read after a run?"""
        if value in self.replaced:
            return True
        root = value.root
        mine = next((b for b in self.blocks if b[0] is root), None)
        if mine is None:
            return False
        _, start, size, _, last = mine
        return any(first > last and offset < start + size and start < offset + nbytes
                   for _, offset, nbytes, first, _ in self.blocks)

    def peak(self):
        """(step, live bytes) of the first step that needs most."""
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


class Lifetimes:
    """Who needs memory, and in which steps.

    first, last: {root: step}; scratch: [(Scratch, step)]; sizes: {either: bytes}; banded: roots that want a band;
    replaced as in Plan; rewritten: {root: the last step that wrote over what it held before}; copies: steps that only
    copy.
    """
    __slots__ = ("first", "last", "scratch", "sizes", "banded", "replaced", "rewritten", "copies")
    first: "dict[Value, int]"
    last: "dict[Value, int]"
    scratch: "list[tuple[Scratch, int]]"
    sizes: "dict[Value | Scratch, int]"
    banded: "set[Value]"
    replaced: "set[Value]"
    rewritten: "dict[Value, int]"
    copies: "list[int]"


def lifetimes(lowered, preserve=False):
    """The Lifetimes of `lowered`; lets outputs take over the memory of inputs."""
    calls, values, subgraph = lowered.calls, lowered.values, lowered.subgraph
    first, scratch, banded, copies = dict.fromkeys(lowered.evaluated, 0), [], set(), []
    last = first.copy()
    for step, call in enumerate(calls):
        if call.kernel == "movement.Copy":
            copies.append(step)
        for a in call.args:
            kind = type(a)
            if kind is Value:
                root = a.root
            elif kind is View:
                root = a.value.root
            elif kind is Banded:
                root = a.value
                banded.add(root)
            elif kind is Scratch:
                scratch.append((a, step))
                continue
            else:
                continue
            if root in last:
                last[root] = step
            elif root.planned:
                first[root] = last[root] = step
    end = len(calls)        # the caller reads and writes its tensors after the last step
    for index in subgraph.inputs:
        root = values[index].root
        if root.kind == "input":
            first[root], last[root] = 0, end
    for index in subgraph.outputs:
        root = values[index].root
        if root.planned:
            first.setdefault(root, 0)
            last[root] = end
    if preserve:
        for value in values:
            root = value.root
            if root.planned and value.index not in lowered.later:
                first[root], last[root] = 0, end
        replaced, rewritten = set(), {}
    else:
        replaced, rewritten = _share_in_place(lowered, first, last)
    lives = Lifetimes()
    lives.first, lives.last, lives.scratch, lives.banded = first, last, scratch, banded
    lives.replaced, lives.rewritten, lives.copies = replaced, rewritten, copies
    lives.sizes = {root: root.nbytes for root in first}
    for s, _ in scratch:
        lives.sizes[s] = math.prod(s.shape) * NUMPY_DTYPES[s.dtype].itemsize
    return lives


def place(lives, guard=False):
    """The Plan that gives each its place."""
    first, last, scratch, banded = lives.first, lives.last, lives.scratch, lives.banded
    owners = sorted(first, key=_index)
    count = len(owners)
    firsts = [first[owner] for owner in owners] + [step for _, step in scratch]
    lasts = [last[owner] for owner in owners] + [step for _, step in scratch]
    owners += [s for s, _ in scratch]
    sizes = [lives.sizes[owner] for owner in owners]
    capacities = [n + GUARD for n in sizes] if guard else sizes
    if banded:
        capacities = [n + GUARD if guard or owner in banded else n for n, owner in zip(sizes, owners, strict=True)]
    offset, total, bound = arena.plan(capacities, firsts, lasts)
    blocks = list(zip(owners, offset, sizes, firsts, lasts, strict=True))
    offsets = {root.index: at for root, at in zip(owners[:count], offset[:count], strict=True)}
    return Plan(offsets, dict(zip(owners[count:], offset[count:], strict=True)), total, bound, blocks, lives.replaced)


def _share_in_place(lowered, first, last):
    """Let an output take over the memory of an input that dies in the same call.

    Returns (the values lost by it, {root whose memory was taken over: the last step that did}).
    """
    members = {}        # root -> the values that its memory holds at present, if that is not the root alone
    replaced, rewritten = set(), {}
    for value in lowered.values:
        root = value.root
        if root is not value:
            members.setdefault(root, [root]).append(value)
    kept = {lowered.values[index].root for index in lowered.subgraph.outputs}
    for step, call in enumerate(lowered.calls):
        if call.inplace is None:
            continue
        y, x = call.inplace
        old, new = x.root, y.root
        if (new is y and old is not new and old.data is None and old.kind == "temporary" and old not in kept
                and last.get(old) == step and first.get(new) == step and old.nbytes == new.nbytes):
            last[old] = last.pop(new)
            del first[new]
            if new in kept:
                kept.add(old)
            moved = members.get(new) or [new]
            for value in moved:
                value.root = old
            if old.tensor is not None:              # a Temporary is no tensor's value
                replaced.update(members.get(old) or [old])
            members[old] = moved
            rewritten[old] = step
    return replaced, rewritten
