"""GATHER_ND: the slices of a tensor that vectors of indices name."""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.ops.boxes import components, gather, vectors_of
from pylite.ops.moves import movable


def infer_gather_nd(node):
    x, indices = node.inputs
    depth, _ = vectors_of(node, indices, x.shape)
    return [indices.shape[:-1] + x.shape[depth:]]


def lower_gather_nd(node):
    x, indices, y = node.inputs[0], node.inputs[1], node.outputs[0]
    depth, count = vectors_of(node, indices, x.shape)
    run = prod(x.shape[depth:])
    if depth == 1:
        return Call("gather.Gather", x.bytes, indices.bytes, y.bytes, width=indices.itemsize, size=x.shape[0],
                    count=count, run=run * x.itemsize)
    return gather(x, indices, y, vectors=[(count, depth, run, 0)], components=components(x.shape, depth),
                  shape=[(run, 1, 1)], policy="refuse")


def reference_gather_nd(x, indices, options):
    return x[tuple(np.moveaxis(indices, -1, 0))]


register("GATHER_ND", versions=(1, 6), types=movable("T int16|int32|int64 -> T"), infer=infer_gather_nd,
         lower=lower_gather_nd, reference=reference_gather_nd)
