"""Ops that permute: TRANSPOSE, and those that trade blocks of space for channels or batch entries.

Each is one strided copy; with padding or crops, a few, as blocks are then cut at the edges.
"""
from itertools import product
from math import prod

import numpy as np

from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ir.values import Alias
from pylite.ops.moves import INDICES, check_same_parameters, copy, integers, movable
from pylite.ops.padding import repeated


# ---- TRANSPOSE -----------------------------------------------------------------------------------------------
def permutation(node):
    x = node.inputs[0]
    order = integers(node.constant(1, "permutation"))
    axes = [axis + len(x.shape) if axis < 0 else axis for axis in order]
    if sorted(axes) != list(range(len(x.shape))):
        raise node.error(f"has {len(x.shape)} dimensions, which {order} does not permute", x)
    return axes


def infer_transpose(node):
    shape = node.inputs[0].shape
    return [tuple(shape[axis] for axis in permutation(node))]


def lower_transpose(node):
    x, y = node.inputs[0], node.outputs[0]
    axes = permutation(node)
    moved = [axis for axis in axes if x.shape[axis] != 1]
    if moved == sorted(moved):
        return Alias(y, x)
    strides = contiguous_strides(x.shape)
    return copy(x.view(y.shape, tuple(strides[axis] for axis in axes)), y)


register("TRANSPOSE", versions=(1, 9), types=movable(f"T {INDICES} -> T"), infer=infer_transpose,
         lower=lower_transpose, reference=lambda x, axes, options: x.transpose(axes))


# ---- SPACE_TO_DEPTH and DEPTH_TO_SPACE -----------------------------------------------------------------------
def infer_space_to_depth(node):
    x, block = node.inputs[0], node.options.block_size
    if len(x.shape) != 4 or block < 1 or x.shape[1] % block or x.shape[2] % block:
        raise node.error(f"of shape {list(x.shape)} cannot be cut in blocks of {block} x {block}", x)
    n, h, w, c = x.shape
    return [(n, h // block, w // block, c * block * block)]


def infer_depth_to_space(node):
    x, block = node.inputs[0], node.options.block_size
    if len(x.shape) != 4 or block < 1 or x.shape[3] % (block * block):
        raise node.error(f"of shape {list(x.shape)} has no blocks of {block} x {block} in its channels", x)
    n, h, w, c = x.shape
    return [(n, h * block, w * block, c // (block * block))]


def depth_and_space(depth, space, block):
    """Both values as arrays of (n, h, w, block row, block column, channel)."""
    n, h, w, _ = depth.shape
    sn, sh, sw, sc = contiguous_strides(space.shape)
    shape = (n, h, w, block, block, space.shape[3])
    return depth.view(shape), space.view(shape, (sn, block * sh, block * sw, sh, sw, sc))


def lower_space_to_depth(node):
    depth, space = depth_and_space(node.outputs[0], node.inputs[0], node.options.block_size)
    return copy(space, depth)


def lower_depth_to_space(node):
    depth, space = depth_and_space(node.inputs[0], node.outputs[0], node.options.block_size)
    return copy(depth, space)


def reference_space_to_depth(x, options):
    n, h, w, c = x.shape
    b = options.block_size
    return x.reshape(n, h // b, b, w // b, b, c).swapaxes(2, 3).reshape(n, h // b, w // b, c * b * b)


def reference_depth_to_space(x, options):
    n, h, w, c = x.shape
    b = options.block_size
    return x.reshape(n, h, w, b, b, c // (b * b)).swapaxes(2, 3).reshape(n, h * b, w * b, c // (b * b))


register("SPACE_TO_DEPTH", versions=(1, 2), types=movable("T -> T"), infer=infer_space_to_depth,
         lower=lower_space_to_depth, reference=reference_space_to_depth)
register("DEPTH_TO_SPACE", versions=(1, 2), types=movable("T -> T"), infer=infer_depth_to_space,
         lower=lower_depth_to_space, reference=reference_depth_to_space)


# ---- SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND -----------------------------------------------------------------
def blocks_and_edges(node):
    """(block sizes, [(before, after)]) of the axes between the batch and the last."""
    x = node.inputs[0]
    blocks, edges = integers(node.constant(1, "block shape")), integers(node.constant(2, "paddings or crops"))
    if len(blocks) != len(x.shape) - 2 or len(edges) != 2 * len(blocks) or min(blocks, default=0) < 1 \
            or min(edges, default=0) < 0:
        raise node.error(f"of shape {list(x.shape)} does not go with blocks {blocks} and edges {edges}", x)
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
    """Positions before .. before + size - 1 as rectangles of (block number, number of blocks, place in the block,
    places, position): a block that is cut at the start, the whole ones, one that is cut at the end."""
    at, end = before, before + size
    if at % block and at < end:
        places = min(block - at % block, size)
        yield at // block, 1, at % block, places, 0
        at += places
    if end - at >= block:
        yield at // block, (end - at) // block, 0, block, at - before
        at = end - end % block
    if at < end:
        yield at // block, 1, 0, end - at, at - before


def batch_and_space(batch, space, blocks, edges):
    """Pairs of views of equal shape that cover `space`; `edges` are the elements of `batch` that it lacks."""
    b_strides, s_strides = contiguous_strides(batch.shape), contiguous_strides(space.shape)
    n, c = space.shape[0], space.shape[-1]
    cuts = [list(_segments(before, size, block))
            for (before, _), size, block in zip(edges, space.shape[1:-1], blocks, strict=True)]
    for segments in product(*cuts):
        shape, b_view, s_view, b_start, s_start = [n], [b_strides[0]], [s_strides[0]], 0, 0
        for axis, (first, count, place, places, position) in enumerate(segments, 1):
            block = blocks[axis - 1]
            phase = n * prod(blocks[axis:]) * b_strides[0]
            shape += [count, places]
            b_view += [b_strides[axis], phase]
            s_view += [block * s_strides[axis], s_strides[axis]]
            b_start += first * b_strides[axis] + place * phase
            s_start += position * s_strides[axis]
        yield batch.view((*shape, c), (*b_view, 1), b_start), space.view((*shape, c), (*s_view, 1), s_start)


def lower_space_to_batch(node):
    x, y = node.inputs[0], node.outputs[0]
    blocks, edges = blocks_and_edges(node)
    if x.dtype in ("int8", "uint8", "int16"):
        check_same_parameters(node, [x, y])
    calls = []
    if x.size != y.size:
        zero = y.zero_point if y.dtype in ("int8", "uint8", "int16") else 0
        calls.append(copy(repeated(np.array(zero, NUMPY_DTYPES[y.dtype]), y.shape), y))
    if x.size:
        calls += [copy(space, batch) for batch, space in batch_and_space(y, x, blocks, edges)]
    return calls


def lower_batch_to_space(node):
    x, y = node.inputs[0], node.outputs[0]
    if x.dtype in ("int8", "uint8", "int16"):
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
