"""Live ranges that change on trial, and the log that undoes the changes."""
from itertools import accumulate

from pylite._core.arena import ALIGNMENT


class UndoLog:
    """Changes to dictionaries and to the places of values, which can be undone back to an earlier length of the log."""

    def __init__(self):
        self._entries = []

    def __len__(self):
        return len(self._entries)

    def set(self, mapping, key, item):
        """mapping[key] = item; None removes the key."""
        self._entries.append((_assign, mapping, key, mapping.get(key)))
        _assign(mapping, key, item)

    def move(self, value, root, byte_offset):
        """Place `value` at `byte_offset` of the memory of `root`."""
        self._entries.append((_place, value, value.root, value.byte_offset))
        _place(value, root, byte_offset)

    def undo(self, length=0):
        """Undo all but the first `length` changes, the last one first."""
        while len(self._entries) > length:
            change, *arguments = self._entries.pop()
            change(*arguments)


def _assign(mapping, key, item):
    if item is None:
        mapping.pop(key, None)
    else:
        mapping[key] = item


def _place(value, root, byte_offset):
    value.root, value.byte_offset = root, byte_offset


class LiveRanges:
    """The live range of each root, and the bytes alive at each step, while roots are placed in others.

    lifetimes: the Lifetimes before; log: the UndoLog of the trial.
    """

    def __init__(self, lifetimes, steps, log):
        self.log = log
        self.first, self.last = lifetimes.first.copy(), lifetimes.last.copy()
        self._sizes = {owner: -(-size // ALIGNMENT) * ALIGNMENT for owner, size in lifetimes.sizes.items()}
        change = [0] * (steps + 2)
        for owner, first in (*self.first.items(), *lifetimes.scratch):
            size = self._sizes[owner]
            change[first] += size
            change[self.last.get(owner, first) + 1] -= size
        self._live_bytes = list(accumulate(change))

    def peak(self):
        """The most bytes that are alive at one step."""
        return max(self._live_bytes)

    def mark(self):
        """The present state, for undo()."""
        return len(self.log), self._live_bytes.copy()

    def undo(self, mark):
        """Undo everything in the log since mark()."""
        length, self._live_bytes = mark
        self.log.undo(length)

    def merge(self, inner, outer):
        """Place the root `inner` in `outer`, which then lives as long as both, if it has a live range."""
        first, last = self.first[inner], self.last[inner]
        self._add(-self._sizes[inner], range(first, last + 1))
        self.log.set(self.first, inner, None)
        self.log.set(self.last, inner, None)
        if outer in self.first:
            begin, end = self.first[outer], self.last[outer]
            self._add(self._sizes[outer], range(first, begin))
            self._add(self._sizes[outer], range(end + 1, last + 1))
            self.log.set(self.first, outer, min(first, begin))
            self.log.set(self.last, outer, max(last, end))

    def _add(self, nbytes, steps):
        live_bytes = self._live_bytes
        for step in steps:
            live_bytes[step] += nbytes
