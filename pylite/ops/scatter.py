"""Elements written to indexed positions: SCATTER_ND, SPARSE_TO_DENSE, DYNAMIC_UPDATE_SLICE, ONE_HOT."""
from math import prod

from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.boxes import box_axes, components, scatter, vectors_of
from pylite.ops.elementwise import row_function
from pylite.ops.moves import INDICES, axis_of, filled, movable, scalar, shape_operand
from pylite.ops.wide import combining


# ---- SCATTER_ND ----------------------------------------------------------------------------------------------
def lower_scatter_nd(node):
    """Zeros, to which the updates are added; those of equal indices add up."""
    indices, updates, y = node.inputs[0], node.inputs[1], node.outputs[0]
    depth, count = vectors_of(node, indices, y.shape)
    if updates.shape != indices.shape[:-1] + y.shape[depth:]:
        raise node.error(f"of shape {list(updates.shape)} does not fit the indices of {list(indices.shape)} into "
                         f"{list(y.shape)}", updates)
    run = prod(y.shape[depth:])
    return [filled(y, 0), scatter(y, indices, updates, vectors=[(count, depth, run, 0)],
                                  components=components(y.shape, depth), shape=[(run, 1, 1)], policy="refuse",
                                  combining=combining("add", y.dtype))]


register("SCATTER_ND", types=[f"{INDICES} {t} {INDICES} -> {t}" for t in (
    "float32", "int8", "uint8", "int16", "int32", "int64", "bool")],
    infer=lambda node: [shape_operand(node, 2, "shape")], lower=lower_scatter_nd)


# ---- SPARSE_TO_DENSE -----------------------------------------------------------------------------------------
def lower_sparse_to_dense(node):
    indices, values, default, y = node.inputs[0], node.inputs[2], node.inputs[3], node.outputs[0]
    depth = indices.shape[1] if len(indices.shape) == 2 else 1
    count = indices.shape[0] if indices.shape else 1
    if depth != len(y.shape) or len(indices.shape) > 2 or values.shape not in ((), (1,), (count,)):
        raise node.error(f"of shape {list(indices.shape)}, with values of {list(values.shape)}, does not fit the "
                         f"output {list(y.shape)}", indices)
    return [filled(y, default), scatter(y, indices, values, vectors=[(count, depth, int(values.size > 1), 0)],
                                        components=components(y.shape, depth), shape=[], policy="refuse")]


register("SPARSE_TO_DENSE", versions=(1, 3), types=movable(f"{INDICES} {INDICES} T T -> T"),
         infer=lambda node: [shape_operand(node, 1, "output shape")], lower=lower_sparse_to_dense)


# ---- DYNAMIC_UPDATE_SLICE ------------------------------------------------------------------------------------
def infer_dynamic_update(node):
    x, update, start = node.inputs
    if len(update.shape) != len(x.shape) or start.size != len(x.shape) or any(
            n > m for n, m in zip(update.shape, x.shape, strict=True)):
        raise node.error(f"of shape {list(update.shape)} cannot be put into {list(x.shape)}, at {start.size} indices",
                         update)
    return [x.shape]


def lower_dynamic_update(node):
    """x with the update at `start`, which is clamped so that the update lies inside; in place where possible.

    The write of a TensorArray's element (compiler/passes/tensor_array_writes.py) has one index, which is not clamped.
    """
    (x, update, start), (y,) = node.inputs, node.outputs
    strides = contiguous_strides(x.shape)
    corner = [(i, n - m, s, -1) for i, (n, m, s) in enumerate(zip(x.shape, update.shape, strides, strict=True))]
    policy = "clamp"
    if getattr(node.options, "is_element", False):
        corner, policy = corner[:1], "refuse"
    return scatter(y, start, update, vectors=[], components=corner, policy=policy, start=x.bytes, inplace=(y, x),
                   shape=box_axes(update.shape, strides, contiguous_strides(update.shape)))


register("DYNAMIC_UPDATE_SLICE", versions=(1, 6), types=movable(f"T T {INDICES} -> T"), infer=infer_dynamic_update,
         lower=lower_dynamic_update)


# ---- ONE_HOT -------------------------------------------------------------------------------------------------
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
    """An index outside of 0 .. depth - 1 is skipped."""
    x, on, off, y = node.inputs[0], node.inputs[2], node.inputs[3], node.outputs[0]
    axis = one_hot_axis(node)
    for value in (on, off):
        if value.size != 1:
            raise node.error("should be one value", value)
    inner, depth = prod(x.shape[axis:]), y.shape[axis]
    return row_function("one_hot", prod(x.shape[:axis]), 1 + 32768 // max(depth * inner, 1),
                        (depth, inner, y.itemsize, x.itemsize), x, on, off, y)


register("ONE_HOT", types=movable(f"{INDICES} int32 T T -> T"), infer=infer_one_hot, lower=lower_one_hot)
