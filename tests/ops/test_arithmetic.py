"""Two-operand arithmetic against the reference kernels, with broadcasting and fused activations."""
import numpy as np
import pytest

from pylite import Interpreter, Model
from pylite.ir import registry
from pylite.numerics import fixed_point, quantization
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import mild_quantization, shape_of, values
from tests.tools.oneop import check, differential

ACTIVATIONS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
QUANTIZED = ("int8", "uint8", "int16")


def operands(rng):
    """Two shapes that broadcast, and their common shape: rank 0 to 6, sometimes empty."""
    shape = shape_of(rng, 6)
    shapes = []
    for _ in range(2):
        keep = shape[len(shape) - int(rng.integers(0, len(shape) + 1)):] if rng.random() < 0.5 else shape
        shapes.append(tuple(1 if rng.random() < 0.25 else n for n in keep))
    return shapes


def one_op(m, rng, name, dtype, avoid_zero=False, broadcasting=True, y_scale=None, x_scale=None, **options):
    """A model of one op on two drawn operands, each sometimes a constant."""
    shapes = operands(rng) if broadcasting else [shape_of(rng, 6)] * 2
    y_shape = np.broadcast_shapes(*shapes)
    inputs, feeds = [], []
    for i, shape in enumerate(shapes):
        q = mild_quantization(rng, dtype, x_scale and x_scale[i]) if dtype in QUANTIZED else {}
        data = values(rng, shape, dtype)
        if avoid_zero and i == 1:
            zero = q.get("zero_point", 0)
            data = np.where(data == zero, data.dtype.type(zero + 1 if zero <= 0 else zero - 1), data)
        if i == 1 and rng.random() < 0.4:
            inputs.append(m.constant("b", data, **q))
        else:
            inputs.append(m.tensor("ab"[i], shape, dtype, **q))
            feeds.append(data)
    q = {}
    if dtype in QUANTIZED:
        q = mild_quantization(rng, dtype, y_scale)
    y = m.tensor("y", y_shape, dtype, **q)
    m.operator(name, inputs, [y], **options)
    m.inputs(inputs[:len(feeds)])
    m.outputs([y])
    return feeds


def real(array, tensor):
    """The real values of a tensor's elements, in float32."""
    q = tensor.quantization
    if array.dtype == np.float32:
        return array
    return (array.astype(np.int32) - np.int32(q.zero_point[0])).astype(np.float32) * q.scale[0]


def meet_in_float(inputs, contents):
    """The expected sum of quantized and float operands, which the peer refuses."""
    model = Model(contents)
    subgraph = model.graph.subgraphs[0]
    operator, feeds = subgraph.operators[0], dict(zip(subgraph.inputs, inputs, strict=True))
    operands = [real(feeds[i] if i in feeds else model.weights.constant(subgraph.tensors[i]), subgraph.tensors[i])
                for i in operator.inputs]
    with np.errstate(all="ignore"):
        y = registry.find(operator.name).reference(*operands)
    low, high = {"NONE": (-np.inf, np.inf), "RELU": (0, np.inf), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}[
        getattr(operator.options, "fused_activation_function", "NONE")]
    y = np.clip(y, np.float32(low), np.float32(high))
    tensor = subgraph.tensors[operator.outputs[0]]
    if tensor.dtype == "float32":
        return [y]
    steps = y / tensor.quantization.scale[0]
    steps = np.trunc(steps + np.copysign(np.float32(0.5), steps)) + tensor.quantization.zero_point[0]
    return [np.clip(steps, *quantization.LIMITS[tensor.dtype]).astype(tensor.dtype)]


@differential(*QUANTIZED, count=30, reference=meet_in_float)
def test_mixed_operands(m, rng, dtype):
    """A float32 and a quantized operand, as in LiteRT's add_quantized.bin."""
    name = str(rng.choice(["ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM"]))
    kinds = [(dtype, dtype, "float32"), ("float32", dtype, dtype), (dtype, "float32", dtype), (dtype, "float32",
             "float32"), ("float32", "float32", dtype)][int(rng.integers(5))]
    shapes, inputs, feeds = operands(rng), [], []
    for i, (shape, kind) in enumerate(zip(shapes, kinds[:2], strict=True)):
        q = mild_quantization(rng, kind) if kind in QUANTIZED else {}
        data = values(rng, shape, kind)
        if i == 1 and name == "DIV":
            zero = data.dtype.type(q.get("zero_point", 0))
            data = np.where(data == zero, zero ^ data.dtype.type(1) if q else data.dtype.type(1), data)
        if i == 1 and rng.random() < 0.4:
            inputs.append(m.constant("b", data, **q))
        else:
            inputs.append(m.tensor("ab"[i], shape, kind, **q))
            feeds.append(data)
    q = mild_quantization(rng, kinds[2]) if kinds[2] in QUANTIZED else {}
    y = m.tensor("y", np.broadcast_shapes(*shapes), kinds[2], **q)
    m.operator(name, inputs, [y], **({} if name.endswith("IMUM") else activation(rng)))
    m.inputs(inputs[:len(feeds)])
    m.outputs([y])
    return feeds


@differential("complex64", count=8)
def test_mul_of_complex(m, rng, dtype):
    shapes, tensors = operands(rng), []
    for name, shape in zip("ab", shapes, strict=True):
        tensors.append(m.tensor(name, shape, dtype))
    y = m.tensor("y", np.broadcast_shapes(*shapes), dtype)
    m.operator("MUL", tensors, [y])
    m.inputs(tensors)
    m.outputs([y])
    return [(rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype) for s in shapes]


def activation(rng):
    return {"fused_activation_function": str(rng.choice(ACTIVATIONS))}


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=30)
def test_add(m, rng, dtype):
    options = {} if dtype != "int16" else {"pot_scale_int16": False}
    return one_op(m, rng, "ADD", dtype, **activation(rng), **options)


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=30)
def test_sub(m, rng, dtype):
    options = {} if dtype != "int16" else {"pot_scale_int16": False}
    return one_op(m, rng, "SUB", dtype, **activation(rng), **options)


def powers_of_two(rng):
    """Scales for which the int16 power-of-two rule applies."""
    y = int(rng.integers(-14, -6))
    shifts = [0, -int(rng.integers(0, 5) if rng.random() < 0.8 else rng.integers(5, 31))]
    if rng.random() < 0.5:
        shifts.reverse()
    return {"x_scale": [2.0 ** (y + s) for s in shifts], "y_scale": 2.0**y}


@differential("int16")
def test_add_of_powers_of_two(m, rng, dtype):
    # the reference kernel of this rule aborts if it has to broadcast
    options = {**powers_of_two(rng), **activation(rng)}
    return one_op(m, rng, "ADD", dtype, broadcasting=False, pot_scale_int16=True, **options)


@differential("int16")
def test_sub_of_powers_of_two(m, rng, dtype):
    return one_op(m, rng, "SUB", dtype, **powers_of_two(rng), **activation(rng), pot_scale_int16=True)


@differential("float32", "int8", "uint8", "int16", "int32", "int64", count=30)
def test_mul(m, rng, dtype):
    return one_op(m, rng, "MUL", dtype, y_scale=0.02 if rng.random() < 0.5 else None, **activation(rng))


@differential("float32", "int8", "uint8", "int16", "int32", count=30)
def test_div(m, rng, dtype):
    return one_op(m, rng, "DIV", dtype, avoid_zero=True, **activation(rng))


@differential("float32", "int8", "uint8", "int16", "int32", "int64")
def test_maximum(m, rng, dtype):
    return one_op(m, rng, "MAXIMUM", dtype)


@differential("float32", "int8", "uint8", "int16", "int32", "int64")
def test_minimum(m, rng, dtype):
    return one_op(m, rng, "MINIMUM", dtype)


def one_op_on(m, name, arrays, y_dtype, qs=({}, {}, {}), **options):
    """A model of one op on given arrays."""
    inputs = [m.tensor("ab"[i], x.shape, x.dtype.name, **qs[i]) for i, x in enumerate(arrays)]
    y = m.tensor("y", np.broadcast_shapes(*(x.shape for x in arrays)), y_dtype, **qs[2])
    m.operator(name, inputs, [y], **options)
    m.inputs(inputs)
    m.outputs([y])
    return arrays


@differential("int8", "uint8")
def test_mul_of_int16_to_bytes(m, rng, dtype):
    arrays = [values(rng, (50,), "int16") for _ in "ab"]       # the reference does not broadcast here
    qs = [{"scale": 2.0**-15}] * 2 + [mild_quantization(rng, dtype)]
    return one_op_on(m, "MUL", arrays, dtype, qs, **activation(rng))


@differential("int16", "uint32")
def test_mul_without_scales(m, rng, dtype):
    arrays = [rng.integers(0, 2**15, shape).astype(dtype) for shape in ((7, 20), (7, 1))]
    return one_op_on(m, "MUL", arrays, dtype)


SCALES = [(0.02, 0.03, 0.04), (0.1, 0.1, 0.1), (0.1, 0.1, 0.2), (0.05, 0.1, 0.2), (1.0, 1e-6, 1.0), (1e-3, 1e-3, 1.0),
          (3.0, 0.7, 0.001), (0.011764707, 0.007843138, 0.019607844), (0.5, 0.25, 0.75),
          # These have sums that are halfway between two integers.
          (0.5, 0.25, 1.0), (0.75, 0.25, 0.5), (1.5, 0.125, 2.0), (0.25, 2.0, 0.5), (2.0**-7, 1.0, 1.0),
          (0.3, 0.9, 0.6), (0.1, 0.2, 0.4), (2.0**-14, 2.0**-13, 1.0), (2.0**-16, 1.0, 2.0), (0.65625, 1.3125, 2.625)]


@pytest.mark.parametrize("name", ["ADD", "SUB"])
@pytest.mark.parametrize("scales", SCALES, ids=str)
def test_every_pair_of_bytes(name, scales):
    """The micro-kernel that computes in float32 first gives the rule's result for all 65,536 pairs."""
    zeros = (3, -100, 20)
    a, b = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(*[np.arange(-128, 128, dtype=np.int8)] * 2))
    m = ModelBuilder()
    one_op_on(m, name, [a, b], "int8", [{"scale": s, "zero_point": z} for s, z in zip(scales, zeros, strict=True)])
    left, ma, mb, my = quantization.add_parameters(*np.array(scales, np.float32), "int8")
    va = fixed_point.mbqm32((a.astype(np.int64) - zeros[0]) << left, *ma)
    vb = fixed_point.mbqm32((b.astype(np.int64) - zeros[1]) << left, *mb)
    expected = fixed_point.mbqm32(va + vb if name == "ADD" else va - vb, *my) + zeros[2]
    check(m.build(), [a, b], [np.clip(expected, -128, 127).astype(np.int8)], f"{name} {scales}")


HALF = {"ADD": np.add, "MUL": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum}


@pytest.mark.parametrize("name", HALF)
def test_float16(name):
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(1000) * 10.0 ** rng.uniform(-7, 3, 1000)).astype(np.float16) for _ in "ab")
    m = ModelBuilder()
    one_op_on(m, name, [a, b], "float16")
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), (a, b), strict=True):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    with np.errstate(over="ignore"):
        expected = HALF[name](a.astype(np.float32), b.astype(np.float32)).astype(np.float16)
    expected = np.clip(expected, -65504, 65504)     # what overflows is the largest number, as in ADD of the reference
    np.testing.assert_array_equal(interpreter.get_tensor(2), expected)


def quotient(dtype, b):
    m = ModelBuilder()
    q = {} if dtype == "int32" else {"scale": 0.5, "zero_point": 0 if dtype != "uint8" else 100}
    a = m.tensor("a", (4,), dtype, **q)
    inputs = [a]
    if b is None:
        inputs.append(m.tensor("divisor", (4,), dtype, **q))
    else:
        inputs.append(m.constant("divisor", b, **q))
    y = m.tensor("y", (4,), dtype, **q)
    m.operator("DIV", inputs, [y])
    m.inputs(inputs if b is None else [a])
    m.outputs([y])
    return m.build(), q.get("zero_point", 0)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32"])
def test_division_by_zero_is_an_error(dtype):
    model, zero = quotient(dtype, None)
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    a, b = (d["index"] for d in interpreter.get_input_details())
    interpreter.set_tensor(a, np.full(4, zero + 1, dtype))
    interpreter.set_tensor(b, np.array([zero + 1, zero, zero + 2, zero + 3], dtype))
    with pytest.raises(RuntimeError, match=r"DIV.*division by zero"):
        interpreter.invoke()
    interpreter.set_tensor(b, np.full(4, zero + 1, dtype))
    interpreter.invoke()
    with pytest.raises(RuntimeError, match=r"DIV.*divisor.*zero"):
        Interpreter(model_content=quotient(dtype, np.full(4, zero, dtype))[0]).allocate_tensors()


def test_shapes_that_do_not_broadcast_are_refused():
    m = ModelBuilder()
    a, b, y = m.tensor("a", (2, 3)), m.tensor("other", (4,)), m.tensor("y", (2, 3))
    m.operator("ADD", [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=r"ADD.*other.*\[2, 3\] and \[4\]"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL", "DIV"])
def test_8_bit_operands_need_a_scale(name):
    m = ModelBuilder()
    a, b, y = (m.tensor(n, (4,), "int8") for n in "aby")
    m.operator(name, [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=f"{name}.*has no scale"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["ADD", "SUB", "MUL", "DIV"])
@pytest.mark.parametrize("scales", [(0, 1, 1), (1, 1, -1), (1e-38, 1e-38, 1e38), (1e38, 1e38, 1e-38), (1, 1e-45, 1)])
def test_extreme_scales(name, scales):
    """Gives a result, or an error that names the node; never a warning."""
    m = ModelBuilder()
    arrays = one_op_on(m, name, [np.ones(3, np.int8)] * 2, "int8", [{"scale": s} for s in scales])
    interpreter = Interpreter(model_content=m.build())
    complaint = name
    try:
        interpreter.allocate_tensors()
        for detail, x in zip(interpreter.get_input_details(), arrays, strict=True):
            interpreter.set_tensor(detail["index"], x)
        interpreter.invoke()
    except RuntimeError as error:
        complaint = str(error)
    assert name in complaint


@pytest.mark.parametrize(("activation", "want"), [("NONE", [0, 6, 4294967294]), ("RELU6", [0, 6, 6]),
                                                  ("RELU_N1_TO_1", [0, 1, 1])])
def test_activation_of_uint32(activation, want):
    """Was ignored."""
    m = ModelBuilder()
    arrays = one_op_on(m, "MUL", [np.array(x, np.uint32) for x in ([0, 2, 2147483647], [5, 3, 2])], "uint32",
                       fused_activation_function=activation)
    check(m.build(), arrays, [np.array(want, np.uint32)], activation)
