"""The peer's built-in custom ops, against the peer."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import mild_quantization, values
from tests.ops.test_detection import flexbuffer
from tests.tools.oneop import differential, run_pylite


def custom(m, name, inputs, options, constants=(), shape=()):
    """One custom op; inputs: (array, type, {quantization}); constants: positions of constants among them."""
    tensors = []
    for i, (x, dtype, q) in enumerate(inputs):
        tensors.append(m.constant(f"c{i}", x, **q) if i in constants else m.tensor(f"x{i}", x.shape, dtype, **q))
    y = m.tensor("y", shape)
    m.operator(name, tensors, [y], custom_options=flexbuffer(options))
    m.inputs([t for i, t in enumerate(tensors) if i not in constants])
    m.outputs([y])
    return [x for i, (x, *_) in enumerate(inputs) if i not in constants]


@differential("float32", count=12)
def test_audio_spectrogram(m, rng, dtype):
    x = rng.standard_normal((int(rng.integers(10, 900)), int(rng.integers(1, 3)))).astype(dtype)
    options = {"window_size": int(rng.choice([2, 16, 100, 128, 240])), "stride": int(rng.integers(1, 60)),
               "magnitude_squared": bool(rng.integers(2))}
    return custom(m, "AudioSpectrogram", [(x, dtype, {})], options)


@differential("float32", count=12)
def test_mfcc(m, rng, dtype):
    shape = int(rng.integers(1, 3)), int(rng.integers(1, 6)), int(rng.choice([65, 129, 257]))
    x, low, high = np.square(rng.standard_normal(shape)), int(rng.choice([20, 300])), int(rng.choice([3000, 4000]))
    channels = int(rng.choice([13, 20, 40]))
    options = {"upper_frequency_limit": high, "lower_frequency_limit": low,
               "filterbank_channel_count": channels, "dct_coefficient_count": int(rng.integers(1, channels + 1))}
    inputs = [(x.astype(dtype), dtype, {}), (np.array(rng.choice([8000, 16000]), np.int32), "int32", {})]
    return custom(m, "Mfcc", inputs, options, (1,))


@differential("int8", "uint8", "int16", count=6)
def test_numeric_verify(m, rng, dtype):
    shape = (3, 7)
    inputs = [(values(rng, shape, dtype), dtype, mild_quantization(rng, dtype)),
              (rng.standard_normal(shape).astype(np.float32), "float32", {})]
    return custom(m, "NumericVerify", inputs, {"tolerance": 5.0, "log_if_failed": False}, shape=shape)


def test_numeric_verify_fails_beyond_its_tolerance():
    m = ModelBuilder()
    x = np.zeros((2, 2), np.int8)
    custom(m, "NumericVerify", [(x, "int8", {"scale": 0.5}), (x.astype(np.float32), "float32", {})],
           {"tolerance": 3.0, "log_if_failed": True})
    interpreter = Interpreter(model_content=m.build())
    interpreter.allocate_tensors()
    interpreter.set_tensor(1, np.full((2, 2), 1.4, np.float32))
    interpreter.invoke()
    interpreter.set_tensor(1, np.full((2, 2), 1.6, np.float32))
    with pytest.raises(RuntimeError, match=r"NumericVerify.*tolerance"):
        interpreter.invoke()


@pytest.mark.parametrize("size", [1, 4, 16])
def test_hadamard_rotation(size):
    """Not in the reference resolver."""
    x = np.random.default_rng(0).standard_normal((2, 3, 32)).astype(np.float32)
    m = ModelBuilder()
    custom(m, "aeq.hadamard_rotation", [(x, "float32", {})], {"hadamard_size": size})
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    want = (x.reshape(-1, size) @ matrix / np.sqrt(size)).reshape(x.shape)
    np.testing.assert_allclose(run_pylite(m.build(), [x])[0], want, atol=1e-6)
