"""Kernels that move elements of any type by conditions and indices.

Select                          out = condition ? x : y
GatherBoxes, ScatterBoxes       copy boxes of an array to or from the places that index vectors name
Accumulate                      y = f(y, x), element by element

This file is longer than others because all share Walk, and gathering and scattering share boxes and policies.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pylite._core.kernels.index cimport load_index
from pylite._core.run.kernel cimport (
    COPY_GRAIN_BYTES,
    MAX_DIMS,
    Kernel,
    Strided,
    kernel_fn,
    nothing,
    outside_arena,
    placed,
    set_contiguous,
)
from pylite._core.simd cimport (
    PL_REPEAT_SLACK,
    binary_kernel,
    kernel_parameters,
    parallel_for,
    pl_binary_fn,
    pl_pool,
    pl_range_fn,
    slots,
)


cdef enum:
    BLOCK = 4096            # bytes of strided elements that are gathered for one call of a micro-kernel
    SHORT = 256             # bytes; shorter rows are selected from side by side
    FLOAT = -1              # a kind of elements; the others are integers, by their bytes
    SKIPPED = -1            # results of locate()
    REFUSED = -2
_ADDS = {"add_f32": FLOAT, "add_i8": 1, "add_i16": 2, "add_i32": 4, "add_i64": 8}     # micro-kernel: kind

cdef enum Policy:           # for an index outside the array
    REFUSE                  # fail the run
    CLAMP
    SKIP
    SKIP_NEGATIVE           # skip a negative index, refuse one that is too large
    CLIP                    # clip the box to the array

POLICIES = {"refuse": REFUSE, "clamp": CLAMP, "skip": SKIP, "skip negative": SKIP_NEGATIVE, "clip": CLIP}

cdef struct Walk:           # nested loops, outermost first, that advance the offsets of three operands
    int n
    Py_ssize_t size[MAX_DIMS]        # iterations of each loop,
    Py_ssize_t a[MAX_DIMS]           # and the operands' steps in bytes
    Py_ssize_t b[MAX_DIMS]
    Py_ssize_t c[MAX_DIMS]
    Py_ssize_t total                # iterations of all loops together


cdef int set_walk(Walk *walk, axes, Py_ssize_t operands, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c) except -1:
    """Fill walk for axes, tuples (size, step of each operand in elements).

    operands: 2 or 3, their number; a, b, c: bytes of an element of each.
    """
    cdef int i = 0
    if len(axes) > MAX_DIMS:
        raise ValueError(f"{len(axes)} dimensions; at most {MAX_DIMS} can be walked over")
    walk.total = 1
    for axis in axes:
        walk.size[i], walk.a[i], walk.b[i] = axis[0], axis[1], axis[2]
        walk.a[i] *= a
        walk.b[i] *= b
        walk.c[i] = axis[3] if operands > 2 else 0
        walk.c[i] *= c
        walk.total *= walk.size[i]
        i += 1
    walk.n = i
    return 0


cdef void seek(const Walk *walk, Py_ssize_t iteration, Py_ssize_t *index, Py_ssize_t *offset) noexcept nogil:
    """Set index and the three offsets for an iteration; 0 for a loop without iterations."""
    cdef int i
    offset[0] = offset[1] = offset[2] = 0
    for i in range(walk.n - 1, -1, -1):
        if walk.size[i] == 0:
            index[i] = 0
            continue
        index[i] = iteration % walk.size[i]
        iteration //= walk.size[i]
        offset[0] += index[i] * walk.a[i]
        offset[1] += index[i] * walk.b[i]
        offset[2] += index[i] * walk.c[i]


cdef inline void advance(const Walk *walk, Py_ssize_t *index, Py_ssize_t *offset) noexcept nogil:
    """Go to the next iteration."""
    cdef int i
    for i in range(walk.n - 1, -1, -1):
        index[i] += 1
        offset[0] += walk.a[i]
        offset[1] += walk.b[i]
        offset[2] += walk.c[i]
        if index[i] < walk.size[i]:
            return
        offset[0] -= index[i] * walk.a[i]
        offset[1] -= index[i] * walk.b[i]
        offset[2] -= index[i] * walk.c[i]
        index[i] = 0


# ---- select ------------------------------------------------------------------------------------------------
cdef class Select(Kernel):
    """out = condition ? x : y with broadcasting.

    condition, x, y, out: bytes; axes: (size, step in condition, in x, in y), in elements, of each axis of out; item:
    bytes of an element.
    """
    ARRAYS, SIZES = (0, 1, 2, 3), ("axes",)
    cdef tuple owners       # condition, x and y; None if they are in the arena
    cdef const uint8_t *condition
    cdef const uint8_t *x
    cdef const uint8_t *y
    cdef uint8_t *out
    cdef Walk walk
    cdef Py_ssize_t item
    cdef Py_ssize_t n, c_step, x_step, y_step       # the last axis: its size, and the operands' steps, 0 or 1
    cdef Py_ssize_t rows, c_row, x_row, y_row       # the axis before: its size, and the operands' steps in bytes

    def __init__(self, const uint8_t[::1] condition, const uint8_t[::1] x, const uint8_t[::1] y, uint8_t[::1] out,
                 axes, Py_ssize_t item):
        self.memory, self.owners, self.item = out, (condition, x, y), item
        if out.shape[0]:
            self.condition, self.x, self.y, self.out = &condition[0], &x[0], &y[0], &out[0]
            self.arrange(axes)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Select copy
        if self.fn == <kernel_fn>nothing or arrays[3] == NULL or arrays[3].nbytes == 0:
            return None
        copy = <Select>self.base_copy()
        copy.owners = outside_arena(self.owners, arrays)
        copy.condition, copy.x = <const uint8_t *>placed(arrays[0], self.condition), <const uint8_t *>placed(
            arrays[1], self.x)
        copy.y, copy.out, copy.item = <const uint8_t *>placed(arrays[2], self.y), <uint8_t *>arrays[3].data, self.item
        copy.arrange(sizes[0])
        return copy

    cdef int arrange(self, axes) except -1:
        """Set the loops: `walk` over all axes but the last two."""
        self.n, self.c_step, self.x_step, self.y_step = axes[-1] if axes else (1, 0, 0, 0)
        self.rows, self.c_row, self.x_row, self.y_row = axes[-2] if len(axes) > 1 else (1, 0, 0, 0)
        self.x_row *= self.item
        self.y_row *= self.item
        set_walk(&self.walk, axes[:-2], 3, 1, self.item, self.item)
        self.fn = <kernel_fn>select
        return 0


cdef int select(Select self, pl_pool *pool) noexcept nogil:
    parallel_for(pool, self.walk.total * self.rows, 1 + COPY_GRAIN_BYTES // (self.n * self.item),
                 <pl_range_fn>select_rows, <void *>self)
    return 0


cdef const uint8_t *side_by_side(const uint8_t *x, Py_ssize_t step, Py_ssize_t row, Py_ssize_t item, Py_ssize_t rows,
                                 Py_ssize_t n, uint8_t *block) noexcept nogil:
    """All elements of `rows` rows of n, `row` bytes apart: in x itself, or in `block`.  step: as of the last axis."""
    if step == 0:
        slots.repeat_items(item, rows if row else 1, n if row else rows * n, x, block)
    elif row == 0 and rows > 1:
        slots.copy_runs(rows, n * item, x, 0, block, n * item)
    else:
        return x
    return block


cdef void select_rows(Select self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef uint8_t blocks[3][BLOCK + PL_REPEAT_SLACK]
    cdef Py_ssize_t rows, row = begin % self.rows, item = self.item, n = self.n, max_rows = 1
    cdef const uint8_t *c
    cdef const uint8_t *x
    cdef const uint8_t *y
    cdef uint8_t *out = self.out + begin * n * item
    if n * item < SHORT and item <= 8:
        max_rows = BLOCK // (n * item)
    seek(&self.walk, begin // self.rows, index, offset)
    while begin < end:
        rows = min(min(self.rows - row, end - begin), max_rows)
        c, x = self.condition + offset[0] + row * self.c_row, self.x + offset[1] + row * self.x_row
        y = self.y + offset[2] + row * self.y_row
        if rows > 1:
            c = side_by_side(c, self.c_step, self.c_row, 1, rows, n, blocks[0])
            x = side_by_side(x, self.x_step, self.x_row, item, rows, n, blocks[1])
            y = side_by_side(y, self.y_step, self.y_row, item, rows, n, blocks[2])
            slots.choose(item, rows * n, c, x, 1, y, 1, out)
        elif self.c_step:
            slots.choose(item, n, c, x, self.x_step, y, self.y_step, out)
        elif self.x_step if c[0] else self.y_step:
            slots.copy_runs(1, n * item, x if c[0] else y, 0, out, 0)
        else:
            slots.copy_strided(item, 1, n, x if c[0] else y, 0, 0, out, 0, item)
        begin += rows
        out += rows * n * item
        row += rows
        if row == self.rows:
            row = 0
            advance(&self.walk, index, offset)


# ---- gather and scatter ------------------------------------------------------------------------------------
cdef class Boxes(Kernel):
    """The base of GatherBoxes and ScatterBoxes: an index vector tells where a box of `array` begins.

    array, boxes, indices: bytes; item: bytes of an element; width: bytes of an index.  Steps are in elements.
    vectors: (size, step in indices, in boxes, in array) of each axis of the array of index vectors.
    components: (step in indices, limit, step in array, axis) of each component of a vector, which may be 0 to limit.
    axis: -1; with the policy "clip" the axis of the box that the component counts along, or -1, and limit is that of
    the array.
    shape: (size, step in array, in boxes) of each axis of a box.
    policy: for indices out of range, see POLICIES.
    """
    ERRORS = {1: "an index lies outside the tensor"}
    ARRAYS, SIZES = (0, 1, 2, "start"), ("vectors", "components", "shape")
    cdef uint8_t *array
    cdef const uint8_t *indices
    cdef uint8_t *boxes
    cdef const uint8_t *start       # ScatterBoxes: the initial contents of array, or NULL
    cdef Py_ssize_t array_bytes, boxes_bytes
    cdef tuple owners       # keeps the arrays alive, except those in the arena
    cdef Walk vectors, box
    cdef Py_ssize_t width, item, run, run_a, run_b      # run: the last axis of a box, its size and steps in bytes
    cdef Py_ssize_t limit[MAX_DIMS]
    cdef Py_ssize_t component[MAX_DIMS]
    cdef Py_ssize_t step[MAX_DIMS]
    cdef int axis[MAX_DIMS]
    cdef int components
    cdef bint boxes_are_runs        # contiguous boxes, and a single axis of vectors
    cdef Policy policy

    cdef int place(self, const Strided **arrays) except -1:
        """Set the addresses of arrays that have moved."""
        if arrays[0] != NULL:
            self.array, self.array_bytes = <uint8_t *>arrays[0].data, arrays[0].nbytes
        if arrays[2] != NULL:
            self.boxes, self.boxes_bytes = <uint8_t *>arrays[2].data, arrays[2].nbytes
        self.indices = <const uint8_t *>placed(arrays[1], self.indices)
        self.start = <const uint8_t *>placed(arrays[3], self.start)
        return 0

    cdef int construct(self, array, indices, boxes, start, bint gathers) except -1:
        """Set the addresses of Python arrays, as place() does when arrays have moved."""
        cdef Strided spans[4]
        cdef const Strided *arrays[4]
        cdef int i
        self.owners = (array, indices, boxes, start)
        for i in range(4):
            arrays[i] = NULL
            if self.owners[i] is not None:
                set_contiguous(&spans[i], self.owners[i], 1, 1, i == (2 if gathers else 0))
                arrays[i] = &spans[i]
        return self.place(arrays)

    cdef Boxes copy_for(self, const Strided **arrays, list sizes):
        """moved(), without the attributes of subclasses."""
        cdef Boxes copy = <Boxes>self.base_copy()
        copy.array, copy.indices, copy.boxes, copy.start = self.array, self.indices, self.boxes, self.start
        copy.array_bytes, copy.boxes_bytes = self.array_bytes, self.boxes_bytes
        copy.owners = outside_arena(self.owners, arrays)
        copy.prepare(self.width, self.item, sizes[0], sizes[1], sizes[2], self.policy)
        copy.place(arrays)
        return copy

    cdef int prepare(self, Py_ssize_t width, Py_ssize_t item, vectors, components, shape, Policy policy) except -1:
        cdef int i = 0
        self.width, self.item, self.policy = width, item, policy
        if len(components) > MAX_DIMS:
            raise ValueError(f"vectors of {len(components)} components; at most {MAX_DIMS} are supported")
        for component in components:
            self.component[i], self.limit[i], self.step[i], self.axis[i] = component
            self.component[i] *= width
            self.step[i] *= item
            i += 1
        self.components = i
        set_walk(&self.vectors, vectors, 3, width, item, item)
        self.run, self.run_a, self.run_b = 1, item, item
        if shape:
            self.run, self.run_a, self.run_b = shape[-1]
            self.run_a *= item
            self.run_b *= item
        set_walk(&self.box, shape[:-1], 2, item, item, 0)
        self.boxes_are_runs = (self.box.n == 0 and self.vectors.n == 1 and self.vectors.c[0] == 0 and policy != CLIP
                               and self.run_a == item and self.run_b == item)
        return 0


cdef Py_ssize_t locate(Boxes self, const uint8_t *vector) noexcept nogil:
    """The offset in the array of the box that a vector names; or SKIPPED or REFUSED."""
    cdef Py_ssize_t offset = 0
    cdef int64_t index
    cdef int i
    for i in range(self.components):
        index = load_index(vector + self.component[i], self.width)
        if index < 0 or index > self.limit[i]:
            if self.policy == CLAMP and self.limit[i] >= 0:
                index = 0 if index < 0 else self.limit[i]
            elif self.policy == SKIP or (self.policy == SKIP_NEGATIVE and index < 0):
                return SKIPPED
            else:
                return REFUSED
        offset += index * self.step[i]
    return offset


cdef bint clip_box(Boxes self, const uint8_t *vector, Walk *box, Py_ssize_t *run, Py_ssize_t *first) noexcept nogil:
    """Clip box and run to the array; False if nothing is left.  first: set to the rest's offsets in array and boxes."""
    cdef int64_t index, skipped
    cdef Py_ssize_t *size
    cdef Py_ssize_t step    # of the boxes
    cdef int i, axis
    first[0] = first[1] = 0
    box[0], run[0] = self.box, self.run
    for i in range(self.components):
        index, axis = load_index(vector + self.component[i], self.width), self.axis[i]
        if axis < 0:
            if index < 0 or index > self.limit[i]:
                return False
        else:
            if axis == self.box.n:
                size, step = run, self.run_b
            else:
                size, step = &box.size[axis], self.box.b[axis]
            if index > self.limit[i] or index <= -size[0]:
                return False
            skipped = max(<int64_t>0, -index)
            size[0] = min(<int64_t>size[0], self.limit[i] + 1 - index) - skipped
            first[1] += skipped * step
            index += skipped
        first[0] += index * self.step[i]
    box.total = 1
    for i in range(box.n):
        box.total *= box.size[i]
    return True


cdef class GatherBoxes(Boxes):
    """boxes = the boxes of array that the index vectors name."""
    cdef bint refused       # set by any thread that meets an index out of range

    def __init__(self, array, indices, boxes, Py_ssize_t item, Py_ssize_t width, vectors, components, shape,
                 str policy):
        self.prepare(width, item, vectors, components, shape, POLICIES[policy])
        self.construct(array, indices, boxes, None, True)
        self.fn = <kernel_fn>gather

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        return self.copy_for(arrays, sizes)


cdef int gather(GatherBoxes self, pl_pool *pool) noexcept nogil:
    if self.boxes_bytes == 0 or self.vectors.total == 0:
        return 0
    if self.array_bytes == 0:
        return 1
    self.refused = False
    parallel_for(pool, self.vectors.total, 1 + COPY_GRAIN_BYTES // (self.box.total * self.run * self.item),
                 <pl_range_fn>gather_range, <void *>self)
    return 1 if self.refused else 0


cdef inline void copy_small(size_t nbytes, const uint8_t *x, uint8_t *y) noexcept nogil:
    """Copy a run; calling a micro-kernel takes longer than copying one element."""
    if nbytes == 4:
        memcpy(y, x, 4)
    elif nbytes == 1:
        y[0] = x[0]
    elif nbytes == 8:
        memcpy(y, x, 8)
    else:
        slots.copy_runs(1, nbytes, x, 0, y, 0)


cdef void gather_range(GatherBoxes self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t inner[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef Py_ssize_t inner_offset[3]
    cdef Py_ssize_t _i, first
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef bint consecutive = self.run_a == self.item and self.run_b == self.item
    offset[0], offset[1] = begin * self.vectors.a[0], begin * self.vectors.b[0]
    while self.boxes_are_runs and begin < end:
        first = locate(self, self.indices + offset[0])
        if first < 0:
            self.refused = True
            return
        copy_small(self.run * self.item, self.array + first, self.boxes + offset[1])
        offset[0] += self.vectors.a[0]
        offset[1] += self.vectors.b[0]
        begin += 1
    seek(&self.vectors, begin, index, offset)
    while begin < end:
        first = locate(self, self.indices + offset[0])
        if first < 0:
            self.refused = True
            return
        x = self.array + offset[2] + first
        y = self.boxes + offset[1]
        seek(&self.box, 0, inner, inner_offset)
        for _i in range(self.box.total):
            if not consecutive:
                slots.copy_strided(self.item, 1, self.run, x + inner_offset[0], 0, self.run_a, y + inner_offset[1], 0,
                                   self.run_b)
            else:
                slots.copy_runs(1, self.run * self.item, x + inner_offset[0], 0, y + inner_offset[1], 0)
            advance(&self.box, inner, inner_offset)
        advance(&self.vectors, index, offset)
        begin += 1


# ---- scatter -------------------------------------------------------------------------------------------------
cdef class ScatterBoxes(Boxes):
    """array[indices] = boxes, or the two combined by the micro-kernel `name` with parameters p.

    Repeated indices take effect in order.  start: initial contents of array; may be its own memory.
    """
    cdef const uint8_t[::1] p
    cdef pl_binary_fn combine
    cdef int added_kind     # kind of the elements that `combine` adds; 0: it does not add
    cdef int single_kind    # the same if boxes are single elements, the fast case; else 0

    def __init__(self, array, indices, boxes, Py_ssize_t item, Py_ssize_t width, vectors, components, shape,
                 str policy, str name="", p=b"\0", start=None):
        self.prepare(width, item, vectors, components, shape, POLICIES[policy])
        self.construct(array, indices, boxes, start, False)
        if start is not None and start.nbytes != self.array_bytes:
            raise ValueError(f"{start.nbytes} bytes to start from, for an array of {self.array_bytes}")
        self.p, self.added_kind = kernel_parameters(name, p), _ADDS.get(name, 0)
        if name:
            self.combine = binary_kernel(name)
        self.fn = <kernel_fn>scatter
        self.finish()

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef ScatterBoxes copy = <ScatterBoxes>self.copy_for(arrays, sizes)
        copy.p, copy.added_kind, copy.combine = self.p, self.added_kind, self.combine
        copy.finish()
        return copy

    cdef void finish(self) noexcept:
        self.single_kind = self.added_kind if self.boxes_are_runs and self.run == 1 else 0


cdef inline void add_one(int kind, uint8_t *y, const uint8_t *x) noexcept nogil:
    """Add one element to another."""
    if kind == FLOAT:
        (<float *>y)[0] += (<const float *>x)[0]
    elif kind == 1:
        y[0] += x[0]
    elif kind == 2:
        (<uint16_t *>y)[0] += (<const uint16_t *>x)[0]
    elif kind == 4:
        (<uint32_t *>y)[0] += (<const uint32_t *>x)[0]
    else:
        (<uint64_t *>y)[0] += (<const uint64_t *>x)[0]


cdef int scatter(ScatterBoxes self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef Py_ssize_t first[2]
    cdef Py_ssize_t _i, run = self.run
    cdef Walk box = self.box
    if self.array_bytes == 0:
        return 0
    if self.start != NULL and self.start != self.array:
        memcpy(self.array, self.start, self.array_bytes)
    if self.boxes_bytes == 0:
        return 0
    if self.boxes_are_runs:
        return scatter_runs(self)
    seek(&self.vectors, 0, index, offset)
    for _i in range(self.vectors.total):
        first[0] = first[1] = 0
        if self.policy == CLIP:
            if not clip_box(self, self.indices + offset[0], &box, &run, first):
                first[0] = SKIPPED
        elif self.components:
            first[0] = locate(self, self.indices + offset[0])
        if first[0] == REFUSED:
            return 1
        if first[0] >= 0:
            scatter_box(self, &box, run, self.boxes + offset[1] + first[1], self.array + offset[2] + first[0])
        advance(&self.vectors, index, offset)
    return 0


cdef int scatter_runs(ScatterBoxes self) noexcept nogil:
    """scatter() of contiguous boxes at a row of vectors."""
    cdef const uint8_t *vector = self.indices
    cdef const uint8_t *x = self.boxes
    cdef uint8_t *y
    cdef Py_ssize_t _i, first
    for _i in range(self.vectors.total):
        first = locate(self, vector)
        if first == REFUSED:
            return 1
        y = self.array + first
        if first >= 0:
            if self.single_kind:
                add_one(self.single_kind, y, x)
            elif self.combine != NULL:
                self.combine(self.run, y, 1, x, 1, y, &self.p[0])
            else:
                copy_small(self.run * self.item, x, y)
        vector += self.vectors.a[0]
        x += self.vectors.b[0]
    return 0


cdef inline void scatter_box(ScatterBoxes self, const Walk *box, Py_ssize_t run, const uint8_t *x,
                             uint8_t *y) noexcept nogil:
    """Copy the box x to y, or combine both; box: its outer dimensions; run: elements of the innermost one."""
    cdef Py_ssize_t inner[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef Py_ssize_t _j, k
    cdef bint consecutive = self.run_a == self.item and self.run_b == self.item
    if box.n == 0 and consecutive and self.combine != NULL:
        self.combine(run, y, 1, x, 1, y, &self.p[0])
        return
    seek(box, 0, inner, offset)
    for _j in range(box.total):
        if self.combine != NULL:
            if consecutive:
                self.combine(run, y + offset[0], 1, x + offset[1], 1, y + offset[0], &self.p[0])
            else:
                for k in range(run):
                    self.combine(1, y + offset[0] + k * self.run_a, 1, x + offset[1] + k * self.run_b, 1,
                                 y + offset[0] + k * self.run_a, &self.p[0])
        elif consecutive:
            slots.copy_runs(1, run * self.item, x + offset[1], 0, y + offset[0], 0)
        else:
            slots.copy_strided(self.item, 1, run, x + offset[1], 0, self.run_b, y + offset[0], 0, self.run_a)
        advance(box, inner, offset)


# ---- combine -----------------------------------------------------------------------------------------------
cdef class Accumulate(Kernel):
    """y[...] = f(y[...], x[...]) element by element; f: the micro-kernel `name` with parameters p.

    x, y: bytes; axes: (size, step in x, in y), in elements; step 0 in y reduces an axis, in order; x_item, y_item:
    bytes of an element.
    """
    cdef const uint8_t[::1] x, p
    cdef uint8_t[::1] y
    cdef Walk walk
    cdef Py_ssize_t n, x_step, y_step       # the innermost loop: its size, and steps in bytes
    cdef Py_ssize_t x_item, y_item
    cdef pl_binary_fn combine

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y, str name, p, axes, Py_ssize_t x_item, Py_ssize_t y_item):
        self.x, self.y, self.p, self.x_item, self.y_item = x, y, kernel_parameters(name, p), x_item, y_item
        self.combine = binary_kernel(name)
        axes = list(axes) or [(1, 0, 1)]
        row = next((axis for axis in reversed(axes) if axis[2] == 1), axes[-1])
        axes.remove(row)        # make it the innermost loop; the order within reduced axes stays
        self.n, self.x_step, self.y_step = row
        self.x_step *= x_item
        self.y_step *= y_item
        set_walk(&self.walk, axes, 2, x_item, y_item, 0)
        self.fn = <kernel_fn>accumulate


cdef int accumulate(Accumulate self, pl_pool *pool) noexcept nogil:
    cdef uint8_t block[BLOCK]
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef Py_ssize_t _i, j, count
    cdef const uint8_t *x
    cdef uint8_t *y
    if self.x.shape[0] == 0 or self.y.shape[0] == 0:
        return 0
    seek(&self.walk, 0, index, offset)
    for _i in range(self.walk.total):
        x, y = &self.x[0] + offset[0], &self.y[0] + offset[1]
        if self.y_step != self.y_item:
            for j in range(self.n):
                self.combine(1, y + j * self.y_step, 1, x + j * self.x_step, 1, y + j * self.y_step, &self.p[0])
        elif self.x_step == self.x_item:
            self.combine(self.n, y, 1, x, 1, y, &self.p[0])
        else:
            j = 0
            while j < self.n:
                count = min(self.n - j, BLOCK // self.x_item)
                slots.copy_strided(self.x_item, 1, count, x + j * self.x_step, 0, self.x_step, block, 0, self.x_item)
                self.combine(count, y + j * self.y_step, 1, block, 1, y + j * self.y_step, &self.p[0])
                j += count
        advance(&self.walk, index, offset)
    return 0
