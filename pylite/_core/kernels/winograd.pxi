# The rest of conv_float.pyx: 3 x 3 filters by Winograd's F(2x2, 3x3), whose micro-kernels are in simd/winograd_f32.h.
cdef int some_tiles(const pl_tile *t, ptrdiff_t tiles, ptrdiff_t c):
    """The number of tiles of a task: tasks are equally large, and multiples of what products take."""
    cdef ptrdiff_t most = (WINOGRAD_SCRATCH - 16 * (c + 16)) // (16 * (c + t.nr))
    if most > 4:
        most -= most % (t.mr if most >= t.mr else 4)
    cdef ptrdiff_t tasks = (tiles + most - 1) // most
    return <int>min(padded((tiles + tasks - 1) // tasks, 4), most)


cdef int conv_f32_winograd(ConvF32 self, pl_pool *pool) noexcept nogil:
    cdef Conv *s = &self.state
    pool = parallel_pool(pool, 32 * s.tiles.span * s.depth * s.columns)
    parallel_for(pool, plan_tasks(&s.tasks, &s.tiles, &s.tile, s.columns, 1, pool), 1, conv_f32_winograd_tasks, s)
    return 0


cdef void transform(const Conv *s, const Task *task, float *v, ptrdiff_t next, float *patch) noexcept nogil:
    """Transform the pixels of a task's tiles to the left operands of its products."""
    cdef const Window *g = &s.window
    cdef const float *line[4]
    cdef ptrdiff_t step[4]
    cdef ptrdiff_t done = 0, count, n, ty, tx, ix, iy
    cdef bint apart
    cdef int y, x
    while done < task.rows:
        tx, ty = (task.position + done) % s.across, (task.position + done) // s.across
        n, ty = ty // s.down, ty % s.down
        ix = 2 * tx - g.pad_w
        apart = ix < 0 or ix + 4 > g.w
        count = 1 if apart else min(task.rows - done, min(s.across - tx, (g.w - ix - 2) // 2))
        for y in range(4):
            iy = 2 * ty - g.pad_h + y
            if not 0 <= iy < g.h:
                line[y], step[y] = <const float *>g.zero, 0
                continue
            line[y], step[y] = <const float *>(g.x + n * g.sn + iy * g.sh + ix * g.sw), g.sw // 4
            if apart:
                for x in range(4):
                    memcpy(patch + (4 * y + x) * s.depth,
                           line[y] + x * step[y] if 0 <= ix + x < g.w else <const float *>g.zero, g.length)
                line[y], step[y] = patch + 4 * y * s.depth, s.depth
        s.slots.winograd_in(count, s.depth, line, step, v + done * s.depth, next)
        done += count


cdef void finish_tiles(const Conv *s, const Task *task, const float *m, ptrdiff_t j, int n) noexcept nogil:
    """Transform columns j..j+n of a task's products to output pixels."""
    cdef ptrdiff_t done = 0, count, image, ty, tx, nr = s.tile.nr
    cdef char *y
    cdef bint single
    while done < task.rows:
        tx, ty = (task.position + done) % s.across, (task.position + done) // s.across
        image, ty = ty // s.down, ty % s.down
        single = 2 * tx + 1 == s.window.ow
        count = 1 if single else min(task.rows - done, s.window.ow // 2 - tx)
        y = s.output.y + image * s.output.sn + 2 * ty * s.output.sh + 2 * tx * s.output.sw
        s.slots.winograd_out(count, n, m + done * nr, nr, task.rows * nr, s.bias + j if s.bias != NULL else NULL,
                             s.low, s.high, <float *>y + j, s.output.sh // 4 if 2 * ty + 1 < s.window.oh else 0,
                             0 if single else s.output.sw // 4)
        done += count


cdef void conv_f32_winograd_tasks(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Conv *s = <Conv *>ctx
    cdef float space[WINOGRAD_SCRATCH + 16]
    cdef float *scratch = <float *>(<size_t>(space + 15) & ~<size_t>63)      # vectors do not cross cache lines
    cdef float *m
    cdef ptrdiff_t i, j, p, next, seen = -1
    cdef pl_a_layout shape = pl_packed_layout(s.depth)
    cdef Task task
    cdef int n
    for i in range(begin, end):
        get_task(&s.tasks, &s.tiles, s.columns, i, &task)
        next = task.rows * s.depth
        if next % 1024 == 0:        # the 16 operands would share few sets of the cache
            next += 16
        m = scratch + 16 * next
        if i // s.tasks.splits != seen:
            seen = i // s.tasks.splits
            transform(s, &task, scratch, next, m)
        j = task.begin
        while j < task.end:
            n = <int>min(<ptrdiff_t>s.tile.nr, task.end - j)
            for p in range(16):
                s.slots.gemm_f32(task.rows, n, &shape, scratch + p * next, s.panels + (p * s.wide + j) * s.depth, 1, 0,
                                 NULL, 0, 0, m + p * task.rows * s.tile.nr, s.tile.nr)
            finish_tiles(s, &task, m, j, n)
            j += s.tile.nr
