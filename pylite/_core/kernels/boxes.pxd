# Boxes of object detectors, and their overlap.
cdef struct Box:
    float ymin, xmin, ymax, xmax


cdef inline float overlap(const Box *a, const Box *b) noexcept nogil:
    """Intersection over union; 0 for a box without area."""
    cdef float area_a = (a.ymax - a.ymin) * (a.xmax - a.xmin)
    cdef float area_b = (b.ymax - b.ymin) * (b.xmax - b.xmin)
    cdef float h, w
    if area_a <= 0 or area_b <= 0:
        return 0
    h = (b.ymax if b.ymax < a.ymax else a.ymax) - (b.ymin if a.ymin < b.ymin else a.ymin)
    w = (b.xmax if b.xmax < a.xmax else a.xmax) - (b.xmin if a.xmin < b.xmin else a.xmin)
    h = (0 if h < 0 else h) * (0 if w < 0 else w)
    return h / (area_a + area_b - h)
