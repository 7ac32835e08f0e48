"""Helpers of ops that gather or scatter boxes: blocks of a tensor whose first indices are in a vector of indices.

The kernels and their arguments are described in _core/kernels/indexing.pyx (Boxes).
"""
from math import prod

import numpy as np

from pylite.ir.shapes import collapse, contiguous_strides
from pylite.ir.values import Call
from pylite.ops.moves import integers


def gather(x, indices, y, **boxes):
    """The Call that copies boxes of x to y.  boxes: vectors, components, shape and policy of the kernel Boxes."""
    return Call("indexing.GatherBoxes", x.bytes, indices.bytes, y.bytes, item=y.itemsize, width=indices.itemsize,
                **boxes)


def scatter(y, indices, updates, *, combining=("", b"\0"), start=None, inplace=None, **boxes):
    """The Call that writes `updates` to boxes of y.

    combining: the micro-kernel that combines an update with the element in y, and its parameters; start: bytes that
    are copied to y first, or None; inplace: as for Call; boxes: as for gather().
    """
    return Call("indexing.ScatterBoxes", y.bytes, indices.bytes, updates.bytes, item=y.itemsize,
                width=indices.itemsize, **boxes, name=combining[0], p=combining[1], start=start, inplace=inplace)


def box_axes(shape, array_strides, box_strides):
    """The axes of a box, adjacent ones merged: [(size, array step, box step)]."""
    return list(zip(*collapse(shape, array_strides, box_strides), strict=True))


def components(shape, depth):
    """The components of index vectors that name an element of the first `depth` axes of an array of `shape`."""
    strides = contiguous_strides(shape)
    return [(i, shape[i] - 1, strides[i], -1) for i in range(depth)]


def vectors_of(node, indices, array_shape):
    """(indices in a vector, number of vectors) of the tensor `indices`, whose last axis holds the vectors."""
    depth = indices.shape[-1] if indices.shape else 1
    if depth > len(array_shape):
        raise node.error(f"of shape {list(indices.shape)} has {depth} indices for {len(array_shape)} dimensions",
                         indices)
    return depth, prod(indices.shape[:-1])


# ---- STABLEHLO: any axis holds the vectors -------------------------------------------------------------------
def option_list(numbers):
    """An option that is a vector of integers, None if it is absent, as a list of int."""
    return integers(np.asarray(numbers if numbers is not None else (), np.int64))


def are_axes(numbers, rank):
    """Are these distinct axes of a tensor of `rank` dimensions?"""
    return len(set(numbers)) == len(numbers) and all(0 <= i < rank for i in numbers)


def vector_axes(indices, vector_dim, box_steps):
    """(axes over the index vectors, step from one component of a vector to the next).

    vector_dim: the axis of `indices` that holds the vectors; their rank if every index is a vector; box_steps: the
    steps of the boxes along the other axes.
    """
    strides = contiguous_strides(indices.shape)
    axes = [i for i in range(len(indices.shape)) if i != vector_dim]
    component = strides[vector_dim] if vector_dim < len(strides) else 0
    return [(indices.shape[i], strides[i], step, 0) for i, step in zip(axes, box_steps, strict=True)], component
