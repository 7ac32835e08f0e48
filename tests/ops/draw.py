"""Random shapes, values and quantizations of one-op tests."""
import numpy as np

from pylite.numerics.quantization import LIMITS


def image(rng, most=13):
    """An NHWC shape, sometimes empty."""
    n, h, w = (int(rng.integers(1, top)) for top in (4, most, most))
    c = int(rng.choice([1, 2, 3, 5, 16, 24, 65, 130]))
    if rng.random() < 0.08:
        n, c = (0, c) if rng.random() < 0.5 else (n, 0)
    return n, h, w, c


def values(rng, shape, dtype):
    """Values of a type: all of an integer's range, half the time only a narrow part of it; floats of mixed size."""
    if dtype.startswith("float"):
        return (rng.standard_normal(shape) * 10.0 ** rng.integers(-2, 3)).astype(dtype)
    if dtype == "bool":
        return rng.random(shape) < 0.5
    low, high = LIMITS[dtype]
    if rng.random() < 0.5:
        at = int(rng.integers(low, high))
        low, high = max(low, at - 10), min(high, at + 10)
    return rng.integers(low, high, shape, dtype, endpoint=True)


def activation(rng):
    """The name of a fused activation, NONE half the time."""
    return str(rng.choice(["NONE", "NONE", "NONE", "RELU", "RELU6", "RELU_N1_TO_1"]))


def quantization(rng, dtype):
    """{} for an unquantized type, else {scale, zero_point}, extreme ones included."""
    if dtype not in ("int8", "uint8", "int16"):
        return {}
    low, high = LIMITS[dtype]
    zero_point = int(rng.choice([low, high, 0 if low else 128, rng.integers(low, high)]))
    scale = float(rng.choice([rng.random() + 1e-3, 2.0 ** rng.integers(-12, 3), 1e-7, 300.0], p=[0.6, 0.2, 0.1, 0.1]))
    return {"scale": scale, "zero_point": 0 if dtype == "int16" else zero_point}


def mild_quantization(rng, dtype, scale=None):
    """{scale, zero_point} of moderate size, so that every output scale is supported."""
    low, high = LIMITS[dtype]
    if scale is None:
        scale = np.exp(rng.uniform(-5, 0)) / (64 if dtype == "int16" else 1)
    zero_point = int(rng.integers(low, high + 1)) if rng.random() < 0.7 else (low + high + 1) // 2
    return {"scale": float(np.float32(scale)), "zero_point": 0 if dtype == "int16" else zero_point}


def shape_of(rng, most=5, least=0, empty=0.04):
    """A shape of `least` to `most` dimensions: small ones and half the time a long one; rarely empty."""
    rank = int(rng.integers(least, most + 1))
    shape = [int(n) for n in rng.integers(1, 5, rank)]
    if rank and rng.random() < 0.5:
        shape[int(rng.integers(rank))] = int(rng.integers(5, 130))
    if rank and rng.random() < empty:
        shape[int(rng.integers(rank))] = 0
    return tuple(shape)
