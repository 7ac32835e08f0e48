"""Chains of 8-bit functions become one lookup table: results are identical to those of separate functions."""
import numpy as np
import pytest

from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import run


def model(names, watched=None, dtype="int8"):
    """x -> DEQUANTIZE -> each of `names` -> QUANTIZE -> y; watched: an intermediate tensor that is an output, too."""
    builder = ModelBuilder()
    last = builder.tensor("x", (3, 70), dtype, scale=0.05, zero_point=3)
    builder.inputs([last])
    made = []
    for i, name in enumerate(["DEQUANTIZE", *names, "QUANTIZE"]):
        numbers = {"scale": 0.02, "zero_point": -7} if name == "QUANTIZE" else {}
        y = builder.tensor(f"t{i}", (3, 70), dtype if numbers else "float32", **numbers)
        builder.operator(name, [last], [y])
        last = y
        made.append(y)
    builder.outputs([last] if watched is None else [last, made[watched]])
    return builder.build()


@pytest.mark.parametrize(("names", "watched"), [
    ([], None), (["ELU"], None), (["ELU"], 0), (["TANH", "NEG", "EXP"], None), (["TANH", "NEG", "EXP"], 2)])
@pytest.mark.filterwarnings("ignore:experimental_preserve_all_tensors")
def test_tables_give_identical_results(names, watched):
    content = model(names, watched)
    x = (np.arange(210) % 256).astype(np.uint8).view(np.int8).reshape(3, 70)
    fused, got = run(content, [x])
    separate, want = run(content, [x], experimental_preserve_all_tensors=True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert separate._main.current.program.size == len(names) + 2
    assert fused._main.current.program.size == (1 if watched is None else len(names) + 2)


@pytest.mark.filterwarnings("ignore:experimental_preserve_all_tensors")
def test_a_bitcast_ends_the_chain():
    builder = ModelBuilder()
    x = builder.tensor("x", (8, 4), "int8", scale=0.05, zero_point=3)
    q = builder.tensor("q", (8, 4), "int8", scale=1 / 256, zero_point=-128)
    f = builder.tensor("f", (8,), "float32")
    y = builder.tensor("y", (8,), "int8", scale=0.1, zero_point=0)
    builder.inputs([x])
    builder.operator("LOGISTIC", [x], [q])
    builder.operator("BITCAST", [q], [f])
    builder.operator("QUANTIZE", [f], [y])
    builder.outputs([y])
    content = builder.build()
    x = np.arange(-128, 128, 8, np.int8).reshape(8, 4)
    _, want = run(content, [x], experimental_preserve_all_tensors=True)
    np.testing.assert_array_equal(run(content, [x])[1][0], want[0])
