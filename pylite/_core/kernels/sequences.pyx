"""The base of LSTM and RNN layers over a sequence: reads the arrays, and moves the kernel for other shapes.

recurrent.pyx and recurrent_integer.pyx derive kernels from it, which walk over the time steps.
"""
from pylite._core.run.kernel cimport describe, kernel_fn, nothing, placed

cdef enum:                  # the arrays in front of the scratch
    X
    AUX
    Y
    H
    C
    SCRATCH


GATE_NAMES = "input", "forget", "cell", "output"
FLAT = ((1, 0, True),) * (SCRATCH + SCRATCHES - H)      # the forms of h, c and the scratch


cdef class SequenceKernel(Kernel):
    """A layer over a sequence.

    x, aux (a second input, or None) and y: (time, rows, depth); any strides, but contiguous rows.
    h (rows * outputs,), c (rows * cells,), or None for an RNN: the state, read and written.
    Scratch: each array is None if LOCAL elements suffice.
    """

    cdef bint start(self, tuple arrays, sizes, Py_ssize_t item) except -1:
        """Take the arrays (x, aux, y, h, c, *scratch) and sizes, (cells, outputs); False if all is empty.

        item: bytes of an element of x, aux and y.
        """
        cdef Strided operands[SCRATCH + SCRATCHES]
        cdef const Strided *described[SCRATCH + SCRATCHES]
        self.memory, self.states, self.owners = arrays, arrays[H:SCRATCH], []
        self.cells, self.outputs = sizes
        describe(arrays, ((3, item, False), (3, item, False), (3, item, True), *FLAT), operands, described)
        if described[Y].nbytes == 0 or self.cells == 0 or self.outputs == 0:
            return False
        self.place(described, self)
        return True

    cdef void place(self, const Strided **arrays, SequenceKernel before):
        """Set the memory of the arrays, NULL for each that has the same memory as in `before`."""
        cdef const Strided *x = arrays[X]
        cdef const Strided *aux = arrays[AUX]
        cdef const Strided *y = arrays[Y]
        cdef int i
        self.steps, self.rows = y.shape[0], y.shape[1]
        self.x, self.x_time, self.x_row = x.data if x.nbytes else NULL, x.strides[0], x.strides[1]
        self.y, self.y_time, self.y_row, self.depth = y.data, y.strides[0], y.strides[1], x.shape[2]
        if aux != NULL and aux.nbytes:
            self.aux, self.aux_time, self.aux_row = aux.data, aux.strides[0], aux.strides[1]
            self.aux_depth = aux.shape[2]
        self.state, self.cell_state = placed(arrays[H], before.state), placed(arrays[C], before.cell_state)
        for i in range(SCRATCHES):
            self.reserved[i] = placed(arrays[SCRATCH + i], before.reserved[i])

    cdef void take_layer(self, SequenceKernel other):
        """Take the weights and parameters of `other`, a kernel of the same class."""
        raise NotImplementedError

    cdef Kernel moved(self, const Strided **arrays, list sizes):
        cdef const Strided *x = arrays[X]
        cdef const Strided *aux = arrays[AUX]
        cdef const Strided *y = arrays[Y]
        cdef SequenceKernel copy
        if (x == NULL or y == NULL or self.fn == <kernel_fn>nothing or x.nbytes == 0 or y.nbytes == 0
                or x.shape[2] != self.depth or (aux == NULL) != (self.aux == NULL)
                or (aux != NULL and (aux.nbytes == 0 or aux.shape[2] != self.aux_depth))
                or y.shape[1] != self.rows):        # another number of rows may need more scratch
            return None
        copy = <SequenceKernel>self.base_copy()
        copy.take_layer(self)
        copy.owners, copy.cells, copy.outputs = self.owners, self.cells, self.outputs
        if arrays[H] == NULL or (arrays[C] == NULL and self.cell_state != NULL):
            copy.states = self.states
        copy.place(arrays, self)
        return copy
