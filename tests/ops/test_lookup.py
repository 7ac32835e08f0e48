"""EMBEDDING_LOOKUP, EMBEDDING_LOOKUP_SPARSE, HASHTABLE_LOOKUP."""
import numpy as np
import pytest

from pylite.errors import ExecutionError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from pylite.schema.tables import table
from tests.ops.draw import values
from tests.tools.oneop import differential, run_pylite

HYBRID = ("int8", "int4", "int2", "uint8")


@differential("float32", "int8", "int16", "int64", "bool", "float16", count=6)
def test_rows(m, rng, dtype):
    shape = tuple(int(n) for n in rng.integers(1, 6, int(rng.integers(2, 5))))
    ids, y = m.tensor("ids", (int(rng.integers(1, 9)),), "int32"), m.tensor("y", (1, 1), dtype)
    m.operator("EMBEDDING_LOOKUP", [ids, m.constant("table", values(rng, shape, dtype))], [y])
    m.inputs([ids])
    m.outputs([y])
    return [rng.integers(0, shape[0], m.record.subgraphs[0].tensors[ids].shape).astype(np.int32)]


@differential(*HYBRID, count=12)
def test_scaled_rows(m, rng, dtype):
    """Integer tables with float results, with a scale for the table or for each row."""
    shape = (int(rng.integers(1, 7)), 4 * int(rng.integers(1, 100)), *[2] * int(rng.integers(2)))
    low, high = {"int8": (-128, 128), "int4": (-8, 8), "int2": (-2, 2), "uint8": (0, 256)}[dtype]
    table = rng.integers(low, high, shape).astype("uint8" if dtype == "uint8" else "int8")
    scale = rng.random(shape[0] if rng.random() < 0.5 else 1) + 0.01
    ids = m.tensor("ids", (5,), "int32")
    y = m.tensor("y", (1, 1), str(rng.choice(["float32", "float16"])))
    m.operator("EMBEDDING_LOOKUP", [ids, m.constant("table", table, dtype=dtype, scale=scale)], [y], version=4)
    m.inputs([ids])
    m.outputs([y])
    return [rng.integers(0, shape[0], 5).astype(np.int32)]


@differential("float32", "float16", count=8)
def test_blocks(m, rng, dtype):
    """A scale for each block of a row."""
    rows, blocks, size = int(rng.integers(1, 6)), int(rng.integers(1, 5)), int(rng.choice([32, 64]))
    scales = m.constant("scales", (rng.random(rows * blocks) + 0.01).astype(np.float16))
    w = m.constant("table", rng.integers(-8, 8, (rows, blocks * size)).astype(np.int8), dtype="int4",
                   quantization=table("QuantizationParameters")(details=table("BlockwiseQuantization")(
                       scales=scales, zero_points=-1, block_size=size)))
    ids, y = m.tensor("ids", (4,), "int32"), m.tensor("y", (1, 1), dtype)
    m.operator("EMBEDDING_LOOKUP", [ids, w], [y], version=4)
    m.inputs([ids])
    m.outputs([y])
    return [rng.integers(0, rows, 4).astype(np.int32)]


def test_an_index_out_of_range_is_named():
    m = ModelBuilder()
    ids, y = m.tensor("ids", (2,), "int32"), m.tensor("y", (2, 2))
    m.operator("EMBEDDING_LOOKUP", [ids, m.constant("table", np.ones((3, 2), np.int8), scale=1.0)], [y])
    m.inputs([ids])
    m.outputs([y])
    with pytest.raises(ExecutionError, match="outside the rows"):
        run_pylite(m.build(), [np.array([0, 3], np.int32)])


@differential("SUM", "MEAN", "SQRTN", count=10)
def test_sparse(m, rng, combiner):
    table = values(rng, (6, *[int(n) for n in rng.integers(1, 5, int(rng.integers(1, 3)))]), "float32")
    rank, count = int(rng.integers(1, 4)), int(rng.integers(1, 9))
    shape = rng.integers(1, 5, rank).astype(np.int32)
    indices = np.stack([np.sort(rng.integers(0, n, count)) for n in shape], 1).astype(np.int32)
    inputs = [rng.integers(0, 6, count).astype(np.int32), indices, rng.random(count).astype(np.float32) + 0.1]
    ids, at, weights = (m.tensor(f"x{i}", x.shape, x.dtype.name) for i, x in enumerate(inputs))
    y = m.tensor("y", (*shape[:-1], *table.shape[1:]))
    m.operator("EMBEDDING_LOOKUP_SPARSE", [ids, at, m.constant("shape", shape), weights, m.constant("table", table)],
               [y], combiner=combiner)
    m.inputs([ids, at, weights])
    m.outputs([y])
    return inputs


@differential("float32", "int8", "string", count=6)
def test_hashtable(m, rng, dtype):
    keys = np.sort(rng.choice(50, 7, replace=False)).astype(np.int32)
    rows = np.array([b"word %d" % i for i in range(7)], object) if dtype == "string" else values(rng, (7, 3), dtype)
    x, hits = m.tensor("x", (9,), "int32"), m.tensor("hits", (9,), "uint8")
    y = m.tensor("y", (9, *rows.shape[1:]), dtype)
    m.operator("HASHTABLE_LOOKUP", [x, m.constant("keys", keys), m.constant("rows", rows)], [y, hits])
    m.inputs([x])
    m.outputs([y, hits])
    return [np.where(rng.random(9) < 0.6, rng.choice(keys, 9), 60).astype(np.int32)]


@pytest.mark.parametrize("index", [-1, -3, 2])
def test_an_index_outside_a_table_of_strings(index):
    m = ModelBuilder()
    ids, y = m.tensor("ids", (1,), "int32"), m.tensor("y", (1,), "string")
    m.operator("EMBEDDING_LOOKUP", [ids, m.constant("table", np.array([b"a", b"b"], object))], [y])
    m.inputs([ids])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(ids, np.array([index], np.int32))
    with pytest.raises(RuntimeError, match=f"an index of {index} to {index} lies outside the table of 2 rows"):
        interpreter.invoke()
