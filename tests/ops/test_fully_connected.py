"""FULLY_CONNECTED."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.numerics.quantization import LIMITS
from pylite.schema.builder import ModelBuilder
from pylite.schema.tables import table
from tests.ops.draw import activation, values
from tests.tools.oneop import check, differential, run_pylite
from tests.tools.resources import peer

# kind of model: types of input, weights, bias and output
KINDS = {"float32": ("float32", "float32", "float32", "float32"),
         "int8": ("int8", "int8", "int32", "int8"), "int8 channels": ("int8", "int8", "int32", "int8"),
         "int4": ("int8", "int4", "int32", "int8"), "int2": ("int8", "int2", "int32", "int8"),
         "uint8": ("uint8", "uint8", "int32", "uint8"), "uint8 int16": ("uint8", "uint8", "int32", "int16"),
         "int16": ("int16", "int8", "int64", "int16"), "int16 int32": ("int16", "int8", "int32", "int16"),
         "int16 int4": ("int16", "int4", "int64", "int16"), "int16 int16": ("int16", "int16", "int32", "int16"),
         "int16 int16 channels": ("int16", "int16", "int32", "int16"),
         "hybrid": ("float32", "int8", "float32", "float32"),
         "hybrid channels": ("float32", "int8", "float32", "float32"),
         "hybrid int4": ("float32", "int4", "float32", "float32"),
         "hybrid int4 channels": ("float32", "int4", "float32", "float32"),
         "hybrid uint8": ("float32", "uint8", "float32", "float32")}
NARROW = {"int4": (-8, 7), "int2": (-2, 1)}


def weights(rng, shape, dtype, hybrid):
    """Random weights, sometimes only the extremes of the type; many repeat, so that stored models are small."""
    if np.prod(shape) > 10000:
        return np.resize(weights(rng, (97,), dtype, hybrid), shape)
    if dtype == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    low, high = NARROW.get(dtype) or LIMITS[dtype]
    if hybrid and dtype == "uint8":         # bytes of int8
        return weights(rng, shape, "int8", hybrid).view(np.uint8)
    if hybrid:
        low = max(low, -127)                # the peer's vector code computes wrongly with -128
    numpy = "int8" if dtype in NARROW else dtype
    if rng.random() < 0.2:
        return rng.choice([low, high], shape).astype(numpy)
    return rng.integers(low, high + 1, shape).astype(numpy)


def depths(rng, depth, rows):
    """(columns of the input, outputs, leading dimensions of the input)"""
    k = depth or int(rng.choice([1, 2, 3, 5, 8, 16, 31, 64, 130, 300]))
    n = int(rng.choice([1, 2, 5, 8, 17, 33, 64, 100, 129]))
    return k, n, tuple(int(i) for i in rng.integers(1, 5, int(rng.integers(1, 4)))) if rows is None else (rows,)


def activations(rng, shape, dtype):
    """Values of the input; many repeat."""
    data = rng.standard_normal(shape).astype(np.float32) if dtype == "float32" else values(rng, shape, dtype)
    return np.resize(data.reshape(-1)[:1009], shape) if data.size > 10000 else data


def weight_quantization(rng, kind, n):
    """{scale, zero_point, axis} of the weights, per channel or per tensor; {} of floats"""
    w_type = KINDS[kind][1]
    channels = "channels" in kind or (kind in ("int4", "int16", "int16 int4") and rng.random() < 0.5)
    if w_type == "float32":
        return {}
    scale = (rng.random(n if channels else 1) * 0.1 + 1e-3).astype(np.float32)
    shifted = w_type == "uint8" or (kind == "int8" and rng.random() < 0.5)
    return {"scale": scale, "zero_point": int(values(rng, (), w_type)) if shifted else 0, "axis": 0}


def integer_operands(rng, kind, k, n, w_scale):
    """(quantization of the input, of the output, the bias, its quantization) of integers"""
    x_type, w_type, b_type, y_type = KINDS[kind]
    x_scale = np.float32(rng.random() * 0.1 + 1e-3)
    reach = {"int4": 5, "int2": 1, "int16": 19000}.get(w_type, 74) * {"int16": 19000}.get(x_type, 74) * np.sqrt(k)
    y_scale = float(x_scale * w_scale.max() * reach / {"int16": 8000}.get(y_type, 60))
    if rng.random() < 0.1:
        y_scale *= 0.01
    x_fields, y_fields = ({"scale": scale, "zero_point": 0 if dtype == "int16" else int(values(rng, (), dtype))}
                          for scale, dtype in ((x_scale, x_type), (y_scale, y_type)))
    reach = min(int(reach) + 1, 2**30)      # the peer reads an int64 bias as int32 if weights are int16
    return x_fields, y_fields, rng.integers(-reach, reach, n).astype(b_type), {"scale": x_scale * w_scale, "axis": 0}


def product(m, rng, kind, constant=True, depth=None, rows=None):
    x_type, w_type, _, y_type = KINDS[kind]
    k, n, lead = depths(rng, depth, rows)
    options = {"fused_activation_function": activation(rng), "keep_num_dims": bool(rng.integers(2))}
    y_shape = (*lead, n) if options["keep_num_dims"] else (int(np.prod(lead)), n)
    w_data = weights(rng, (n, k), w_type, "hybrid" in kind)
    data = activations(rng, (*lead, k), x_type)
    bias = rng.standard_normal(n).astype(np.float32)
    w_fields = weight_quantization(rng, kind, n)
    x_fields, y_fields, b_fields = {}, {}, {}
    if x_type != "float32":
        x_fields, y_fields, bias, b_fields = integer_operands(rng, kind, k, n, w_fields["scale"])
        if kind == "int16 int32":
            options["quantized_bias_type"] = "int32"
    elif "hybrid" in kind:
        options["asymmetric_quantize_inputs"] = bool(rng.integers(2))
    x = m.tensor("x", data.shape, x_type, **x_fields)
    if constant:
        w = m.constant("w", w_data, dtype=w_type, **w_fields)
    else:
        w = m.tensor("w", w_data.shape, w_type, **w_fields)
    absent = rng.random() < 0.3 and kind != "uint8 int16"       # the peer crashes without a bias
    b = -1 if absent else m.constant("b", bias, **b_fields)
    y = m.tensor("y", y_shape, y_type, **y_fields)
    m.operator("FULLY_CONNECTED", [x, w, b], [y], **options)
    m.inputs([x] if constant else [x, w])
    m.outputs([y])
    return [data] if constant else [data, w_data]


@differential(*KINDS, count=40)
def test_fully_connected(m, rng, kind):
    return product(m, rng, kind)


@differential("float32", "int8", "uint8", count=15)
def test_late_weights(m, rng, kind):
    """Weights that are an input of the model."""
    return product(m, rng, kind, constant=False)


@differential("float32", "int8", "uint8", "int16", count=3)
def test_deep(m, rng, kind):
    """A depth larger than a block of the product.  (The peer's hybrid sums are wrong at such depths.)"""
    return product(m, rng, kind, depth=int(rng.integers(5000, 70000)), rows=int(rng.integers(1, 3)))


@differential("int8", "uint8", count=12)
def test_deep_rows(m, rng, kind):
    """Rows that are too long for one packed panel; on AVX2 from about 7000 elements on."""
    return product(m, rng, kind, depth=int(rng.integers(6000, 20000)), rows=int(rng.integers(2, 5)))


@differential("hybrid int4", "hybrid int4 channels", count=20)
def test_two_weights_to_a_byte(m, rng, kind):
    """Depths that are multiples of 16."""
    return product(m, rng, kind, depth=16 * int(rng.integers(1, 50)), rows=int(rng.integers(1, 24)))


def other_kernels(inputs, model):
    """The peer's optimized kernels: its reference kernels return zeros for blockwise weights."""
    litert = peer()
    interpreter = litert.Interpreter(
        model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], inputs[0])
    interpreter.invoke()
    return [interpreter.get_tensor(interpreter.get_output_details()[0]["index"])]


@differential("float32", count=15, reference=other_kernels)
def test_blocks(m, rng, dtype):
    """A scale for each block of the depth."""
    rows, columns, blocks = int(rng.integers(1, 6)), 8 * int(rng.integers(1, 4)), int(rng.integers(1, 5))
    size = int(rng.choice([32, 64]))
    scales = m.constant("scales", (rng.random(columns * blocks) * 0.1 + 0.01).astype(np.float16))
    w = m.constant("w", rng.integers(-8, 8, (columns, blocks * size)).astype(np.int8), dtype="int4",
                   quantization=table("QuantizationParameters")(details=table("BlockwiseQuantization")(
                       scales=scales, zero_points=-1, block_size=size)))
    b = m.constant("b", rng.standard_normal(columns).astype(np.float32)) if rng.random() < 0.5 else -1
    x, y = m.tensor("x", (rows, blocks * size)), m.tensor("y", (rows, columns))
    # the peer ignores the activation
    m.operator("FULLY_CONNECTED", [x, w, b], [y], version=13, asymmetric_quantize_inputs=bool(rng.integers(2)))
    m.inputs([x])
    m.outputs([y])
    return [rng.standard_normal((rows, blocks * size)).astype(dtype)]


@differential("uint8", count=20)
def test_shuffled_weights(m, rng, dtype):
    """Blocks of 4 rows and 16 columns; the peer supports only these types, and 1 or 4 rows of the input."""
    rows, columns, depth = int(rng.choice([1, 4])), 4 * int(rng.integers(1, 6)), 16 * int(rng.integers(1, 5))
    x_scale, w_scale = float(np.float32(rng.random() * 0.1 + 0.01)), float(np.float32(rng.random() * 0.1 + 0.01))
    x = m.tensor("x", (rows, depth), dtype, x_scale, 128)
    w = m.constant("w", rng.integers(0, 256, (columns, depth)).astype(np.uint8), w_scale, 128)
    b = m.constant("b", rng.integers(-3000, 3000, columns).astype(np.int32), x_scale * w_scale)
    y = m.tensor("y", (rows, columns), "int16", float(np.float32(rng.random() * 0.01 + 1e-3)))
    shuffled = m.tensor("shuffled", (rows, depth), dtype, x_scale, 128)
    m.operator("FULLY_CONNECTED", [x, w, b], [y, shuffled], version=2, weights_format="SHUFFLED4x16INT8",
               fused_activation_function=activation(rng))
    m.inputs([x])
    m.outputs([y])
    return [rng.integers(0, 256, (rows, depth)).astype(np.uint8)]


@differential("float32", "int8", count=8)
def test_rows_without_elements(m, rng, dtype):
    """The reference leaves the zeros of new memory, also where there is a bias."""
    lead = ((2,), (0,), (3, 2))[rng.integers(3)]
    q = {} if dtype == "float32" else {"scale": 0.5, "zero_point": 3}
    x, y = m.tensor("x", (*lead, 0), dtype, **q), m.tensor("y", (*lead, 3), dtype, **q)
    w = m.constant("w", np.zeros((3, 0), dtype), **({} if dtype == "float32" else {"scale": 0.5}))
    bias = m.constant("b", np.arange(3).astype("float32" if dtype == "float32" else "int32"),
                      **({} if dtype == "float32" else {"scale": 0.25}))
    m.operator("FULLY_CONNECTED", [x, w, bias if rng.random() < 0.5 else -1], [y],
               keep_num_dims=bool(rng.random() < 0.5))
    m.inputs([x])
    m.outputs([y])
    return [np.zeros((*lead, 0), dtype)]


def activated(activation, dtype):
    """A layer of floats with weights of a type and a fused activation."""
    m, w = ModelBuilder(), np.arange(-7, 8).reshape(5, 3)
    x, y = m.tensor("x", (None, 3)), m.tensor("y", (None, 5))
    w = m.constant("w", w, scale=0.1, dtype=dtype) if "int" in dtype else m.constant("w", w.astype(dtype))
    m.operator("FULLY_CONNECTED", [x, w, -1], [y], fused_activation_function=activation)
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize("dtype", ["int8", "int4"])
@pytest.mark.parametrize(("activation", "function"), [("TANH", np.tanh), ("SIGN_BIT", np.signbit)])
def test_activation_that_is_no_clamp(activation, function, dtype):
    """Was ignored.  Only weights of few bits take it in the reference, too."""
    x = [np.array([[0.5, -1, 2]], np.float32)]
    want = [function(y).astype(np.float32) for y in run_pylite(activated("NONE", dtype), x)]
    check(activated(activation, dtype), x, want, activation)
    with pytest.raises(OpError, match=f"FULLY_CONNECTED: tensor . 'y'.*{activation}, only NONE"):
        run_pylite(activated(activation, "float32"), x)
