"""Cumulative sums, TOPK, response normalization and random numbers against the reference kernels."""
import numpy as np
import pytest

from pylite import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import values
from tests.ops.moving import one_op, random_array, random_shape
from tests.tools.oneop import differential, run_peer, run_pylite
from tests.tools.resources import peer


@differential("float32", "int32", "int64", count=16)
def test_cumsum(m, rng, dtype):
    x = random_array(rng, random_shape(rng, 1, 5), dtype)
    axis = np.array(rng.integers(-x.ndim, x.ndim), np.int32)
    return one_op(m, "CUMSUM", dtype, [x], [axis], exclusive=bool(rng.integers(2)), reverse=bool(rng.integers(2)))


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=12)
def test_topk_v2(m, rng, dtype):
    shape = (*random_shape(rng, 0, 2), int(rng.choice([1, 5, 40, 300])))
    x = values(rng, shape, dtype)
    k = np.array(rng.integers(1, shape[-1] + 1), np.int32)
    tensors = [m.tensor("x", shape, dtype), m.constant("k", k)]
    outputs = [m.tensor("values", (), dtype), m.tensor("indices", (), "int32")]
    m.operator("TOPK_V2", tensors, outputs, version=2)
    m.inputs(tensors[:1])
    m.outputs(outputs)
    return [x]


@pytest.mark.parametrize(("shape", "radius", "beta"), [
    ((2, 3, 4, 11), 3, 0.6), ((1, 40, 40, 3), 5, 0.5), ((5, 1, 1, 1300), 1, 1.0), ((2, 2, 2, 1), 0, -0.75)])
def test_local_response_normalization(shape, radius, beta):
    """Compared with the peer's optimized kernel: the reference omits one channel of the window."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape).astype(np.float32)
    m = ModelBuilder()
    one_op(m, "LOCAL_RESPONSE_NORMALIZATION", "float32", [x], radius=radius, bias=1.5, alpha=0.3, beta=beta)
    squares = np.pad(np.square(x.astype(np.float64)), [(0, 0)] * 3 + [(radius, radius)])
    total = sum(squares[..., i:i + shape[3]] for i in range(2 * radius + 1))
    for threads in (1, 2):
        got = run_pylite(m.build(), [x], threads)[0]
        np.testing.assert_allclose(got, x * (1.5 + 0.3 * total) ** -beta, rtol=1e-5)


# ---- random numbers: equal to the peer's if there is a seed --------------------------------------------
def runs(module, data, count):
    """The outputs of `count` runs of one interpreter."""
    interpreter = module.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    results = []
    for _ in range(count):
        interpreter.invoke()
        results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return results


@pytest.mark.parametrize("name", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
@pytest.mark.parametrize("seeds", [(1, 0), (0, 7), (-5, 2**40 + 3)])
@pytest.mark.parametrize("shape", [(3, 5), (16,), (1,)])
def test_random(name, seeds, shape):
    import pylite
    from tests.tools.resources import peer
    m = ModelBuilder()
    one_op(m, name, "float32", [], [np.array(shape, np.int32)], seed=seeds[0], seed2=seeds[1])
    data = m.build()
    for got, want in zip(runs(pylite, data, 3), runs(peer(), data, 3), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6)


@pytest.mark.parametrize("out", ["int32", "int64"])
@pytest.mark.parametrize("samples", [1, 6, 50])
def test_multinomial(out, samples):
    import pylite
    from tests.tools.resources import peer
    rng, m = np.random.default_rng(0), ModelBuilder()
    logits = rng.standard_normal((3, 9)).astype(np.float32)
    one_op(m, "MULTINOMIAL", "float32", [], [logits, np.array(samples, np.int32)], out_dtype=out, seed=11, seed2=4)
    data = m.build()
    for got, want in zip(runs(pylite, data, 3), runs(peer(), data, 3), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_generator_continues_over_dynamic_shapes():
    import pylite
    from tests.tools.resources import peer
    m = ModelBuilder()
    shape, y = m.tensor("shape", (1,), "int32"), m.tensor("y", (None,), "float32")
    m.operator("RANDOM_UNIFORM", [shape], [y], seed=5)
    m.inputs([shape])
    m.outputs([y])
    results = []
    for module in (pylite, peer()):
        interpreter = module.Interpreter(model_content=m.build())
        interpreter.allocate_tensors()
        for n in (3, 5, 3):
            interpreter.set_tensor(0, np.array([n], np.int32))
            interpreter.invoke()
            results.append(interpreter.get_tensor(1))
    for got, want in zip(results[:3], results[3:], strict=True):
        np.testing.assert_array_equal(got, want)


def drawn_over_resizes(interpreter):
    """The results of two runs for each of three shapes of an unrelated input."""
    x, y, results = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"], []
    for n in (2, 4, 2):
        interpreter.resize_tensor_input(x, (n,))
        interpreter.allocate_tensors()
        for _ in range(2):
            interpreter.invoke()
            results.append(interpreter.get_tensor(y).tolist())
    return results


@pytest.mark.parametrize("name", ["RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"])
def test_resizing_restarts_the_generator(name):
    m = ModelBuilder()
    x, double, y = m.tensor("x", (2,)), m.tensor("double", (2,)), m.tensor("y", (3,))
    m.operator(name, [m.constant("shape", np.array([3], np.int32))], [y], seed=7, seed2=9)
    m.operator("ADD", [x, x], [double])
    m.inputs([x])
    m.outputs([y, double])
    model = m.build()
    results = drawn_over_resizes(Interpreter(model_content=model))
    assert results[0] != results[1] and results[:2] == results[2:4] == results[4:]
    np.testing.assert_allclose(results, drawn_over_resizes(peer().Interpreter(model_content=model)), rtol=1e-5)


def test_without_seeds_interpreters_draw_different_numbers():
    import pylite
    m = ModelBuilder()
    one_op(m, "RANDOM_UNIFORM", "float32", [], [np.array([8], np.int32)])
    first, second = (runs(pylite, m.build(), 1)[0] for _ in range(2))
    assert (first != second).any() and (first >= 0).all() and (first < 1).all()


@pytest.mark.parametrize("algorithm", ["DEFAULT", "PHILOX", "THREEFRY"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("size", [2, 3])
def test_random_bits(algorithm, dtype, size):
    if algorithm == "THREEFRY" and size == 3:
        pytest.skip("its state has two numbers")
    state = np.array([0x123456789ABCDEF0, 0xFFFFFFFF, 77][:size], np.uint64)
    m = ModelBuilder()
    x = m.tensor("x", (size,), "uint64")
    outputs = [m.tensor("state", (size,), "uint64"), m.tensor("y", (3, 5), dtype)]
    m.operator("STABLEHLO_RNG_BIT_GENERATOR", [x], outputs, algorithm=algorithm)
    m.inputs([x])
    m.outputs(outputs)
    data = m.build()
    for got, want in zip(run_pylite(data, [state]), run_peer(data, [state]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_topk_of_more_than_the_row_is_refused():
    m = ModelBuilder()
    x, k = m.tensor("x", (3,)), m.constant("k", np.array(4, np.int32))
    outputs = [m.tensor("values", ()), m.tensor("indices", (), "int32")]
    m.operator("TOPK_V2", [x, k], outputs)
    m.inputs([x])
    m.outputs(outputs)
    with pytest.raises(RuntimeError, match=r"TOPK_V2.*4 largest"):
        Interpreter(model_content=m.build()).allocate_tensors()
