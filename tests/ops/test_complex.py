"""RFFT2D, COMPLEX_ABS, REAL, IMAG."""
import numpy as np
import pytest

from pylite.schema.builder import ModelBuilder
from tests.ops.draw import shape_of
from tests.tools.graphs import run
from tests.tools.oneop import differential


@differential("float32", count=30)
def test_rfft2d(m, rng, dtype):
    height, width = int(2 ** rng.integers(0, 5)), int(2 ** rng.integers(1, 8))
    shape = tuple(int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3))))
    shape += (int(rng.integers(1, 2 * height + 1)), int(rng.integers(1, 2 * width + 1)))
    x = m.tensor("x", shape)
    y = m.tensor("y", (*shape[:-2], height, width // 2 + 1), "complex64")
    m.operator("RFFT2D", [x, m.constant("length", np.array([height, width], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    return [rng.standard_normal(shape).astype(dtype)]


@differential("float32", count=5)
def test_late_length(m, rng, dtype):
    """The length of the transform is computed at run time."""
    x, n, y = m.tensor("x", (3, 20)), m.tensor("n", (2,), "int32"), m.tensor("y", (4, 9), "complex64")
    m.operator("RFFT2D", [x, n], [y])
    m.inputs([x, n])
    m.outputs([y])
    return [rng.standard_normal((3, 20)).astype(dtype), 2 ** rng.integers(1, 5, 2).astype(np.int32)]


@pytest.mark.parametrize(("height", "width"), [(1, 2048), (32, 64), (1, 512)])
def test_transforms_are_rounded_once(height, width):
    """As in the reference, which computes in float64: small frequencies beside large ones are as exact as these."""
    m = ModelBuilder()
    x, y = m.tensor("x", (3, height, width)), m.tensor("y", (3, height, width // 2 + 1), "complex64")
    m.operator("RFFT2D", [x, m.constant("length", np.array([height, width], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    wave = np.sin(np.arange(3 * height * width) * (2 * np.pi / 16)).reshape(3, height, width).astype(np.float32)
    _, (got,) = run(m.build(), [wave])
    want = np.fft.rfft2(wave.astype(np.float64))
    for part, exact in (got.real, want.real), (got.imag, want.imag):
        assert (np.abs(part - exact) <= np.abs(exact) * 2.0 ** -24 + np.abs(want).max() * 1e-14).all()


@differential("COMPLEX_ABS", "REAL", "IMAG", count=12)
def test_parts(m, rng, name):
    whole, part = (("complex64", "float32"), ("complex128", "float64"))[int(rng.integers(2))]
    shape = shape_of(rng)
    x, y = m.tensor("x", shape, whole), m.tensor("y", shape, part)
    m.operator(name, [x], [y])
    m.inputs([x])
    m.outputs([y])
    return [(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(whole)]
