"""The loader at its limits: indices one too large, and constants that are not aligned or have odd lengths."""
import numpy as np
import pytest

from pylite import errors
from pylite.schema import load
from pylite.schema.builder import ModelBuilder
from pylite.schema.loader import aligned


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


@pytest.mark.parametrize(("dtype", "width"), [("int8", 1), ("int16", 2), ("float32", 4), ("int64", 8)])
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
