"""Copies that need not be made: tensors that are parts of another one lie in its memory."""
from itertools import accumulate
from math import prod

from pylite.compiler import placement
from pylite.ir import registry
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.shapes import contiguous_strides
from pylite.ir.values import Banded, Value, View

ALIGNMENT = 64          # of the planner's blocks


def plan(lowered, lives):
    """The Plan in which parts lie in the memory of the whole that they are copied to or from, where none needs more.

    lives: the Lifetimes with all copies made.
    """
    found = []
    if not (lives.banded or lowered.boundary or lowered.later or lowered.evaluated):
        for step in lives.copies:
            copy = _recognised(lowered.calls[step], step)
            if copy is not None:
                found.append(copy)
    # It is for once, and the less to be had the fewer copies there are.
    worth = len(found) * 8 > len(lowered.calls) or sum(copy.part.nbytes for copy in found) > 1 << 16
    whole = None
    while worth and found:
        parts = Parts(lowered, lives, found)
        if not parts.elided:
            break
        plan = placement.place(parts.lives(lives))
        if plan.total > parts.most - ALIGNMENT:     # blocks that fit together best may yet lie badly
            whole = whole or placement.place(lives)
        if whole is None or plan.total <= whole.total:
            parts.leave_out(lowered)
            return plan
        parts.undo()
        joined = [copy for copy in found if copy.joins]
        found = [copy for copy in found if not copy.joins] if joined else []
    return whole or placement.place(lives)


class PartCopy:
    """A copy of a part to where it lies in the whole (joins), or from there.

    part, whole: Values; offset: of the part's first byte in the whole; rows: None where the part is one run of bytes
    there, else the bytes of each of its runs and from one to the next.
    """
    __slots__ = ("step", "node", "part", "whole", "offset", "joins", "rows")

    def __init__(self, step, node, part, whole, offset, joins, rows):
        self.step = step
        self.node = node
        self.part = part
        self.whole = whole
        self.offset = offset
        self.joins = joins
        self.rows = rows


def _recognised(call, step):
    """`call` as a PartCopy that might not be needed, or None."""
    parts = getattr(registry.find(call.node.name), "aliasing", None)
    if parts is None:
        return None
    joins = parts == "concat"
    inner, outer = call.args if joins else reversed(call.args)
    inner = _run(inner)
    if inner is None:
        return None
    part, _, size = inner
    outer = _run(outer) or _rows(outer)
    if outer is None:
        return None
    whole, offset, _, *rows = outer
    old, new = part.root, whole.root
    if (size != part.nbytes or size >= whole.nbytes or old is new or old.kind != "temporary" or old.data is not None
            or old.nbytes != size or new.data is not None or new.kind == "variable"
            or (joins and new.kind != "temporary")):
        return None
    return PartCopy(step, call.node, part, whole, offset, joins, rows or None)


class Parts:
    """The parts of tensors that can lie in the memory of the whole.

    elided: {step of a copy that is not to be made: why}; most: bytes alive at once if all are made.
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
        self.apart = {}                 # those that cannot since they are not one run of bytes any more
        self.uses = {}                  # value: (step, argument) of all calls that see it, where some may lie apart
        self.views = {}                 # (step, argument): what the call sees then
        self.moved = []
        self.elided = {}
        self.members = {copy.part.root: [] for copy in copies}
        self.members.update((copy.whole.root, []) for copy in copies)
        temporaries = [call.inplace[0] for call in self.calls if call.inplace and call.inplace[0].tensor is None]
        for value in (*lowered.values, *temporaries):
            if value.root in self.members:
                self.members[value.root].append(value)
        if any(copy.rows for copy in copies):
            for step, call in enumerate(self.calls):
                for i, a in enumerate(call.args):
                    value = a.value if type(a) in (View, Banded) else a
                    if isinstance(value, Value) and value.root in self.members:
                        self.uses[value] = (*self.uses.get(value, ()), (step, i))
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
            while end < len(copies) and copies[end].node is copies[at].node:
                end += 1
            self._elide(copies[at:end])
            at = end

    def _elide(self, copies):
        """Leave out what can be of the copies of one node: all or else some, so that no more are alive at once."""
        level, count, done = self.level.copy(), len(self.moved), []
        found = {copy.step: note for copy in copies if (note := self._place(copy, done))}
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
            value.root, value.byte_offset = root, at
            self.members.setdefault(root, []).append(value)
        del self.moved[count:]

    def _place(self, copy, done):
        """Put the part into the memory of the other side, if that may be: a note.  done: what to undo is added."""
        step, node, part, whole = copy.step, copy.node, copy.part, copy.whole
        old, new = part.root, whole.root
        offset = copy.offset + whole.byte_offset
        if (old is new or old not in self.members or old.nbytes != part.nbytes or part in self.apart
                or whole in self.apart or (copy.joins and self.last[old] > step)):
            return None
        # The caller of the graph must not see or change one tensor through another.
        if any(value.index in self.outputs for value in self.members[old]) and (
                copy.rows or new.kind != "temporary" or any(v.index in self.outputs for v in self.members[new])):
            return None
        if copy.rows is None:
            if any((offset + value.byte_offset) % value.itemsize for value in self.members[old]):
                return None
        elif (views := self._apart(copy)) is None:
            return None
        rewritten = self.rewritten.get(old)
        if copy.joins:
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
                              if value.byte_offset < offset + part.nbytes and value.byte_offset + value.nbytes > offset]
            done.append((self.owner, new, self.owner.get(new)))
            self.owner[new] = owner if owner is node else False
            note = f"part of tensor {whole.index}"
        if copy.rows:
            for use, view in views.items():
                self._set(self.views, use, view, done)
            self._set(self.uses, whole, self.uses[whole] + tuple(views), done)
        for value in self.members[old]:
            self.moved.append((value, value.root, value.byte_offset))
            value.root = new
            if copy.rows:
                value.byte_offset = whole.byte_offset
                self._set(self.apart, value, True, done)
            else:
                value.byte_offset += offset
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

    def _apart(self, copy):
        """{(step, argument): what it sees} of all that see the part, or None where some cannot see it in the whole."""
        views = {}
        for value in self.members[copy.part.root]:
            for use in self.uses.get(value, ()):
                step, i = use
                if step == copy.step or step in self.elided:
                    continue
                call = self.calls[step]
                view = i in call.strided and _spread(self.views.get(use, call.args[i]), copy)
                if not view or (view.strides[-1] != 1 and view.shape[-1] > 1 and call.kernel != "movement.Copy"):
                    return None     # runs of a single element are for copies alone
                views[use] = view
        return views

    def leave_out(self, lowered):
        """Make it so: the copies that are elided are no more, and what sees their parts sees them in the wholes."""
        for step, note in self.elided.items():
            lowered.notes[self.calls[step].node.index] = note
        for (step, i), view in self.views.items():
            call = self.calls[step]
            call.args = (*call.args[:i], view, *call.args[i + 1:])
        lowered.calls = [call for step, call in enumerate(self.calls) if step not in self.elided]

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
        lives = placement.Lifetimes()
        at, count = [], 0               # the steps left before each one
        for step in range(len(self.calls)):
            at.append(count)
            count += step not in self.elided
        at += count, count
        lives.first = {root: at[step] for root, step in self.first.items()}
        lives.last = {root: max(at[step + 1] - (step < len(self.calls)), lives.first[root])
                      for root, step in self.last.items()}
        lives.scratch = [(scratch, at[step]) for scratch, step in before.scratch]
        lives.banded, lives.sizes = before.banded, before.sizes
        lives.replaced = before.replaced.union(self.lost, self.apart)
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


def _rows(argument):
    """(value, first byte, bytes, bytes of a run, from one run to the next) of a View of equal runs of bytes, else None.
    """
    if type(argument) is not View or argument.strides is None:
        return None
    run, pitch, count = 1, None, 1
    for n, stride in zip(reversed(argument.shape), reversed(argument.strides), strict=True):
        if n == 1:
            continue
        if pitch is None and stride == run:
            run *= n
        elif pitch is None and stride > run:
            pitch, count = stride, n
        elif pitch is not None and stride == pitch * count:
            count *= n
        else:
            return None
    if pitch is None:
        return None
    item = NUMPY_DTYPES[argument.dtype].itemsize
    return argument.value, argument.offset * item, run * count * item, run * item, pitch * item


def _spread(argument, copy):
    """The View of the whole that sees what `argument`, a Value or View, sees of the part of `copy`, or None."""
    view = argument if type(argument) is View else argument.view()
    item = NUMPY_DTYPES[view.dtype].itemsize
    run, pitch = copy.rows
    first = view.value.byte_offset + view.offset * item
    if run % item or pitch % item or (first + copy.offset + copy.whole.byte_offset) % item:
        return None
    strides, width = [], item       # width: bytes of a run that are seen
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
    return View(copy.whole, view.shape, tuple(strides), (row * pitch + column + copy.offset) // item, view.dtype)
