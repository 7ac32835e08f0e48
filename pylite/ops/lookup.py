"""Rows of tables: EMBEDDING_LOOKUP, EMBEDDING_LOOKUP_SPARSE, HASHTABLE_LOOKUP."""
import math

import numpy as np

from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.values import Call, Temporary
from pylite.numerics.lookup_tables import defined16
from pylite.ops.elementwise import require_quantized
from pylite.ops.moves import integers, movable

_PACKED = "int8|uint8|int4|int2"


# ---- EMBEDDING_LOOKUP ---------------------------------------------------------------------------------------
def infer_embedding(node):
    ids, table = node.inputs
    if len(ids.shape) != 1:
        raise node.error("the indices must have 1 dimension", ids)
    if len(table.shape) < 2 and table.dtype != "string":
        raise node.error("the table must have at least 2 dimensions", table)
    return [(*ids.shape, *table.shape[1:])]


def lower_embedding(node):
    ids, table = node.inputs
    y = node.outputs[0]
    rows, run = table.shape[0], math.prod(table.shape[1:])
    if y.dtype == "string":
        return Call("python_op.PythonOp", _strings, 2, 1, *node.inputs, y)
    if table.dtype == y.dtype:
        return Call("gather.Gather", table.bytes, ids.bytes, y.bytes, width=4, size=rows, count=ids.size,
                    run=run * NUMPY_DTYPES[y.dtype].itemsize)
    if y.dtype == "int16":
        require_quantized(node, y)
        gathered = Temporary(node, y.shape, table.dtype)
        entries = defined16(np.positive, table.dtype, table.scale, table.zero_point, y.scale, y.zero_point, True)
        return [Call("gather.Gather", table.bytes, ids.bytes, gathered.bytes, width=4, size=rows, count=ids.size,
                     run=run),
                Call("elementwise.Unary", "lut8_i16", y.size, gathered.bytes, y.bytes, entries.view(np.uint8))]
    scales, blocks = table.scales, 1
    if table.block_size:
        if run % table.block_size or len(scales) != rows * run // table.block_size:
            raise node.error(f"has {len(scales)} scales for blocks of {table.block_size} in rows of {run}", table)
        blocks = run // table.block_size
    elif len(scales) not in (1, rows) or (len(scales) > 1 and table.axis != 0):
        raise node.error(f"has {len(scales)} scales along axis {table.axis} for {rows} rows", table)
    elif table.zero_points.any():
        raise node.error("its zero points must be 0", table)
    return Call("gather.Lookup", table.bytes, ids, y.bytes,
                np.ascontiguousarray(scales, np.float32), rows=rows, blocks=blocks, size=run // blocks,
                half=y.dtype == "float16")


def _strings(ids, table, y):
    if ids.size and not 0 <= ids.min() <= ids.max() < len(table):
        raise IndexError(f"an index of {ids.min()} to {ids.max()} lies outside the table of {len(table)} rows")
    y[...] = table[ids]


register("EMBEDDING_LOOKUP", versions=(1, 5), infer=infer_embedding, lower=lower_embedding, blockwise=True,
         types=[*movable("int32 T -> T"), "int32 string -> string", "int32 int8|uint8 -> int16",
                f"int32 {_PACKED} -> float32|float16"],
         reference=lambda ids, table, o: table[ids.astype(int)])


# ---- EMBEDDING_LOOKUP_SPARSE --------------------------------------------------------------------------------
def infer_sparse(node):
    ids, indices, _, weights, table = node.inputs
    shape = integers(node.constant(2, "shape"))
    if len(indices.shape) != 2 or indices.shape[0] != ids.size or weights.size != ids.size:
        raise node.error(f"must have a row for each of the {ids.size} ids, as must the weights", indices)
    if len(table.shape) < 2:
        raise node.error("the table must have at least 2 dimensions", table)
    if len(shape) != indices.shape[1] or min(shape, default=0) < 0:
        raise node.error(f"is the shape {shape}, for indices of {indices.shape[1]} dimensions", node.inputs[2])
    return [(*shape[:-1], *table.shape[1:])]


def lower_sparse(node):
    combiner, lead = node.options.combiner, node.outputs[0].shape[:node.inputs[1].shape[1] - 1]

    def run(ids, indices, shape, weights, table, y):
        y[...] = 0
        if ((ids < 0) | (ids >= len(table))).any():
            raise ValueError(f"an id lies outside the {len(table)} rows of the table")
        at = indices[:, :-1]
        if ((at < 0) | (at >= np.array(lead, np.int32))).any():
            raise ValueError(f"an index lies outside {list(lead)}")
        buckets = np.ravel_multi_index(tuple(at.T), lead) if lead else np.zeros(len(ids), int)
        rows = y.reshape(-1, math.prod(table.shape[1:]))
        entries = table.reshape(len(table), -1)
        ends = np.append(np.flatnonzero(np.diff(buckets)) + 1, len(buckets)) if len(buckets) else []
        begin = 0
        for end in ends:                        # runs of one bucket
            row = rows[buckets[begin]]
            for i, w in zip(ids[begin:end], weights[begin:end], strict=True):
                row += entries[i] * w
            if combiner != "SUM":
                w = weights[begin:end]
                row /= w.sum(dtype=np.float32) if combiner == "MEAN" else np.sqrt((w * w).sum(dtype=np.float32))
            begin = end
    return Call("python_op.PythonOp", run, 5, 1, *node.inputs, node.outputs[0])


register("EMBEDDING_LOOKUP_SPARSE", infer=infer_sparse, lower=lower_sparse,
         types=["int32 int32 int32 float32 float32 -> float32"])


# ---- HASHTABLE_LOOKUP ---------------------------------------------------------------------------------------
def infer_hashtable(node):
    wanted, keys, table = node.inputs
    if len(wanted.shape) != 1 or len(keys.shape) != 1:
        raise node.error("look-ups and keys must have 1 dimension", keys)
    if not table.shape or table.shape[0] != keys.shape[0] or not table.shape[0]:
        raise node.error(f"must have a row for each of the {keys.shape[0]} keys, and at least one", table)
    return [(*wanted.shape, *table.shape[1:]), wanted.shape]


def lower_hashtable(node):
    return Call("python_op.PythonOp", _find, 3, 2, *node.inputs, *node.outputs)


def _find(wanted, keys, table, y, hits):
    """The keys are sorted; a missing key gives zeros."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    present = keys[at] == wanted
    hits[...] = present
    y[...] = table[at]
    y[~present] = b"" if y.dtype.hasobject else 0


register("HASHTABLE_LOOKUP", infer=infer_hashtable, lower=lower_hashtable,
         types=[*movable("int32 int32 T -> T uint8"), "int32 int32 string -> string uint8"])
