"""Ops that select, gather and scatter by condition or index against the reference kernels."""
import numpy as np
import pytest

from pylite import Interpreter, OpError
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import WIDTHS, random_array, random_shape
from tests.ops.test_reduction import combine
from tests.tools.oneop import differential, run_pylite


def model(m, name, inputs, dtype, constants=(), version=1, shape=(), **options):
    """One operator on (array, data type) pairs; `constants` lists the positions of constants."""
    tensors, fed = [], []
    for i, (x, t) in enumerate(inputs):
        if i in constants:
            tensors.append(m.constant(f"c{i}", x, dtype=t))
        else:
            tensors.append(m.tensor(f"x{i}", x.shape, t))
            fed.append(i)
    y = m.tensor("y", shape, dtype)
    m.operator(name, tensors, [y], version=version, **options)
    m.inputs([tensors[i] for i in fed])
    m.outputs([y])
    return [inputs[i][0] for i in fed]


def index_type(rng):
    return str(rng.choice(["int32", "int64"]))


@differential(*WIDTHS, count=12)
def test_select(m, rng, dtype):
    shape = random_shape(rng, 1, 5)
    condition = rng.random(shape if rng.random() < 0.5 else shape[:1]) < 0.5
    x, y = (random_array(rng, shape, dtype) for _ in range(2))
    return model(m, "SELECT", [(condition, "bool"), (x, dtype), (y, dtype)], dtype, shape=shape)


@differential(*WIDTHS, count=12)
def test_select_v2(m, rng, dtype):
    shape = random_shape(rng, 1, 5)
    shapes = [tuple(1 if rng.random() < 0.3 else n for n in shape[int(rng.integers(0, 2)) * (rng.random() < 0.3):])
              for _ in range(3)]
    condition = rng.random(shapes[0]) < 0.5
    x, y = (random_array(rng, s, dtype) for s in shapes[1:])
    return model(m, "SELECT_V2", [(condition, "bool"), (x, dtype), (y, dtype)], dtype,
                 shape=np.broadcast_shapes(*shapes))


@pytest.mark.parametrize("op", ["SELECT", "SELECT_V2"])
@pytest.mark.parametrize("declared", [(), (1,), (1, 1)])
@pytest.mark.parametrize(("condition", "x"), [((1,), (1,)), ((), (1,)), ((1,), ()), ((1, 1), (1,)), ((1,), (1, 1))])
def test_selecting_one_element_keeps_the_declared_shape(op, declared, condition, x):
    m = ModelBuilder()
    fed = model(m, op, [(np.ones(condition, bool), "bool"), (np.full(x, 5, np.float32), "float32"),
                        (np.zeros(x, np.float32), "float32")], "float32", shape=declared)
    got, = run_pylite(m.build(), fed)
    assert got.shape == declared and got.tolist() == np.full(declared, 5).tolist()


@differential("float32", "float16", "int8", "int16", "int64", "bool", count=12)
def test_gather_nd(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 5, empty=False), dtype)
    depth = int(rng.integers(1, x.ndim + 1))
    outer = random_shape(rng, 1, 3, empty=False)
    indices = np.stack([rng.integers(0, n, outer) for n in x.shape[:depth]], -1)
    t = str(rng.choice(["int16", "int32", "int64"]))
    return model(m, "GATHER_ND", [(x, dtype), (indices.astype(t), t)], dtype, version=5)


@differential("float32", "int8", "uint8", "int32", "int64", "bool", count=12)
def test_scatter_nd(m, rng, dtype):
    shape = random_shape(rng, 1, 4, empty=False)
    depth, count = int(rng.integers(1, len(shape) + 1)), int(rng.integers(1, 8))
    indices = np.stack([rng.integers(0, n, count) for n in shape[:depth]], -1).astype(np.int32)
    updates = random_array(rng, (count, *shape[depth:]), dtype)
    return model(m, "SCATTER_ND", [(indices, "int32"), (updates, dtype), (np.array(shape, np.int32), "int32")], dtype,
                 (2,))


@differential("float32", "int8", "uint8", "int32", "int64", count=12)
def test_sparse_to_dense(m, rng, dtype):
    shape = random_shape(rng, 1, 4, empty=False)
    count, t = int(rng.integers(1, 6)), index_type(rng)
    indices = np.stack([rng.integers(0, n, count) for n in shape], -1).astype(t)
    if len(shape) == 1 and rng.random() < 0.5:
        indices = indices[:, 0]
    given = random_array(rng, (count,) if rng.random() < 0.6 else (), dtype)
    return model(m, "SPARSE_TO_DENSE", [(indices, t), (np.array(shape, t), t), (given, dtype),
                                        (random_array(rng, (), dtype), dtype)], dtype, (1,), version=3)


@differential(*WIDTHS, count=12)
def test_dynamic_update_slice(m, rng, dtype):
    shape = random_shape(rng, 1, 5, empty=False)
    update = tuple(int(rng.integers(1, n + 1)) for n in shape)
    start = rng.integers(-2, 8, len(shape)).astype(np.int32)
    return model(m, "DYNAMIC_UPDATE_SLICE", [(random_array(rng, shape, dtype), dtype),
                                             (random_array(rng, update, dtype), dtype), (start, "int32")], dtype)


@differential("float32", "int8", "int64", "bool", count=12)
def test_one_hot(m, rng, dtype):
    shape, t = random_shape(rng, 0, 3), index_type(rng)
    depth = int(rng.integers(1, 6))
    inputs = [(rng.integers(-1, depth + 2, shape).astype(t), t), (np.array(depth, np.int32), "int32"),
              (random_array(rng, (), dtype), dtype), (random_array(rng, (), dtype), dtype)]
    return model(m, "ONE_HOT", inputs, dtype, (1,), axis=int(rng.integers(-1, len(shape) + 1)))


def segments(m, rng, name, dtype):
    shape = random_shape(rng, 1, 4, empty=False)
    count, of = int(rng.integers(1, 6)), shape[:int(rng.integers(1, len(shape) + 1))]
    x = random_array(rng, shape, dtype)
    return model(m, name, [(x, dtype), (rng.integers(-1, count, of).astype(np.int32), "int32"),
                           (np.array(count, np.int32), "int32")], dtype, (2,))


@differential("float32", "int32", count=12)
def test_unsorted_segment_sum(m, rng, dtype):
    return segments(m, rng, "UNSORTED_SEGMENT_SUM", dtype)


@differential("float32", "int32", count=12)
def test_unsorted_segment_prod(m, rng, dtype):
    return segments(m, rng, "UNSORTED_SEGMENT_PROD", dtype)


@differential("float32", "int32", count=12)
def test_unsorted_segment_max(m, rng, dtype):
    return segments(m, rng, "UNSORTED_SEGMENT_MAX", dtype)


@differential("float32", "int32", count=12)
def test_unsorted_segment_min(m, rng, dtype):
    return segments(m, rng, "UNSORTED_SEGMENT_MIN", dtype)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_segment_sum(dtype):
    """Not in the reference resolver."""
    x, ids = np.arange(12).reshape(6, 2).astype(dtype), np.array([0, 0, 1, 3, 3, 3], np.int32)
    m = ModelBuilder()
    model(m, "SEGMENT_SUM", [(x, dtype), (ids, "int32")], dtype, (1,))
    want = np.zeros((4, 2), dtype)
    np.add.at(want, ids, x)
    np.testing.assert_array_equal(run_pylite(m.build(), [x])[0], want)


@differential(*WIDTHS, count=16)
def test_stablehlo_gather(m, rng, dtype):
    """Any placement of the offset and batch dimensions, with indices out of range."""
    shape = random_shape(rng, 1, 4, empty=False)
    x = random_array(rng, shape, dtype)
    depth = int(rng.integers(1, len(shape) + 1))
    start = rng.permutation(len(shape))[:depth]
    size = [int(rng.integers(1, n + 1)) for n in shape]
    dropped = sorted(int(i) for i in range(len(shape)) if rng.random() < 0.4)
    for i in dropped:
        size[i] = 1
    batch = random_shape(rng, 0, 2, empty=False)
    vector = int(rng.integers(0, len(batch) + 1))
    indices = rng.integers(-2, max(shape) + 2, (*batch[:vector], depth, *batch[vector:])).astype(np.int32)
    rank = len(batch) + len(shape) - len(dropped)
    offset = sorted(int(i) for i in rng.permutation(rank)[:len(shape) - len(dropped)])
    return model(m, "STABLEHLO_GATHER", [(x, dtype), (indices, "int32")], dtype, shape=(1,) * rank,
                 offset_dims=tuple(offset),
                 collapsed_slice_dims=tuple(dropped), start_index_map=tuple(int(i) for i in start),
                 index_vector_dim=vector, slice_sizes=tuple(size))


@pytest.mark.parametrize("name", ["GATHER_ND", "SCATTER_ND"])
@pytest.mark.parametrize("index", [-1, 5])
def test_indices_out_of_range_are_refused_in_invoke(name, index):
    m = ModelBuilder()
    indices = np.array([[0], [index]], np.int32)
    if name == "GATHER_ND":
        fed = model(m, name, [(np.zeros((5, 2), np.float32), "float32"), (indices, "int32")], "float32")
    else:
        fed = model(m, name, [(indices, "int32"), (np.zeros((2, 2), np.float32), "float32"),
                              (np.array([5, 2], np.int32), "int32")], "float32", (2,))
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    for i, x in enumerate(fed):
        interpreter.set_tensor(i, x)
    with pytest.raises(RuntimeError, match=f"{name}.*outside"):
        interpreter.invoke()


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=16)
def test_stablehlo_scatter(m, rng, dtype):
    """Any placement of the window and batch dimensions, with indices out of range.

    Replacing scatters have trailing window dimensions: otherwise the order of overlapping windows is undefined.
    """
    name = str(rng.choice(["STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM", ""]))
    shape = random_shape(rng, 1, 4, empty=False)
    depth = int(rng.integers(1, len(shape) + 1))
    into = rng.permutation(len(shape))[:depth]
    dropped = sorted(int(i) for i in range(len(shape)) if rng.random() < 0.5)
    kept = [i for i in range(len(shape)) if i not in dropped]
    size = [int(rng.integers(1, shape[i] + 1)) for i in kept]
    batch = random_shape(rng, 0, 2, empty=False)
    vector = int(rng.integers(0, len(batch) + 1))
    rank = len(batch) + len(size)
    window = sorted(int(i) for i in rng.permutation(rank)[:len(size)]) if name else list(range(len(batch), rank))
    update = [0] * rank
    for at, n in [*zip(window, size, strict=True),
                  *zip([i for i in range(rank) if i not in window], batch, strict=True)]:
        update[at] = n
    parts = []
    for i in into:
        last = shape[i] - (size[kept.index(i)] if i in kept else 1)
        outside = rng.random(batch) < 0.2
        parts.append(np.where(outside, rng.integers(-2, last + 3, batch), rng.integers(0, last + 1, batch)))
    indices = np.stack(parts, vector).astype(np.int32)
    x, updates = random_array(rng, shape, dtype), random_array(rng, tuple(update), dtype)
    fed = model(m, "STABLEHLO_SCATTER", [(x, dtype), (indices, "int32"), (updates, dtype)], dtype, shape=shape,
                update_window_dims=tuple(window), inserted_window_dims=tuple(dropped),
                scatter_dims_to_operand_dims=tuple(int(i) for i in into), index_vector_dim=vector,
                update_computation_subgraph_index=1)
    combine(m, name, dtype)
    return fed


@pytest.mark.parametrize(("name", "options"), [
    ("STABLEHLO_SCATTER", {"scatter_dims_to_operand_dims": (0, 0)}),
    ("STABLEHLO_SCATTER", {"inserted_window_dims": (0, 0)}),
    ("STABLEHLO_SCATTER", {"inserted_window_dims": (), "update_window_dims": (0, 0)}),
    ("STABLEHLO_GATHER", {"start_index_map": (0, 0)}), ("STABLEHLO_GATHER", {"collapsed_slice_dims": (0, 0)})])
def test_axes_named_twice_are_refused(name, options):
    """They would add up to positions outside of the tensor."""
    m = ModelBuilder()
    indices = np.zeros((1, 2), np.int32)
    if name.endswith("GATHER"):
        given = {"offset_dims": (), "collapsed_slice_dims": (0, 1), "start_index_map": (0, 1), "slice_sizes": (1, 1),
                 "index_vector_dim": 1}
        model(m, name, [(np.zeros((4, 4), np.float32), "float32"), (indices, "int32")], "float32", shape=(1,),
              **given | options)
    else:
        given = {"update_window_dims": (), "inserted_window_dims": (0, 1), "scatter_dims_to_operand_dims": (0, 1),
                 "index_vector_dim": 1, "update_computation_subgraph_index": 1}
        model(m, name, [(np.zeros((4, 4), np.float32), "float32"), (indices, "int32"),
                        (np.zeros(1, np.float32), "float32")], "float32", shape=(4, 4), **given | options)
        combine(m, "STABLEHLO_ADD", "float32")
    with pytest.raises(OpError, match="dimension numbers do not fit"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize("index", [-2**63, -2**63 + 1, -3, 2**63 - 1])
def test_windows_far_outside_are_dropped(index):
    m = ModelBuilder()
    x, updates = np.arange(4, dtype=np.float32), np.ones(2, np.float32)
    fed = model(m, "STABLEHLO_SCATTER", [(x, "float32"), (np.array([index]), "int64"), (updates, "float32")], "float32",
                shape=(4,), update_window_dims=(0,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,),
                index_vector_dim=0, update_computation_subgraph_index=1)
    combine(m, "STABLEHLO_ADD", "float32")
    interpreter = Interpreter(model_content=m.build(), guard_bands=True)
    interpreter.allocate_tensors()
    for i, value in enumerate(fed):
        interpreter.set_tensor(i, value)
    interpreter.invoke()
    assert interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist() == x.tolist()
