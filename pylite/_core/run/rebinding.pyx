"""Binding what was lowered for many shapes to memory: each time the kernels whose operands have changed.

Operands consist of Parts, see parts.pyx.  Calls share a Part where they have the same operand or size.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pylite._core.graph.calls cimport Packed, Scratch, ValueBase, View, element_sizes, element_types
from pylite._core.graph.dimensions cimport Computed, Dim
from pylite._core.graph.tapes cimport Tape
from pylite._core.run.kernel cimport Kernel, Strided, set_strided
from pylite._core.run.parts cimport Number, Part, Site, Sizes, Slots, Stored, Window, now, set_number
from pylite._core.run.storage cimport Storage

from numpy import empty, uint8

from pylite._core.run import arena as planner
from pylite._core.graph.dimensions import slots_in
from pylite._core.run.parts import changed, collect

cdef enum:
    SMALL = 1 << 20         # bytes of an arena that gets room to grow
    MOST_ARRAYS = 10        # arguments that Kernel.moved() takes


cdef enum Role:             # of an argument that may change:
    CONSTRUCTED = -2        # the kernel is constructed anew
    SIZE = -1               # moved() takes it as a size


cdef class Operands:
    """One call, and the Parts that it has.

    args, named: the arguments of the kernel, which `make` constructs; those at `keys`, positions or names, are what
    `parts` made; entries: [(key, position in the list there or None, CalledProgram)].
    """
    cdef bint renew(self, Rebinder rebinder, bint differs) except -1:
        """Make the kernel where something has changed, or `differs`; returns whether it did."""
        cdef Part part
        cdef Kernel made
        cdef Py_ssize_t i
        cdef bint moves = self.moves and not differs
        for i in range(len(self.parts)):
            part = self.parts[i]
            if part.changed:
                differs = True
                moves = moves and <int>self.roles[i] != CONSTRUCTED and not part.apart
        for _, _, callee in self.entries:
            if callee.renew(rebinder.tape):
                differs, moves = True, False
        if not differs and self.kernel is not None:
            return False
        if moves:
            made = self.moved()
            if made is not None:
                made.memory, self.kernel = rebinder.arena, made
                return True
        for i in range(len(self.parts)):
            part = self.parts[i]
            self.put(self.keys[i], part.value())
        for key, number, callee in self.entries:
            if number is None:
                self.put(key, callee.entry)
            else:
                entries = list(self.args[key] if type(key) is int else self.named[key])
                entries[number] = callee.entry
                self.put(key, entries)
        if self.make is None:
            self.make = rebinder.kernel_class(self.name)
            self.prepare()
        self.kernel = self.make(*self.args, **self.named) if self.named else self.make(*self.args)
        return True

    cdef int prepare(self) except -1:
        """Find what moved() of the kernel takes."""
        cdef tuple arrays = self.make.ARRAYS, sizes = self.make.SIZES
        self.moves, self.roles, self.size_keys = len(arrays) > 0, [], list(sizes)
        for key, part in zip(self.keys, self.parts):
            self.roles.append(arrays.index(key) if key in arrays and type(part) is Window else
                              SIZE if key in sizes else CONSTRUCTED)
        return 0

    cdef Kernel moved(self):
        """A kernel from the last one, or None."""
        cdef const Strided *arrays[MOST_ARRAYS]
        cdef list sizes = []
        cdef int role
        cdef Py_ssize_t i
        cdef Part part
        for i in range(MOST_ARRAYS):
            arrays[i] = NULL
        for i in range(len(self.parts)):
            role, part = self.roles[i], self.parts[i]
            if role >= 0:
                arrays[role] = &(<Window>part).span
            elif role == SIZE and part.changed:
                self.put(self.keys[i], part.made)
        for key in self.size_keys:
            sizes.append(self.args[key] if type(key) is int else self.named.get(key))
        return self.kernel.moved(arrays, sizes)

    cdef int put(self, key, made) except -1:
        if type(key) is int:
            self.args[key] = made
        else:
            self.named[key] = made
        return 0


cdef object key_of(thing):
    """Equal for sizes that are equal for all shapes; Dims are no keys."""
    if type(thing) is Dim:
        return "Dim", (<Dim>thing).slot
    if type(thing) is tuple:
        return tuple([key_of(item) for item in thing])
    if type(thing) is Computed:
        return "Computed", id((<Computed>thing).function), key_of((<Computed>thing).args)
    return thing if type(thing) is int else id(thing)


# ---- kernels -----------------------------------------------------------------------------------------------------
cdef class Rebinder(Site):
    """Kernels of recorded calls, for one set of shapes after the other.

    tape: evaluated for the shapes at hand; calls: with Dims; ends: Views of the bytes that callers move; present: the
    Instance with their copies; owners: (root or Scratch) of each block; count: of those that are roots; sizes: bytes of
    each block; firsts, lasts: live ranges.  offsets, total: of the layout, after place().
    """
    def __cinit__(self, Tape tape not None, list calls, list ends, present, list owners, Py_ssize_t count, list sizes,
                  list firsts, list lasts):
        cdef Py_ssize_t i
        self.tape, self.present, self.count = tape, present, count
        self.firsts, self.lasts, self.block_count = firsts, lasts, len(sizes)
        self.before = <int64_t *>calloc(tape.size + 2 * len(sizes) + 1, sizeof(int64_t))
        self.sizes = <Number *>calloc(len(sizes) + 1, sizeof(Number))
        if self.before == NULL or self.sizes == NULL:
            raise MemoryError(f"no memory for {tape.size} numbers")
        for i in range(self.block_count):
            if not set_number(&self.sizes[i], sizes[i]):
                raise ValueError(f"a block of {sizes[i]!r} bytes")
        self.room = self.before + tape.size
        self.starts = self.room + len(sizes)
        self.offsets = None
        self.blocks = {id(owner): i for i, owner in enumerate(owners)}
        self.owners = [owner.index for owner in owners[:count]] + [present.thing(owner) for owner in owners[count:]]
        self.parts, self.known = [], {}
        self.operands = [self.operands_of(source, target) for source, target in zip(calls, present.calls)]
        self.ends = [self.end(view) for view in ends]
        self.blocks = self.known = None

    def __dealloc__(self):
        free(self.before)
        free(self.sizes)

    cdef Operands operands_of(self, source, target):
        """The Operands of a call with Dims; target: its copy."""
        cdef Operands made = Operands.__new__(Operands)
        cdef tuple names = () if target.names is None else target.names
        cdef Py_ssize_t i, first = len(target.args) - len(names)
        cdef Part part
        made.name, made.args = target.kernel, list(target.args[:first])
        made.named = dict(zip(names, target.args[first:]))
        made.keys, made.parts, made.entries = [], [], []
        for i in range(len(source.args)):
            argument, key = source.args[i], i if i < first else names[i - first]
            for number, item in enumerate(argument) if type(argument) is list else ((None, argument),):
                if hasattr(item, "renew"):
                    made.entries.append((key, number, item))
            part = self.part(argument, target.args[i])
            if part is not None:
                made.keys.append(key)
                made.parts.append(part)
        return made

    cdef Part end(self, view):
        """The Part of the bytes of an input or output, whose array is empty where it has no memory."""
        cdef ValueBase value = view.value
        cdef Part made
        if value.data is None and value.root.kind != "variable" and id(value.root) not in self.blocks:
            made = Part()
            made.made = empty(0, uint8)
            return made
        return self.part(view, self.present.thing(view))

    cdef list end_arrays(self):
        """The bytes of the ends, after bind()."""
        cdef Part part
        cdef list found = []
        for part in self.ends:
            found.append(part.value())
        return found

    cdef Part entered(self, key, Part made):
        self.known[key] = made
        self.parts.append(made)
        return made

    cdef Part part(self, source, target):
        """The Part of an argument with Dims, whose copy is `target`; None where it never changes."""
        cdef Stored stored
        cdef list found = []
        if not isinstance(source, (View, Scratch, ValueBase, Packed)):
            return self.sized(source) if slots_in(source) else None
        made = self.window(source)
        if made is not None:
            return made
        key = "Stored", id(source)
        made = self.known.get(key)
        if made is None:
            stored = Stored()
            collect(source, found, set())
            stored.target, stored.copies = target, [(thing, self.present.thing(thing)) for thing in found]
            stored.slots = Slots(slots_in([changed(thing) for thing in found]))
            self.stores = self.stores or stored.slots.count > 0
            made = self.entered(key, stored)
        return made

    cdef Part sized(self, source):
        cdef Sizes sizes
        key = "Sizes", key_of(source)
        made = self.known.get(key)
        if made is None:
            sizes = Sizes()
            sizes.source, sizes.slots = source, Slots(slots_in(source))
            made = self.entered(key, sizes)
        return made

    cdef Part window(self, source):
        """The Window of a View, Value or Scratch, or None where it is not in the arena."""
        cdef Window window
        cdef ValueBase value = None
        value, strides, offset = None, None, 0
        if type(source) is View:
            value, strides, offset = source.value, source.strides, source.offset
        elif isinstance(source, ValueBase):
            value = source
        block = self.blocks.get(id(source if value is None else value.root))
        if block is None or (value is not None and value.data is not None):
            return None
        sizes, begin = (source.shape, 0) if value is None else (value.shape, value.byte_offset)
        window = Window()
        window.block, window.dtype, window.span.item = block, element_types[source.dtype], element_sizes[source.dtype]
        if not window.set_up(source.shape, sizes, strides, begin, offset):
            return None
        key = ("Window", block, source.dtype, key_of((source.shape, sizes, strides, begin, offset)))
        made = self.known.get(key)
        return self.entered(key, window) if made is None else made

    cdef Py_ssize_t place(self) except -1:
        """Bytes of the arena for the shapes at hand.  The layout stays while every block fits into its place."""
        cdef Py_ssize_t i
        cdef int64_t size
        cdef const int64_t *numbers = self.tape.numbers
        cdef bint fits = self.offsets is not None, grows
        cdef list sizes
        if fits:
            for i in range(self.block_count):
                if now(&self.sizes[i], numbers) > self.room[i]:
                    fits = False
                    break
        if not fits:
            sizes = []
            grows = self.offsets is not None and self.total < SMALL     # again, in all likelihood
            for i in range(self.block_count):
                size = now(&self.sizes[i], numbers)
                sizes.append(size + size // 2 if grows and self.sizes[i].slot >= 0 else size)
            self.offsets, self.total, _ = planner.plan(sizes, self.firsts, self.lasts)
            for i in range(len(sizes)):
                self.room[i], self.starts[i] = sizes[i], self.offsets[i]
            self.roots = dict(zip(self.owners[:self.count], self.offsets))
            self.scratches = dict(zip(self.owners[self.count:], self.offsets[self.count:]))
            self.moved = True
        return self.total

    cdef list bind(self, arena, dict outside, pack, kernel_class):
        """The kernels of all calls in `arena`, laid out by place().

        outside: {tensor index: array} of the values outside the arena; pack, kernel_class: as for storage.operands()
        and kernels().
        """
        cdef Operands item
        cdef Part part
        cdef bint failed = self.arena is None       # the last time, so that kernels may not fit their Parts
        cdef list kernels = []
        self.elsewhere = arena is not self.arena
        self.renamed = self.moved or self.elsewhere or not same(outside, self.outside)
        self.outside = outside
        if self.renamed or self.stores or failed:
            self.storage = Storage(outside.copy(), arena, self.roots, self.scratches)
        if self.elsewhere:
            set_strided(&self.bytes, arena)
        self.pack, self.kernel_class, self.arena = pack, kernel_class, arena
        self.rebound, self.computed = 0, {}
        try:
            for part in self.parts:
                part.renew(self)
            for item in self.operands:
                self.rebound += item.renew(self, failed)
                kernels.append(item.kernel)
        except BaseException:
            self.arena = None
            raise
        self.storage = self.pack = self.kernel_class = self.computed = None
        memcpy(self.before, self.tape.numbers, self.tape.size * sizeof(int64_t))
        self.moved = False
        return kernels


cdef bint same(dict a, dict b) except -1:
    if b is None or len(a) != len(b):
        return False
    for key, value in a.items():
        if b.get(key) is not value:
            return False
    return True
