"""Sparse constants for tests: any array in any layout."""
import numpy as np

from pylite.schema.tables import table


def sparsify(dense, order, compressed, block_map=(), blocks=()):
    """(stored values, SparsityParameters) of `dense`.

    order: traversal order; compressed: which of its levels are compressed; block_map, blocks: the dimensions that are
    split into blocks, and their sizes.
    """
    split, sizes = _in_blocks(dense, order, list(block_map), list(blocks))
    rows, levels = [split], []
    for level, number in enumerate(order):
        if level in compressed:
            rows, metadata = _compressed(rows, sizes[number])
        else:
            rows = [row[i] for row in rows for i in range(sizes[number])]
            metadata = table("DimensionMetadata")(dense_size=sizes[number])
        levels.append(metadata)
    values = np.array(rows, dense.dtype).reshape(-1)
    return values, table("SparsityParameters")(traversal_order=tuple(order), block_map=tuple(block_map),
                                               dim_metadata=levels)


def _in_blocks(dense, order, block_map, blocks):
    """(`dense` split into blocks and transposed to traversal order, the size of each dimension and block)"""
    rank, outer = dense.ndim, list(dense.shape)
    for dimension, size in zip(block_map, blocks, strict=True):
        outer[dimension] //= size
    shape, numbers = [], []     # numbers: dimensions of the split array in order, blocks last
    for dimension in range(rank):
        shape.append(outer[dimension])
        numbers.append(dimension)
        if dimension in block_map:
            shape.append(blocks[block_map.index(dimension)])
            numbers.append(rank + block_map.index(dimension))
    return dense.reshape(shape).transpose([numbers.index(n) for n in order]), outer + blocks


def _compressed(rows, size):
    """(the rows' entries that are not zero, DimensionMetadata of a compressed level)"""
    segments, indices, kept = [0], [], []
    for row in rows:
        present = [i for i in range(size) if np.any(row[i])]
        indices += present
        kept += [row[i] for i in present]
        segments.append(len(indices))
    vector, dtype = ("Uint8Vector", np.uint8) if size < 256 else ("Uint16Vector", np.uint16)
    return kept, table("DimensionMetadata")(
        format="SPARSE_CSR", array_segments=table("Int32Vector")(values=np.array(segments, np.int32)),
        array_indices=table(vector)(values=np.array(indices, dtype)))


def sparse_constant(m, name, dense, *layout, **fields):
    """Add `dense` to the model m as a sparse constant; its index."""
    values, sparsity = sparsify(dense, *layout)
    return m.tensor(name, dense.shape, dense.dtype.name, sparsity=sparsity, buffer=m.buffer(values.view(np.uint8)),
                    **fields)
