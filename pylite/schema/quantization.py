"""Quantization parameters: a tensor's record, checked, to graph.Quantization."""
import math

import numpy as np

from pylite._core.decoder import all_finite, first_beyond
from pylite.ir.graph import Quantization, replace

_ZERO = np.zeros(1, np.int64)
_ZERO.flags.writeable = False
_NO_SCALES = np.empty(0, np.float32)
_ZERO_POINTS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-2**15, 2**15 - 1), "uint16": (0, 2**16 - 1),
                "int4": (-8, 7), "uint4": (0, 15), "int2": (-2, 1)}
_ANY_ZERO_POINT = -2**31, 2**31 - 1


def quantization_of(record, dtype, shape, count):
    """The Quantization in a QuantizationParameters record, of a tensor of this type and shape; None without scales.

    count: of tensors in the subgraph.  Raises ValueError that says what is wrong.
    """
    if record.details is not None:
        return _detailed(record, record.details, count)
    scale, axis = record.scale, record.quantized_dimension
    scales = 0 if scale is None else len(scale)
    if not scales:
        return None
    if scales > 1:
        _check_scales(scale, axis, shape)
    elif not math.isfinite(scale.item(0)):
        raise ValueError(f"its scale is {scale[0]}")
    zero_point = _zero_points(record.zero_point, scales, dtype)
    return Quantization.of((scale, zero_point, axis, 0, (), (), -1, -1, record.min, record.max, b""))


def _check_scales(scale, axis, shape):
    """One scale per index along `axis`, all finite."""
    scales = len(scale)
    if not 0 <= axis < len(shape) or shape[axis] != scales:
        raise ValueError(f"{scales} scales along axis {axis} of shape {list(shape)}")
    if not all_finite(scale):
        raise ValueError("a scale is not finite")


def _zero_points(zero_point, scales, dtype):
    """One zero point per scale: zeros where the file gives none, its only one for every scale."""
    count = 0 if zero_point is None else len(zero_point)
    if not count:
        return _ZERO if scales == 1 else np.zeros(scales, np.int64)
    low, high = _ZERO_POINTS.get(dtype, _ANY_ZERO_POINT)
    beyond = zero_point.item(0) if count == 1 else first_beyond(zero_point, low, high)
    if beyond is not None and not low <= beyond <= high:
        raise ValueError(f"its zero point {beyond} lies outside {low} to {high}")
    if count == scales:
        return zero_point
    if count != 1:
        raise ValueError(f"{scales} scales, {count} zero points")
    return np.repeat(zero_point, scales)


def _detailed(record, details, count):
    """The Quantization of a record with details: custom, blockwise or along several axes."""
    kind = details.TABLE.name
    known = {"min": record.min, "max": record.max}
    if kind == "CustomQuantization":
        known["custom"] = b"" if details.custom is None else details.custom.tobytes()
    else:
        known |= {"block_size": details.block_size, "scale_tensor": details.scales,
                  "zero_point_tensor": details.zero_points}
        if not (0 <= details.scales < count and -1 <= details.zero_points < count and details.block_size >= 0):
            raise ValueError(f"scales in tensor {details.scales}, zero points in tensor {details.zero_points}, "
                             f"blocks of {details.block_size}")
        if kind == "BlockwiseQuantization":
            known["block_shape"] = details.block_shape or ()
        else:
            known["axes"] = details.quantized_dimensions or ()
    scale = _NO_SCALES if record.scale is None else record.scale
    zero_point = _ZERO[:0] if record.zero_point is None else record.zero_point
    return Quantization(scale, zero_point, record.quantized_dimension, **known)


def fetch_scales(tensors):
    """Copy scales and zero points that are tensors of their own to the tensors that they quantize."""
    for t in tensors:
        q = t.quantization
        if q is not None and q.scale_tensor >= 0:
            scale = _numbers(tensors[q.scale_tensor], ("float16", "float32"), q.scale)
            zero_point = q.zero_point
            if q.zero_point_tensor >= 0:
                zero_point = _numbers(tensors[q.zero_point_tensor], ("int8", "int16", "int32", "int64"), zero_point)
            tensors[t.index] = replace(t, quantization=replace(q, scale=scale, zero_point=zero_point))


def _numbers(tensor, dtypes, default):
    """A constant's elements in `default`'s dtype, or `default` where they are unknown or of another type."""
    if tensor.data is None or tensor.dtype not in dtypes:
        return default
    return tensor.data.view(tensor.dtype).astype(default.dtype)
