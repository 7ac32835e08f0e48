"""Binds recorded calls to memory for one set of shapes after another, recreating only kernels whose arguments changed.

The arguments that depend on shapes are Parts, see parts.pyx.  Calls with the same argument share its Part.  Begin with
Rebinder: place() lays out the arena for the current shapes, then bind() renews the Parts and the kernels.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pylite._core.graph.calls cimport PLAIN, Call, Packed, Scratch, ValueBase, View, element_sizes, element_types
from pylite._core.graph.dimensions cimport Computed, Dim, has_dims
from pylite._core.graph.tapes cimport Tape
from pylite._core.run.kernel cimport MAX_ARRAYS, Bytes, Kernel, Strided, set_strided
from pylite._core.run.parts cimport ArenaArray, BindingContext, Cells, Number, Part, Sizes, Stored
from pylite._core.run.parts cimport current_value, set_number
from pylite._core.run.program cimport IOBytes, io_bytes_of
from pylite._core.run.storage cimport Storage

from numpy import empty, uint8

from pylite._core.graph.dimensions import cells_in
from pylite._core.run import arena as planner
from pylite._core.run.parts import collect, fields_with_dims

cdef enum:
    SMALL_ARENA_BYTES = 1 << 20     # smaller arenas get room to grow

cdef enum ArgumentRole:     # of an argument of BoundCall, if below 0; a number from 0 on is its position in ARRAYS
    CONSTRUCTED = -2        # if it changes, the constructor must make another kernel
    SIZE = -1               # moved() takes it as a size


cdef frozenset NO_CALLEES = PLAIN | {View, Scratch, Packed, tuple}      # types that cannot be a CalledProgram


cdef class BoundCall:
    """One recorded call, its current kernel, and the Parts among its arguments.

    renew() keeps the kernel if no argument has changed.  Else it makes another one by the cheapest way that the
    kernel's class offers: moved(), which takes arrays and sizes; calling(), if only arrays and called subgraphs may
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

    cdef int renew(self, Rebinder rebinder, bint reconstruct) except -1:
        """Replace the kernel if an argument has changed.

        reconstruct: call the kernel's constructor even if no argument has changed.
        """
        cdef Part part
        cdef Kernel kernel = None
        cdef Py_ssize_t i
        cdef bint changed = reconstruct or self.kernel is None
        cdef bint can_move = self.moves and not reconstruct
        cdef bint can_call = self.fixed_bytes is not None and not reconstruct
        for i in range(self.count):
            part = <Part>self.table[i]
            if part.changed:
                changed = True
                can_move = can_move and self.roles[i] != CONSTRUCTED and not part.detached
                can_call = can_call and not part.detached
        for _, _, callee in self.callees:
            if callee.renew(rebinder.tape):
                changed, can_move = True, False
        if not changed:
            return 0
        if can_move:
            kernel = self.moved(rebinder)
        elif can_call:
            kernel = self.calling(rebinder)
        self.kernel = self.constructed(rebinder) if kernel is None else kernel
        return 0

    cdef Kernel constructed(self, Rebinder rebinder):
        """A new kernel from the current arguments."""
        cdef Py_ssize_t i
        for i in range(self.count):
            self.put(self.keys[i], (<Part>self.table[i]).value())
        for key, number, callee in self.callees:
            if number is None:
                self.put(key, callee.entry)
            else:
                entries = list(self.args[key] if type(key) is int else self.named[key])
                entries[number] = callee.entry
                self.put(key, entries)
        if self.make is None:
            self.make = rebinder.kernel_class(self.name)
            self.prepare()
        return self.make(*self.args, **self.named) if self.named else self.make(*self.args)

    cdef int prepare(self) except -1:
        """Read from the kernel's class which arguments moved() takes, and collect the bytes that calling() keeps."""
        cdef tuple arrays = self.make.ARRAYS, sizes = self.make.SIZES
        cdef Py_ssize_t i
        if len(arrays) > MAX_ARRAYS:
            raise TypeError(f"{self.name} has too many ARRAYS")
        self.moves, self.size_keys = len(arrays) > 0, list(sizes)
        if self.callees and not self.named:
            self.first_array = max([key for key, _, _ in self.callees]) + 1
            self.fixed_bytes = io_bytes_of([None if i in self.keys else self.args[i]
                                            for i in range(self.first_array, len(self.args))])
        for i in range(self.count):
            key = self.keys[i]
            if key in arrays and type(self.parts[i]) is ArenaArray:
                self.roles[i] = arrays.index(key)
            else:
                self.roles[i] = SIZE if key in sizes else CONSTRUCTED
        return 0

    cdef Kernel moved(self, Rebinder rebinder):
        """The result of the current kernel's moved() for the current arguments; may be None."""
        cdef Kernel kernel
        cdef const Strided *arrays[MAX_ARRAYS]
        cdef list sizes = []
        cdef Py_ssize_t i
        cdef Part part
        for i in range(MAX_ARRAYS):
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
        """The result of the current kernel's calling() for the current arguments; may be None."""
        cdef IOBytes arrays = IOBytes(self.fixed_bytes.count)
        cdef list callees = [callee.entry for _, _, callee in self.callees], owners = [rebinder.arena, self.fixed_bytes]
        cdef Kernel kernel
        cdef Py_ssize_t i, position
        memcpy(arrays.items, self.fixed_bytes.items, arrays.count * sizeof(Bytes))
        for i in range(self.count):
            position = <Py_ssize_t>self.keys[i] - self.first_array
            arrays.items[position] = (<Part>self.table[i]).bytes(owners)
        kernel = self.kernel.calling(callees, arrays.items, arrays.count)
        if kernel is not None:
            kernel.memory = owners
        return kernel

    cdef int put(self, key, argument) except -1:
        """Set the argument at position `key`, or of that name."""
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

    tape: evaluated for the current shapes; calls: the recorded calls, with Dims; io_views: Views of the bytes that
    callers copy in and out; instance: the Instance with copies of all these; blocks: the recorded.Blocks of the arena.
    offsets, total: the layout, set by place().
    """
    def __cinit__(self, Tape tape not None, list calls, list io_views, instance, blocks):
        cdef Py_ssize_t i
        cdef list owners = blocks.owners, sizes = blocks.sizes
        self.tape, self.instance, self.root_count = tape, instance, blocks.roots
        self.firsts, self.lasts, self.block_count = blocks.firsts, blocks.lasts, len(sizes)
        self.before = <int64_t *>calloc(tape.size + 2 * len(sizes) + 1, sizeof(int64_t))     # then room and starts
        self.sizes = <Number *>calloc(len(sizes) + 1, sizeof(Number))
        if self.before == NULL or self.sizes == NULL:
            raise MemoryError(f"no memory for {tape.size} numbers")
        for i in range(self.block_count):
            if not set_number(&self.sizes[i], sizes[i]):
                raise ValueError(f"a block of {sizes[i]!r} bytes")
        self.room = self.before + tape.size
        self.starts = self.room + len(sizes)
        self.offsets = None
        self.block_numbers = {id(owner): i for i, owner in enumerate(owners)}
        self.root_indices = [root.index for root in owners[:blocks.roots]]
        self.scratch_copies = [instance.copy(scratch) for scratch in owners[blocks.roots:]]
        self.parts, self.known = [], {}
        self.bound_calls = [self.bound_call(source, target) for source, target in zip(calls, instance.calls)]
        self.io_parts = [self.io_part(view) for view in io_views]
        self.part_table, self.call_table = table_of(self.parts), table_of(self.bound_calls)
        self.block_numbers = self.known = None

    def __dealloc__(self):
        free(self.before)
        free(self.sizes)
        free(self.part_table)
        free(self.call_table)

    cdef BoundCall bound_call(self, Call source, Call target):
        """The BoundCall of a call with Dims.  target: its copy with numbers."""
        cdef BoundCall bound = BoundCall.__new__(BoundCall)
        cdef tuple names = () if target.names is None else target.names
        cdef Py_ssize_t i, first = len(target.args) - len(names)
        cdef Part part
        bound.name, bound.args = target.kernel, list(target.args[:first])
        bound.named = dict(zip(names, target.args[first:]))
        bound.keys, bound.parts, bound.callees = [], [], []
        for i in range(len(source.args)):
            argument, key = source.args[i], i if i < first else names[i - first]
            if type(argument) in PLAIN:
                continue
            for number, item in enumerate(argument) if type(argument) is list else ((None, argument),):
                if type(item) not in NO_CALLEES and hasattr(item, "renew"):
                    bound.callees.append((key, number, item))
            part = self.part(argument, target.args[i])
            if part is not None:
                bound.keys.append(key)
                bound.parts.append(part)
        bound.complete()
        return bound

    cdef Part io_part(self, view):
        """The Part for the bytes of an input or output; its array is empty if it has no memory."""
        cdef ValueBase value = view.value
        cdef Part part
        if value.data is None and value.root.kind != "variable" and id(value.root) not in self.block_numbers:
            part = Part()
            part.argument = empty(0, uint8)
            return part
        return self.part(view, self.instance.copy(view))

    cdef IOBytes current_io_bytes(self):
        """The inputs' and outputs' bytes, after bind(); None if no other subgraph calls this one."""
        cdef IOBytes io
        cdef list owners = [self.arena]
        cdef Py_ssize_t i
        if not self.io_parts:
            return None
        io = IOBytes(len(self.io_parts))
        io.owner = owners
        for i in range(io.count):
            io.items[i] = (<Part>self.io_parts[i]).bytes(owners)
        return io

    cdef Part register(self, key, Part part):
        """Keep `part` under its key, so that other calls with the same argument share it; returns it."""
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
            stored.target, stored.copies = target, [(thing, self.instance.copy(thing)) for thing in things]
            stored.cells = Cells(cells_in([fields_with_dims(thing) for thing in things]))
            self.contents_vary = self.contents_vary or stored.cells.count > 0
            part = self.register(key, stored)
        return part

    cdef Part sized(self, source):
        """The Sizes for a number or nested tuples of numbers with Dims."""
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
        strides, offset = None, 0
        if type(source) is View:
            value, strides, offset = source.value, source.strides, source.offset
        elif isinstance(source, ValueBase):
            value = source
        block = self.block_numbers.get(id(source if value is None else value.root))
        if block is None or (value is not None and value.data is not None):
            return None
        value_shape, begin = (source.shape, 0) if value is None else (value.shape, value.byte_offset)
        array = ArenaArray()
        array.block, array.dtype, array.span.item = block, element_types[source.dtype], element_sizes[source.dtype]
        if not array.set_up(source.shape, value_shape, strides, begin, offset):
            return None
        key = ("ArenaArray", block, source.dtype, key_of((source.shape, value_shape, strides, begin, offset)))
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
            # A small arena that grew once is likely to grow again: blocks get room for half as much again.
            grows = self.offsets is not None and self.total < SMALL_ARENA_BYTES
            for i in range(self.block_count):
                size = current_value(&self.sizes[i], numbers)
                sizes.append(size + size // 2 if grows and self.sizes[i].cell >= 0 else size)
            self.offsets, self.total, _ = planner.plan(sizes, self.firsts, self.lasts)
            for i in range(len(sizes)):
                self.room[i], self.starts[i] = sizes[i], self.offsets[i]
            self.roots = dict(zip(self.root_indices, self.offsets[:self.root_count]))
            self.scratches = dict(zip(self.scratch_copies, self.offsets[self.root_count:]))
            self.layout_changed = True
        return self.total

    cdef list bind(self, arena, dict outside, pack, kernel_class):
        """The kernels of all calls in `arena`, laid out by place().

        outside: {tensor index: array} of the values outside the arena; pack, kernel_class: as in storage.operands() and
        kernels().
        """
        cdef BoundCall bound
        cdef Py_ssize_t i
        cdef bint failed = self.arena is None       # the last bind() failed: kernels may not match their Parts
        cdef list kernels = []
        self.arena_replaced = arena is not self.arena
        self.may_differ = self.layout_changed or self.arena_replaced or not have_same_values(outside, self.outside)
        self.outside = outside
        if self.may_differ or self.contents_vary or failed:
            self.storage = Storage(outside.copy(), arena, self.roots, self.scratches)
        if self.arena_replaced:
            set_strided(&self.bytes, arena)
        self.pack, self.kernel_class, self.arena = pack, kernel_class, arena
        self.computed = {}
        try:
            for i in range(len(self.parts)):
                (<Part>self.part_table[i]).renew(self)
            for i in range(len(self.bound_calls)):
                bound = <BoundCall>self.call_table[i]
                bound.renew(self, failed)
                kernels.append(bound.kernel)
        except BaseException:
            self.arena = None
            raise
        self.storage = self.pack = self.kernel_class = self.computed = None
        memcpy(self.before, self.tape.numbers, self.tape.size * sizeof(int64_t))
        self.layout_changed = False
        return kernels


cdef bint have_same_values(dict a, dict b) except -1:
    """Do a and b have the same objects under the same keys?  b: a dictionary or None."""
    if b is None or len(a) != len(b):
        return False
    for key, value in a.items():
        if b.get(key) is not value:
            return False
    return True
