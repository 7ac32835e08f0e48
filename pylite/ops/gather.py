"""GATHER: elements of one axis by their indices."""
from math import prod

import numpy as np

from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.ops.moves import axis_of, movable


def gather_axes(node):
    """(axis, batch_dims): the axis that is indexed, and how many leading dimensions x and the indices share."""
    x, indices = node.inputs[0], node.inputs[1]
    axis = axis_of(node, node.options.axis, len(x.shape), x)
    batch = node.options.batch_dims
    batch += len(indices.shape) if batch < 0 else 0
    if not 0 <= batch <= min(axis, len(indices.shape)) or x.shape[:batch] != indices.shape[:batch]:
        raise node.error(f"of shape {list(x.shape)} does not share {node.options.batch_dims} leading dimensions with "
                         f"the indices of shape {list(indices.shape)} at axis {axis}", x)
    return axis, batch


def infer_gather(node):
    axis, batch = gather_axes(node)
    x = node.inputs[0].shape
    return [x[:axis] + node.inputs[1].shape[batch:] + x[axis + 1:]]


def lower_gather(node):
    x, indices, y = node.inputs[0], node.inputs[1], node.outputs[0]
    axis, batch = gather_axes(node)
    if x.dtype == "string" and batch == 0:
        def take(x, indices, y):
            x.take(_positions(indices), axis, y)
        return Call("python_op.PythonOp", take, 2, 1, *node.inputs[:2], y)
    run = prod(x.shape[axis + 1:]) * NUMPY_DTYPES[x.dtype].itemsize
    batches = prod(x.shape[:batch])
    return Call("gather.Gather", _bytes(x), _bytes(indices), _bytes(y), width=NUMPY_DTYPES[indices.dtype].itemsize,
                batches=batches, outer=prod(x.shape[batch:axis]), size=x.shape[axis], count=indices.size // batches,
                run=run)


def _positions(indices):
    """The indices in a type that numpy takes from: on 32-bit machines none of 64 bits."""
    far = np.iinfo(np.intp)
    return indices if indices.itemsize <= far.bits // 8 else indices.clip(far.min, far.max).astype(np.intp)


def _bytes(value):
    return value.view((value.nbytes,), dtype="uint8")


def reference_gather(x, indices, options):
    batch = options.batch_dims
    if batch == 0:
        return x.take(_positions(indices), options.axis)
    inner = options.TABLE(axis=options.axis - (options.axis > 0), batch_dims=batch - 1)
    return np.stack([reference_gather(a, b, inner) for a, b in zip(x, indices, strict=True)])


register("GATHER", versions=(1, 8), types=movable("T int16|int32|int64 -> T"), infer=infer_gather, lower=lower_gather,
         reference=reference_gather)
