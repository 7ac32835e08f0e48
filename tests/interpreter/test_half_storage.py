"""Tensors between kernels in float16 are stored as float16, and nobody can tell except by memory and speed."""
import numpy as np
import pytest

from pylite import errors
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.tools.plans import run

pytestmark = pytest.mark.filterwarnings("ignore:experimental_preserve_all_tensors")


class Network:
    """A ModelBuilder of float32 convolutions, one after another."""

    def __init__(self, seed=0, size=12, channels=3):
        self.rng, self.model = np.random.default_rng(seed), ModelBuilder()
        self.shape = (1, size, size, channels)
        self.inputs = [self.model.tensor("x", self.shape)]
        self.last = self.inputs[0]
        self.tensors = [self.last]

    def constant(self, *shape, size=1):
        return self.model.constant(f"c{self.rng.integers(1 << 40)}",
                                   (self.rng.normal(size=shape) * size).astype(np.float32))

    def add(self, name, inputs, shape, **options):
        self.shape = tuple(shape)
        self.last = self.model.tensor(f"t{len(self.tensors)}", self.shape)
        self.tensors.append(self.last)
        self.model.operator(name, inputs, [self.last], **options)
        return self.last

    def conv(self, k, taps=1, stride=1, activation="NONE"):
        n, h, w, c = self.shape
        weights = self.constant(k, taps, taps, c, size=(taps * taps * c) ** -0.5)
        return self.add("CONV_2D", [self.last, weights, self.constant(k)], (n, -(-h // stride), -(-w // stride), k),
                        padding="SAME", stride_h=stride, stride_w=stride, fused_activation_function=activation)

    def depthwise(self, taps=3, stride=1, dilation=1, multiplier=1, activation="RELU6"):
        n, h, w, c = self.shape
        weights = self.constant(1, taps, taps, c * multiplier, size=1 / taps)
        return self.add("DEPTHWISE_CONV_2D", [self.last, weights, self.constant(c * multiplier)],
                        (n, -(-h // stride), -(-w // stride), c * multiplier), padding="SAME", stride_h=stride,
                        stride_w=stride, dilation_h_factor=dilation, dilation_w_factor=dilation,
                        depth_multiplier=multiplier, fused_activation_function=activation)

    def sum(self, other, activation="NONE"):
        return self.add("ADD", [self.last, other], self.shape, fused_activation_function=activation)

    def relu(self, name="RELU"):
        return self.add(name, [self.last], self.shape)

    def built(self, *outputs):
        self.model.inputs(self.inputs)
        self.model.outputs([self.last, *outputs])
        return self.model.build()


def chain(*outputs):
    """A first layer, 1x1, Winograd's 3x3, a stride, an activation of its own, a matrix product."""
    m = Network()
    m.conv(16, 3, 2, "RELU6")
    m.conv(24)
    m.relu("RELU")
    m.conv(32, 3)
    m.conv(40, 1, 2, "RELU_N1_TO_1")
    m.conv(20, 5, 1)
    m.add("RESHAPE", [m.last, m.model.constant("shape", np.array([-1, 180], np.int32))], (1, 180))
    m.add("FULLY_CONNECTED", [m.last, m.constant(10, 180, size=0.1), m.constant(10)], (1, 10))
    return m.built(*[m.tensors[i] for i in outputs])


def mobile(*outputs):
    """Depthwise filters of several kinds between 1x1."""
    m = Network(size=16)
    m.conv(16, 3, 2, "RELU6")
    m.depthwise()
    m.conv(40)
    m.depthwise(5, 2)
    m.conv(24)
    m.depthwise(3, 1, 2, activation="NONE")
    m.relu("RELU6")
    m.conv(24)
    m.depthwise(3, 1, multiplier=2)
    m.conv(8)
    return m.built(*[m.tensors[i] for i in outputs])


def residual(*outputs):
    """Sums of two branches, with an activation and without, one of which is an operand, too."""
    m = Network(size=10)
    first = m.conv(16, 3, 1, "RELU")
    m.conv(16, 3, 1)
    second = m.sum(first, "RELU")
    m.depthwise()
    m.conv(16)
    third = m.sum(second)
    m.conv(16, 3)
    m.sum(third)
    m.relu()
    m.conv(10)
    return m.built(*[m.tensors[i] for i in outputs])


def squeezed(*outputs, size=16):
    """What MobileNetV3, BlazeFace and detectors add: squeeze-and-excite, padded maxima, activations, a constant."""
    m, half, quarter = Network(size=size), size // 2, size // 4
    first = m.conv(16, 3, 2)
    m.conv(24)
    m.add("HARD_SWISH", [m.last], m.shape)
    m.depthwise(activation="NONE")
    wide, shape = m.add("HARD_SWISH", [m.last], m.shape), m.shape
    m.add("MEAN", [m.last, m.model.constant("axes", np.array([1, 2], np.int32))], (1, 1, 1, 24), keep_dims=True)
    m.conv(8, activation="RELU")
    m.conv(24)
    gate = m.add("LOGISTIC", [m.last], m.shape)
    m.add("MUL", [wide, gate], shape)
    m.conv(16)
    total = m.sum(first)
    pooled = m.add("MAX_POOL_2D", [total], (1, quarter, quarter, 16), padding="SAME", stride_h=2, stride_w=2,
                   filter_height=3, filter_width=3)
    padded = m.add("PAD", [pooled, m.model.constant("pairs", np.array([[0, 0]] * 3 + [[0, 24]], np.int32))],
                   (1, quarter, quarter, 40))
    m.last, m.shape = total, (1, half, half, 16)
    m.depthwise(3, 2)
    m.add("LEAKY_RELU", [m.last], m.shape, alpha=0.1)
    m.add("PRELU", [m.last, m.constant(1, 1, 16)], m.shape)
    m.add("ADD", [m.constant(16), m.last], m.shape)
    m.conv(40)
    m.sum(padded, "RELU")
    m.conv(5)
    return m.built(*[m.tensors[i] for i in outputs])


def interpreter(model, batch=1, precision="emulate_float16", **options):
    result = Interpreter(model_content=model, precision=precision, **options)
    if batch != 1:
        shape = result.get_input_details()[0]["shape"]
        result.resize_tensor_input(0, (batch, *shape[1:]))
    return result


def stored(made):
    """The tensors that the program stores as float16."""
    return [value.index for value in made._main.current.lowered.values if value.dtype == "half"]


def assert_same(got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def large(*outputs):
    """The same with results that leave the first-level cache, so that element-wise calls run block by block."""
    return squeezed(*outputs, size=80)


MODELS = [chain, mobile, residual, squeezed, large]


@pytest.mark.parametrize("network", MODELS)
@pytest.mark.parametrize("batch", [1, 3])
def test_results_are_those_of_preserved_tensors(network, batch):
    kept, made = interpreter(network(), batch, experimental_preserve_all_tensors=True), interpreter(network(), batch)
    assert_same(run(made), run(kept))
    assert not stored(kept) and len(stored(made)) >= 5
    size = made._main.current.arena.nbytes
    exact = interpreter(network(), batch, "float32")
    run(exact)
    assert size < exact._main.current.arena.nbytes
    for details in made.get_tensor_details():
        try:
            value = made.get_tensor(details["index"])
        except (errors.NotAllocatedError, ValueError):      # overwritten, or fused
            continue
        assert value.dtype == details["dtype"]
        np.testing.assert_array_equal(value, kept.get_tensor(details["index"]))


@pytest.mark.parametrize("network", MODELS)
def test_results_are_close_to_float32(network):
    for half, exact in zip(run(interpreter(network())), run(interpreter(network(), 1, "float32")), strict=True):
        np.testing.assert_allclose(half, exact, rtol=0, atol=abs(exact).max() * 2**-6)


@pytest.mark.parametrize("network", MODELS)
def test_threads_isa_levels_and_shapes(network, isa_level):
    want = run(interpreter(network(), 5))
    made = interpreter(network(), num_threads=3)
    for batch in (1, 2, 4, 5):
        made.resize_tensor_input(0, (batch, *made.get_input_details()[0]["shape"][1:]))
        got = run(made)
    assert_same(got, want)
    assert len(stored(made)) >= 5


@pytest.mark.parametrize("network", MODELS)
def test_plans(network, tmp_path):
    for batch in (1, 2, 1, 2):
        assert_same(run(interpreter(network(), batch, cache_dir=tmp_path)), run(interpreter(network(), batch)))


def test_outputs_and_what_float32_reads_stay():
    made = interpreter(chain(2, 4))
    run(made)
    details = {d["name"]: d["index"] for d in made.get_tensor_details()}
    assert not {details["t2"], details["t4"], details["x"]} & set(stored(made))
    m = Network()
    first, second = m.conv(32, 3), m.conv(32, 3)
    m.add("MAXIMUM", [second, second], m.shape)
    made = interpreter(m.built())
    run(made)
    assert stored(made) == [first]


def test_an_intermediate_tensor_is_read_as_float32(tmp_path):
    m = Network()
    index = m.conv(32, 3, 1)
    m.conv(32, 3, 1)
    model, values = m.built(), []
    for _ in range(3):      # the last two have a plan
        made = interpreter(model, cache_dir=tmp_path)
        run(made)
        values.append(made.get_tensor(index))
        assert stored(made) == [index]
        assert made.tensor(index)().dtype == values[-1].dtype == np.float32
        assert made.get_tensor_details()[index]["dtype"] == np.float32
    assert np.array_equal(values[0], values[0].astype(np.float16)) and values[0].std() > 0.1
    assert_same(values[1:], values[:1] * 2)


def test_pads_that_convolutions_fold():
    m = Network()
    m.conv(16, 3, 1)
    n, h, w, c = m.shape
    m.add("PAD", [m.last, m.model.constant("p", np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))],
          (n, h + 2, w + 2, c))
    m.add("CONV_2D", [m.last, m.constant(24, 3, 3, c, size=0.1), m.constant(24)], (n, h // 2, w // 2, 24),
          padding="VALID", stride_h=2, stride_w=2)
    m.conv(8)
    made, kept = (interpreter(m.built(), experimental_preserve_all_tensors=keep) for keep in (False, True))
    assert_same(run(made), run(kept))
    assert len(stored(made)) == 2


def test_wide_rows_stay_float32():
    """Rows of more products than an A panel holds have their sums in float32."""
    m = Network(size=1, channels=33000)
    m.conv(16)
    m.conv(16)
    made, kept = (interpreter(m.built(), 2, experimental_preserve_all_tensors=keep) for keep in (False, True))
    assert_same(run(made), run(kept))
    assert not stored(made)


def test_sums_and_depthwise_filters_between_float32_stay():
    """Conversions would take longer than what float16 saves."""
    m = Network(channels=16)
    m.add("TANH", [m.last], m.shape)
    m.depthwise()
    first = m.add("TANH", [m.last], m.shape)
    second = m.add("TANH", [first], m.shape)
    m.sum(first)
    assert_same(run(interpreter(m.built(second))), run(interpreter(m.built(second), precision="float32")))


def test_operators_between_products_read_and_write_float16():
    """All but the mean and what has one number for each channel."""
    made = interpreter(squeezed())
    made.allocate_tensors()
    lowered = made._main.current.lowered
    kept = [operator.name for operator in lowered.subgraph.operators
            if any(lowered.values[i].dtype == "float32" for i in operator.outputs)]
    assert kept == ["MEAN", "CONV_2D", "CONV_2D", "LOGISTIC", "CONV_2D"]        # the last one writes the result
    readers = [call.kernel for call in lowered.calls if call.node.name == "MEAN"]
    assert readers == ["elementwise.Unary", "reduction.Reduce"]         # a conversion, and the mean


def test_constants_beyond_float16_become_infinite(recwarn):
    m = Network()
    m.conv(16, 3)
    m.add("MUL", [m.last, m.constant(16, size=1e6)], m.shape)
    m.conv(16, 3)
    made = interpreter(m.built())
    assert not np.isfinite(run(made)[0]).all()
    assert stored(made) and not recwarn.list


def test_one_operator_reads_many_tensors_as_float32():
    """A CONCATENATION that the caller sees, of results that convolutions read as well."""
    m, branches = Network(), []
    m.conv(24, 3)
    first, shape = m.last, m.shape
    for _ in range(12):
        m.last, m.shape = first, shape
        branches.append(m.conv(16, 3))
        m.conv(8, 3)
    joined = m.model.tensor("joined", (*shape[:3], 16 * 12))
    m.model.operator("CONCATENATION", branches, [joined], axis=3)
    made, kept = (interpreter(m.built(joined), experimental_preserve_all_tensors=keep) for keep in (False, True))
    assert_same(run(made), run(kept))
    assert set(branches) <= set(stored(made))


def test_operators_without_results():
    """ASSIGN_VARIABLE has two inputs and no output."""
    m = Network()
    m.conv(16, 3)
    m.conv(16, 3)
    v = m.model.tensor("v", (1,), "resource")
    m.model.operator("VAR_HANDLE", [], [v], shared_name="v")
    m.model.operator("ASSIGN_VARIABLE", [v, m.last], [])
    m.add("READ_VARIABLE", [v], m.shape)
    m.conv(8, 3)
    made, kept = (interpreter(m.built(), experimental_preserve_all_tensors=keep) for keep in (False, True))
    assert_same(run(made), run(kept))
    assert stored(made)


def test_a_value_that_is_both_operands():
    m = Network()
    m.conv(16, 3)
    m.sum(m.last)
    m.conv(16, 3)
    made, kept = (interpreter(m.built(), experimental_preserve_all_tensors=keep) for keep in (False, True))
    assert_same(run(made), run(kept))
    assert len(stored(made)) == 2


def in_float16(call):
    """Is the call a product or a depthwise filter in float16?"""
    named = dict(zip(call.names, call.args[-len(call.names):], strict=True)) if call.names else {}
    return call.kernel == "depthwise.DepthwiseF16" or named.get("half", False)


def kernels_in_float16(model):
    """How many products and depthwise filters of the program are computed in float16."""
    made = interpreter(model)
    made.allocate_tensors()
    return sum(map(in_float16, made._main.current.lowered.calls))


class StoredAsFloat16(Network):
    """The same, whose constants are float16 and converted by DEQUANTIZE."""

    def constant(self, *shape, size=1):
        stored = self.model.constant(f"h{self.rng.integers(1 << 40)}",
                                     (self.rng.normal(size=shape) * size).astype(np.float16))
        result = self.model.tensor(f"d{self.rng.integers(1 << 40)}", shape)
        self.model.operator("DEQUANTIZE", [stored], [result])
        return result


def test_constants_stored_as_float16_cost_no_conversion():
    def layers(network):
        m = network(size=16, channels=16)
        for _ in range(3):
            m.conv(40)
            m.depthwise()
            m.conv(16)
        return m.built()
    assert kernels_in_float16(layers(StoredAsFloat16)) == kernels_in_float16(layers(Network)) >= 7


def test_inputs_of_the_graph_are_converted():
    """A layer that conversions of input and result outweigh stays in float32."""
    m = Network(channels=24)
    m.conv(20)
    assert kernels_in_float16(m.built()) == 0
    m = Network(channels=64)
    m.conv(64, 3)
    assert kernels_in_float16(m.built()) == 1
