"""SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: blocks of space become batch entries, or batch entries blocks.

One strided copy; with paddings or crops a few, since blocks at the edges are then incomplete.
"""
from itertools import product
from math import prod

import numpy as np

from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.moves import STORED_INTEGERS, check_same_parameters, copy, integers, movable, repeated

MOST_AXES = 8       # of the input: each axis between the first and the last may become three


def blocks_and_edges(node):
    """(block sizes, [(before, after)]) of the axes between the batch and the last."""
    x = node.inputs[0]
    blocks, edges = integers(node.constant(1, "block shape")), integers(node.constant(2, "paddings or crops"))
    if len(x.shape) > MOST_AXES:
        raise node.error(f"has {len(x.shape)} dimensions; at most {MOST_AXES} are possible", x)
    if len(blocks) != len(x.shape) - 2 or len(edges) != 2 * len(blocks) or min(blocks, default=0) < 1 \
            or min(edges, default=0) < 0:
        raise node.error(f"of shape {list(x.shape)} does not fit blocks {blocks} and edges {edges}", x)
    return blocks, list(zip(edges[::2], edges[1::2], strict=True))


def infer_space_to_batch(node):
    x = node.inputs[0]
    blocks, edges = blocks_and_edges(node)
    padded = [n + before + after for n, (before, after) in zip(x.shape[1:], edges, strict=False)]
    if any(n % block for n, block in zip(padded, blocks, strict=True)):
        raise node.error(f"of shape {list(x.shape)}, padded to {padded}, cannot be cut in blocks {blocks}", x)
    cut = tuple(n // block for n, block in zip(padded, blocks, strict=True))
    return [(x.shape[0] * prod(blocks), *cut, x.shape[-1])]


def infer_batch_to_space(node):
    x = node.inputs[0]
    blocks, edges = blocks_and_edges(node)
    space = tuple(n * block - before - after
                  for n, block, (before, after) in zip(x.shape[1:-1], blocks, edges, strict=True))
    if x.shape[0] % prod(blocks) or min(space) < 0:
        raise node.error(f"of shape {list(x.shape)} has no blocks {blocks} to crop by {edges}", x)
    return [(x.shape[0] // prod(blocks), *space, x.shape[-1])]


def _segments(before, size, block):
    """Positions before .. before + size - 1 in up to three runs: an incomplete first block, complete blocks, the rest.

    Yields (first block, number of blocks, first index in each block, number of indices, first position less `before`).
    """
    start, end = before, before + size
    if start % block and start < end:
        count = min(block - start % block, size)
        yield start // block, 1, start % block, count, 0
        start += count
    if end - start >= block:
        yield start // block, (end - start) // block, 0, block, start - before
        start = end - end % block
    if start < end:
        yield start // block, 1, 0, end - start, start - before


def batch_and_space(batch, space, blocks, edges):
    """Pairs of views of equal shape that cover `space`; edges: (before, after) elements that only `batch` has."""
    b_strides, s_strides = contiguous_strides(batch.shape), contiguous_strides(space.shape)
    n, c = space.shape[0], space.shape[-1]
    cuts = [list(_segments(before, size, block))
            for (before, _), size, block in zip(edges, space.shape[1:-1], blocks, strict=True)]
    for segments in product(*cuts):
        shape, b_view, s_view, b_start, s_start = [n], [b_strides[0]], [s_strides[0]], 0, 0
        for axis, (first, count, index, indices, position) in enumerate(segments, 1):
            block = blocks[axis - 1]
            phase = n * prod(blocks[axis:]) * b_strides[0]      # from one index in a block to the next
            shape += [count, indices]
            b_view += [b_strides[axis], phase]
            s_view += [block * s_strides[axis], s_strides[axis]]
            b_start += first * b_strides[axis] + index * phase
            s_start += position * s_strides[axis]
        yield batch.view((*shape, c), (*b_view, 1), b_start), space.view((*shape, c), (*s_view, 1), s_start)


def lower_space_to_batch(node):
    x, y = node.inputs[0], node.outputs[0]
    blocks, edges = blocks_and_edges(node)
    if x.dtype in STORED_INTEGERS:
        check_same_parameters(node, [x, y])
    calls = []
    if x.size != y.size:
        zero = y.zero_point if y.dtype in STORED_INTEGERS else 0
        calls.append(copy(repeated(np.array(zero, NUMPY_DTYPES[y.dtype]), y.shape), y))
    if x.size:
        calls += [copy(space, batch) for batch, space in batch_and_space(y, x, blocks, edges)]
    return calls


def lower_batch_to_space(node):
    x, y = node.inputs[0], node.outputs[0]
    if x.dtype in STORED_INTEGERS:
        check_same_parameters(node, [x, y])
    return [copy(batch, space) for batch, space in batch_and_space(x, y, *blocks_and_edges(node))]


def reference_space_to_batch(x, blocks, widths, options):
    x = np.pad(x, [(0, 0), *widths, (0, 0)])
    for axis, block in zip(range(len(blocks), 0, -1), blocks[::-1], strict=True):
        x = np.concatenate([np.take(x, range(i, x.shape[axis], block), axis) for i in range(block)])
    return x


def reference_batch_to_space(x, blocks, crops, options):
    n, *space, c = x.shape
    axes = [len(blocks)]
    for axis in range(len(blocks)):
        axes += [len(blocks) + 1 + axis, axis]
    x = x.reshape(*blocks, n // prod(blocks), *space, c).transpose(*axes, x.ndim + len(blocks) - 1)
    x = x.reshape(n // prod(blocks), *(a * b for a, b in zip(space, blocks, strict=True)), c)
    return x[(slice(None), *(slice(a, n - b) for (a, b), n in zip(crops, x.shape[1:], strict=False)))]


register("SPACE_TO_BATCH_ND", versions=(1, 4), types=movable("T int32 int32 -> T"), infer=infer_space_to_batch,
         lower=lower_space_to_batch, reference=reference_space_to_batch)
register("BATCH_TO_SPACE_ND", versions=(1, 4), types=movable("T int32 int32 -> T"), infer=infer_batch_to_space,
         lower=lower_batch_to_space, reference=reference_batch_to_space)
