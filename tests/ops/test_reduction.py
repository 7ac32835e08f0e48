"""Reductions."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.numerics import fixed_point, quantization
from pylite.schema.builder import ModelBuilder
from tests.ops import draw
from tests.tools import oneop

ALL = ("float32", "int8", "uint8", "int16", "int32", "int64")


def reduce(m, rng, dtype, name, x_quantization=None, y_quantization=None, empty=0.1):
    rank = int(rng.integers(0, 7))
    most = [300, 300, 30, 10, 7, 5, 4][rank]
    shape = tuple(int(n) for n in rng.integers(0 if rng.random() < empty else 1, most, rank))
    axes = rng.integers(-max(rank, 1), max(rank, 1), rng.integers(0, rank + 2)).astype(np.int32)
    x = m.tensor("x", shape, dtype, **(x_quantization or {}))
    y = m.tensor("y", (), dtype, **(y_quantization or x_quantization or {}))
    m.operator(name, [x, m.constant("axes", axes)], [y], keep_dims=bool(rng.integers(2)))
    m.inputs([x])
    m.outputs([y])
    return [draw.values(rng, shape, dtype)]


@oneop.differential(*ALL, count=40)
def test_mean(m, rng, dtype):
    return reduce(m, rng, dtype, "MEAN", draw.quantization(rng, dtype), draw.quantization(rng, dtype))


def middle_axes(m, rng, dtype, name, *quantization):
    """Many short rows of results, which kernels compute several at a time; half of the models keep a second axis."""
    twice = bool(rng.integers(2))
    shape = [int(n) for n in rng.integers(1, (12, 4, 12, 9, 40) if twice else (150, 20, 40))]
    axes = np.array((1, 3) if twice else (1,), np.int32)
    x, y = m.tensor("x", shape, dtype, **quantization[0]), m.tensor("y", (), dtype, **quantization[-1])
    m.operator(name, [x, m.constant("axes", axes)], [y])
    m.inputs([x])
    m.outputs([y])
    return [draw.values(rng, shape, dtype)]


@oneop.differential("float32", "int8", "uint8", "int16", count=20)
def test_mean_over_middle_axes(m, rng, dtype):
    return middle_axes(m, rng, dtype, "MEAN", draw.quantization(rng, dtype), draw.quantization(rng, dtype))


@oneop.differential("float32", "int8", "int16", "bool", count=20)
def test_extremes_over_middle_axes(m, rng, dtype):
    return middle_axes(m, rng, dtype, rng.choice(("REDUCE_MAX", "REDUCE_MIN")), draw.quantization(rng, dtype))


def exact_sum(inputs, model):
    """SUM by the uint8 formula: the peer reads int8 and int16 as uint8 (docs/numerics.md section 8)."""
    from pylite.schema import load
    graph = load(model).subgraphs[0]
    x, y, axes = graph.tensors
    axes = tuple(np.unique(np.ravel(axes.data.view(np.int32)) % max(inputs[0].ndim, 1))) if inputs[0].ndim else ()
    keep = graph.operators[0].options.keep_dims
    total = inputs[0].astype(np.int64).sum(axes, keepdims=keep)
    n = inputs[0].size // total.size if total.size else 0
    if n == 0:
        return [np.zeros(total.shape, inputs[0].dtype)]
    (sx, zx), (sy, zy) = ((t.quantization.scale[0], int(t.quantization.zero_point[0])) for t in (x, y))
    m, e = quantization.quantize_multiplier(float(sx) / float(sy))
    q = fixed_point.mbqm32(fixed_point.wrap32(total - zx * n), m, e) + zy
    return [np.clip(fixed_point.wrap32(q), *quantization.LIMITS[x.dtype]).astype(inputs[0].dtype)]


@oneop.differential("float32", "uint8", "int32", "int64", "bool", count=40)
def test_sum(m, rng, dtype):
    return reduce(m, rng, dtype, "SUM", draw.quantization(rng, dtype), draw.quantization(rng, dtype))


@oneop.differential("int8", "int16", "uint8", count=30, reference=exact_sum)
def test_sum_where_the_peer_is_wrong(m, rng, dtype):
    x, y = draw.quantization(rng, dtype), draw.quantization(rng, dtype)
    x["scale"] = min(x["scale"], 100.0)     # the formula says nothing of multipliers beyond 2^30
    return reduce(m, rng, dtype, "SUM", x, y)


@oneop.differential(*ALL, "bool")
def test_reduce_max(m, rng, dtype):
    return reduce(m, rng, dtype, "REDUCE_MAX", draw.quantization(rng, dtype))


@oneop.differential(*ALL, "bool")
def test_reduce_min(m, rng, dtype):
    return reduce(m, rng, dtype, "REDUCE_MIN", draw.quantization(rng, dtype))


@oneop.differential("bool")
def test_reduce_any(m, rng, dtype):
    return reduce(m, rng, dtype, "REDUCE_ANY")


@oneop.differential("bool")
def test_reduce_all(m, rng, dtype):
    return reduce(m, rng, dtype, "REDUCE_ALL")


@oneop.differential("float32", "int32", "int64")
def test_reduce_prod(m, rng, dtype):
    x, = reduce(m, rng, dtype, "REDUCE_PROD")
    return [(1 + x / (1 + np.abs(x)) / 99).astype(dtype) if dtype == "float32" else x]


@oneop.differential("int8", "int16", count=40)
def test_reduce_prod_of_integers(m, rng, dtype):
    """With scales for which products neither vanish nor overflow immediately."""
    scale = {"int8": 0.02, "int16": 1e-4}[dtype] * float(np.exp(rng.uniform(-1, 2)))
    return reduce(m, rng, dtype, "REDUCE_PROD", draw.mild_quantization(rng, dtype, scale),
                  draw.mild_quantization(rng, dtype, scale * float(np.exp(rng.uniform(-1, 1)))), 0)


@oneop.differential("float32", count=8)
def test_extremes_pass_over_nan(m, rng, dtype):
    x, = reduce(m, rng, dtype, str(rng.choice(["REDUCE_MAX", "REDUCE_MIN"])))
    x = np.array(x)
    x[rng.random(x.shape) < 0.3] = np.nan
    x[rng.random(x.shape) < 0.1] = np.inf
    return [x]


def one(name, shape, axes, dtype="float32", x_quantization=None, y_quantization=None):
    m = ModelBuilder()
    x = m.tensor("x", shape, dtype, **(x_quantization or {}))
    y = m.tensor("y", (), dtype, **(y_quantization or x_quantization or {}))
    m.operator(name, [x, m.constant("axes", np.array(axes, np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize(("model", "words"), [
    (one("MEAN", (2, 3), [2]), "axis 2"),
    (one("SUM", (2, 3), [0], "int8"), "scale"),
    (one("MEAN", (2, 3), [0], "int16", {"scale": 0.1, "zero_point": 3}), "zero point"),
    (one("REDUCE_MAX", (2, 3), [0], "int8", {"scale": 0.1}, {"scale": 0.2}), "must be the input's"),
])
def test_errors_name_the_tensor(model, words):
    with pytest.raises(RuntimeError, match=words) as error:
        Interpreter(model_content=model).allocate_tensors()
    assert "tensor" in str(error.value)


def test_eight_alternating_axes():
    shape = (2, 3, 2, 3, 2, 3, 2, 3)
    x = np.random.default_rng(0).integers(-9, 9, shape, np.int32)
    got, = oneop.run_pylite(one("SUM", shape, [1, 3, 5, 7], "int32"), [x])
    np.testing.assert_array_equal(got, x.sum((1, 3, 5, 7)))


def test_a_product_without_a_scale_is_named():
    """Was "float division by zero"."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), "int8", scale=0.5), m.tensor("y", (), "int8")
    m.operator("REDUCE_PROD", [x, m.constant("axis", np.array([0], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(OpError, match=r"REDUCE_PROD: tensor . 'y'.*has no scale"):
        Interpreter(model_content=m.build()).allocate_tensors()


@oneop.differential("float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool")
def test_reduce_window(m, rng, dtype):
    shape = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 5)))
    window = np.array([rng.integers(1, min(n, 4) + 1) for n in shape])
    strides = rng.integers(1, 4, len(shape))
    dilations = np.array([rng.integers(1, max((n - 1) // max(w - 1, 1), 1) + 1)
                          for n, w in zip(shape, window, strict=True)])
    function = "ANY" if dtype == "bool" else str(rng.choice(["ADD", "MUL", "MINIMUM", "MAXIMUM"]))
    if dtype == "bool" and rng.random() < 0.5:
        function = "ALL"
    x, start = draw.values(rng, shape, dtype), draw.values(rng, (), dtype)
    if dtype.startswith("float"):
        x, start = x / (1 + np.abs(x).max()), start.dtype.type(0.5)
    inputs = [m.tensor("x", shape, dtype), m.constant("start", np.asarray(start, dtype))]
    inputs += [m.constant(name, np.asarray(v, np.int64)) for name, v in (
        ("window", window), ("strides", strides), ("dilations", dilations))]
    y = m.tensor("y", shape, dtype)
    m.operator("REDUCE_WINDOW", inputs, [y], reduce_function=function)
    m.inputs(inputs[:1])
    m.outputs([y])
    return [np.asarray(x, dtype)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int32", "int64", "bool"])
@pytest.mark.parametrize(("function", "want"), [("ALL", [0, 1, 0, 1]), ("ANY", [1, 1, 0, 1])])
def test_reduce_window_of_truth_values(dtype, function, want):
    """Numbers count as true unless they are 0; their bits were combined, and floats were refused."""
    m = ModelBuilder()
    x, y = m.tensor("x", (4, 2), dtype), m.tensor("y", (4, 1), dtype)
    operands = [m.constant("start", np.array(function == "ALL", dtype))]
    operands += [m.constant("window", np.array(n, np.int64)) for n in ((1, 2), (1, 1), (1, 1))]
    m.operator("REDUCE_WINDOW", [x, *operands], [y], reduce_function=function)
    m.inputs([x])
    m.outputs([y])
    values = np.array([[0, 3], [2, 1], [0, 0], [4, 3]]).astype(dtype)
    oneop.check(m.build(), [values], [np.array(want, dtype).reshape(4, 1)], function)


STABLEHLO = {"ADD": "STABLEHLO_ADD", "MUL": "STABLEHLO_MULTIPLY", "MAXIMUM": "STABLEHLO_MAXIMUM",
             "MINIMUM": "STABLEHLO_MINIMUM"}


@oneop.differential("float32", "float64", "int8", "uint8", "int16", "int32", "int64")
def test_stablehlo_reduce_window(m, rng, dtype):
    """With padding before and after, also negative, and dilation of base and window."""
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 7, rank))
    window, base, dilations = (rng.integers(1, 3, rank) for _ in range(3))
    pads = rng.integers(-1 if rng.random() < 0.3 else 0, 3, (rank, 2))
    size = (np.array(shape) - 1) * base + 1
    pads[:, 1] += np.maximum(0, (window - 1) * dilations + 1 - size - pads.sum(1))
    x, start = draw.values(rng, shape, dtype), draw.values(rng, (), dtype)
    if dtype.startswith("float"):
        x, start = x / (1 + np.abs(x).max()), start.dtype.type(0.5)
    inputs = [m.tensor("x", shape, dtype), m.constant("start", np.asarray(start, dtype))]
    y = m.tensor("y", (1,) * rank, dtype)
    m.operator("STABLEHLO_REDUCE_WINDOW", inputs, [y], window_dimensions=tuple(window.tolist()),
               window_strides=tuple(rng.integers(1, 3, rank).tolist()), base_dilations=tuple(base.tolist()),
               window_dilations=tuple(dilations.tolist()), padding=tuple(pads.ravel().tolist()), body_subgraph_index=1)
    m.inputs(inputs[:1])
    m.outputs([y])
    combine(m, STABLEHLO[str(rng.choice(list(STABLEHLO)))], dtype)
    return [np.asarray(x, dtype)]


def combine(m, name, dtype):
    """A subgraph that combines two scalars."""
    m.subgraph("combine")
    a, b, y = (m.tensor(n, (), dtype) for n in "aby")
    if name:
        m.operator(name, [a, b], [y])
    m.inputs([a, b])
    m.outputs([y if name else b])


@pytest.mark.parametrize("n", [3, 7, 13, 49, 1000])
def test_mean_of_equal_numbers(n):
    m = ModelBuilder()
    x, y = m.tensor("x", (2, n)), m.tensor("y", (2,))
    m.operator("MEAN", [x, m.constant("axis", np.array([1], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.full((2, n), 15, np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(y).tolist() == [15, 15]


@pytest.mark.parametrize("size", [5, 100])
@pytest.mark.parametrize("name", ["REDUCE_MAX", "REDUCE_MIN"])
def test_the_extreme_of_a_whole_tensor_starts_from_its_first_element(name, size):
    """A first element that is NaN stays; later ones are passed over.  A result of -0 keeps its sign."""
    interpreter = Interpreter(model_content=one(name, (size,), [0]))
    interpreter.allocate_tensors()
    x = np.full(size, -0.0, np.float32)
    for first, want in ((np.nan, np.nan), (-0.0, -0.0)):
        x[0] = first
        interpreter.set_tensor(0, x)
        interpreter.invoke()
        got = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_array_equal(got, want)
        assert np.isnan(want) or np.signbit(got)
        x[size // 2] = np.nan
