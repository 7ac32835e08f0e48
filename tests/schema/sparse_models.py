"""Sparse constants for tests: any array in any layout."""
import numpy as np

from pylite.schema.tables import table


def sparsify(dense, order, compressed, block_map=(), blocks=()):
    """(stored values, SparsityParameters) of `dense`.

    order: traversal order; compressed: which of its levels are compressed; block_map, blocks: the dimensions that are
    cut into blocks, and their sizes.
    """
    rank, shape = dense.ndim, list(dense.shape)
    outer = list(shape)
    for dimension, size in zip(block_map, blocks, strict=True):
        outer[dimension] //= size
    sizes = outer + list(blocks)
    split, axes = dense, list(range(rank))
    for dimension in reversed(range(rank)):
        if dimension in block_map:
            at = list(block_map).index(dimension)
            split = split.reshape(*split.shape[:dimension], outer[dimension], blocks[at], *split.shape[dimension + 1:])
    axes = []
    for dimension in range(rank):
        axes.append(dimension)
        if dimension in block_map:
            axes.append(rank + list(block_map).index(dimension))
    split = split.transpose([axes.index(n) for n in order])
    rows, levels = [split], []
    for level, number in enumerate(order):
        if level not in compressed:
            levels.append(table("DimensionMetadata")(dense_size=sizes[number]))
            rows = [row[i] for row in rows for i in range(sizes[number])]
            continue
        segments, indices, kept = [0], [], []
        for row in rows:
            present = [i for i in range(sizes[number]) if np.any(row[i])]
            indices += present
            kept += [row[i] for i in present]
            segments.append(len(indices))
        rows = kept
        levels.append(table("DimensionMetadata")(
            format="SPARSE_CSR", array_segments=table("Int32Vector")(values=np.array(segments, np.int32)),
            array_indices=table("Uint8Vector" if sizes[number] < 256 else "Uint16Vector")(
                values=np.array(indices, np.uint8 if sizes[number] < 256 else np.uint16))))
    values = np.array(rows, dense.dtype).reshape(-1)
    return values, table("SparsityParameters")(traversal_order=tuple(order), block_map=tuple(block_map),
                                               dim_metadata=levels)


def sparse_constant(m, name, dense, *layout, **fields):
    """Add `dense` to the model m as a sparse constant; its index."""
    values, sparsity = sparsify(dense, *layout)
    return m.tensor(name, dense.shape, dense.dtype.name, sparsity=sparsity, buffer=m.buffer(values.view(np.uint8)),
                    **fields)
