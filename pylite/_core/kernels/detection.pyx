"""The post-processing of SSD detectors: decoding boxes from anchors, and non-maximum suppression."""
from libc.math cimport exp
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from pylite._core.kernels.boxes cimport Box, overlap
from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool, slots

cdef enum:
    MAX_BOXES = 16              # of a call of best_classes()


cdef struct Numbers:            # floats, or bytes with a table of floats
    const float *values
    const uint8_t *codes
    const float *table


cdef class DetectionPostProcess(Kernel):
    """TFLite_Detection_PostProcess for n boxes with `classes` scores each.

    encodings: (n, 4 or more); scores: (n, classes), or (n, classes + 1) with the background first; anchors: (n, 4).
    Each is float32 (its table is None), or 8-bit codes as uint8 with a table (256,) of their float32 values.  Encodings
    and anchors begin with y, x, h, w.
    boxes: (m, 4), labels: (m,), confidences: (m,), count: (1,): the results, float32, zeros after the last one.
    scales: the four divisors of encodings, float32; most: detections, at most.
    regular: suppress each class by itself, and keep up to `per_class` boxes of it.  Otherwise suppress all boxes at
    once, by their best score, and report the `per_box` best classes of each.
    Scratch: decoded (n, 4) float32; heap (n,) uint64; chosen and chosen_class (most,) int32; chosen_score (most,)
    float32; order (max(classes, most),) int32.
    """
    ERRORS = {1: "a box has its minimum above its maximum: an anchor or an encoding's scale is negative"}
    cdef Numbers encodings, scores, anchors
    cdef Py_ssize_t n, encoding_width, score_width, classes, most, per_class, per_box
    cdef float score_threshold, overlap_threshold
    cdef float scales[4]
    cdef bint regular
    cdef uint32_t flip          # 8-bit scores are XORed with it, to compare them as signed numbers
    cdef float[:, ::1] boxes, decoded
    cdef float[::1] labels, confidences, count, chosen_score
    cdef uint64_t[::1] heap
    cdef int32_t[::1] chosen, chosen_class, order
    cdef list owners        # the arrays that Numbers points to

    def __init__(self, encodings, scores, anchors, *, encodings_table, scores_table, anchors_table,
                 float[:, ::1] boxes, float[::1] labels, float[::1] confidences, float[::1] count,
                 const float[::1] scales,
                 Py_ssize_t classes, Py_ssize_t most, Py_ssize_t per_class, Py_ssize_t per_box, bint regular,
                 float score_threshold, float overlap_threshold, uint32_t flip, float[:, ::1] decoded,
                 uint64_t[::1] heap, int32_t[::1] chosen, int32_t[::1] chosen_class, float[::1] chosen_score,
                 int32_t[::1] order):
        self.owners = []
        self.encodings = numbers(self.owners, encodings, encodings_table)
        self.scores = numbers(self.owners, scores, scores_table)
        self.anchors = numbers(self.owners, anchors, anchors_table)
        self.n, self.encoding_width = encodings.shape
        self.score_width = scores.shape[1]
        self.boxes, self.labels, self.confidences, self.count = boxes, labels, confidences, count
        for i in range(4):
            self.scales[i] = scales[i]
        self.classes, self.most, self.per_class, self.per_box = classes, most, per_class, per_box
        self.regular, self.flip = regular, flip
        self.score_threshold, self.overlap_threshold = score_threshold, overlap_threshold
        self.decoded, self.heap, self.order = decoded, heap, order
        self.chosen, self.chosen_class, self.chosen_score = chosen, chosen_class, chosen_score
        if self.encoding_width < 4 or anchors.shape[1] != 4 or len(scores) != self.n or len(anchors) < self.n \
                or not 0 <= self.score_width - classes <= 1 or boxes.shape[0] < most * (1 if regular else per_box):
            raise ValueError("the arrays do not have sizes that go together")
        self.fn = <kernel_fn>detect


cdef Numbers numbers(list owners, array, table) except *:
    cdef const float[:, ::1] values
    cdef const uint8_t[:, ::1] codes
    cdef const float[::1] entries
    cdef Numbers result = Numbers(NULL, NULL, NULL)
    if 0 in array.shape:
        return result
    if table is None:
        values = array
        result.values = &values[0, 0]
    else:
        codes, entries = array, table
        result.codes, result.table = &codes[0, 0], &entries[0]
    owners += [array, table]
    return result


cdef inline float at(const Numbers *x, Py_ssize_t i) noexcept nogil:
    return x.values[i] if x.codes == NULL else x.table[x.codes[i]]


cdef int detect(DetectionPostProcess self, pl_pool *pool) noexcept nogil:
    memset(&self.boxes[0, 0], 0, self.boxes.shape[0] * sizeof(Box))
    memset(&self.labels[0], 0, self.labels.shape[0] * sizeof(float))
    memset(&self.confidences[0], 0, self.confidences.shape[0] * sizeof(float))
    self.count[0] = 0
    if self.n == 0:
        return 0
    if not decode(self):
        return 1
    if self.regular:
        by_class(self)
    else:
        all_at_once(self)
    return 0


cdef bint decode(DetectionPostProcess self) noexcept nogil:
    """Decode all boxes; False if a box has a negative side.  The reference rounds to float32 in these places."""
    cdef Py_ssize_t i
    cdef float y, x, half_h, half_w
    cdef double anchor_y, anchor_x, anchor_h, anchor_w
    cdef Box *box
    for i in range(self.n):
        anchor_y, anchor_x = at(&self.anchors, 4 * i), at(&self.anchors, 4 * i + 1)
        anchor_h, anchor_w = at(&self.anchors, 4 * i + 2), at(&self.anchors, 4 * i + 3)
        y = <float>(unscaled(self, i, 0) * anchor_h + anchor_y)
        x = <float>(unscaled(self, i, 1) * anchor_w + anchor_x)
        half_h = <float>(0.5 * exp(unscaled(self, i, 2)) * anchor_h)
        half_w = <float>(0.5 * exp(unscaled(self, i, 3)) * anchor_w)
        box = <Box *>&self.decoded[i, 0]
        box.ymin, box.xmin, box.ymax, box.xmax = y - half_h, x - half_w, y + half_h, x + half_w
        if box.ymin > box.ymax or box.xmin > box.xmax:
            return False
    return True


cdef inline double unscaled(DetectionPostProcess self, Py_ssize_t i, int k) noexcept nogil:
    """Component k of the encoding of box i, divided by its scale."""
    return <double>at(&self.encodings, i * self.encoding_width + k) / <double>self.scales[k]


# ---- suppression of one list of scores -----------------------------------------------------------------------
cdef inline uint64_t ranked(float score, Py_ssize_t i) noexcept nogil:
    """A sort key: it rises with the score and, among equal scores, falls with the index i, which it contains."""
    cdef uint32_t bits
    score += 0                          # -0.0 equals 0.0
    memcpy(&bits, &score, 4)
    bits = ~bits if bits >> 31 else bits | <uint32_t>0x80000000
    return (<uint64_t>bits << 32) | (<uint32_t>0xFFFFFFFF - <uint32_t>i)


cdef void sift(uint64_t *heap, Py_ssize_t root, Py_ssize_t n) noexcept nogil:
    """Restore the max-heap of n keys after heap[root] was replaced: move it down until no child is larger."""
    cdef uint64_t value = heap[root]
    cdef Py_ssize_t child = 2 * root + 1
    while child < n:
        if child + 1 < n and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[root] = heap[child]
        root, child = child, 2 * child + 1
    heap[root] = value


cdef Py_ssize_t suppress(DetectionPostProcess self, Py_ssize_t n, Py_ssize_t most, int32_t *chosen) noexcept nogil:
    """Choose up to `most` boxes of self.heap[:n], best first, skipping those that overlap a chosen one too much.

    Returns their number; chosen: set to their indices.
    """
    cdef Py_ssize_t i, taken = 0
    cdef uint64_t *heap = &self.heap[0]
    cdef Box *boxes = <Box *>&self.decoded[0, 0]
    cdef int32_t candidate
    cdef bint free
    for i in range(n // 2 - 1, -1, -1):
        sift(heap, i, n)
    while n > 0 and taken < most:
        candidate = <int32_t>(<uint32_t>0xFFFFFFFF - <uint32_t>heap[0])
        n -= 1
        heap[0] = heap[n]
        sift(heap, 0, n)
        free = True
        for i in range(taken):
            if overlap(&boxes[chosen[i]], &boxes[candidate]) > self.overlap_threshold:
                free = False
                break
        if free:
            chosen[taken] = candidate
            taken += 1
    return taken


# ---- all classes at once -------------------------------------------------------------------------------------
cdef void all_at_once(DetectionPostProcess self) noexcept nogil:
    """Suppress boxes by the score of their best class; report the best classes of each survivor."""
    cdef Py_ssize_t i, j, n = 0, taken, row, count, background = self.score_width - self.classes
    cdef Py_ssize_t classes = min(self.per_box, self.classes)
    cdef float score
    cdef int32_t best[MAX_BOXES]
    i = 0
    while i < self.n:
        count = min(<Py_ssize_t>MAX_BOXES, self.n - i)
        best_classes(self, i, count, best)
        for j in range(count):
            score = at(&self.scores, (i + j) * self.score_width + background + best[j])
            if score >= self.score_threshold:
                self.heap[n] = ranked(score, i + j)
                n += 1
        i += count
    taken = suppress(self, n, self.most, &self.chosen[0])
    for i in range(taken):
        row = self.chosen[i] * self.score_width + background
        if classes == 1:
            best_classes(self, self.chosen[i], 1, &self.order[0])
        else:
            sort_best(&self.scores, row, &self.order[0], self.classes, classes)
        for j in range(classes):
            put(self, self.per_box * i + j, self.chosen[i], self.order[j], at(&self.scores, row + self.order[j]))
    self.count[0] = taken


cdef void best_classes(DetectionPostProcess self, Py_ssize_t box, Py_ssize_t count, int32_t *best) noexcept nogil:
    """Set best to the best class of each of `count` boxes (up to MAX_BOXES), the first among equal scores."""
    cdef Py_ssize_t start = box * self.score_width + self.score_width - self.classes
    if self.scores.codes == NULL:
        slots.arg_max_f32(self.classes, count, 1, self.score_width, self.scores.values + start, 0, best)
    else:
        slots.arg_max_s8(self.classes, count, 1, self.score_width, self.scores.codes + start, self.flip, best)


cdef void put(DetectionPostProcess self, Py_ssize_t i, Py_ssize_t box, Py_ssize_t label, float score) noexcept nogil:
    """Write detection number i."""
    memcpy(&self.boxes[i, 0], &self.decoded[box, 0], sizeof(Box))
    self.labels[i] = label
    self.confidences[i] = score


cdef void sort_best(const Numbers *x, Py_ssize_t row, int32_t *order, Py_ssize_t n, Py_ssize_t most) noexcept nogil:
    """Set order[:most] to the indices of the `most` best of the n scores from x[row] on, best first.

    As in TensorFlow Lite, equal scores come in the order of libstdc++'s std::partial_sort: a heap of the first `most`,
    with the worst on top, takes in better ones, and is then sorted.
    """
    cdef Py_ssize_t i
    cdef int32_t value
    for i in range(n):
        order[i] = <int32_t>i
    for i in range((most - 2) // 2, -1, -1):
        sink(x, row, order, i, most, order[i])
    for i in range(most, n):
        if at(x, row + order[i]) > at(x, row + order[0]):
            value, order[i] = order[i], order[0]
            sink(x, row, order, 0, most, value)
    for i in range(most - 1, 0, -1):
        value, order[i] = order[i], order[0]
        sink(x, row, order, 0, i, value)


cdef void sink(const Numbers *x, Py_ssize_t row, int32_t *order, Py_ssize_t hole, Py_ssize_t n,
               int32_t value) noexcept nogil:
    """Put `value` into the heap of n at the empty place `hole`: the hole moves down to a leaf, the value up from it."""
    cdef Py_ssize_t top = hole, child = hole
    cdef float score = at(x, row + value)
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if at(x, row + order[child]) > at(x, row + order[child - 1]):
            child -= 1
        order[hole] = order[child]
        hole = child
    if n % 2 == 0 and child == (n - 2) // 2:
        child = 2 * child + 1
        order[hole] = order[child]
        hole = child
    while hole > top and at(x, row + order[(hole - 1) // 2]) > score:
        order[hole] = order[(hole - 1) // 2]
        hole = (hole - 1) // 2
    order[hole] = value


# ---- class by class ------------------------------------------------------------------------------------------
cdef void by_class(DetectionPostProcess self) noexcept nogil:
    """Suppress each class by itself, and report the best survivors of all; ties go to the lower class, then box."""
    cdef Py_ssize_t c, i, j, k, n, taken, kept = 0, background = self.score_width - self.classes
    cdef float score
    cdef int32_t *survivors = &self.order[0]
    for c in range(self.classes):
        n = 0
        for i in range(self.n):
            score = at(&self.scores, i * self.score_width + background + c)
            if score >= self.score_threshold:
                self.heap[n] = ranked(score, i)
                n += 1
        taken = suppress(self, n, min(self.per_class, self.most), survivors)
        for i in range(taken):
            score = at(&self.scores, survivors[i] * self.score_width + background + c)
            j = kept
            while j > 0 and self.chosen_score[j - 1] < score:
                j -= 1
            if j == self.most:
                break
            kept = min(kept + 1, self.most)
            for k in range(kept - 1, j, -1):
                self.chosen[k] = self.chosen[k - 1]
                self.chosen_class[k] = self.chosen_class[k - 1]
                self.chosen_score[k] = self.chosen_score[k - 1]
            self.chosen[j], self.chosen_class[j], self.chosen_score[j] = survivors[i], <int32_t>c, score
    for i in range(kept):
        put(self, i, self.chosen[i], self.chosen_class[i], self.chosen_score[i])
    self.count[0] = kept
