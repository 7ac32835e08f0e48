"""NON_MAX_SUPPRESSION_V4 and _V5."""
from libc.math cimport expf
from libc.stdint cimport int32_t

from pylite._core.kernels.boxes cimport Box, overlap
from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport pl_pool

cdef enum:
    KEPT = 128              # most chosen boxes whose corners are kept in order


cdef struct Candidate:
    float score
    int32_t index, begin        # begin: number of chosen boxes with which it was compared already


cdef class NonMaxSuppression(Kernel):
    """Chooses boxes, best first, that overlap no chosen box by iou_threshold; soft suppression lowers their scores.

    boxes: (n, 4) float32, any two opposite corners; scores: (n,); thresholds and sigma: (1,); sigma 0: no soft
    suppression; chosen: (m,) int32 indices, chosen_scores: (m,) or None, count: (1,) int32: the results, zeros after
    the last one; heap: (n, 3) int32, scratch.
    """
    cdef const float[:, ::1] boxes
    cdef const float[::1] scores, iou_threshold, score_threshold, sigma
    cdef int32_t[::1] chosen, count
    cdef float[::1] chosen_scores
    cdef int32_t[:, ::1] heap

    def __init__(self, const float[:, ::1] boxes, const float[::1] scores, *, const float[::1] iou_threshold,
                 const float[::1] score_threshold, const float[::1] sigma=None, int32_t[::1] chosen,
                 float[::1] chosen_scores, int32_t[::1] count, int32_t[:, ::1] heap):
        self.boxes, self.scores, self.heap = boxes, scores, heap
        self.iou_threshold, self.score_threshold, self.sigma = iou_threshold, score_threshold, sigma
        self.chosen, self.chosen_scores, self.count = chosen, chosen_scores, count
        self.fn = <kernel_fn>non_max_suppression


# As in TensorFlow Lite, candidates of equal score come in the order of libstdc++'s std::priority_queue.
cdef void rise(Candidate *heap, Py_ssize_t hole, Candidate value) noexcept nogil:
    """Put `value` into the heap at `hole` or above."""
    while hole > 0 and heap[(hole - 1) // 2].score < value.score:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = value


cdef void pop(Candidate *heap, Py_ssize_t n) noexcept nogil:
    """Remove the best of n candidates: the hole moves down to a leaf, the last candidate up from there."""
    cdef Candidate value = heap[n - 1]
    cdef Py_ssize_t hole = 0, child = 0
    n -= 1
    while child < (n - 1) // 2:
        child = 2 * (child + 1)
        if heap[child].score < heap[child - 1].score:
            child -= 1
        heap[hole] = heap[child]
        hole = child
    if n % 2 == 0 and n > 0 and child == (n - 2) // 2:
        child = 2 * child + 1
        heap[hole] = heap[child]
        hole = child
    rise(heap, hole, value)


cdef Box sorted_box(const float *corners) noexcept nogil:
    cdef Box box
    box.ymin, box.ymax = min(corners[0], corners[2]), max(corners[0], corners[2])
    box.xmin, box.xmax = min(corners[1], corners[3]), max(corners[1], corners[3])
    return box


cdef inline bint suppress(NonMaxSuppression self, Candidate *candidate, const Box *kept,
                          Py_ssize_t taken) noexcept nogil:
    """Is a candidate suppressed by a chosen box from `begin` to `taken` - 1?  With sigma, they lower its score.

    kept: the first KEPT of the chosen boxes.
    """
    cdef Py_ssize_t i
    cdef float iou_threshold = self.iou_threshold[0], score_threshold = self.score_threshold[0]
    cdef Box other, box = sorted_box(&self.boxes[candidate.index, 0])
    cdef float iou, sigma = self.sigma[0] if self.sigma is not None else 0
    for i in range(taken - 1, candidate.begin - 1, -1):
        other = kept[i] if i < KEPT else sorted_box(&self.boxes[self.chosen[i], 0])
        iou = overlap(&box, &other)
        if iou >= iou_threshold:
            return True
        if sigma > 0:
            candidate.score = candidate.score * expf(-0.5 / sigma * iou * iou)
        if candidate.score <= score_threshold:
            break
    return False


cdef int non_max_suppression(NonMaxSuppression self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t i, n = 0, taken = 0, most = self.chosen.shape[0]
    cdef Candidate *heap
    cdef Candidate candidate
    cdef Box kept[KEPT]
    cdef float score, lowest = self.score_threshold[0]
    for i in range(most):
        self.chosen[i] = 0
        if self.chosen_scores is not None:
            self.chosen_scores[i] = 0
    self.count[0] = 0
    if self.scores.shape[0] == 0:
        return 0
    heap = <Candidate *>&self.heap[0, 0]
    for i in range(self.scores.shape[0]):
        if self.scores[i] > lowest:
            candidate.score, candidate.index, candidate.begin = self.scores[i], <int32_t>i, 0
            rise(heap, n, candidate)
            n += 1
    most = min(most, n)         # also of boxes without area, which are chosen again and again
    while n > 0 and taken < most:
        candidate = heap[0]
        pop(heap, n)
        n -= 1
        score = candidate.score
        if suppress(self, &candidate, kept, taken):
            continue
        candidate.begin = <int32_t>taken
        if candidate.score == score:
            self.chosen[taken] = candidate.index
            if taken < KEPT:
                kept[taken] = sorted_box(&self.boxes[candidate.index, 0])
            if self.chosen_scores is not None:
                self.chosen_scores[taken] = score
            taken += 1
        # As in TensorFlow Lite, a chosen candidate is also put back; it suppresses itself later, unless it has no area.
        if candidate.score > lowest:
            rise(heap, n, candidate)
            n += 1
    self.count[0] = <int32_t>taken
    return 0
