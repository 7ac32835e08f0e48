"""Tapes evaluate a Recording: all recorded arithmetic, for one set of shapes at a time."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from pylite._core.graph.dimensions cimport (
    ADD,
    DIVIDE,
    EQUAL,
    INPUT,
    LESS,
    MAX_FACTOR,
    MULTIPLY,
    NOT_GREATER,
    NUMBER,
    SUBTRACT,
    Computed,
    Dim,
    Recording,
    number_limit,
)


cdef class Numbers:
    """The base of classes that hold a number for each cell of a Recording."""
    def filled(self, thing):
        """`thing`, a number or a tuple or list of things, with Dims replaced by their numbers."""
        return filled(self.numbers, thing)


cdef class Tape(Numbers):
    """A Recording in a form for fast evaluation.  size: number of cells; inputs: number of input dimensions.

    Holds the numbers of the last evaluate().
    """
    def __cinit__(self, Recording recording not None, *_):
        cdef Py_ssize_t i, n = len(recording.instructions)
        self.size = n
        self.operations = <int *>calloc(max(n, 1), sizeof(int))
        self.first = <int64_t *>calloc(4 * max(n, 1), sizeof(int64_t))
        self.guarded = <char *>calloc(max(n, 1), 1)
        if self.operations == NULL or self.first == NULL or self.guarded == NULL:
            raise MemoryError(f"no memory for {n} instructions")
        self.second, self.expected, self.numbers = self.first + n, self.first + 2 * n, self.first + 3 * n
        for i, (operation, a, b) in enumerate(recording.instructions):
            self.operations[i], self.first[i], self.second[i] = operation, a, b
            self.inputs += operation == INPUT
            if operation == NUMBER:
                self.numbers[i] = a
        for i, value in recording.guards.items():
            self.guarded[i], self.expected[i] = 1, value
        recording.closed = True

    def __dealloc__(self):
        free(self.operations)
        free(self.first)
        free(self.guarded)

    def evaluate(self, sizes):
        """Compute all cells for the input dimensions `sizes`; returns whether the guards hold."""
        cdef Py_ssize_t i, j = 0
        for i in range(self.size):
            if self.operations[i] == INPUT:
                self.numbers[i] = sizes[j]
                j += 1
        return self.run()

    cdef bint run(self) noexcept nogil:
        cdef int64_t a, b, c, limit = number_limit()
        cdef Py_ssize_t i
        cdef int operation
        for i in range(self.size):
            operation = self.operations[i]
            if operation >= ADD:
                a, b = self.numbers[self.first[i]], self.numbers[self.second[i]]
                if operation == ADD:
                    c = a + b
                elif operation == SUBTRACT:
                    c = a - b
                elif operation == MULTIPLY:     # divides only if a factor has more than 31 bits
                    if not (-MAX_FACTOR <= a <= MAX_FACTOR and -MAX_FACTOR <= b <= MAX_FACTOR) and a != 0 and (
                            b > limit // (a if a > 0 else -a) or -b > limit // (a if a > 0 else -a)):
                        return False
                    c = a * b
                elif operation == EQUAL:
                    c = a == b
                elif operation == LESS:
                    c = a < b
                elif operation == NOT_GREATER:
                    c = a <= b
                elif b == 0:
                    return False
                elif operation == DIVIDE:
                    c = a // b
                    if a % b and (a < 0) != (b < 0):
                        c -= 1
                else:
                    c = a % b
                    if c and (c < 0) != (b < 0):
                        c += b
                if c >= limit or c <= -limit:
                    return False
                self.numbers[i] = c
            if self.guarded[i] and self.numbers[i] != self.expected[i]:
                return False
        return True

    def numbers_now(self):
        """A copy of the numbers."""
        return KeptNumbers(self)


cdef class ShapeTape(Tape):
    """The Tape of a recording of input shapes.

    shapes: one per input; varying: [(input, axis)] of the dimensions that vary, in order; all others are constant.
    """
    def __cinit__(self, Recording recording not None, list shapes not None, list varying not None):
        cdef Py_ssize_t i = 0
        self.ranks = tuple([len(shape) for shape in shapes])
        self.constant = <int64_t *>calloc(sum(self.ranks) + 1, sizeof(int64_t))
        if self.constant == NULL:
            raise MemoryError(f"no memory for the dimensions of {shapes}")
        for position, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                self.constant[i] = -1 if (position, axis) in varying else size
                i += 1

    def __dealloc__(self):
        free(self.constant)

    cpdef bint evaluate_shapes(self, shapes) except -1:
        """Compute all cells for input `shapes`; False if the recording does not cover them."""
        cdef Py_ssize_t i = 0, cell = 0, position
        cdef int64_t size
        if len(shapes) != len(self.ranks):
            return False
        for position, shape in enumerate(shapes):
            if len(shape) != <Py_ssize_t>self.ranks[position]:
                return False
            for size in shape:
                if self.constant[i] < 0:
                    self.numbers[cell] = size      # input dimensions have the first cells
                    cell += 1
                elif self.constant[i] != size:
                    return False
                i += 1
        return self.run()


cdef class KeptNumbers(Numbers):
    """The numbers of a Tape for one set of shapes."""
    def __cinit__(self, Tape tape not None):
        self.numbers = <int64_t *>calloc(max(tape.size, 1), sizeof(int64_t))
        if self.numbers == NULL:
            raise MemoryError(f"no memory for {tape.size} numbers")
        memcpy(self.numbers, tape.numbers, tape.size * sizeof(int64_t))

    def __dealloc__(self):
        free(self.numbers)


cdef object filled(const int64_t *numbers, thing):
    cdef list result
    cdef Py_ssize_t i
    if type(thing) is Dim:
        return numbers[(<Dim>thing).cell]
    if isinstance(thing, tuple) or type(thing) is list:
        result = list(thing)
        for i in range(len(result)):
            item = result[i]
            if type(item) is not int:
                result[i] = filled(numbers, item)
        if type(thing) is list:
            return result
        return tuple(result) if type(thing) is tuple else type(thing)(*result)      # a named tuple
    if type(thing) is Computed:
        return (<Computed>thing).function(*filled(numbers, (<Computed>thing).args))
    return thing
