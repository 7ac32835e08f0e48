"""Binds recorded calls to memory for one set of shapes after another, recreating only kernels whose operands changed.

Operands consist of Parts, see parts.pyx.  Calls share a Part if they have the same operand or size.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pylite._core.graph.calls cimport PLAIN, Call, Packed, Scratch, ValueBase, View, element_sizes, element_types
from pylite._core.graph.dimensions cimport Computed, Dim, has_dims
from pylite._core.graph.tapes cimport Tape
from pylite._core.run.kernel cimport MOST_ARRAYS, Bytes, Kernel, Strided, set_strided
from pylite._core.run.parts cimport (
    ArenaArray,
    BindingContext,
    Cells,
    Number,
    Part,
    Sizes,
    Stored,
    current_value,
    set_number,
)
from pylite._core.run.program cimport Ends, ends_of
from pylite._core.run.storage cimport Storage

from numpy import empty, uint8

from pylite._core.graph.dimensions import cells_in
from pylite._core.run import arena as planner
from pylite._core.run.parts import collect, fields_with_dims

cdef enum:
    SMALL = 1 << 20         # arenas below this number of bytes get room to grow


cdef enum Role:             # what a change of an argument means for its kernel:
    CONSTRUCTED = -2        # it must be constructed anew
    SIZE = -1               # moved() takes the argument as a size


cdef frozenset NO_CALLEES = PLAIN | {View, Scratch, Packed, tuple}      # types that cannot be a CalledProgram


cdef class Operands:
    """One call, its current kernel, and the Parts among its arguments.

    renew() keeps the kernel if no argument has changed.  Else it makes another one by the cheapest way that the
    kernel's class offers: moved(), which takes arrays and sizes; calling(), where only arrays and called subgraphs may
    change; or its constructor.
    """
    def __dealloc__(self):
        free(self.table)
        free(self.roles)

    cdef int complete(self) except -1:
        """Set up `table` and `roles`; nothing may be added to `parts` afterwards."""
        self.table, self.count = table_of(self.parts), len(self.parts)
        self.roles = <int *>calloc(self.count + 1, sizeof(int))
        if self.roles == NULL:
            raise MemoryError(f"no memory for the roles of {self.count} arguments")
        return 0

    cdef bint renew(self, Rebinder rebinder, bint differs) except -1:
        """Replace the kernel if an argument has changed; returns whether it was replaced.

        differs: replace it anyway, by constructing it anew.
        """
        cdef Part part
        cdef Kernel kernel
        cdef Py_ssize_t i
        cdef bint can_move = self.moves and not differs, can_call = self.fixed is not None and not differs
        for i in range(self.count):
            part = <Part>self.table[i]
            if part.changed:
                differs = True
                can_move = can_move and self.roles[i] != CONSTRUCTED and not part.detached
                can_call = can_call and not part.detached
        for _, _, callee in self.entries:
            if callee.renew(rebinder.tape):
                differs, can_move = True, False
        if not differs and self.kernel is not None:
            return False
        if can_move or can_call:
            kernel = self.moved(rebinder) if can_move else self.calling(rebinder)
            if kernel is not None:
                self.kernel = kernel
                return True
        for i in range(self.count):
            self.put(self.keys[i], (<Part>self.table[i]).value())
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
        """Find out which parts the kernel's moved() takes."""
        cdef tuple arrays = self.make.ARRAYS, sizes = self.make.SIZES
        cdef Py_ssize_t i
        if len(arrays) > MOST_ARRAYS:
            raise TypeError(f"{self.name} has too many ARRAYS")
        self.moves, self.size_keys = len(arrays) > 0, list(sizes)
        if self.entries and not self.named:
            self.first = max([key for key, _, _ in self.entries]) + 1
            self.fixed = ends_of([None if i in self.keys else self.args[i] for i in range(self.first, len(self.args))])
        for i in range(self.count):
            key = self.keys[i]
            if key in arrays and type(self.parts[i]) is ArenaArray:
                self.roles[i] = arrays.index(key)
            else:
                self.roles[i] = SIZE if key in sizes else CONSTRUCTED
        return 0

    cdef Kernel moved(self, Rebinder rebinder):
        """A kernel that the current one's moved() gives, or None."""
        cdef Kernel kernel
        cdef const Strided *arrays[MOST_ARRAYS]
        cdef list sizes = []
        cdef Py_ssize_t i
        cdef Part part
        for i in range(MOST_ARRAYS):
            arrays[i] = NULL
        for i in range(self.count):
            part = <Part>self.table[i]
            if self.roles[i] >= 0:
                arrays[self.roles[i]] = &(<ArenaArray>self.table[i]).span
            elif self.roles[i] == SIZE and part.changed:
                self.put(self.keys[i], part.argument)
        for key in self.size_keys:
            sizes.append(self.args[key] if type(key) is int else self.named.get(key))
        kernel = self.kernel.moved(arrays, sizes)
        if kernel is not None:
            kernel.memory = rebinder.arena
        return kernel

    cdef Kernel calling(self, Rebinder rebinder):
        """A kernel that the current one's calling() gives, or None."""
        cdef Ends arrays = Ends(self.fixed.count)
        cdef list callees = [callee.entry for _, _, callee in self.entries], owners = [rebinder.arena, self.fixed]
        cdef Kernel kernel
        cdef Py_ssize_t i, position
        memcpy(arrays.at, self.fixed.at, arrays.count * sizeof(Bytes))
        for i in range(self.count):
            position = <Py_ssize_t>self.keys[i] - self.first
            arrays.at[position] = (<Part>self.table[i]).bytes(owners)
        kernel = self.kernel.calling(callees, arrays.at, arrays.count)
        if kernel is not None:
            kernel.memory = owners
        return kernel

    cdef int put(self, key, argument) except -1:
        if type(key) is int:
            self.args[key] = argument
        else:
            self.named[key] = argument
        return 0


cdef void **table_of(list items) except NULL:
    """Pointers to `items`, which the caller keeps alive."""
    cdef void **table = <void **>calloc(len(items) + 1, sizeof(void *))
    cdef Py_ssize_t i = 0
    if table == NULL:
        raise MemoryError(f"no memory for a table of {len(items)}")
    for item in items:
        table[i] = <void *>item
        i += 1
    return table


cdef object key_of(thing):
    """A dictionary key for `thing`: equal keys mean sizes that are equal for all shapes.  Dims are not hashable."""
    if type(thing) is Dim:
        return "Dim", (<Dim>thing).cell
    if type(thing) is tuple:
        return tuple([item if type(item) is int else key_of(item) for item in thing])
    if type(thing) is Computed:
        return "Computed", id((<Computed>thing).function), key_of((<Computed>thing).args)
    return thing if type(thing) is int else id(thing)


# ---- kernels -----------------------------------------------------------------------------------------------------
cdef class Rebinder(BindingContext):
    """Kernels of recorded calls, for one set of shapes after another.

    tape: evaluated for the current shapes; calls: the recorded calls, with Dims; ends: Views of the bytes that callers
    copy in and out; present: the Instance with copies of all these; owners: the root Value or Scratch of each block,
    the `count` roots first; sizes: bytes of each block; firsts, lasts: live ranges of the blocks.  offsets, total: the
    layout, set by place().
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
        self.part_table, self.operand_table = table_of(self.parts), table_of(self.operands)
        self.blocks = self.known = None

    def __dealloc__(self):
        free(self.before)
        free(self.sizes)
        free(self.part_table)
        free(self.operand_table)

    cdef Operands operands_of(self, Call source, Call target):
        """The Operands of a call with Dims.  target: its copy with numbers."""
        cdef Operands operands = Operands.__new__(Operands)
        cdef tuple names = () if target.names is None else target.names
        cdef Py_ssize_t i, first = len(target.args) - len(names)
        cdef Part part
        operands.name, operands.args = target.kernel, list(target.args[:first])
        operands.named = dict(zip(names, target.args[first:]))
        operands.keys, operands.parts, operands.entries = [], [], []
        for i in range(len(source.args)):
            argument, key = source.args[i], i if i < first else names[i - first]
            if type(argument) in PLAIN:
                continue
            for number, item in enumerate(argument) if type(argument) is list else ((None, argument),):
                if type(item) not in NO_CALLEES and hasattr(item, "renew"):
                    operands.entries.append((key, number, item))
            part = self.part(argument, target.args[i])
            if part is not None:
                operands.keys.append(key)
                operands.parts.append(part)
        operands.complete()
        return operands

    cdef Part end(self, view):
        """The Part for the bytes of an input or output; its array is empty if it has no memory."""
        cdef ValueBase value = view.value
        cdef Part part
        if value.data is None and value.root.kind != "variable" and id(value.root) not in self.blocks:
            part = Part()
            part.argument = empty(0, uint8)
            return part
        return self.part(view, self.present.thing(view))

    cdef Ends current_ends(self):
        """The inputs' and outputs' bytes, after bind(); None if no other subgraph calls this one."""
        cdef Ends ends
        cdef list owners = [self.arena]
        cdef Py_ssize_t i
        if not self.ends:
            return None
        ends = Ends(len(self.ends))
        ends.owner = owners
        for i in range(ends.count):
            ends.at[i] = (<Part>self.ends[i]).bytes(owners)
        return ends

    cdef Part register(self, key, Part part):
        self.known[key] = part
        self.parts.append(part)
        return part

    cdef Part part(self, source, target):
        """The Part for an argument with Dims; None if it never changes.  target: the argument's copy with numbers."""
        cdef Stored stored
        cdef list things = []
        if not isinstance(source, (View, Scratch, ValueBase, Packed)):
            return self.sized(source) if has_dims(source) else None
        part = self.arena_array(source)
        if part is not None:
            return part
        key = "Stored", id(source)
        part = self.known.get(key)
        if part is None:
            stored = Stored()
            collect(source, things, set())
            stored.target, stored.copies = target, [(thing, self.present.thing(thing)) for thing in things]
            stored.cells = Cells(cells_in([fields_with_dims(thing) for thing in things]))
            self.stores = self.stores or stored.cells.count > 0
            part = self.register(key, stored)
        return part

    cdef Part sized(self, source):
        cdef Sizes sizes
        key = "Sizes", key_of(source)
        part = self.known.get(key)
        if part is None:
            sizes = Sizes()
            sizes.source, sizes.cells = source, Cells(cells_in(source))
            part = self.register(key, sizes)
        return part

    cdef Part arena_array(self, source):
        """The ArenaArray of a View, Value or Scratch; None if it is not in the arena."""
        cdef ArenaArray array
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
        array = ArenaArray()
        array.block, array.dtype, array.span.item = block, element_types[source.dtype], element_sizes[source.dtype]
        if not array.set_up(source.shape, sizes, strides, begin, offset):
            return None
        key = ("ArenaArray", block, source.dtype, key_of((source.shape, sizes, strides, begin, offset)))
        part = self.known.get(key)
        return self.register(key, array) if part is None else part

    cdef Py_ssize_t place(self) except -1:
        """Bytes of the arena for the current shapes.  The layout stays as long as every block fits into its place."""
        cdef Py_ssize_t i
        cdef int64_t size
        cdef const int64_t *numbers = self.tape.numbers
        cdef bint fits = self.offsets is not None, grows
        cdef list sizes
        if fits:
            for i in range(self.block_count):
                if current_value(&self.sizes[i], numbers) > self.room[i]:
                    fits = False
                    break
        if not fits:
            sizes = []
            grows = self.offsets is not None and self.total < SMALL     # it grew once and is likely to grow again
            for i in range(self.block_count):
                size = current_value(&self.sizes[i], numbers)
                sizes.append(size + size // 2 if grows and self.sizes[i].cell >= 0 else size)
            self.offsets, self.total, _ = planner.plan(sizes, self.firsts, self.lasts)
            for i in range(len(sizes)):
                self.room[i], self.starts[i] = sizes[i], self.offsets[i]
            self.roots = dict(zip(self.owners[:self.count], self.offsets))
            self.scratches = dict(zip(self.owners[self.count:], self.offsets[self.count:]))
            self.relaid = True
        return self.total

    cdef list bind(self, arena, dict outside, pack, kernel_class):
        """The kernels of all calls in `arena`, laid out by place().

        outside: {tensor index: array} of the values outside the arena; pack, kernel_class: as in storage.operands() and
        kernels().
        """
        cdef Operands item
        cdef Py_ssize_t i
        cdef bint failed = self.arena is None       # the last bind() failed: kernels may not match their Parts
        cdef list kernels = []
        self.arena_replaced = arena is not self.arena
        self.may_differ = self.relaid or self.arena_replaced or not same(outside, self.outside)
        self.outside = outside
        if self.may_differ or self.stores or failed:
            self.storage = Storage(outside.copy(), arena, self.roots, self.scratches)
        if self.arena_replaced:
            set_strided(&self.bytes, arena)
        self.pack, self.kernel_class, self.arena = pack, kernel_class, arena
        self.rebound, self.computed = 0, {}
        try:
            for i in range(len(self.parts)):
                (<Part>self.part_table[i]).renew(self)
            for i in range(len(self.operands)):
                item = <Operands>self.operand_table[i]
                self.rebound += item.renew(self, failed)
                kernels.append(item.kernel)
        except BaseException:
            self.arena = None
            raise
        self.storage = self.pack = self.kernel_class = self.computed = None
        memcpy(self.before, self.tape.numbers, self.tape.size * sizeof(int64_t))
        self.relaid = False
        return kernels


cdef bint same(dict a, dict b) except -1:
    if b is None or len(a) != len(b):
        return False
    for key, value in a.items():
        if b.get(key) is not value:
            return False
    return True
