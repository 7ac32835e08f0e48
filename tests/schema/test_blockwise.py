"""Blockwise quantization whose tensors of scales are of a wrong type or size."""
import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from pylite.schema.tables import table


def model(scales=None, size=32, dtype=np.float16, count=8):
    m = ModelBuilder()
    scales = m.constant("scales", np.full(count, 0.5).astype(dtype) if scales is None else scales)
    details = table("BlockwiseQuantization")(scales=scales, zero_points=-1, block_size=size)
    w = m.constant("w", np.ones((4, 64), np.int8), dtype="int4",
                   quantization=table("QuantizationParameters")(details=details))
    x, y = m.tensor("x", (2, 64)), m.tensor("y", (2, 4))
    m.operator("FULLY_CONNECTED", [x, w, -1], [y], version=13)
    m.inputs([x])
    m.outputs([y])
    return m.build()


def test_the_model_itself_runs():
    interpreter = pylite.Interpreter(model_content=model())
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ones((2, 64), np.float32))
    interpreter.invoke()
    np.testing.assert_allclose(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), 32, rtol=1e-2)


@pytest.mark.parametrize("change", [
    {"scales": np.array([b"a", b"bc"] * 4, object)}, {"dtype": np.int32},
    {"count": 7}, {"count": 9}, {"count": 1}, {"count": 0}, {"size": 0},
    {"size": -32}, {"size": 48}, {"size": 128}, {"size": 1 << 30},
])
def test_wrong_scales_are_refused(change):
    with pytest.raises((pylite.ModelError, pylite.OpError, pylite.UnsupportedOpError), match=r"scale|block"):
        use(model(**change))


def use(data):
    """Load, describe, allocate and run."""
    interpreter = pylite.Interpreter(model_content=data)
    assert len(interpreter.get_tensor_details()) == 4
    interpreter.allocate_tensors()
    interpreter.invoke()
