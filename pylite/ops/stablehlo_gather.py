"""STABLEHLO_GATHER: slices of a tensor at the positions that vectors of indices name, clamped to lie inside."""
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.boxes import are_axes, box_axes, gather, option_list, vector_axes
from pylite.ops.moves import INDICES, movable


class Dimensions:
    """The dimension numbers of a node.

    sizes: the shape of a slice of x; kept: the axes of x that remain in y, without the collapsed ones;
    offset: the axes of y that run over a slice, one for each kept axis of x; batch: the other axes of y, which run over
    the index vectors; start: the axis of x that each index of a vector counts along; vector: the axis of the indices
    that holds the vectors, their rank if every index is one.
    """
    __slots__ = ("sizes", "kept", "offset", "batch", "start", "vector")

    def __init__(self, node):
        o, (x, indices) = node.options, node.inputs
        self.offset, collapsed, self.start, self.sizes = map(option_list, (
            o.offset_dims, o.collapsed_slice_dims, o.start_index_map, o.slice_sizes))
        self.vector = o.index_vector_dim
        depth = indices.shape[self.vector] if self.vector < len(indices.shape) else 1
        self.kept = [i for i in range(len(x.shape)) if i not in collapsed]
        rank = len(self.kept) + sum(i != self.vector for i in range(len(indices.shape)))
        if not (self._slices_fit(x.shape, collapsed) and self._offsets_fit(rank) and len(self.start) == depth
                and 0 <= self.vector <= len(indices.shape)):
            raise node.error(f"its dimension numbers do not fit the shapes {list(x.shape)} and {list(indices.shape)}",
                             x)
        self.batch = [i for i in range(rank) if i not in self.offset]

    def _slices_fit(self, shape, collapsed):
        return (len(self.sizes) == len(shape) and are_axes(self.start, len(shape)) and are_axes(collapsed, len(shape))
                and all(0 <= size <= n for size, n in zip(self.sizes, shape, strict=True)))

    def _offsets_fit(self, rank):
        return len(self.offset) == len(self.kept) and are_axes(self.offset, rank)

    def output(self, indices):
        """The shape of y."""
        shape = [0] * (len(self.offset) + len(self.batch))
        for axis, i in zip(self.offset, self.kept, strict=True):
            shape[axis] = self.sizes[i]
        vectors = [n for i, n in enumerate(indices.shape) if i != self.vector]
        for axis, n in zip(self.batch, vectors, strict=True):
            shape[axis] = n
        return tuple(shape)


def infer_gather(node):
    return [Dimensions(node).output(node.inputs[1])]


def lower_gather(node):
    x, indices, y = node.inputs[0], node.inputs[1], node.outputs[0]
    d = Dimensions(node)
    steps, x_steps = contiguous_strides(y.shape), contiguous_strides(x.shape)
    vectors, component = vector_axes(indices, d.vector, [steps[i] for i in d.batch])
    corner = [(k * component, x.shape[i] - d.sizes[i], x_steps[i], -1) for k, i in enumerate(d.start)]
    box = box_axes(tuple(d.sizes[i] for i in d.kept), tuple(x_steps[i] for i in d.kept),
                   tuple(steps[i] for i in d.offset))
    return gather(x, indices, y, vectors=vectors, components=corner, shape=box, policy="clamp")


register("STABLEHLO_GATHER", types=movable(f"T {INDICES} -> T"), infer=infer_gather, lower=lower_gather)
