"""The loader at its limits: indices one too large, and constants that are not aligned or have odd lengths."""
import time
from types import SimpleNamespace

import numpy as np
import pytest

from pylite import errors
from pylite.schema import load, loader
from pylite.schema.builder import ModelBuilder
from pylite.schema.loader import aligned
from pylite.schema.tables import enum, table
from pylite.schema.writer import write


def builder():
    m = ModelBuilder()
    x = m.tensor("x", (2,))
    m.inputs([x])
    m.outputs([x])
    m.signature("run", {"x": x}, {"x": x})
    m.metadata("about", b"words")
    return m


@pytest.mark.parametrize("beyond", [0, 1])
def test_buffers_of_metadata(beyond):
    m = builder()
    assert bytes(load(m.build()).metadata["about"]) == b"words"
    count = len(m.record.buffers)
    m.record.metadata[0].buffer = count + beyond
    with pytest.raises(errors.ModelError, match=rf"metadata 0.*buffer {count + beyond} of {count}"):
        load(m.build())


@pytest.mark.parametrize("beyond", [0, 1])
def test_subgraphs_of_signatures(beyond):
    m = builder()
    m.record.signature_defs[0].subgraph_index = 1 + beyond
    with pytest.raises(errors.ModelError, match=rf"signature 0 'run'.*subgraph {1 + beyond} of 1"):
        load(m.build())


@pytest.mark.parametrize("beyond", [0, 1])
def test_tensors_of_signatures(beyond):
    m = builder()
    m.record.signature_defs[0].outputs[0].tensor_index = 1 + beyond
    with pytest.raises(errors.ModelError, match=rf"signature 0 'run'.*'x' is tensor {1 + beyond} of 1"):
        load(m.build())


@pytest.mark.parametrize("side", ["inputs", "outputs"])
@pytest.mark.parametrize("index", [-1, 1, 2])
def test_inputs_and_outputs(side, index):
    m = builder()
    setattr(m.record.subgraphs[0], side, (index,))
    with pytest.raises(errors.ModelError, match=rf"its {side} \[{index}\] name tensors that it lacks \(it has 1\)"):
        load(m.build())


@pytest.mark.parametrize("beyond", [0, 1])
def test_operator_codes(beyond):
    m = builder()
    y = m.tensor("y", (2,))
    m.operator("ABS", [0], [y])
    m.record.subgraphs[0].operators[0].opcode_index = 1 + beyond
    with pytest.raises(errors.ModelError, match=rf"operator 0.*operator code {1 + beyond} of 1"):
        load(m.build())


@pytest.mark.parametrize("beyond", [0, 1])
def test_operators_of_later_versions(beyond):
    """Those that the schema lacks have a name, and are refused when the model is run."""
    m = builder()
    m.operator("ABS", [0], [m.tensor("y", (2,))])
    number = len(enum("BuiltinOperator")) + beyond
    m.record.operator_codes[0].builtin_code = number
    assert load(m.build()).subgraphs[0].operators[0].name == f"BUILTIN_{number}"
    m.record.operator_codes[0].builtin_code = number - 2 - beyond
    assert load(m.build()).subgraphs[0].operators[0].name == enum("BuiltinOperator")[-2]


@pytest.mark.parametrize(("dtype", "width"), [("int8", 1), ("string", 1), ("int16", 2), ("float32", 4), ("int64", 8)])
@pytest.mark.parametrize("excess", [0, 1])      # bytes beyond a whole element
def test_constants_are_aligned(dtype, width, excess):
    memory = np.arange(64, dtype=np.uint8)
    memory = memory[-memory.ctypes.data % 8:]
    memory.flags.writeable = False
    whole = memory[:3 * width + excess * (width > 1)]
    assert aligned(whole, dtype) is whole
    shifted = memory[1:][:len(whole)]
    result = aligned(shifted, dtype)
    assert (result is shifted) == (width == 1)
    np.testing.assert_array_equal(result, shifted)
    assert not result.flags.writeable


def quantized(shape=(2, 3), dtype="int8", **fields):
    """The Quantization of a tensor whose record has these QuantizationParameters."""
    m = ModelBuilder()
    m.tensor("x", shape, dtype, quantization=table("QuantizationParameters")(**fields))
    return load(m.build()).subgraphs[0].tensors[0].quantization


@pytest.mark.parametrize(("scales", "points", "expected"), [
    (1, None, [0]), (2, None, [0, 0]), (2, [], [0, 0]), (1, [-128], [-128]), (2, [127], [127, 127]),
    (2, [-128, 127], [-128, 127])])
def test_zero_points(scales, points, expected):
    found = quantized(scale=np.ones(scales, np.float32), zero_point=None if points is None else np.int64(points))
    assert found.zero_point.tolist() == expected and found.zero_point.dtype == np.int64


@pytest.mark.parametrize(("fields", "text"), [
    ({"zero_point": np.int64([0, 128])}, "its zero point 128 lies outside -128 to 127"),
    ({"zero_point": np.int64([-129, 0])}, "its zero point -129 lies outside -128 to 127"),
    ({"zero_point": np.int64([-129])}, "its zero point -129 lies outside -128 to 127"),
    ({"zero_point": np.int64([0, 0, 0])}, "2 scales, 3 zero points"),
    ({"quantized_dimension": -1}, r"2 scales along axis -1 of shape \[2, 3\]"),
    ({"quantized_dimension": 1}, r"2 scales along axis 1 of shape \[2, 3\]"),
    ({"quantized_dimension": 2}, r"2 scales along axis 2 of shape \[2, 3\]")])
def test_quantization_that_is_refused(fields, text):
    with pytest.raises(errors.ModelError, match=f"tensor 0 'x': {text}"):
        quantized(scale=np.ones(2, np.float32), **fields)


def test_a_record_without_scales():
    assert quantized(min=np.float32([-1])) is None
    assert quantized(scale=np.float32([])) is None


def test_tensors_of_variants():
    m = ModelBuilder()
    kind = table("VariantSubType")
    m.tensor("v", (), "variant", variant_tensors=[kind(type="float32", shape=(2, 3)), kind(type="int8", shape=None)])
    assert load(m.build()).subgraphs[0].tensors[0].variants == (("float32", (2, 3)), ("int8", ()))


def operating(outputs, variable=False, **fields):
    """A model x -> UNIQUE -> outputs, of x, y and z."""
    m = ModelBuilder()
    for name in "xyz":
        m.tensor(name, (3,), "int32", variable=variable and name != "x")
    m.operator("UNIQUE", [0], outputs, **fields)
    m.inputs([0])
    return load(m.build()).subgraphs[0].operators[0]


def test_outputs():
    assert operating((-1, 1)).outputs == (-1, 1)
    assert operating((-1, -1)).outputs == (-1, -1)
    assert operating((1, 2), variable=True).outputs == (1, 2)
    assert operating((1, -1), intermediates=(2, -1)).intermediates == (2, -1)


@pytest.mark.parametrize("index", [-2, 3, 4])
@pytest.mark.parametrize("where", ["outputs", "intermediates"])
def test_operands_that_the_subgraph_lacks(index, where):
    with pytest.raises(errors.ModelError, match=rf"operator 0 UNIQUE: operands \[{index}, 1\] name tensors that the sub"
                                                r"graph lacks \(it has 3\)"):
        operating((index, 1)) if where == "outputs" else operating((1, 2), intermediates=(index, 1))


def test_the_operator_with_wrong_operands_is_named():
    """And at most twenty of its operands."""
    m = ModelBuilder()
    for name in "xyz":
        m.tensor(name, (3,))
    m.operator("CONCATENATION", [0, -1], [1])
    m.operator("CONCATENATION", [0] * 25 + [9], [2])
    m.inputs([0])
    with pytest.raises(errors.ModelError) as caught:
        load(m.build())
    assert f"operator 1 CONCATENATION: operands {[0] * 20} name tensors" in str(caught.value)


@pytest.mark.parametrize(("changed", "constant"), [
    ({}, True), ({"buffer": 0}, False), ({"shape": (2,)}, False), ({"is_variable": True}, False),
    ({"shape_signature": (-1,)}, False), ({"shape_signature": (0,)}, True)])
def test_tensors_without_elements_are_constants(changed, constant):
    """Those that have a buffer, which may be empty, and that nothing else gives their contents."""
    m = ModelBuilder()
    m.tensor("e", (0,), "int32", buffer=m.buffer(b""))
    vars(m.record.subgraphs[0].tensors[0]).update(changed)
    data = load(write(m.record)).subgraphs[0].tensors[0].data
    assert (data is not None) == constant
    assert data is None or (data.size == 0 and not data.flags.writeable)


def test_tensors_without_elements_that_are_computed():
    m = ModelBuilder()
    for name in "xyz":
        m.tensor(name, (0,), buffer=m.buffer(b""))
    m.operator("ABS", [0], [1])
    m.inputs([0])
    assert [t.data is None for t in load(m.build()).subgraphs[0].tensors] == [True, True, False]


@pytest.mark.parametrize(("group", "right"), [(0, True), (1, False), (2, False)])
def test_groups_of_external_buffers(group, right):
    m = ModelBuilder()
    m.tensor("w", (4,), external_buffer=5)
    m.record.external_buffer_groups = [table("ExternalBufferGroup")(name="weights.bin")]
    m.record.external_buffers = [table("ExternalBuffer")(id=5, group=group, offset=64, length=16, packing="none")]
    if right:
        found = load(m.build()).subgraphs[0].tensors[0].external
        assert (found.group, found.offset, found.size, found.packing) == ("weights.bin", 64, 16, "none")
    else:
        with pytest.raises(errors.ModelError, match="tensor 0 'w': unknown external buffer 5"):
            load(m.build())


@pytest.mark.parametrize(("dtype", "right"), [("float32", False), ("resource", True), ("variant", True)])
def test_sizes_of_constants(dtype, right):
    """Those of types without a size may be any."""
    m = ModelBuilder()
    m.tensor("c", (3,), dtype, buffer=m.buffer(b"twenty-one bytes here"))
    if right:
        assert bytes(load(write(m.record)).subgraphs[0].tensors[0].data) == b"twenty-one bytes here"
    else:
        with pytest.raises(errors.ModelError, match=r"its buffer \d has 21 bytes; shape \[3\] of float32 takes 12"):
            load(write(m.record))


def calling(*targets):
    """A model whose subgraph i is a WHILE of targets[i], or nothing for None."""
    m = ModelBuilder()
    for i, target in enumerate(targets):
        if i:
            m.subgraph(f"s{i}")
        x, y = m.tensor("x", (2,)), m.tensor("y", (2,))
        m.inputs([x])
        if target is None:
            m.operator("ABS", [x], [y])
        else:
            m.operator("WHILE", [x], [y], cond_subgraph_index=target, body_subgraph_index=target)
        m.outputs([y])
    return m.build()


def test_calls_of_subgraphs():
    assert len(load(calling(1, 2, None)).subgraphs) == 3
    assert len(load(calling(2, None, 1)).subgraphs) == 3
    for targets, text in (((1, 1), r"subgraphs \[0, 1\]: they call each other in a circle"),
                          ((1, 2, 1, None), r"subgraphs \[0, 1, 2\]: they call"),
                          ((1, 2), "subgraph 1, operator 0 WHILE: cond_subgraph_index is 2; the model has 2 subgraphs"),
                          ((-1, None), "subgraph 0, operator 0 WHILE: cond_subgraph_index is -1; the model has 2")):
        with pytest.raises(errors.ModelError, match=text):
            load(calling(*targets))


def test_a_long_chain_of_calls():
    """The time to check it grows with its length, not with the square: it was half a minute."""
    kind, count = load(calling(1, None)).subgraphs[0].operators[0].options.TABLE, 20000
    chain = [SimpleNamespace(operators=[SimpleNamespace(options=SimpleNamespace(
        TABLE=kind, cond_subgraph_index=i, body_subgraph_index=i))]) for i in range(1, count)]
    started = time.process_time()
    loader._check_calls([*chain, SimpleNamespace(operators=[])])
    assert time.process_time() - started < 5
