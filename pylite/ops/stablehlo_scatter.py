"""STABLEHLO_SCATTER: windows of updates combined with a tensor at the positions that vectors of indices name."""
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.boxes import are_axes, option_list, scatter, vector_axes
from pylite.ops.moves import INDICES
from pylite.ops.wide import TYPES, combining, region_op


class Dimensions:
    """The dimension numbers of a node.

    window: the axes of the updates that run over a window, one for each kept axis of x; kept: the axes of x that a
    window extends along, without the inserted ones; batch: the other axes of the updates, which run over the
    index vectors; into: the axis of x that each index of a vector counts along; vector: the axis of the indices that
    holds the vectors, their rank if every index is one.
    """
    __slots__ = ("window", "kept", "batch", "into", "vector")

    def __init__(self, node):
        o, (x, indices, updates) = node.options, node.inputs
        self.window, inserted, self.into = map(option_list, (
            o.update_window_dims, o.inserted_window_dims, o.scatter_dims_to_operand_dims))
        self.vector = o.index_vector_dim
        depth = indices.shape[self.vector] if self.vector < len(indices.shape) else 1
        self.kept = [i for i in range(len(x.shape)) if i not in inserted]
        self.batch = [i for i in range(len(updates.shape)) if i not in self.window]
        rank = len(x.shape)
        if not (are_axes(self.into, rank) and are_axes(inserted, rank) and len(self.into) == depth
                and 0 <= self.vector <= len(indices.shape)
                and self._windows_fit(x, updates) and self._batches_fit(indices, updates)):
            raise node.error(f"its dimension numbers do not fit the shapes {list(x.shape)}, {list(indices.shape)} and "
                             f"{list(updates.shape)}", x)

    def _windows_fit(self, x, updates):
        return (len(self.kept) == len(self.window) and are_axes(self.window, len(updates.shape))
                and all(updates.shape[a] <= x.shape[b] for a, b in zip(self.window, self.kept, strict=True)))

    def _batches_fit(self, indices, updates):
        vectors = [n for i, n in enumerate(indices.shape) if i != self.vector]
        return [updates.shape[i] for i in self.batch] == vectors


def infer_scatter(node):
    return [node.inputs[0].shape]


def lower_scatter(node):
    """A copy of x, with which windows are combined as far as they lie inside; in place where possible."""
    x, indices, updates = node.inputs
    y, d = node.outputs[0], Dimensions(node)
    steps, x_steps = contiguous_strides(updates.shape), contiguous_strides(x.shape)
    vectors, component = vector_axes(indices, d.vector, [steps[i] for i in d.batch])
    corner = [(k * component, x.shape[i] - 1, x_steps[i], d.kept.index(i) if i in d.kept else -1)
              for k, i in enumerate(d.into)]
    window = [(updates.shape[a], x_steps[b], steps[a]) for a, b in zip(d.window, d.kept, strict=True)]
    op = region_op(node, node.options.update_computation_subgraph_index)
    combination = ("", b"\0") if op is None else combining(op, y.dtype)
    return scatter(y, indices, updates, vectors=vectors, components=corner, shape=window, policy="clip",
                   combining=combination, start=x.bytes, inplace=(y, x))


register("STABLEHLO_SCATTER", infer=infer_scatter, lower=lower_scatter,
         types=[f"{t} {INDICES} {t} -> {t}" for t in TYPES])
