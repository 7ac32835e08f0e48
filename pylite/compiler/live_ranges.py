"""Live ranges during trial changes, and the log that undoes the changes."""
import numpy as np

from pylite._core.run.arena import ALIGNMENT


class UndoLog:
    """Records changes to dictionaries and to the places of values, and undoes them back to an earlier length."""

    def __init__(self):
        self._entries = []      # (dictionary, key, item before) or (None, value, (root, byte offset) before)

    def __len__(self):
        return len(self._entries)

    def set(self, mapping, key, item):
        """mapping[key] = item; None removes the key."""
        self._entries.append((mapping, key, mapping.get(key)))
        if item is None:
            del mapping[key]
        else:
            mapping[key] = item

    def move(self, value, root, byte_offset):
        """Place `value` at `byte_offset` of the memory of `root`."""
        self._entries.append((None, value, (value.root, value.byte_offset)))
        value.root, value.byte_offset = root, byte_offset

    def undo(self, length=0):
        """Undo all but the first `length` changes, the last one first."""
        entries = self._entries
        while len(entries) > length:
            mapping, key, before = entries.pop()
            if mapping is None:
                key.root, key.byte_offset = before
            elif before is None:
                del mapping[key]
            else:
                mapping[key] = before


class LiveRanges:
    """The live range of each root, and the bytes alive at each step, while roots are placed inside other roots.

    steps: {root: (first, last)}.  lifetimes: the Lifetimes before; count: of steps; log: the UndoLog of the trial.
    """

    def __init__(self, lifetimes, count, log):
        self.log = log
        self.steps = {root: (first, lifetimes.last[root]) for root, first in lifetimes.first.items()}
        self._sizes = {owner: -(-size // ALIGNMENT) * ALIGNMENT for owner, size in lifetimes.sizes.items()}
        change = np.zeros(count + 2, np.int64)
        for root, (first, last) in self.steps.items():
            change[first] += self._sizes[root]
            change[last + 1] -= self._sizes[root]
        for scratch, step in lifetimes.scratch:
            change[step] += self._sizes[scratch]
            change[step + 1] -= self._sizes[scratch]
        self._live_bytes = change.cumsum()      # an array: unrolled loops have thousands of steps and trials

    def peak(self):
        """The largest number of bytes alive at one step."""
        return int(self._live_bytes.max())

    def mark(self):
        """A mark of the current state, for undo()."""
        return len(self.log), self._live_bytes.copy()

    def undo(self, mark):
        """Undo everything in the log since mark()."""
        length, self._live_bytes = mark
        self.log.undo(length)

    def merge(self, inner, outer):
        """Place the root `inner` in `outer`, which then lives as long as both, if it has a live range."""
        first, last = self.steps[inner]
        self._add(-self._sizes[inner], first, last)
        self.log.set(self.steps, inner, None)
        if outer in self.steps:
            begin, end = self.steps[outer]
            self._add(self._sizes[outer], first, begin - 1)
            self._add(self._sizes[outer], end + 1, last)
            self.log.set(self.steps, outer, (min(first, begin), max(last, end)))

    def _add(self, nbytes, first, last):
        if first <= last:
            self._live_bytes[first:last + 1] += nbytes
