"""Real models in ../shared/models give the results of the reference kernels."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from tests.models import compare as models
from tests.tools.resources import lack, peer

BEYOND = ("add_quantized.bin", "add_quantized_int8.bin")     # refused by every kernel of the peer

# The multiplier of its SUB is beyond the reference's rule: pylite follows the definition (docs/numerics.md, 5).
BY_DEFINITION = ("reports/sub_dead_output.tflite",)

NAMES = models.names() if models.MODELS.is_dir() else []


def test_there_are_models():
    if not NAMES:
        lack("../shared/models is not beside the checkout")


@pytest.mark.parametrize("name", NAMES)
def test_model(name):
    peer()
    result = models.compare(name)
    if result.status == "unsupported":
        pytest.skip(result.detail)
    if result.status == "refused":
        pytest.skip(f"the peer refuses: {result.detail}")
    wanted = ("DIFFERS",) if name in BY_DEFINITION else ("equal", "close")
    assert result.status in wanted, result.detail


@pytest.mark.parametrize("name", BEYOND)
def test_models_that_the_peer_refuses(name):
    """x + x in float32, plus x, quantized like x: three times x."""
    path = models.MODELS / "LiteRT/tflite/testdata" / name
    if not path.exists():
        lack("../shared/models is not beside the checkout")
    interpreter = Interpreter(path)
    interpreter.allocate_tensors()
    x, = interpreter.get_input_details()
    y, = interpreter.get_output_details()
    assert x["quantization"] == y["quantization"] == (0.00392200006172061, 0)
    span = np.iinfo(x["dtype"])
    fed = np.random.default_rng(0).integers(span.min, span.max, x["shape"], x["dtype"], endpoint=True)
    interpreter.set_tensor(x["index"], fed)
    interpreter.invoke()
    assert np.array_equal(interpreter.get_tensor(y["index"]), np.clip(3 * fed.astype(int), span.min, span.max))
