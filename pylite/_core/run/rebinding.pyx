"""Binding what was lowered for many shapes to memory: each time the calls whose operands have changed."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pylite._core.graph.calls cimport Call, Scratch, ValueBase, View
from pylite._core.graph.dimensions cimport Computed
from pylite._core.graph.tapes cimport Tape, filled
from pylite._core.run.storage cimport Storage

from numpy import array

from pylite._core.run import arena as planner
from pylite._core.graph.dimensions import slots_in
from pylite._core.run.kernel import construct

cdef enum:
    SMALL = 1 << 20         # bytes of an arena that gets room to grow
cdef dict no_others = {}


cdef class Operands:
    """One call, and what its operands depend on.

    call: with numbers in place of Dims, for the shapes that its kernel was bound to last; sources, targets: the Values,
    Views and Scratches with Dims, and their copies with numbers; args: the args, if some have Dims; slots:
    numbers of the slots of the tape; entries: [(position in the args, in the list there or None, CalledProgram)].
    """
    cdef Call call
    cdef list sources, targets, slots, entries
    cdef tuple args
    cdef object kernel, make

    def __init__(self, call, changes, args, entries):
        self.call, self.args, self.entries = call, args, entries
        self.sources, self.targets = [source for source, _ in changes], [target for _, target in changes]
        self.slots = sorted(slots_in([changed(source) for source in self.sources] + [args]))


def changed(thing):
    """What of a Value, View or Scratch may be or have Dims."""
    if type(thing) is View:
        return thing.shape, thing.strides, thing.offset
    if type(thing) is Scratch:
        return thing.shape
    return thing.shape, thing.byte_offset, sizes_of(thing.data)


def sizes_of(data):
    """What of the contents of a Value may be or have Dims."""
    if data is None or type(data) is Computed:
        return data
    return tuple(data.reshape(-1).tolist()) if data.dtype.hasobject else None


def contents(tape, data, dtype, shape):
    """The contents of a Value with numbers; tape: has filled()."""
    if type(data) is Computed:
        return tape.filled(data)
    if data is None or not data.dtype.hasobject:
        return data
    return array(tape.filled(sizes_of(data)), dtype).reshape(shape)


cdef int fill(Tape tape, source, target) except -1:
    """Give a copy the numbers of its source's Dims."""
    cdef View view, from_view
    cdef ValueBase value, from_value
    cdef const int64_t *numbers = tape.numbers
    if type(source) is View:
        view, from_view = target, source
        view.shape, view.strides = filled(numbers, from_view.shape), filled(numbers, from_view.strides)
        view.offset = filled(numbers, from_view.offset)
    elif type(source) is Scratch:
        (<Scratch>target).shape = filled(numbers, (<Scratch>source).shape)
    else:
        value, from_value = target, source
        value.shape, value.byte_offset = filled(numbers, from_value.shape), filled(numbers, from_value.byte_offset)
        value.data = contents(tape, from_value.data, from_value.dtype, value.shape)
    return 0


cdef class Rebinder:
    """Kernels of recorded calls, for one set of shapes after the other.

    tape: evaluated for the shapes at hand; operands: an Operands for each call; owners: (root index or Scratch) of each
    block; count: of those that are roots; sizes, shifts: of each block, bytes and where its owner begins; firsts,
    lasts: live ranges.  offsets, total: of the layout, after place().
    """
    cdef Tape tape
    cdef list operands, owners, sizes, shifts, firsts, lasts
    cdef readonly list offsets
    cdef readonly Py_ssize_t total
    cdef Py_ssize_t count
    cdef int64_t *before        # the numbers of all slots at the last bind()
    cdef int64_t *room          # of each block in the layout
    cdef dict roots, scratches, outside
    cdef object arena
    cdef bint moved             # since the last bind()
    cdef readonly Py_ssize_t rebound        # kernels made by the last bind()

    def __cinit__(self, Tape tape not None, list operands, list owners, Py_ssize_t count, list sizes, list firsts,
                  list lasts):
        self.tape, self.operands, self.owners, self.count = tape, operands, owners, count
        self.sizes, self.firsts, self.lasts = sizes, firsts, lasts
        self.before = <int64_t *>calloc(tape.size + len(sizes) + 1, sizeof(int64_t))
        if self.before == NULL:
            raise MemoryError(f"no memory for {tape.size} numbers")
        self.room = self.before + tape.size
        self.offsets = None

    def __dealloc__(self):
        free(self.before)

    def place(self):
        """Bytes of the arena for the shapes at hand.  The layout stays while every block fits into its place."""
        cdef Py_ssize_t i
        cdef int64_t size
        cdef bint fits = self.offsets is not None
        cdef list sizes
        if fits:
            for i in range(len(self.sizes)):
                size = filled(self.tape.numbers, self.sizes[i])
                if size > self.room[i]:
                    fits = False
                    break
        if not fits:
            sizes = [filled(self.tape.numbers, nbytes) for nbytes in self.sizes]
            if self.offsets is not None and self.total < SMALL:     # shapes have grown, and are likely to grow again
                sizes = [n if type(nbytes) is int else n + n // 2 for n, nbytes in zip(sizes, self.sizes)]
            self.offsets, self.total, _ = planner.plan(sizes, self.firsts, self.lasts)
            for i in range(len(sizes)):
                self.room[i] = sizes[i]
            self.roots = dict(zip(self.owners[:self.count], self.offsets))
            self.scratches = dict(zip(self.owners[self.count:], self.offsets[self.count:]))
            self.moved = True
        return self.total

    def bind(self, arena, dict outside, pack, kernel_class):
        """(the kernels of all calls, the Storage) in `arena`, laid out by place().

        outside: {tensor index: array} of the values outside the arena; pack, kernel_class: as for storage.operands()
        and kernels().
        """
        cdef Operands item
        cdef Storage storage = Storage(outside, arena, self.roots, self.scratches)
        cdef bint everything = self.moved or arena is not self.arena or not same(outside, self.outside)
        cdef const int64_t *numbers = self.tape.numbers
        cdef Py_ssize_t i, slot
        cdef list kernels = [], args
        cdef bint differs
        self.outside = outside.copy()
        self.arena = None               # until all is bound
        self.rebound = 0
        for item in self.operands:
            differs = everything or item.kernel is None
            if not differs:
                for index in item.slots:
                    slot = index
                    if numbers[slot] != self.before[slot]:
                        differs = True
                        break
            for _, _, callee in item.entries:
                if callee.renew(self.tape):
                    differs = True
            if differs:
                for i in range(len(item.sources)):
                    fill(self.tape, item.sources[i], item.targets[i])
                if item.args is not None:
                    item.call.args = filled_args(numbers, item.args, item.call.args)
                args = storage.operands(item.call, pack, no_others)
                for position, number, callee in item.entries:
                    if number is None:
                        args[position] = callee.entry
                    else:
                        args[position] = [*args[position][:number], callee.entry, *args[position][number + 1:]]
                if item.make is None:
                    item.make = kernel_class(item.call.kernel)
                item.kernel = construct(item.make, args, item.call.names)
                self.rebound += 1
            kernels.append(item.kernel)
        memcpy(self.before, numbers, self.tape.size * sizeof(int64_t))
        self.arena, self.moved = arena, False
        return kernels, storage


cdef bint same(dict a, dict b) except -1:
    if b is None or len(a) != len(b):
        return False
    for key, value in a.items():
        if b.get(key) is not value:
            return False
    return True


cdef tuple filled_args(const int64_t *numbers, tuple source, tuple target):
    """The args of `target`, with those of `source` that are not None, filled."""
    cdef list made = list(target)
    cdef Py_ssize_t i
    for i in range(len(made)):
        if source[i] is not None:
            made[i] = filled(numbers, source[i])
    return tuple(made)
