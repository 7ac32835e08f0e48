"""ModelBuilder: the loader reads back all that was built."""
import numpy as np
import pytest

from pylite.schema import flex, load, read
from pylite.schema.builder import ModelBuilder
from pylite.schema.encodings import unpack
from pylite.schema.writer import write


def conv_model():
    """A quantized convolution, with signatures, metadata and all other optional parts of a model."""
    m = ModelBuilder("a convolution")
    x = m.tensor("x", (None, 8, 8, 3), "int8", scale=0.5, zero_point=3)
    scales = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    w = m.constant("w", np.arange(108, dtype=np.int8).reshape(4, 3, 3, 3), scale=scales, axis=0)
    b = m.constant("b", np.arange(4, dtype=np.int32), scale=scales / 2, axis=0)
    y = m.tensor("y", (1, 8, 8, 4), "int8", scale=0.25)
    m.operator("CONV_2D", [x, w, b], [y], version=3, padding="VALID", stride_w=1, stride_h=2,
               fused_activation_function="RELU6")
    m.inputs([x])
    m.outputs([y])
    m.signature("serving_default", {"image": x}, {"scores": y})
    m.metadata("note", b"hello")
    return m


@pytest.mark.parametrize("outside", [False, True])
def test_a_built_model_is_read_back(outside):
    model = load(conv_model().build(outside))
    assert (model.description, model.version, bytes(model.metadata["note"])) == ("a convolution", 3, b"hello")
    signature, = model.signatures
    assert (signature.key, signature.inputs, signature.outputs) == ("serving_default", {"image": 0}, {"scores": 3})
    graph, = model.subgraphs
    assert (graph.name, graph.inputs, graph.outputs) == ("main", (0,), (3,))
    x, w, b, y = graph.tensors
    assert (x.name, x.dtype, x.shape, x.shape_signature) == ("x", "int8", (1, 8, 8, 3), (-1, 8, 8, 3))
    assert x.data is None and x.quantization.scale == np.float32(0.5) and x.quantization.zero_point == 3
    np.testing.assert_array_equal(unpack(w.data, w.dtype, w.shape).ravel(), np.arange(108))
    assert w.quantization.scale.dtype == np.float32 and len(w.quantization.zero_point) == 4
    np.testing.assert_array_equal(unpack(b.data, b.dtype, b.shape), np.arange(4))
    assert not b.data.flags.writeable and y.quantization.zero_point == 0
    op, = graph.operators
    assert (op.name, op.builtin_code, op.version, op.custom) == ("CONV_2D", 3, 3, False)
    assert (op.inputs, op.outputs) == ((0, 1, 2), (3,))
    options = op.options
    assert (options.padding, options.stride_w, options.stride_h) == ("VALID", 1, 2)
    assert (options.fused_activation_function, options.dilation_w_factor) == ("RELU6", 1)


def test_types_of_numpy():
    m = ModelBuilder()
    for dtype in np.float32, np.dtype("int8"), bool, "int4":
        m.tensor("x", (1,), dtype)
    assert [tensor.dtype for tensor in load(m.build()).subgraphs[0].tensors] == ["float32", "int8", "bool", "int4"]


def test_constants_are_aligned_in_the_file():
    data = conv_model().build()
    whole = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    for buffer in read(data).buffers[1:]:
        assert (buffer.data.__array_interface__["data"][0] - whole) % 16 == 0


@pytest.mark.parametrize(("dtype", "low", "high"), [("int4", -8, 7), ("int2", -2, 1), ("uint4", 0, 15)])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 8])
def test_narrow_integers_are_packed(dtype, low, high, count):
    values = np.resize(np.arange(low, high + 1), count)
    m = ModelBuilder()
    m.constant("w", values, dtype=dtype)
    t, = load(m.build()).subgraphs[0].tensors
    assert t.dtype == dtype and t.shape == (count,)
    np.testing.assert_array_equal(unpack(t.data, t.dtype, t.shape), values)


def test_strings():
    m = ModelBuilder()
    m.constant("s", np.array([["a", "", "cde"]], object))
    t, = load(m.build()).subgraphs[0].tensors
    assert (t.dtype, t.shape) == ("string", (1, 3))
    np.testing.assert_array_equal(unpack(t.data, t.dtype, t.shape), np.array([[b"a", b"", b"cde"]], object))


def test_scalars_and_empty_constants():
    m = ModelBuilder()
    m.constant("scalar", np.float32(2))
    m.constant("empty", np.zeros((0, 3), np.int32))
    scalar, empty = load(m.build()).subgraphs[0].tensors
    assert unpack(scalar.data, scalar.dtype, scalar.shape) == 2
    assert empty.data is not None and len(empty.data) == 0


def test_custom_operators_and_absent_inputs():
    m = ModelBuilder()
    x, y = m.tensor("x", (1,)), m.tensor("y", (1,))
    m.inputs([x])
    m.operator("Mine", [x, None], [y], custom_options=b"abc")
    op, = load(m.build()).subgraphs[0].operators
    assert (op.name, op.custom, op.custom_options, op.inputs) == ("Mine", True, b"abc", (0, -1))


def test_codes_beyond_127_and_second_options():
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (1,)) for name in "xyz")
    m.inputs([x])
    m.operator("GELU", [x], [y], approximate=True)
    m.operator("STABLEHLO_PAD", [y], [z], edge_padding_low=(1,))
    gelu, pad = load(m.build()).subgraphs[0].operators
    assert (gelu.name, gelu.builtin_code, gelu.options.approximate) == ("GELU", 150, True)
    assert pad.options.edge_padding_low == (1,) and pad.options.interior_padding is None


def test_several_subgraphs():
    m = ModelBuilder()
    c, y = m.tensor("c", (), "bool"), m.tensor("y", (1,))
    m.inputs([c])
    m.operator("IF", [c], [y], then_subgraph_index=1, else_subgraph_index=2)
    for name in ("then", "else"):
        m.subgraph(name)
        m.outputs([m.constant("k", np.ones(1, np.float32))])
        m.signature(name, {}, {"k": 0})
    model = load(m.build())
    assert [g.name for g in model.subgraphs] == ["main", "then", "else"]
    assert [s.subgraph for s in model.signatures] == [1, 2]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda m: m.operator("CONV2D", [0], [0]), ValueError, "no builtin operator 'CONV2D'"),
    (lambda m: m.operator("ADD", [0], [0], axis=1), TypeError, "AddOptions has no field axis"),
    (lambda m: m.operator("LOGISTIC", [0], [0], axis=1), TypeError, "LOGISTIC has no options"),
    (lambda m: m.tensor("t", (1,), "float128"), ValueError, "unknown data type 'float128'"),
    (lambda m: m.operator("MUL", [0], [0], fused_activation_function="RELU7") or m.build(), ValueError, "RELU7"),
])
def test_wrong_arguments_are_named(call, error, text):
    m = ModelBuilder()
    m.tensor("x", (1,))
    with pytest.raises(error, match=text):
        call(m)


def test_custom_options_may_be_a_dict():
    """It is written as a FlexBuffer, which ops in Python get decoded."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1,)), m.tensor("y", (1,))
    m.operator("Halve", [x], [y], custom_options={"scale": 0.25, "names": ["a", "b"], "keep": True})
    m.inputs([x])
    m.outputs([y])
    options = read(m.build()).subgraphs[0].operators[0].custom_options
    assert flex.decode(bytes(options), "Halve") == {"scale": 0.25, "names": ["a", "b"], "keep": True}


def test_a_buffer_with_a_size_and_no_data():
    """The size is a field as any other: no data is moved, and no memory taken for it."""
    record = read(conv_model().build())
    record.buffers.append(record.buffers[0].TABLE(offset=5, size=2**40))
    content = write(record, outside=True)
    assert len(content) < 1 << 14
    with pytest.raises(ValueError, match="1099511627776 bytes that reach beyond the end of the file"):
        read(content)
