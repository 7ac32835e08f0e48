"""Ops whose output sizes always depend on the contents of their inputs: WHERE, UNIQUE, RANGE."""
import numpy as np

from pylite._core.graph.dimensions import Dim
from pylite._core.kernels import kernel_class
from pylite.ir.registry import register
from pylite.ir.values import Constant, raw


def unknown(node):
    return None


def evaluate_where(node, x):
    """The indices of all elements that are not zero, one row each."""
    if not x.ndim:
        return [np.zeros((int(bool(x)), 0), np.int64)]
    mask = np.ascontiguousarray(x if x.dtype == np.bool_ else x != 0)
    return [kernel_class("scanning.indices_of")(mask, node.check_memory if node is not None else int)]


register("WHERE", versions=(1, 2), types=["bool|float32|int32|uint32|int64|int8|uint8 -> int64"], infer=unknown,
         evaluate=evaluate_where, reference=lambda x, options: evaluate_where(None, x)[0])


def infer_unique(node):
    x = node.inputs[0]
    if len(x.shape) != 1:
        raise node.error("must have one dimension; reshape it", x)
    if x.size >= 2**30:
        raise node.error("has more than 2^30 elements, which are too many to compare", x)


def evaluate_unique(node, x):
    """The distinct elements in the order of their first occurrence, and for each element the number of its own."""
    if node.memo is None:
        slots = 1 << len(x).bit_length() + 1
        node.check_memory(4 * slots + len(x) * (4 + 8 + x.itemsize))
        places, index = np.empty(len(x), np.int32), np.empty(len(x), node.outputs[1].dtype)
        values, count = np.empty_like(x), np.empty(1, np.int64)
        numbers = len(x), slots, x.dtype.name, x.itemsize, index.itemsize, hash(__name__)     # differs in each process
        run = kernel_class("scanning.RowFunction")("unique", 1, 0, numbers, *map(
            raw, (x, np.empty(slots, np.int32), places, index, count, values))).run
        node.memo = run, values, index, count
    run, values, index, count = node.memo
    run()
    return [values[:count.item()], index]


register("UNIQUE", types=["float32|int8|uint8|int16|int32|int64 -> any int32|int64"],
         infer=infer_unique, evaluate=evaluate_unique)


def range_of(node):
    """Start, stop and step of RANGE as scalars of its type, and the number of its elements."""
    start, stop, step = [node.constant(i, what).reshape(-1)[0] for i, what in enumerate(("start", "limit", "delta"))]
    if node.inputs[0].dtype != "float32":
        start, stop, step = [n if type(n) is Dim else int(n) for n in (start, stop, step)]
    if step == 0 or (stop > start and step < 0) or (stop < start and step > 0):
        raise node.error(f"cannot go from {start} to {stop} by {step}")
    if node.inputs[0].dtype == "float32":
        count = np.ceil(abs((stop - start) / step))
        if not np.isfinite(count):
            raise node.error(f"cannot go from {start} to {stop} by {step}")
        return start, step, int(count)
    return start, step, max(0, -((start - stop) // step))


def lower_range(node):
    start, step, count = range_of(node)
    y = node.outputs[0]
    if y.dtype == "float32":
        values = np.full(count, step)
        values[:1] = start
        return Constant(y, np.add.accumulate(values, dtype=np.float32))
    return Constant(y, start + step * np.arange(count, dtype=y.dtype))


register("RANGE", versions=(1, 2), types=[f"{t} {t} {t} -> {t}" for t in ("float32", "int32", "int64")],
         infer=lambda node: [(range_of(node)[2],)], lower=lower_range)
