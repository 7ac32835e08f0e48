# The rest of indexing.pyx: kernels that write at indices, and one that combines many elements into one.
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
