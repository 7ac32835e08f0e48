"""REVERSE_V2 and REVERSE_SEQUENCE: elements in the opposite order along axes."""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.elementwise import infer_same, row_function
from pylite.ops.moves import INDICES, axis_of, copy, integers, movable


def lower_reverse(node):
    """One copy of a view with negative strides."""
    x, y = node.inputs[0], node.outputs[0]
    strides, offset = list(contiguous_strides(x.shape)), 0
    for axis in {axis_of(node, a, len(x.shape), x) for a in integers(node.constant(1, "list of axes"))}:
        offset += (x.shape[axis] - 1) * strides[axis]
        strides[axis] = -strides[axis]
    return copy(x.view(x.shape, tuple(strides), offset), y)


register("REVERSE_V2", versions=(1, 4), types=movable(f"T {INDICES} -> T"), infer=infer_same, lower=lower_reverse,
         reference=lambda x, axes, options: np.flip(x, tuple(axes.ravel())))


def lower_reverse_sequence(node):
    """The first lengths[b] elements along seq_dim in the opposite order, for each index b of batch_dim."""
    x, lengths, y = node.inputs[0], node.inputs[1], node.outputs[0]
    rank, o = len(x.shape), node.options
    seq, batch = axis_of(node, o.seq_dim, rank, x), axis_of(node, o.batch_dim, rank, x)
    if seq == batch or lengths.shape != (x.shape[batch],):
        raise node.error(f"of shape {list(lengths.shape)} should be one length for each of the {x.shape[batch]} "
                         f"indices along axis {batch}, reversed along axis {seq}", lengths)
    p, q = sorted((seq, batch))
    inner = prod(x.shape[q + 1:]) * x.itemsize
    numbers = x.shape[p], prod(x.shape[p + 1:q]), x.shape[q], inner, p == seq, lengths.itemsize
    return row_function("reverse_sequence", prod(x.shape[:p]), 0, numbers, x, lengths, y)


register("REVERSE_SEQUENCE", types=movable(f"T {INDICES} -> T"), infer=infer_same, lower=lower_reverse_sequence)
