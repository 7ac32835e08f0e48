"""RFFT2D, and the parts and magnitudes of complex numbers: REAL, IMAG, COMPLEX_ABS."""
import math

import numpy as np

from pylite._core.kernels.fourier import STACK_NUMBERS
from pylite.ir.registry import register
from pylite.ir.values import Call, Scratch
from pylite.ops.elementwise import infer_same

_PARTS = {"complex64": "float32", "complex128": "float64"}
_TYPES = [f"{number} -> {part}" for number, part in _PARTS.items()]


def lower_part(node):
    """REAL and IMAG: a copy of every second float, from the first or the second on."""
    x, y = node.inputs[0], node.outputs[0]
    return Call("movement.Copy", x.view((x.size,), (2,), 1 if node.name == "IMAG" else 0, y.dtype), y.flat)


def lower_abs(node):
    x, y = node.inputs[0], node.outputs[0]
    return Call("fourier.Abs", x.view((2 * x.size,), dtype=y.dtype), y.flat)


def _length(node):
    """(height, width) of the transform."""
    length = node.constant(1, "length")
    if length.shape != (2,):
        raise node.error(f"must have 2 elements, height and width, not the shape {list(length.shape)}", node.inputs[1])
    height, width = length.tolist()
    if min(height, width) < 1 or height & height - 1 or width & width - 1:
        raise node.error(f"asks for {height} x {width}, which must be powers of two", node.inputs[1])
    return height, width


TABLE_BYTES = 64    # memory for each number of a transform, while fourier.turns() makes its tables


def transform_scratch(n, height, width):
    """The Scratch with which fourier.Rfft2d transforms n images; None if its stack suffices."""
    shape = (height + max(height, 2), width + 2)
    return Scratch((min(n, 4), *shape), "float64") if math.prod(shape) > STACK_NUMBERS else None


def infer_rfft2d(node):
    x = node.inputs[0]
    if len(x.shape) < 2:
        raise node.error("has fewer than 2 dimensions", x)
    height, width = _length(node)
    return [(*x.shape[:-2], height, width // 2 + 1)]


def lower_rfft2d(node):
    x, y = node.inputs[0], node.outputs[0]
    height, width = _length(node)
    n = math.prod(x.shape[:-2])
    node.check_memory(TABLE_BYTES * (height + width), "tables of the Fourier transform")
    return Call("fourier.Rfft2d", x.view((n, *x.shape[-2:])),
                y.view((n, height, 2 * (width // 2 + 1)), dtype="float32"), transform_scratch(n, height, width),
                height, width)


def reference_rfft2d(x, length, o):
    return np.fft.rfft2(x, tuple(length))


register("RFFT2D", types=["float32 int32 -> complex64"], infer=infer_rfft2d, lower=lower_rfft2d,
         reference=reference_rfft2d)
register("COMPLEX_ABS", types=_TYPES, infer=infer_same, lower=lower_abs, reference=lambda x, o: np.abs(x))
register("REAL", types=_TYPES, infer=infer_same, lower=lower_part, reference=lambda x, o: x.real)
register("IMAG", types=_TYPES, infer=infer_same, lower=lower_part, reference=lambda x, o: x.imag)
