"""Weights that a model dequantizes stay as the file stores them until they are packed."""
import numpy as np
import pytest

from pylite import Interpreter, OpResolverType
from pylite.compiler import constant_folding
from pylite.ir.values import Deferred
from pylite.runtime.model import Model
from pylite.schema.builder import ModelBuilder

# The op, the shapes of its input, weights and output, its options.  All weights have 64 kB or more as float32.
IMAGE = (1, 6, 6, 64)
OPS = {
    "CONV_2D": (IMAGE, (32, 3, 3, 64), (1, 6, 6, 32), {"padding": "SAME", "stride_h": 1, "stride_w": 1}),
    "DEPTHWISE_CONV_2D": ((1, 8, 8, 512), (1, 6, 6, 512), (1, 8, 8, 512),
                          {"padding": "SAME", "stride_h": 1, "stride_w": 1, "depth_multiplier": 1}),
    "FULLY_CONNECTED": ((3, 200), (100, 200), (3, 100), {}),
    "BATCH_MATMUL": ((2, 5, 128), (2, 128, 64), (2, 5, 64), {}),
    "TRANSPOSE_CONV": (IMAGE, (32, 3, 3, 64), (1, 12, 12, 32), {"padding": "SAME", "stride_h": 2, "stride_w": 2}),
}

# The same, of 256 kB and more: those of float16 remain float16, but for filters of several taps without Winograd.
LARGE = {
    "1 x 1": ("CONV_2D", (1, 6, 5, 256), (300, 1, 1, 256), (1, 6, 5, 300),
              {"padding": "SAME", "stride_h": 1, "stride_w": 1}),
    "3 x 3": ("CONV_2D", (1, 9, 8, 144), (64, 3, 3, 144), (1, 9, 8, 64),
              {"padding": "SAME", "stride_h": 1, "stride_w": 1}),
    "strides": ("CONV_2D", (1, 9, 8, 144), (64, 3, 3, 144), (1, 5, 4, 64),
                {"padding": "SAME", "stride_h": 2, "stride_w": 2}),
    "dilations": ("CONV_2D", (1, 9, 8, 144), (64, 3, 3, 144), (1, 9, 8, 64),
                  {"padding": "SAME", "stride_h": 1, "stride_w": 1, "dilation_h_factor": 2, "dilation_w_factor": 2}),
    "a row": ("FULLY_CONNECTED", (1, 500), (300, 500), (1, 300), {}),
    "rows": ("FULLY_CONNECTED", (3, 500), (300, 500), (3, 300), {}),
    "transposed": ("TRANSPOSE_CONV", (1, 6, 6, 144), (64, 3, 3, 144), (1, 12, 12, 64),
                   {"padding": "SAME", "stride_h": 2, "stride_w": 2}),
}

KEPT = {"1 x 1": "half_weights.HalfWeights", "a row": "half_weights.HalfWeights", "rows": "half_weights.HalfWeights",
        "3 x 3": "winograd.WinogradF32"}

STORED = "float16", "int8", "int8 by channel"


def weights(shape, stored):
    """(the array in the file, its scales or None, the real numbers)"""
    rng = np.random.default_rng(0)
    if stored == "float16":
        array = (rng.standard_normal(shape) / 8).astype(np.float16)
        array.reshape(-1)[:3] = 6e-8, -6e-5, 6e-5        # the first two are subnormal
        return array, None, array.astype(np.float32)
    array = rng.integers(-127, 128, shape, np.int8)
    scales = rng.uniform(.001, .01, shape[0] if stored == "int8 by channel" else 1).astype(np.float32)
    return array, scales, scales.reshape(-1, *[1] * (len(shape) - 1)) * array


def model(name, stored, dequantizes=True, extra=None):
    """A one-op model whose weights are `stored` in one of these ways, and dequantized by the model or beforehand.

    extra: "output", the weights are an output, too; "sum": so is their sum with themselves; "twice": two nodes share
    them.
    """
    name, x_shape, w_shape, y_shape, options = LARGE[name] if name in LARGE else (name, *OPS[name])
    builder = ModelBuilder()
    x = builder.tensor("x", x_shape, shape_signature=(-1, *x_shape[1:]))
    array, scales, reals = weights(w_shape, stored)
    if dequantizes:
        details = {} if scales is None else {"scale": scales if len(scales) > 1 else float(scales[0]), "axis": 0}
        w = builder.tensor("floats", w_shape)
        builder.operator("DEQUANTIZE", [builder.constant("w", array, **details)], [w])
    else:
        w = builder.constant("floats", reals)
    outputs = []
    for i in range(2 if extra == "twice" else 1):
        y = builder.tensor(f"y{i}", y_shape)
        operands = [x, w]
        if name == "TRANSPOSE_CONV":
            operands = [builder.constant(f"shape{i}", np.array(y_shape, np.int32)), w, x]
        builder.operator(name, operands, [y], **options)
        outputs.append(y)
    if extra == "sum":
        total = builder.tensor("total", w_shape)
        builder.operator("ADD", [w, w], [total])
        outputs.append(total)
    builder.inputs([x])
    builder.outputs([*outputs, w] if extra == "output" else outputs)
    return builder.build()


def results(interpreter, batch=None):
    detail = interpreter.get_input_details()[0]
    if batch:
        interpreter.resize_tensor_input(detail["index"], (batch, *detail["shape"][1:]))
    interpreter.allocate_tensors()
    shape = interpreter.get_input_details()[0]["shape"]
    interpreter.set_tensor(detail["index"], np.random.default_rng(1).standard_normal(shape).astype(np.float32))
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).tobytes() for d in interpreter.get_output_details()]


def known(interpreter):
    """The contents of the dequantized weights during lowering."""
    value = next(v for v in interpreter._main.current.lowered.values if v.name == "floats")
    return value.data


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("extra", [None, "output", "sum", "twice"])
@pytest.mark.parametrize("name", OPS)
def test_results_are_those_of_float32_weights(name, extra, stored):
    interpreter = Interpreter(model_content=model(name, stored, extra=extra))
    assert results(interpreter) == results(Interpreter(model_content=model(name, stored, False, extra)))
    assert (type(known(interpreter)) is Deferred) == (extra in (None, "twice"))


def kernels(interpreter):
    return {call.kernel for call in interpreter._main.current.lowered.calls}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", LARGE)
def test_many_weights_of_float16_remain_so(name, threads):
    interpreter = Interpreter(model_content=model(name, "float16"), num_threads=threads)
    wanted = Interpreter(model_content=model(name, "float16", False))
    batches = None, 2, 1, 5, None, 3
    for batch in batches if LARGE[name][0] != "TRANSPOSE_CONV" else batches[:1]:    # whose output shape is a constant
        got, want = results(interpreter, batch)[0], results(wanted, batch)[0]
        np.testing.assert_allclose(np.frombuffer(got, np.float32), np.frombuffer(want, np.float32), atol=1e-5)
    stored, whole = (i._main.model.weights.packed_bytes for i in (interpreter, wanted))
    kernel = KEPT.get(name, "conv_float.ConvF32")
    assert stored <= (.51 if name in KEPT else 1) * whole + 1000
    assert kernels(interpreter) == {kernel}


@pytest.mark.parametrize("name", LARGE)
def test_products_in_float16(name):
    """How the file stores the weights makes no difference then."""
    stored, whole = (Interpreter(model_content=model(name, "float16", dequantizes), precision="emulate_float16")
                     for dequantizes in (True, False))
    assert results(stored) == results(whole)
    assert kernels(stored) == kernels(whole)


def test_weights_of_float16_beside_those_of_float32():
    """The second node repeats the first one, but for how the file stores its weights."""
    builder, rng = ModelBuilder(), np.random.default_rng(0)
    x = last = builder.tensor("x", (3, 300))
    arrays = [rng.normal(0, .1, (300, 300)).astype(dtype) for dtype in ("float16", "float32", "float16", "float32")]
    want = np.ones((3, 300), np.float32)
    for i, array in enumerate(arrays):
        w = builder.constant(f"w{i}", array)
        if array.dtype == np.float16:
            w, half = builder.tensor(f"floats{i}", array.shape), w
            builder.operator("DEQUANTIZE", [half], [w])
        y = builder.tensor(f"y{i}", (3, 300))
        builder.operator("FULLY_CONNECTED", [last, w, -1], [y])
        last, want = y, want @ array.astype(np.float32).T
    builder.inputs([x])
    builder.outputs([last])
    interpreter = Interpreter(model_content=builder.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.ones((3, 300), np.float32))
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(last), want, rtol=1e-3, atol=1e-3)
    assert kernels(interpreter) == {"half_weights.HalfWeights", "conv_float.ConvF32"}


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("name", ["CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D"])
def test_results_at_other_shapes_and_of_other_interpreters(name, stored):
    shared = Model(model(name, stored))
    wanted = Interpreter(model_content=model(name, stored, False))
    for interpreter in Interpreter(model=shared), Interpreter(model=shared):
        for batch in (2, 5, 3, 2):
            assert results(interpreter, batch) == results(wanted, batch)
    assert not shared.weights.folded


@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("preserve", [False, True])
def test_the_weights_can_be_read(preserve, stored):
    interpreter = Interpreter(model_content=model("CONV_2D", stored), experimental_preserve_all_tensors=preserve,
                              experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    results(interpreter)
    index = next(d["index"] for d in interpreter.get_tensor_details() if d["name"] == "floats")
    floats = interpreter.get_tensor(index)
    np.testing.assert_array_equal(floats, weights(floats.shape, stored)[2])
    assert not interpreter.tensor(index)().flags.writeable
    with pytest.raises(ValueError, match="a constant of the model"):
        interpreter.set_tensor(index, floats)


def test_constant_images_and_weights(monkeypatch):
    """A node whose operands are all known is computed once."""
    monkeypatch.setattr(constant_folding, "LEAST_DEFERRED", 1)
    builder, rng = ModelBuilder(), np.random.default_rng(0)
    x = builder.tensor("x", (4, 3))
    floats = []
    for number, shape in enumerate([(4, 8), (3, 8)]):
        half = builder.constant(f"half{number}", rng.standard_normal(shape).astype(np.float16))
        floats.append(builder.tensor(f"floats{number}", shape))
        builder.operator("DEQUANTIZE", [half], [floats[-1]])
    product, y = builder.tensor("product", (4, 3)), builder.tensor("y", (4, 3))
    builder.operator("FULLY_CONNECTED", [*floats, -1], [product])
    builder.operator("ADD", [product, x], [y])
    builder.inputs([x])
    builder.outputs([y])
    interpreter = Interpreter(model_content=builder.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.zeros((4, 3), np.float32))
    interpreter.invoke()
    a, w = (interpreter.get_tensor(index) for index in floats)
    np.testing.assert_allclose(interpreter.get_tensor(y), a @ w.T, rtol=1e-5)
