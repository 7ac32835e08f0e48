"""Sparse constants: the values that a file stores, scattered into a dense array."""
import numpy as np

from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES, Frozen


class SparseDimension(Frozen):
    """One dimension of a sparse tensor: dense with `size`, or compressed with segments and indices."""
    __slots__ = ()
    format: str                         # "DENSE" or "SPARSE_CSR"
    size: int = 0
    segments: "np.ndarray | None" = None
    indices: "np.ndarray | None" = None


class Sparsity(Frozen):
    """The layout of a sparse constant: its dimensions and blocks in the order of traversal."""
    __slots__ = ()
    traversal_order: "tuple[int, ...]"
    block_map: "tuple[int, ...]"
    dimensions: "tuple[SparseDimension, ...]"


def sparsity_of(record, rank):
    """The Sparsity in a SparsityParameters record, of a tensor of `rank` dimensions.

    Raises ValueError that says what is wrong with it.
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
    """The bytes of a sparse constant -> array of `shape` in NUMPY_DTYPES[dtype], zero where nothing is stored.

    Raises ValueError when layout and bytes do not fit.
    """
    bits = DTYPE_BITS[dtype]
    if bits is None or bits < 8:
        raise ValueError(f"{dtype} cannot be stored sparse")
    at = _indices(shape, sparsity)
    if len(data) != len(at) * (bits // 8):
        raise ValueError(f"{len(data)} bytes are stored where its sparse layout has {len(at)} elements")
    values = data.view(NUMPY_DTYPES[dtype])
    dense = np.zeros(int(np.prod(shape)), values.dtype)
    dense[at] = values
    return dense.reshape(shape)


def _indices(shape, sparsity):
    """The index in the flat dense array of each stored value, found dimension by dimension in the order of traversal.

    The original dimensions are numbered first, then those of the blocks, each of which divides one of them.
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
    at = np.zeros(1, np.int64)
    for number, dimension in zip(sparsity.traversal_order, sparsity.dimensions, strict=True):
        size, step = sizes[number], steps[number]
        if dimension.format == "DENSE":
            if dimension.size != size:
                raise ValueError(f"a sparse layout with {dimension.size} places along a dimension of {size}")
            if len(at) * size > total:
                raise ValueError("its sparse layout has more places than elements")
            at = (at[:, None] + np.arange(size) * step).reshape(-1)
        else:
            at = _compressed(at, size, step, dimension, total)
    return at


def _compressed(at, size, step, dimension, total):
    """The indices after a compressed dimension, of those before it."""
    segments, indices = (np.asarray(a, np.int64) for a in (dimension.segments, dimension.indices))
    if len(segments) != len(at) + 1 or segments[0] != 0 or segments[-1] != len(indices):
        raise ValueError(f"{len(segments)} segments for {len(at)} rows and {len(indices)} indices of a sparse "
                         "dimension")
    counts = np.diff(segments)
    if (counts < 0).any() or len(indices) > total:
        raise ValueError("the segments of a sparse dimension are out of order")
    if len(indices) and not 0 <= indices.min() <= indices.max() < size:
        raise ValueError(f"an index of a sparse dimension lies outside its {size} places")
    return np.repeat(at, counts.astype(np.intp)) + indices * step      # 32-bit machines refuse counts of 64 bits
