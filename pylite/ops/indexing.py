"""Ops that choose by condition or index: SELECT, GATHER_ND, SCATTER_ND, DYNAMIC_UPDATE_SLICE, ONE_HOT, segments."""
from math import prod

import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.shapes import broadcast_strides, contiguous_strides
from pylite.ir.values import Call
from pylite.numerics.quantization import FLT_MAX, LIMITS
from pylite.ops.elementwise import raw
from pylite.ops.filling import filled, sizes
from pylite.ops.moves import INDICES, axis_of, integers, movable, scalar
from pylite.ops.wide import TYPES, combining, region_op


# ---- by condition ------------------------------------------------------------------------------------------------
def infer_select(node):
    condition, x, y = node.inputs
    if x.shape != y.shape or condition.shape not in (x.shape, (), (1,), x.shape[:1]):
        raise node.error(f"of shape {list(condition.shape)} cannot choose between {list(x.shape)} and {list(y.shape)}",
                         condition)
    return [x.shape]


def infer_select_v2(node):
    try:
        return [shapes.broadcast(*(value.shape for value in node.inputs))]
    except ValueError as problem:
        raise node.error(str(problem), node.inputs[0]) from None


def lower_select(node):
    condition, x, y = node.inputs
    out = node.outputs[0]
    if node.name == "SELECT" and len(condition.shape) == 1 and condition.shape != out.shape:
        steps = (int(condition.size > 1),) + (0,) * (len(out.shape) - 1)         # one for each index of the first axis
    else:
        steps = broadcast_strides(condition.shape, out.shape)
    axes = shapes.collapse(out.shape, steps, *(broadcast_strides(v.shape, out.shape) for v in (x, y)))
    axes = list(zip(*axes, strict=True))
    return Call("indexing.Select", raw(condition), raw(x), raw(y), raw(out), axes, out.itemsize)


register("SELECT", versions=(1, 4), types=movable("bool T T -> T"), infer=infer_select, lower=lower_select)
register("SELECT_V2", versions=(1, 2), types=movable("bool T T -> T"), infer=infer_select_v2, lower=lower_select,
         reference=lambda c, x, y, options: np.where(c, x, y))


# ---- by vectors of indices ---------------------------------------------------------------------------------------
def gather(x, indices, y, *walk):
    """The Call that takes the boxes y out of x; walk: see kernels/indexing.pyx, Boxes."""
    return Call("indexing.GatherBoxes", raw(x), raw(indices), raw(y), y.itemsize, indices.itemsize, *walk)


def scatter(y, indices, boxes, *walk, inplace=None):
    """The Call that puts boxes into y."""
    return Call("indexing.ScatterBoxes", raw(y), raw(indices), raw(boxes), y.itemsize, indices.itemsize, *walk,
                inplace=inplace)


def box(shape, array_strides, box_strides):
    """The axes of a box as the kernels take them, the fewest that serve."""
    return list(zip(*shapes.collapse(shape, array_strides, box_strides), strict=True))


def components(shape, depth):
    """An index for each of the first `depth` axes of an array of `shape`."""
    strides = contiguous_strides(shape)
    return [(i, shape[i] - 1, strides[i], -1) for i in range(depth)]


def depth_of(node, indices, array_shape):
    """How many indices a vector has, and how many vectors there are."""
    depth = indices.shape[-1] if indices.shape else 1
    if depth > len(array_shape):
        raise node.error(f"of shape {list(indices.shape)} has {depth} indices for {len(array_shape)} dimensions",
                         indices)
    return depth, prod(indices.shape[:-1])


def infer_gather_nd(node):
    x, indices = node.inputs
    depth, _ = depth_of(node, indices, x.shape)
    return [indices.shape[:-1] + x.shape[depth:]]


def lower_gather_nd(node):
    x, indices, y = node.inputs[0], node.inputs[1], node.outputs[0]
    depth, count = depth_of(node, indices, x.shape)
    run = prod(x.shape[depth:])
    if depth == 1:
        return Call("gather.Gather", raw(x), raw(indices), raw(y), indices.itemsize, 1, 1, x.shape[0], count,
                    run * x.itemsize)
    return gather(x, indices, y, [(count, depth, run, 0)], components(x.shape, depth), [(run, 1, 1)], "refuse")


def reference_gather_nd(x, indices, options):
    return x[tuple(np.moveaxis(indices, -1, 0))]


register("GATHER_ND", versions=(1, 6), types=movable("T int16|int32|int64 -> T"), infer=infer_gather_nd,
         lower=lower_gather_nd, reference=reference_gather_nd)


def lower_scatter_nd(node):
    """Zeros, and on top of them the updates; those of equal indices add up."""
    indices, updates, y = node.inputs[0], node.inputs[1], node.outputs[0]
    depth, count = depth_of(node, indices, y.shape)
    if updates.shape != indices.shape[:-1] + y.shape[depth:]:
        raise node.error(f"of shape {list(updates.shape)} does not fit the indices of {list(indices.shape)} into "
                         f"{list(y.shape)}", updates)
    run = prod(y.shape[depth:])
    return [filled(y, 0), scatter(y, indices, updates, [(count, depth, run, 0)], components(y.shape, depth),
                                  [(run, 1, 1)], "refuse", *combining("add", y.dtype))]


register("SCATTER_ND", types=[f"{INDICES} {t} {INDICES} -> {t}" for t in (
    "float32", "int8", "uint8", "int16", "int32", "int64", "bool")], infer=lambda node: [sizes(node, 2, "shape")],
    lower=lower_scatter_nd)


def lower_sparse_to_dense(node):
    indices, values, default, y = node.inputs[0], node.inputs[2], node.inputs[3], node.outputs[0]
    depth = indices.shape[1] if len(indices.shape) == 2 else 1
    count = indices.shape[0] if indices.shape else 1
    if depth != len(y.shape) or len(indices.shape) > 2 or values.shape not in ((), (1,), (count,)):
        raise node.error(f"of shape {list(indices.shape)}, with values of {list(values.shape)}, does not fit the "
                         f"output {list(y.shape)}", indices)
    return [filled(y, default), scatter(y, indices, values, [(count, depth, int(values.size > 1), 0)],
                                        components(y.shape, depth), [], "refuse")]


register("SPARSE_TO_DENSE", versions=(1, 3), types=movable(f"{INDICES} {INDICES} T T -> T"),
         infer=lambda node: [sizes(node, 1, "output shape")], lower=lower_sparse_to_dense)


def infer_dynamic_update(node):
    x, update, start = node.inputs
    if len(update.shape) != len(x.shape) or start.size != len(x.shape) or any(
            n > m for n, m in zip(update.shape, x.shape, strict=True)):
        raise node.error(f"of shape {list(update.shape)} cannot be put into {list(x.shape)}, at {start.size} indices",
                         update)
    return [x.shape]


def lower_dynamic_update(node):
    """The update where `start` says, moved so far that it lies inside; over x itself where that is possible."""
    (x, update, start), (y,) = node.inputs, node.outputs
    strides = contiguous_strides(x.shape)
    where = [(i, n - m, s, -1) for i, (n, m, s) in enumerate(zip(x.shape, update.shape, strides, strict=True))]
    return scatter(y, start, update, [], where, box(update.shape, strides, contiguous_strides(update.shape)), "clamp",
                   "", b"\0", raw(x), inplace=(y, x))


register("DYNAMIC_UPDATE_SLICE", versions=(1, 6), types=movable(f"T T {INDICES} -> T"), infer=infer_dynamic_update,
         lower=lower_dynamic_update)


def one_hot_axis(node):
    rank = len(node.inputs[0].shape)
    return axis_of(node, node.options.axis, rank + 1, node.inputs[0])


def infer_one_hot(node):
    axis, shape = one_hot_axis(node), node.inputs[0].shape
    depth = scalar(node, 1, "depth")
    if depth < 0:
        raise node.error(f"is {depth}, but a depth cannot be negative", node.inputs[1])
    return [shape[:axis] + (depth,) + shape[axis:]]


def lower_one_hot(node):
    """`off` everywhere but at the indices; one that lies outside leaves its row off."""
    x, on, off, y = node.inputs[0], node.inputs[2], node.inputs[3], node.outputs[0]
    axis = one_hot_axis(node)
    if on.size != 1:
        raise node.error("should be one value", on)
    outer, inner, depth = prod(x.shape[:axis]), prod(x.shape[axis:]), y.shape[axis]
    vectors = [(outer, inner, 0, depth * inner), (inner, 1, 0, 1)]
    return [filled(y, off), scatter(y, x, on, vectors, [(0, depth - 1, inner, -1)], [], "skip")]


register("ONE_HOT", types=movable(f"{INDICES} int32 T T -> T"), infer=infer_one_hot, lower=lower_one_hot)


# ---- segments ----------------------------------------------------------------------------------------------------
def segment(node, count, op, start):
    """Rows of x combined by their segments' numbers; `start` is what a segment without rows has."""
    x, ids, y = node.inputs[0], node.inputs[1], node.outputs[0]
    run = prod(x.shape[len(ids.shape):])
    return [filled(y, start), scatter(y, ids, x, [(ids.size, 1, run, 0)], [(0, count - 1, run, -1)], [(run, 1, 1)],
                                      "skip negative", *combining(op, y.dtype))]


def infer_segment_sum(node):
    """As many segments as the largest number says; the numbers are sorted."""
    x, ids = node.inputs
    numbers = node.constant(1, "segment numbers")
    if numbers.ndim != 1 or numbers.shape != x.shape[:1] or (np.diff(numbers) < 0).any() or (numbers[:1] < 0).any():
        raise node.error(f"should be a rising number for each of {x.shape[:1]} rows", ids)
    return [((int(numbers[-1]) + 1 if numbers.size else 0), *x.shape[1:])]


def infer_unsorted_segment(node):
    x, ids = node.inputs[:2]
    count = scalar(node, 2, "number of segments")
    if ids.shape != x.shape[:len(ids.shape)] or count < 0:
        raise node.error(f"of shape {list(ids.shape)} does not number the parts of {list(x.shape)} in {count} segments",
                         ids)
    return [(count, *x.shape[len(ids.shape):])]


_STARTS = {"PROD": ("mul", lambda dtype: 1), "SUM": ("add", lambda dtype: 0),
           "MAX": ("maximum", lambda dtype: LIMITS[dtype][0] if dtype in LIMITS else -FLT_MAX),
           "MIN": ("minimum", lambda dtype: LIMITS[dtype][1] if dtype in LIMITS else FLT_MAX)}


def lower_segment(node):
    y = node.outputs[0]
    op, start = _STARTS[node.name.rpartition("_")[2]]
    return segment(node, y.shape[0], op, start(y.dtype))


register("SEGMENT_SUM", types=["float32 int32 -> float32", "int32 int32 -> int32"], infer=infer_segment_sum,
         lower=lower_segment)
for _name in ("UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MIN"):
    register(_name, types=[f"{t} int32 int32 -> {t}" for t in ("float32", "int32")], infer=infer_unsorted_segment,
             lower=lower_segment)


# ---- STABLEHLO_GATHER --------------------------------------------------------------------------------------------
def index_vectors(indices, vector_dim, other_steps):
    """(axes over the vectors of indices, step from one component of a vector to the next).

    other_steps: the steps of the other operand along those axes.
    """
    strides = contiguous_strides(indices.shape)
    axes = [i for i in range(len(indices.shape)) if i != vector_dim]
    component = strides[vector_dim] if vector_dim < len(strides) else 0
    return [(indices.shape[i], strides[i], step, 0) for i, step in zip(axes, other_steps, strict=True)], component


def gather_plan(node):
    o, (x, indices) = node.options, node.inputs
    offset, dropped, start, size = (integers(np.asarray(v if v is not None else (), np.int64)) for v in (
        o.offset_dims, o.collapsed_slice_dims, o.start_index_map, o.slice_sizes))
    vector = o.index_vector_dim
    depth = indices.shape[vector] if vector < len(indices.shape) else 1
    kept = [i for i in range(len(x.shape)) if i not in dropped]
    batch = [n for i, n in enumerate(indices.shape) if i != vector]
    rank = len(kept) + len(batch)
    if (len(size) != len(x.shape) or not len(set(offset)) == len(offset) == len(kept) or len(start) != depth
            or not 0 <= vector <= len(indices.shape) or any(not 0 <= i < len(x.shape) for i in start + dropped)
            or any(not 0 <= i < rank for i in offset)
            or any(not 0 <= s <= n for s, n in zip(size, x.shape, strict=True))):
        raise node.error(f"its dimension numbers do not fit the shapes {list(x.shape)} and {list(indices.shape)}", x)
    shape = [0] * rank
    for at, i in zip(offset, kept, strict=True):
        shape[at] = size[i]
    others = [i for i in range(rank) if i not in offset]
    for at, n in zip(others, batch, strict=True):
        shape[at] = n
    return tuple(shape), offset, others, kept, start, size, vector


def lower_gather(node):
    x, indices, y = node.inputs[0], node.inputs[1], node.outputs[0]
    shape, offset, others, kept, start, size, vector = gather_plan(node)
    steps, x_steps = contiguous_strides(shape), contiguous_strides(x.shape)
    vectors, component = index_vectors(indices, vector, [steps[i] for i in others])
    where = [(k * component, x.shape[i] - size[i], x_steps[i], -1) for k, i in enumerate(start)]
    return gather(x, indices, y, vectors, where, box(*(tuple(steps[i] for i in at) for steps, at in (
        (size, kept), (x_steps, kept), (steps, offset)))), "clamp")


register("STABLEHLO_GATHER", types=movable(f"T {INDICES} -> T"), infer=lambda node: [gather_plan(node)[0]],
         lower=lower_gather)


# ---- STABLEHLO_SCATTER -------------------------------------------------------------------------------------------
def infer_stablehlo_scatter(node):
    return [node.inputs[0].shape]


def lower_stablehlo_scatter(node):
    """Windows of the updates combined with the operand where the indices say, as far as they lie inside."""
    o, (x, indices, updates), y = node.options, node.inputs, node.outputs[0]
    window, dropped, into = (integers(np.asarray(v if v is not None else (), np.int64)) for v in (
        o.update_window_dims, o.inserted_window_dims, o.scatter_dims_to_operand_dims))
    vector = o.index_vector_dim
    depth = indices.shape[vector] if vector < len(indices.shape) else 1
    kept = [i for i in range(len(x.shape)) if i not in dropped]
    others = [i for i in range(len(updates.shape)) if i not in window]
    batch = [n for i, n in enumerate(indices.shape) if i != vector]
    if (len(kept) != len(window) or len(into) != depth or not 0 <= vector <= len(indices.shape)
            or any(not 0 <= i < len(x.shape) for i in into + dropped)
            or any(not 0 <= i < len(updates.shape) for i in window) or [updates.shape[i] for i in others] != batch
            or any(updates.shape[a] > x.shape[b] for a, b in zip(window, kept, strict=True))):
        raise node.error(f"its dimension numbers do not fit the shapes {list(x.shape)}, {list(indices.shape)} and "
                         f"{list(updates.shape)}", x)
    steps, x_steps = contiguous_strides(updates.shape), contiguous_strides(x.shape)
    vectors, component = index_vectors(indices, vector, [steps[i] for i in others])
    where = [(k * component, x.shape[i] - 1, x_steps[i], kept.index(i) if i in kept else -1)
             for k, i in enumerate(into)]
    op = region_op(node, o.update_computation_subgraph_index)
    shape = [(updates.shape[a], x_steps[b], steps[a]) for a, b in zip(window, kept, strict=True)]
    row = ("", b"\0") if op is None else combining(op, y.dtype)
    return scatter(y, indices, updates, vectors, where, shape, "cut", *row, raw(x), inplace=(y, x))


register("STABLEHLO_SCATTER", infer=infer_stablehlo_scatter, lower=lower_stablehlo_scatter,
         types=[f"{t} {INDICES} {t} -> {t}" for t in TYPES])
