"""Calls to kernels: every Value, View and Scratch becomes a numpy array of its memory."""
import numpy as np

from pylite import errors
from pylite._core.kernel import substituted
from pylite._core.kernels import kernel_class
from pylite._core.simd import begin_packing, finish_packing
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.values import BAND, Banded, Packed, Scratch, Value, View


class Storage:
    """The memory of values: the arrays made so far, and the arena for the others.

    arrays: {tensor index: typed array}; arena: uint8 array; offsets: {root tensor index: byte offset}; scratch:
    {Scratch: byte offset}.  Without an arena, as for constant folding, each value gets an array of its own.
    """
    __slots__ = ("arrays", "arena", "offsets", "scratch")

    def __init__(self, arrays, arena=None, offsets=None, scratch=None):
        self.arrays = arrays
        self.arena = arena
        self.offsets = offsets
        self.scratch = scratch

    def array(self, value):
        """The array of `value`, of its shape and dtype."""
        found = self.arrays.get(value.index)
        if found is None:
            found = self.arrays[value.index] = value.data if value.data is not None else self._made(value)
        return found

    def _made(self, value):
        root, dtype = value.root, NUMPY_DTYPES[value.dtype]
        if root is not value and root.index in self.arrays:
            base = self.arrays[root.index].reshape(-1)
            if root.nbytes != value.nbytes:
                base = base.view(np.uint8)[value.byte_offset:value.byte_offset + value.nbytes]
            return base.view(dtype).reshape(value.shape)
        if self.offsets is None:
            return array_of(value)
        return array_of(value, self.arena, self.offsets[root.index] + value.byte_offset)

    def banded(self, banded):
        """The bytes of a Banded value that is its own root, and its guard bands."""
        value = banded.value
        return np.ndarray((value.nbytes + 2 * BAND,), np.uint8, self.arena, self.offsets[value.index] - BAND)

    def temporary(self, scratch):
        """The array of a Scratch."""
        dtype = NUMPY_DTYPES[scratch.dtype]
        if self.scratch is None:
            return np.empty(scratch.shape, dtype)
        return np.ndarray(scratch.shape, dtype, self.arena, self.scratch[scratch])

    def view(self, view):
        """The array of a View."""
        dtype = NUMPY_DTYPES[view.dtype]
        size = dtype.itemsize
        base = self.array(view.value)
        strides = None if view.strides is None else tuple([s * size for s in view.strides])
        if not base.size:
            return np.empty(view.shape, dtype)
        return np.ndarray(view.shape, dtype, base, view.offset * size, strides)


def array_of(value, memory=None, offset=0):
    """An array for `value`, in `memory` or in memory of its own."""
    try:
        return np.ndarray(value.shape, NUMPY_DTYPES[value.dtype], memory, offset)
    except ValueError as problem:       # numpy limits the other dimensions of arrays without elements, too
        raise errors.TensorError(f"{value!r} has a shape that numpy cannot represent: {problem}") from None


def bind(calls, storage, model, pool=None):
    """The kernels of `calls`, in order, bound to the memory in `storage`; see operands()."""
    return kernels(calls, operands(calls, storage, model, pool))


def operands(calls, storage, model, pool=None):
    """What the kernels of `calls` take: for each a list of arrays, packed weights and parameters.

    model: packs weights, or None; pool: the MemoryPool of weights that are known since the run alone.
    """
    makers = {Value: storage.array, View: storage.view, Scratch: storage.temporary, Banded: storage.banded}
    if model is not None:
        makers[Packed] = lambda packed: model.pack(packed, pool)
    begin_packing()
    try:
        found = []
        for call in calls:
            found.append(substituted(call.args, makers))
        return found
    except Exception as problem:
        raise _named(call, problem)
    finally:
        finish_packing()


def kernels(calls, operands):
    """The kernels of `calls` on their `operands`."""
    made = []
    for call, args in zip(calls, operands, strict=True):
        make = call.kernel if callable(call.kernel) else kernel_class(call.kernel)
        try:
            made.append(make(*args))
        except Exception as problem:        # above all, arrays that do not fit, which lowering did not check
            raise _named(call, problem)
    return made


def _named(call, problem):
    """The exception for `problem`, which names the node of `call`."""
    if call.node is None or isinstance(problem, errors.PyliteError):
        return problem
    error = call.node.wrapped(problem)
    error.__cause__ = problem
    return error
