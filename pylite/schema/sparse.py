"""Sparse constants: their layout, and the conversion to dense arrays."""
import numpy as np

from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES, Frozen


class SparseDimension(Frozen):
    """One dimension of a sparse tensor: dense, with `size`, or compressed (CSR), with segments and indices."""
    __slots__ = ()
    format: str                         # "DENSE" or "SPARSE_CSR"
    size: int = 0
    segments: "np.ndarray | None" = None
    indices: "np.ndarray | None" = None


class Sparsity(Frozen):
    """The layout of a sparse constant: its dimensions, then those of its blocks, and the order of traversal."""
    __slots__ = ()
    traversal_order: "tuple[int, ...]"
    block_map: "tuple[int, ...]"
    dimensions: "tuple[SparseDimension, ...]"


def sparsity_of(record, rank):
    """The Sparsity of a tensor with `rank` dimensions, from its SparsityParameters record.

    Raises ValueError, which says what is wrong with it.
    """
    order, blocks = record.traversal_order or (), record.block_map or ()
    dimensions = record.dim_metadata or ()
    if (sorted(order) != list(range(len(dimensions))) or len(order) != rank + len(blocks)
            or not all(0 <= b < rank for b in blocks)):
        raise ValueError(f"sparse traversal order {list(order)[:20]} and blocks {list(blocks)[:20]} do not fit "
                         f"{rank} dimensions")
    result = []
    for dimension in dimensions:
        segments = dimension.array_segments and dimension.array_segments.values
        indices = dimension.array_indices and dimension.array_indices.values
        if dimension.format not in ("DENSE", "SPARSE_CSR"):
            raise ValueError(f"a sparse dimension has the unknown format {dimension.format}")
        if dimension.format == "SPARSE_CSR" and (segments is None or indices is None):
            raise ValueError("a sparse dimension lacks its segments or indices")
        result.append(SparseDimension(dimension.format, dimension.dense_size, segments, indices))
    return Sparsity(order, blocks, tuple(result))


def densify(data, dtype, shape, sparsity):
    """A dense array of NUMPY_DTYPES[dtype] with the stored values `data`, bytes, of a sparse constant, else zeros.

    Raises ValueError if layout and bytes do not fit.
    """
    bits = DTYPE_BITS[dtype]
    if bits is None or bits < 8:
        raise ValueError(f"{dtype} cannot be stored sparse")
    stored = _indices(shape, sparsity)
    if len(data) != len(stored) * (bits // 8):
        raise ValueError(f"{len(data)} bytes are stored where its sparse layout has {len(stored)} elements")
    values = data.view(NUMPY_DTYPES[dtype])
    dense = np.zeros(int(np.prod(shape)), values.dtype)
    dense[stored] = values
    return dense.reshape(shape)


def _indices(shape, sparsity):
    """The index in the flat dense array of each stored value.

    Dimensions are numbered: first the tensor's own, then those of blocks, each of which divides one of the former.
    """
    rank, total = len(shape), int(np.prod(shape))
    strides = np.cumprod([1, *shape[:0:-1]])[::-1].tolist() if rank else []
    sizes, steps = list(shape), list(strides)
    by_dimension = dict(zip(sparsity.traversal_order, sparsity.dimensions, strict=True))
    for block, dimension in enumerate(sparsity.block_map, rank):
        size = by_dimension[block].size
        if size < 1 or sizes[dimension] % size or steps[dimension] != strides[dimension]:
            raise ValueError(f"blocks of {size} do not divide its dimension {dimension} of {sizes[dimension]}")
        sizes[dimension] //= size
        steps[dimension] *= size
        sizes.append(size)
        steps.append(strides[dimension])
    stored = np.zeros(1, np.int64)
    for number, dimension in zip(sparsity.traversal_order, sparsity.dimensions, strict=True):
        size, step = sizes[number], steps[number]
        if dimension.format == "DENSE":
            if dimension.size != size:
                raise ValueError(f"a sparse layout with {dimension.size} places along a dimension of {size}")
            if len(stored) * size > total:
                raise ValueError("its sparse layout has more places than elements")
            stored = (stored[:, None] + np.arange(size) * step).reshape(-1)
        else:
            stored = _compressed(stored, size, step, dimension, total)
    return stored


def _compressed(stored, size, step, dimension, total):
    """The flat indices after a compressed dimension, from those before it."""
    segments, indices = (np.asarray(a, np.int64) for a in (dimension.segments, dimension.indices))
    if len(segments) != len(stored) + 1 or segments[0] != 0 or segments[-1] != len(indices):
        raise ValueError(f"{len(segments)} segments for {len(stored)} rows and {len(indices)} indices of a sparse "
                         "dimension")
    counts = np.diff(segments)
    if (counts < 0).any() or len(indices) > total:
        raise ValueError("the segments of a sparse dimension are out of order")
    if len(indices) and not 0 <= indices.min() <= indices.max() < size:
        raise ValueError(f"an index of a sparse dimension lies outside its {size} places")
    return np.repeat(stored, counts.astype(np.intp)) + indices * step      # np.repeat refuses int64 on 32-bit machines
