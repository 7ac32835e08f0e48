"""What need not be run: borders that the next node sees by itself, functions of bytes one after the other, and copies
that are parts of another's memory."""
from itertools import accumulate
from math import prod

import numpy as np

from pylite import binding, planning, registry
from pylite.graph import NUMPY_DTYPES
from pylite.node import Banded, Call, Packed, Value, View

ALIGNMENT = 64          # of the planner's blocks
UNARY = "elementwise.Unary"
READ = "control.Read"


def drop_pads(lowered, pads):
    """Leave out the calls that compute the padded tensors which nobody reads any more.  pads: [(Node, Padded)]"""
    used = {lowered.values[i].root for i in lowered.subgraph.outputs}
    makers = {node.index: set() for node, _ in pads}
    for call in lowered.calls:
        makers.get(call.node.index, used).update(_roots(call))
    for node, padded in reversed(pads):
        if padded.folded and padded.y not in used:
            lowered.notes[node.index] = f"folded into node {', '.join(map(str, padded.folded))}"
        else:
            used.update(makers.pop(node.index))
    lowered.calls = [call for call in lowered.calls if call.node.index not in makers]


def _roots(call):
    return [a.root if type(a) is Value else a.value.root for a in call.args if type(a) in (Value, View, Banded)]


def join_tables(lowered, model):
    """Functions of one operand, the next one of the last one's result, from bytes to bytes are one table."""
    counts = {}
    for call in lowered.calls:
        for root in _roots(call):
            counts[root] = counts.get(root, 0) + 1
    for i in lowered.subgraph.outputs:
        counts[lowered.values[i].root] = 0
    chain, calls = [], []
    for call in lowered.calls:
        single = call.kernel == UNARY and len(call.args) == 5 and type(call.args[2]) is type(call.args[3]) is View
        if chain and not (single and _follows(call, chain[-1], counts)):
            calls += _as_table(lowered, model, chain)
            chain = []
        (chain if single else calls).append(call)
    lowered.calls = calls + _as_table(lowered, model, chain)


def _follows(call, before, counts):
    """Does nothing but `call` need what `before` computes?"""
    x, y = call.args[2].value, before.args[3].value
    return (x.root is y.root and counts[x.root] == 2 and x.root.kind == "temporary" and x.root.nbytes == y.nbytes
            and call.args[1] == before.args[1])         # BITCAST may make other elements of the same bytes


def _as_table(lowered, model, chain):
    """The chain, with the calls from the first that takes bytes to the last that gives some as one."""
    takes = [i for i, call in enumerate(chain) if call.args[2].value.nbytes == call.args[1]]
    gives = [i for i, call in enumerate(chain) if call.args[3].value.nbytes == call.args[1]]
    if not takes or not gives or takes[0] >= gives[-1]:
        return chain
    joined, last = chain[takes[0]:gives[-1] + 1], chain[gives[-1]]
    table = np.arange(256, dtype=np.uint8)
    for call in joined:
        row, n, _, y, p = call.args
        x, table = table, np.empty(256 * (y.value.nbytes // n), np.uint8)
        binding.kernel_class(UNARY)(row, 256, x, table, model.pack(p) if type(p) is Packed else p).run()
        lowered.notes[call.node.index] = f"folded into node {last.node.index}"
    lowered.notes.pop(last.node.index)
    x, y = joined[0].args[2], last.args[3]
    call = Call(UNARY, "lut8", last.args[1], x, y, table, inplace=(y.value, x.value))
    call.node, call.note = last.node, "a table of several nodes' functions"
    return [*chain[:takes[0]], call, *chain[gives[-1] + 1:]]


def plan_parts(lowered, lives):
    """The Plan in which parts lie in the memory of the whole that they are copied to or from, where none needs more.

    lives: the Lifetimes with all copies made.
    """
    found = []
    if not (lives.banded or lowered.pause or lowered.later or lowered.evaluated):
        for step in lives.copies:
            copy = _part(lowered.calls[step], step)
            if copy is not None:
                found.append(copy)
    # It is for once, and the less to be had the fewer copies there are.
    worth = len(found) * 8 > len(lowered.calls) or sum(copy[2].nbytes for copy in found) > 1 << 16
    whole = None
    while worth and found:
        parts = Parts(lowered, lives, found)
        if not parts.elided:
            break
        plan = planning.place(parts.lives(lives))
        if plan.total > parts.most - ALIGNMENT:     # blocks that fit together best may yet lie badly
            whole = whole or planning.place(lives)
        if whole is None or plan.total <= whole.total:
            calls = lowered.calls
            for step, note in parts.elided.items():
                lowered.notes[calls[step].node.index] = note
            lowered.calls = [call for step, call in enumerate(calls) if step not in parts.elided]
            return plan
        parts.undo()
        joined = [copy for copy in found if copy[5]]
        found = [copy for copy in found if not copy[5]] if joined else []
    return whole or planning.place(lives)


def read_late(calls):
    """Move reads of variables to where what they give is needed first.

    Converters put all of them first, where they live through the whole graph.  They pass no call that may change them.
    """
    for step in range(len(calls) - 1, -1, -1):
        call = calls[step]
        if call.kernel == READ:
            at = step + 1
            while at < len(calls) and call.args[1].root not in _roots(calls[at]) and _passes(calls[at], call.args[0]):
                at += 1
            calls.insert(at - 1, calls.pop(step))


def _passes(call, variable):
    """Does `call` leave the variable as it is?"""
    kernel = call.kernel
    return type(kernel) is str and (kernel == READ or not kernel.startswith(("control.", "python_op."))
                                    or (kernel == "control.Assign" and call.args[0] is not variable))


def _part(call, step):
    """(step, node, part, whole, offset, joins) where `call` copies a run of bytes of another value, else None."""
    x = _run(call.args[0])
    y = x and _run(call.args[1])
    if not y:
        return None
    (source, start, size), (target, at, _) = x, y
    parts = getattr(registry.find(call.node.name), "parts", None)
    if size == target.nbytes and size < source.nbytes and parts == "cut":
        part, whole, offset, joins = target, source, start, False
    elif size == source.nbytes and size < target.nbytes and parts == "joined":
        part, whole, offset, joins = source, target, at, True
    else:
        return None
    old, new = part.root, whole.root
    if (old is new or old.kind != "temporary" or old.data is not None or old.nbytes != size or new.data is not None
            or new.kind == "variable" or (joins and new.kind != "temporary")):
        return None
    return step, call.node, part, whole, offset, joins


class Parts:
    """The parts of tensors that can lie in the memory of the whole.

    copies: of _part.  elided: {step of a copy that is not to be made: why}; most: bytes alive at once if all are made.
    """

    def __init__(self, lowered, lives, copies):
        self.calls = lowered.calls
        self.outputs = lowered.subgraph.outputs
        self.first, self.last, self.rewritten = lives.first.copy(), lives.last.copy(), lives.rewritten.copy()
        self.read = lives.last          # where no part's readers count
        self.sizes = {owner: -(-size // ALIGNMENT) * ALIGNMENT for owner, size in lives.sizes.items()}
        self.shared = {}                # wholes whose parts are written over later: the node whose copies they were
        self.owner = {}                 # wholes that parts were cut from: the node that did, False where several
        self.lost = []                  # values that cannot be read after a run because of that
        self.moved = []
        self.elided = {}
        self.members = {copy[2].root: [] for copy in copies}
        self.members.update((copy[3].root, []) for copy in copies)
        temporaries = [call.inplace[0] for call in self.calls if call.inplace and call.inplace[0].tensor is None]
        for value in (*lowered.values, *temporaries):
            if value.root in self.members:
                self.members[value.root].append(value)
        change = [0] * (len(self.calls) + 2)
        for owner, first in (*self.first.items(), *lives.scratch):
            size = self.sizes[owner]
            change[first] += size
            change[self.last.get(owner, first) + 1] -= size
        self.level = list(accumulate(change))
        self.most = max(self.level)
        at = 0
        while at < len(copies):         # the copies of one node
            end = at + 1
            while end < len(copies) and copies[end][1] is copies[at][1]:
                end += 1
            self._elide(copies[at:end])
            at = end

    def _elide(self, copies):
        """Leave out what can be of the copies of one node: all or else some, so that no more are alive at once."""
        level, count, done = self.level.copy(), len(self.moved), []
        found = {copy[0]: note for copy in copies if (note := self._place(copy, done))}
        if not found or max(self.level) <= self.most:
            self.elided.update(found)
            return
        self.level = level
        for kept, owner, before in reversed(done):
            if before is None:
                kept.pop(owner, None)
            else:
                kept[owner] = before
        self.undo(count)
        if len(copies) > 1:
            for copy in copies:
                self._elide((copy,))

    def undo(self, count=0):
        """Put all but the first `count` values that were moved back to where they were."""
        for value, root, at in reversed(self.moved[count:]):
            self.members[value.root].remove(value)
            value.root, value.at = root, at
            self.members.setdefault(root, []).append(value)
        del self.moved[count:]

    def _place(self, copy, done):
        """Put the part into the memory of the other side, if that may be: a note.  done: what to undo is added."""
        step, node, part, whole, offset, joins = copy
        old, new = part.root, whole.root
        offset += whole.at
        if old is new or old not in self.members or old.nbytes != part.nbytes:
            return None
        if any((offset + value.at) % value.itemsize for value in self.members[old]):
            return None
        # The caller of the graph must not see or change one tensor through another.
        if any(value.index in self.outputs for value in self.members[old]) and (
                new.kind != "temporary" or any(value.index in self.outputs for value in self.members[new])):
            return None
        rewritten = self.rewritten.get(old)
        if joins:
            if self.last[old] > step:
                return None
            note = f"computed in place, in tensor {whole.index}"
            if rewritten is not None:
                self._set(self.rewritten, new, max(rewritten, self.rewritten.get(new, -1)), done)
            if new in self.rewritten:
                self.lost += self.members[old]
        else:
            if self.rewritten.get(new, -1) >= step or self.shared.get(new, node) is not node:
                return None
            owner = self.owner.get(new, node)
            if rewritten is not None:
                if owner is not node or not self._alone(node, new):
                    return None
                self._set(self.shared, new, node, done)
                self.lost += [value for value in self.members[new]
                              if value.at < offset + part.nbytes and value.at + value.nbytes > offset]
            done.append((self.owner, new, self.owner.get(new)))
            self.owner[new] = owner if owner is node else False
            note = f"part of tensor {whole.index}"
        for value in self.members[old]:
            self.moved.append((value, value.root, value.at))
            value.root = new
            value.at += offset
        self.members[new] += self.members.pop(old)
        first, last, level = self.first[old], self.last[old], self.level
        self._set(self.first, old, None, done)
        self._set(self.last, old, None, done)
        size = self.sizes[old]
        for at in range(first, last + 1):
            level[at] -= size
        if new in self.first:
            begin, end, size = self.first[new], self.last[new], self.sizes[new]
            for at in (*range(first, begin), *range(end + 1, last + 1)):
                level[at] += size
            self._set(self.first, new, min(first, begin), done)
            self._set(self.last, new, max(last, end), done)
        return note

    @staticmethod
    def _set(kept, owner, now, done):
        done.append((kept, owner, kept.get(owner)))
        if now is None:
            del kept[owner]
        else:
            kept[owner] = now

    def _alone(self, node, whole):
        """Does nothing but this node's copies read the whole from there on, so that parts may be written over?"""
        last = self.read.get(whole, len(self.calls))
        return whole.kind == "temporary" and last < len(self.calls) and self.calls[last].node is node

    def lives(self, before):
        """The Lifetimes without the copies, whose steps are not counted any more."""
        lives = planning.Lifetimes()
        at, count = [], 0               # the steps left before each one
        for step in range(len(self.calls)):
            at.append(count)
            count += step not in self.elided
        at += count, count
        lives.first = {root: at[step] for root, step in self.first.items()}
        lives.last = {root: max(at[step + 1] - (step < len(self.calls)), lives.first[root])
                      for root, step in self.last.items()}
        lives.scratch = [(scratch, at[step]) for scratch, step in before.scratch]
        lives.banded, lives.replaced, lives.sizes = before.banded, before.replaced.union(self.lost), before.sizes
        return lives


def _run(argument):
    """(value, first byte, bytes) of an argument that is one run of bytes of a value, else None."""
    kind = type(argument)
    if kind is Value:
        return argument, 0, argument.nbytes
    if kind is not View:
        return None
    item = NUMPY_DTYPES[argument.dtype].itemsize
    if argument.strides is not None:
        step = 1
        for n, stride in zip(reversed(argument.shape), reversed(argument.strides), strict=True):
            if n != 1 and stride != step:
                return None
            step *= n
    return argument.value, argument.offset * item, prod(argument.shape) * item
