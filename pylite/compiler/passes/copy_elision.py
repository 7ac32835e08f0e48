"""Concat/split aliasing: places a slice in the memory of the full tensor, so that the copy between them is not run.

The inputs of a concat are computed in place in its output; the outputs of a split are read in place from its input.
"""
from itertools import groupby
from operator import attrgetter

from pylite._core.run.arena import ALIGNMENT
from pylite.compiler import placement
from pylite.compiler.live_ranges import LiveRanges, UndoLog
from pylite.compiler.slice_copies import slice_copy
from pylite.ir.lowered import COPY
from pylite.ir.values import Banded, Value, View

# The benefit threshold: aliasing is tried if more than one call in CALLS_PER_COPY copies a slice, or if these calls
# copy more than MANY_BYTES.  Otherwise it would save less time than it takes.
CALLS_PER_COPY = 8
MANY_BYTES = 1 << 16


def run(lowered, lifetimes):
    """The Lifetimes and Placement of `lowered` without the copies that aliasing replaces.

    If the arena is smaller with all copies, these are kept.  lifetimes: the Lifetimes with all copies.
    """
    copies = _slice_copies(lowered, lifetimes)
    plain = None
    if _is_beneficial(copies, lowered.calls):
        splits = [copy for copy in copies if not copy.is_concat]
        for trial in [copies, splits] if 0 < len(splits) < len(copies) else [copies]:
            elision = Elision(lowered, lifetimes, trial)
            if not elision.notes:
                break
            ranges = elision.lifetimes()
            placed = placement.place(ranges)
            if placed.total > elision.peak - ALIGNMENT:         # the blocks may fit together worse
                plain = plain or placement.place(lifetimes)
            if plain is None or placed.total <= plain.total:
                elision.apply(lowered)
                return ranges, placed
            elision.log.undo()
    return lifetimes, plain or placement.place(lifetimes)


def _slice_copies(lowered, lifetimes):
    """The SliceCopies that may be elided.  There are none if other segments, or plug-ins in C, see the tensors."""
    if lifetimes.banded or lowered.boundary or lowered.later or lowered.evaluated:
        return []
    return [copy for step in lifetimes.copies if (copy := slice_copy(lowered.calls[step], step)) is not None]


def _is_beneficial(copies, calls):
    return len(copies) * CALLS_PER_COPY > len(calls) or sum(copy.slice.nbytes for copy in copies) > MANY_BYTES


class Elision:
    """Aliases the slices of all copies that the rules allow, node by node.

    notes: {step of an elided copy: why}; peak: bytes alive at the peak without elision; log: undoes all changes.
    """

    def __init__(self, lowered, lifetimes, copies):
        self.calls = lowered.calls
        self.outputs = lowered.subgraph.outputs
        self.before = lifetimes
        self.log = UndoLog()
        self.ranges = LiveRanges(lifetimes, len(self.calls), self.log)
        self.peak = self.ranges.peak()
        self.rewritten = lifetimes.rewritten.copy()
        self.members = self._members(lowered, copies)   # {root of a slice or full tensor: the values in its memory}
        self.uses = self._uses() if any(copy.runs for copy in copies) else {}   # {value: its (step, argument)s}
        self.source_node = {}   # {root that was split: the node that split it, False if several did}
        self.rewriter = {}      # {root that was split: the node whose slices are overwritten later}
        self.clobbered = {}     # values that are overwritten before the end of a run
        self.strided = {}       # values that are no longer a single run of bytes
        self.views = {}         # {(step, argument): the View that replaces the argument}
        self.notes = {}
        for _, group in groupby(copies, attrgetter("node")):
            self._elide(tuple(group))

    def _members(self, lowered, copies):
        members = {value.root: () for copy in copies for value in (copy.slice, copy.full)}
        temporaries = dict.fromkeys([call.inplace[0] for call in self.calls if call.inplace] + list(members))
        for value in (*lowered.values, *[value for value in temporaries if value.tensor is None]):
            if value.root in members:
                members[value.root] += value,
        return members

    def _uses(self):
        uses = {}
        for step, call in enumerate(self.calls):
            for i, argument in enumerate(call.args):
                value = argument.value if type(argument) in (View, Banded) else argument
                if isinstance(value, Value) and value.root in self.members:
                    uses.setdefault(value, []).append((step, i))
        return {value: tuple(found) for value, found in uses.items()}

    def _elide(self, copies):
        """Alias the slices of all `copies` of one node; if that raises the peak, only the slices that do not raise it
        by themselves."""
        mark, notes = None, {}
        for copy in copies:
            views = self._views(copy) if self._rules_allow(copy) else None
            if views is not None:
                mark = mark or self.ranges.mark()
                self._alias(copy, views)
                notes[copy.step] = (f"computed in place, in tensor {copy.full.index}" if copy.is_concat
                                    else f"slice of tensor {copy.full.index}")
        if not notes or self.ranges.peak() <= self.peak:
            self.notes.update(notes)
            return
        self.ranges.undo(mark)
        if len(copies) > 1:
            for copy in copies:
                self._elide((copy,))

    # ---- rules -----------------------------------------------------------------------------------------------
    def _rules_allow(self, copy):
        return (self._can_move(copy) and self._is_hidden(copy)
                and (self._dies_in_concat(copy) if copy.is_concat else self._survives_split(copy)))

    def _can_move(self, copy):
        """Is the slice all that its root holds, and is neither it nor the full tensor strided already?"""
        root = copy.slice.root
        return (root in self.members and root.nbytes == copy.slice.nbytes
                and copy.slice not in self.strided and copy.full not in self.strided)

    def _is_hidden(self, copy):
        """Is the aliasing invisible to the caller, who must not see or change one tensor through another?"""
        full = copy.full.root
        return not self._has_output(copy.slice.root) or (
            copy.runs is None and full.kind == "temporary" and not self._has_output(full))

    def _has_output(self, root):
        return any(value.index in self.outputs for value in self.members[root])

    def _dies_in_concat(self, copy):
        """Does nothing read the slice after the concat?  Then the full tensor may be overwritten."""
        _, last = self.ranges.steps[copy.slice.root]
        return last <= copy.step

    def _survives_split(self, copy):
        """Does nothing overwrite the full tensor after the split?

        Its slices may be overwritten if a single node produces all of them and nothing else reads the full tensor
        later.
        """
        node, slice_root, root = copy.node, copy.slice.root, copy.full.root
        if self.rewritten.get(root, -1) >= copy.step or self.rewriter.get(root, node) is not node:
            return False
        return slice_root not in self.rewritten or (
            self.source_node.get(root, node) is node and self._is_last_reader(node, root))

    def _is_last_reader(self, node, root):
        """Is `node`, before aliasing, the last reader of the temporary `root`?"""
        last = self.before.last.get(root, len(self.calls))
        return root.kind == "temporary" and last < len(self.calls) and self.calls[last].node is node

    def _views(self, copy):
        """{(step, argument): the View for it} of all calls that need one.

        None if a value would not be aligned, or if a kernel does not accept its argument strided.
        """
        members = self.members[copy.slice.root]
        if copy.runs is None:
            offset = copy.byte_offset + copy.full.byte_offset
            return None if any((offset + value.byte_offset) % value.itemsize for value in members) else {}
        views = {}
        for value in members:
            for use in self.uses.get(value, ()):
                if use[0] != copy.step and use[0] not in self.notes:
                    view = self._strided_view(copy, *use)
                    if view is None:
                        return None
                    views[use] = view
        return views

    def _strided_view(self, copy, step, i):
        call = self.calls[step]
        view = copy.view_in_full(self.views.get((step, i), call.args[i])) if i in call.strided else None
        if view is not None and view.shape and view.strides[-1] != 1 and view.shape[-1] > 1 and call.kernel != COPY:
            return None         # only copies accept a last axis that is not contiguous
        return view

    # ---- changes ---------------------------------------------------------------------------------------------
    def _alias(self, copy, views):
        """Place everything in the slice's root in the memory of the full tensor."""
        log, inner, outer = self.log, copy.slice.root, copy.full.root
        if copy.is_concat:
            self._record_concat(inner, outer)
        else:
            self._record_split(copy, inner, outer)
        for use, view in views.items():
            log.set(self.views, use, view)
        if views:
            log.set(self.uses, copy.full, self.uses[copy.full] + tuple(views))
        for value in self.members[inner]:
            if copy.runs is None:
                log.move(value, outer, value.byte_offset + copy.byte_offset + copy.full.byte_offset)
            else:
                log.move(value, outer, copy.full.byte_offset)
                log.set(self.strided, value, True)
        log.set(self.members, outer, self.members[outer] + self.members[inner])
        log.set(self.members, inner, None)
        self.ranges.merge(inner, outer)

    def _record_concat(self, inner, outer):
        """Record that writes to the slice overwrite the full tensor, and that writes to the full tensor clobber the
        slice."""
        if inner in self.rewritten:
            self.log.set(self.rewritten, outer, max(self.rewritten[inner], self.rewritten.get(outer, -1)))
        if outer in self.rewritten:
            self._clobber(self.members[inner])

    def _record_split(self, copy, inner, outer):
        """Record that writes to the slice clobber the values of the full tensor that share its bytes."""
        if inner in self.rewritten:
            begin = copy.byte_offset + copy.full.byte_offset
            end = begin + copy.slice.nbytes
            self.log.set(self.rewriter, outer, copy.node)
            self._clobber([value for value in self.members[outer]
                           if value.byte_offset < end and value.byte_offset + value.nbytes > begin])
        same = self.source_node.get(outer, copy.node) is copy.node
        self.log.set(self.source_node, outer, copy.node if same else False)

    def _clobber(self, values):
        for value in values:
            self.log.set(self.clobbered, value, True)

    # ---- results ---------------------------------------------------------------------------------------------
    def lifetimes(self):
        """The Lifetimes without the elided copies; steps count the remaining calls."""
        step_of, count = [], 0          # the new number of each step, or for an elided step of the next one
        for step in range(len(self.calls)):
            step_of.append(count)
            count += step not in self.notes
        step_of += count, count
        result = placement.Lifetimes()
        steps = self.ranges.steps.items()
        result.first = {root: step_of[first] for root, (first, _) in steps}
        result.last = {root: max(step_of[last + 1] - (last < len(self.calls)), step_of[first])
                       for root, (first, last) in steps}
        result.scratch = [(scratch, step_of[step]) for scratch, step in self.before.scratch]
        result.banded, result.sizes = self.before.banded, self.before.sizes
        result.unreadable = self.before.unreadable.union(self.clobbered, self.strided)
        return result

    def apply(self, lowered):
        """Remove the elided copies from `lowered`, and make its calls take slices as views of the full tensors."""
        for step, note in self.notes.items():
            lowered.notes[self.calls[step].node.index] = note
        for (step, i), view in self.views.items():
            call = self.calls[step]
            call.args = (*call.args[:i], view, *call.args[i + 1:])
        lowered.calls = [call for step, call in enumerate(self.calls) if step not in self.notes]
