"""Turns calls into kernels: every Value, View and Scratch becomes a numpy array on its memory."""
import numpy as np

from pylite import errors
from pylite._core.kernels import kernel_class
from pylite._core.run import storage as memory
from pylite._core.run.memory import MemoryPool, use_pool
from pylite._core.run.storage import Storage as Storage
from pylite._core.run.storage import array_of as array_of
from pylite._core.simd import begin_packing, finish_packing
from pylite.ir.values import BAND, Banded


def bind(calls, storage, model, pool=None):
    """The kernels of `calls`, in order, bound to the memory in `storage`; see operands()."""
    return kernels(calls, operands(calls, storage, model, pool))


def operands(calls, storage, model, pool=None):
    """The arguments of the kernels of `calls`: a list of arrays, packed weights and parameters for each.

    model: the Model that packs weights, or None to pack them for these kernels alone; pool: the MemoryPool for packing
    weights that a run computed.
    """
    def pack(packed):
        if model is not None:
            return model.weights.pack(packed, pool)
        use_pool(MemoryPool())
        return kernel_class(packed.function)(packed.value.data, *packed.args)

    def banded(item):
        """The bytes of a Banded value together with its guard bands; the value is its own root."""
        value = item.value
        return np.ndarray((value.nbytes + 2 * BAND,), np.uint8, storage.arena, storage.offsets[value.index] - BAND)

    begin_packing()
    try:
        return memory.operands(calls, storage, pack, {Banded: banded}, _named)
    finally:
        finish_packing()


def kernels(calls, operands):
    """The kernels of `calls` on their `operands`."""
    return memory.kernels(calls, operands, kernel_class, _named)


def _named(call, problem):
    """The exception for `problem`, which names the node of `call`."""
    if call.node is None or isinstance(problem, errors.PyliteError):
        return problem
    error = call.node.wrapped(problem)
    error.__cause__ = problem
    return error
