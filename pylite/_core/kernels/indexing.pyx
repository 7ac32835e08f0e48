"""Kernels that select, gather, scatter and combine elements of any type.

This file is longer than others, since gathering and scattering share the walk over boxes and its policies.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from pylite._core.run.kernel cimport Kernel, Strided, kernel_fn, nothing, outside_arena, placed
from pylite._core.simd cimport binary_kernel, kernel_parameters, parallel_for, pl_binary_fn, pl_pool, pl_range_fn, slots


cdef extern from "indexing.h" nogil:
    void pl_choose(size_t item, size_t n, const uint8_t *c, size_t cs, const uint8_t *x, size_t xs, const uint8_t *y,
                   size_t ys, uint8_t *out)

cdef enum:
    MAX_DIMS = 16
    BLOCK = 4096            # bytes of strided elements that are gathered for a micro-kernel
    GRAIN = 1 << 17         # bytes: the parallel threshold

cdef enum Policy:           # for an index outside of the array
    REFUSE
    CLAMP
    SKIP
    SKIP_NEGATIVE           # a negative one is skipped, others are refused
    CUT                     # the box is cut to the part inside

POLICIES = {"refuse": REFUSE, "clamp": CLAMP, "skip": SKIP, "skip negative": SKIP_NEGATIVE, "cut": CUT}

cdef struct Walk:           # nested loops over up to three operands, with steps in bytes
    int n
    Py_ssize_t size[MAX_DIMS]
    Py_ssize_t a[MAX_DIMS]
    Py_ssize_t b[MAX_DIMS]
    Py_ssize_t c[MAX_DIMS]
    Py_ssize_t total


cdef int fill(Walk *walk, axes, Py_ssize_t operands, Py_ssize_t a, Py_ssize_t b, Py_ssize_t c) except -1:
    """Set up a walk over axes, tuples (size, steps of the operands in elements); elements have a, b and c bytes."""
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


cdef void place(const Walk *walk, Py_ssize_t at, Py_ssize_t *index, Py_ssize_t *offset) noexcept nogil:
    """The index of step `at`, and the offsets of the operands; zeros for a walk without steps."""
    cdef int i
    offset[0] = offset[1] = offset[2] = 0
    for i in range(walk.n - 1, -1, -1):
        if walk.size[i] == 0:
            index[i] = 0
            continue
        index[i] = at % walk.size[i]
        at //= walk.size[i]
        offset[0] += index[i] * walk.a[i]
        offset[1] += index[i] * walk.b[i]
        offset[2] += index[i] * walk.c[i]


cdef inline void advance(const Walk *walk, Py_ssize_t *index, Py_ssize_t *offset) noexcept nogil:
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

    condition, x, y, out: bytes; axes: (size, steps of condition, x and y) of each axis of out; item: bytes of an
    element.
    """
    ARRAYS, SIZES = (0, 1, 2, 3), ("axes",)
    cdef tuple operands     # condition, x and y, None where the arena has them
    cdef const uint8_t *condition
    cdef const uint8_t *x
    cdef const uint8_t *y
    cdef uint8_t *out
    cdef Walk walk
    cdef Py_ssize_t item, n, cs, xs, ys

    def __init__(self, const uint8_t[::1] condition, const uint8_t[::1] x, const uint8_t[::1] y, uint8_t[::1] out,
                 axes, Py_ssize_t item):
        self.memory, self.operands, self.item = out, (condition, x, y), item
        if out.shape[0]:
            self.condition, self.x, self.y, self.out = &condition[0], &x[0], &y[0], &out[0]
            self.arrange(axes)

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef Select made
        if self.fn == <kernel_fn>nothing or arrays[3] == NULL or arrays[3].nbytes == 0:
            return None
        made = Select.__new__(Select)
        made.operands = outside_arena(self.operands, arrays)
        made.condition, made.x = <const uint8_t *>placed(arrays[0], self.condition), <const uint8_t *>placed(
            arrays[1], self.x)
        made.y, made.out, made.item = <const uint8_t *>placed(arrays[2], self.y), <uint8_t *>arrays[3].at, self.item
        made.arrange(sizes[0])
        return made

    cdef int arrange(self, axes) except -1:
        self.n, self.cs, self.xs, self.ys = axes[-1] if axes else (1, 0, 0, 0)
        self.xs *= self.item
        self.ys *= self.item
        fill(&self.walk, axes[:-1], 3, 1, self.item, self.item)
        self.fn = <kernel_fn>select
        return 0


cdef int select(Select self, pl_pool *pool) noexcept nogil:
    parallel_for(pool, self.walk.total, 1 + GRAIN // (self.n * self.item), <pl_range_fn>select_rows, <void *>self)
    return 0


cdef void select_rows(Select self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef const uint8_t *c
    cdef const uint8_t *x
    cdef const uint8_t *y
    cdef uint8_t *out
    place(&self.walk, begin, index, offset)
    while begin < end:
        c, x, y = self.condition + offset[0], self.x + offset[1], self.y + offset[2]
        out = self.out + begin * self.n * self.item
        if self.cs == 0 and (self.xs if c[0] else self.ys) == self.item:
            slots.copy_runs(1, self.n * self.item, x if c[0] else y, 0, out, 0)
        else:
            pl_choose(self.item, self.n, c, self.cs, x, self.xs, y, self.ys, out)
        advance(&self.walk, index, offset)
        begin += 1


# ---- gather and scatter ------------------------------------------------------------------------------------
cdef class Boxes(Kernel):
    """Boxes of an array, at places given by vectors of indices, and a list of boxes.

    array, boxes, indices: bytes; item: bytes of an element; width: bytes of an index.  Steps count elements.
    vectors: (size, step in indices, in boxes, in array) of each axis of the array of vectors.
    components: (index step, limit, array step, -1) of each component of a vector, which may be 0 .. limit.  With the
    policy "cut" the limit is that of the array, and the last number is the component's axis of the box, or -1.
    shape: (size, array step, boxes step) of the axes of a box.
    policy: for indices outside, see POLICIES.
    """
    ERRORS = {1: "an index lies outside the tensor"}
    cdef const uint8_t[::1] indices
    cdef Walk vectors, box
    cdef Py_ssize_t width, item, run, run_a, run_b
    cdef Py_ssize_t limit[MAX_DIMS]
    cdef Py_ssize_t component[MAX_DIMS]
    cdef Py_ssize_t step[MAX_DIMS]
    cdef int axis[MAX_DIMS]
    cdef int components
    cdef Policy policy

    cdef int prepare(self, const uint8_t[::1] indices, Py_ssize_t width, Py_ssize_t item, vectors, components, shape,
                     str policy) except -1:
        cdef int i = 0
        self.indices, self.width, self.item, self.policy = indices, width, item, POLICIES[policy]
        if len(components) > MAX_DIMS:
            raise ValueError(f"vectors of {len(components)} components; at most {MAX_DIMS} are supported")
        for component in components:
            self.component[i], self.limit[i], self.step[i], self.axis[i] = component
            self.component[i] *= width
            self.step[i] *= item
            i += 1
        self.components = i
        fill(&self.vectors, vectors, 3, width, item, item)
        self.run, self.run_a, self.run_b = 1, item, item
        if shape:
            self.run, self.run_a, self.run_b = shape[-1]
            self.run_a *= item
            self.run_b *= item
        fill(&self.box, shape[:-1], 2, item, item, 0)
        return 0


cdef inline int64_t load(const uint8_t *p, Py_ssize_t width) noexcept nogil:
    if width == 4:
        return (<const int32_t *>p)[0]
    if width == 8:
        return (<const int64_t *>p)[0]
    return (<const int16_t *>p)[0]


cdef Py_ssize_t locate(Boxes self, const uint8_t *vector) noexcept nogil:
    """Where the box of a vector begins in the array; -1 to skip it, -2 to refuse it."""
    cdef Py_ssize_t at = 0
    cdef int64_t index
    cdef int i
    for i in range(self.components):
        index = load(vector + self.component[i], self.width)
        if index < 0 or index > self.limit[i]:
            if self.policy == CLAMP and self.limit[i] >= 0:
                index = 0 if index < 0 else self.limit[i]
            elif self.policy == SKIP or (self.policy == SKIP_NEGATIVE and index < 0):
                return -1
            else:
                return -2
        at += index * self.step[i]
    return at


cdef bint cut(Boxes self, const uint8_t *vector, Walk *box, Py_ssize_t *run, Py_ssize_t *at) noexcept nogil:
    """Cut box and run to the part inside the array, and set at[] to its beginning; False where nothing is inside."""
    cdef int64_t index, first
    cdef Py_ssize_t *size
    cdef int i, axis
    at[0] = at[1] = 0
    box[0], run[0] = self.box, self.run
    for i in range(self.components):
        index, axis = load(vector + self.component[i], self.width), self.axis[i]
        if axis < 0:
            if index < 0 or index > self.limit[i]:
                return False
        else:
            size = run if axis == self.box.n else &box.size[axis]
            first = max(<int64_t>0, -index)
            if index > self.limit[i] or first >= size[0]:
                return False
            box.total //= 1 if axis == self.box.n else size[0]
            size[0] = min(<int64_t>size[0], self.limit[i] + 1 - index) - first
            box.total *= 1 if axis == self.box.n else size[0]
            at[1] += first * (self.run_b if axis == self.box.n else self.box.b[axis])
            index += first
        at[0] += index * self.step[i]
    return True


cdef class GatherBoxes(Boxes):
    """boxes = the parts of array that the indices name."""
    cdef const uint8_t[::1] array
    cdef uint8_t[::1] boxes

    def __init__(self, const uint8_t[::1] array, const uint8_t[::1] indices, uint8_t[::1] boxes, Py_ssize_t item,
                 Py_ssize_t width, vectors, components, shape, str policy):
        self.prepare(indices, width, item, vectors, components, shape, policy)
        self.array, self.boxes = array, boxes
        self.fn = <kernel_fn>gather


cdef int gather(GatherBoxes self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef Py_ssize_t _i
    if self.boxes.shape[0] == 0 or self.vectors.total == 0:
        return 0
    if self.array.shape[0] == 0:
        return 1
    place(&self.vectors, 0, index, offset)
    if self.components:
        for _i in range(self.vectors.total):
            if locate(self, &self.indices[0] + offset[0]) < 0:
                return 1
            advance(&self.vectors, index, offset)
    parallel_for(pool, self.vectors.total, 1 + GRAIN // (self.box.total * self.run * self.item),
                 <pl_range_fn>gather_range, <void *>self)
    return 0


cdef void gather_range(GatherBoxes self, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t inner[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef Py_ssize_t at[3]
    cdef Py_ssize_t _i
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef bint consecutive = self.run_a == self.item and self.run_b == self.item
    place(&self.vectors, begin, index, offset)
    while begin < end:
        x = &self.array[0] + offset[2]
        if self.components:
            x += locate(self, &self.indices[0] + offset[0])
        y = &self.boxes[0] + offset[1]
        if consecutive and self.box.n == 0:
            if self.run * self.item == 4:
                memcpy(y, x, 4)
            else:
                slots.copy_runs(1, self.run * self.item, x, 0, y, 0)
            advance(&self.vectors, index, offset)
            begin += 1
            continue
        place(&self.box, 0, inner, at)
        for _i in range(self.box.total):
            if not consecutive:
                slots.copy_strided(self.item, 1, self.run, x + at[0], 0, self.run_a, y + at[1], 0, self.run_b)
            else:
                slots.copy_runs(1, self.run * self.item, x + at[0], 0, y + at[1], 0)
            advance(&self.box, inner, at)
        advance(&self.vectors, index, offset)
        begin += 1


# ---- scatter -------------------------------------------------------------------------------------------------
cdef class ScatterBoxes(Boxes):
    """array[indices] = boxes, or the two combined by the micro-kernel `name` with parameters p.

    Repeated indices take effect in their order.  start: the initial bytes of array, or the same memory.
    """
    cdef uint8_t[::1] array
    cdef const uint8_t[::1] boxes, p, start
    cdef pl_binary_fn combine
    cdef bint adds          # adds single floats

    def __init__(self, uint8_t[::1] array, const uint8_t[::1] indices, const uint8_t[::1] boxes, Py_ssize_t item,
                 Py_ssize_t width, vectors, components, shape, str policy, str name="", p=b"\0",
                 const uint8_t[::1] start=None):
        self.prepare(indices, width, item, vectors, components, shape, policy)
        self.array, self.boxes, self.p, self.start = array, boxes, kernel_parameters(name, p), start
        self.combine = NULL
        if name:
            self.combine = binary_kernel(name)
        self.adds = (name == "add_f32" and self.run == 1 and self.box.n == 0 and self.vectors.n == 1
                     and self.vectors.c[0] == 0 and self.policy != CUT)
        self.fn = <kernel_fn>scatter


cdef int scatter(ScatterBoxes self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t index[MAX_DIMS]
    cdef Py_ssize_t inner[MAX_DIMS]
    cdef Py_ssize_t offset[3]
    cdef Py_ssize_t at[3]
    cdef Py_ssize_t first[2]
    cdef Py_ssize_t _i, _j, k, run = self.run
    cdef Walk box = self.box
    cdef const uint8_t *x
    cdef uint8_t *y
    cdef bint consecutive = self.run_a == self.item and self.run_b == self.item
    if self.array.shape[0] == 0:
        return 0
    if self.start is not None and &self.start[0] != &self.array[0]:
        memcpy(&self.array[0], &self.start[0], self.array.shape[0])
    if self.boxes.shape[0] == 0:
        return 0
    if self.adds:
        for k in range(self.vectors.total):
            first[0] = locate(self, &self.indices[0] + k * self.vectors.a[0])
            if first[0] == -2:
                return 1
            if first[0] >= 0:
                (<float *>(&self.array[0] + first[0]))[0] += (<float *>(&self.boxes[0] + k * self.vectors.b[0]))[0]
        return 0
    place(&self.vectors, 0, index, offset)
    for _i in range(self.vectors.total):
        first[0] = first[1] = 0
        if self.policy == CUT:
            if not cut(self, &self.indices[0] + offset[0], &box, &run, first):
                first[0] = -1
        elif self.components:
            first[0] = locate(self, &self.indices[0] + offset[0])
        if first[0] == -2:
            return 1
        if first[0] >= 0:
            y = &self.array[0] + offset[2] + first[0]
            x = &self.boxes[0] + offset[1] + first[1]
            if box.n == 0 and consecutive and self.combine != NULL:
                self.combine(run, y, 1, x, 1, y, &self.p[0])
                advance(&self.vectors, index, offset)
                continue
            place(&box, 0, inner, at)
            for _j in range(box.total):
                if self.combine != NULL:
                    if consecutive:
                        self.combine(run, y + at[0], 1, x + at[1], 1, y + at[0], &self.p[0])
                    else:
                        for k in range(run):
                            self.combine(1, y + at[0] + k * self.run_a, 1, x + at[1] + k * self.run_b, 1,
                                         y + at[0] + k * self.run_a, &self.p[0])
                elif consecutive:
                    slots.copy_runs(1, run * self.item, x + at[1], 0, y + at[0], 0)
                else:
                    slots.copy_strided(self.item, 1, run, x + at[1], 0, self.run_b, y + at[0], 0, self.run_a)
                advance(&box, inner, at)
        advance(&self.vectors, index, offset)
    return 0


# ---- combine -----------------------------------------------------------------------------------------------
cdef class Accumulate(Kernel):
    """y[...] = f(y[...], x[...]) step by step; f: the micro-kernel `name` with parameters p.

    x, y: bytes; axes: (size, step in x, in y), in elements; with step 0 in y, elements are combined into one, in the
    order of the axes; x_item, y_item: bytes of their elements.
    """
    cdef const uint8_t[::1] x, p
    cdef uint8_t[::1] y
    cdef Walk walk
    cdef Py_ssize_t n, xs, ys, x_item, y_item
    cdef pl_binary_fn combine

    def __init__(self, const uint8_t[::1] x, uint8_t[::1] y, str name, p, axes, Py_ssize_t x_item, Py_ssize_t y_item):
        self.x, self.y, self.p, self.x_item, self.y_item = x, y, kernel_parameters(name, p), x_item, y_item
        self.combine = binary_kernel(name)
        axes = list(axes) or [(1, 0, 1)]
        row = next((axis for axis in reversed(axes) if axis[2] == 1), axes[-1])
        axes.remove(row)                 # the innermost loop: elements that are combined into one keep their order
        self.n, self.xs, self.ys = row
        self.xs *= x_item
        self.ys *= y_item
        fill(&self.walk, axes, 2, x_item, y_item, 0)
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
    place(&self.walk, 0, index, offset)
    for _i in range(self.walk.total):
        x, y = &self.x[0] + offset[0], &self.y[0] + offset[1]
        if self.ys != self.y_item:
            for j in range(self.n):
                self.combine(1, y + j * self.ys, 1, x + j * self.xs, 1, y + j * self.ys, &self.p[0])
        elif self.xs == self.x_item:
            self.combine(self.n, y, 1, x, 1, y, &self.p[0])
        else:
            j = 0
            while j < self.n:
                count = min(self.n - j, BLOCK // self.x_item)
                slots.copy_strided(self.x_item, 1, count, x + j * self.xs, 0, self.xs, block, 0, self.x_item)
                self.combine(count, y + j * self.ys, 1, block, 1, y + j * self.ys, &self.p[0])
                j += count
        advance(&self.walk, index, offset)
    return 0
