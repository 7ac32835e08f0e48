"""Checks and converts rare kinds of quantization parameters; _core/graph/records.pyx does so with the common ones.
"""
import numpy as np

from pylite.ir.graph import Quantization, replace

_NO_ZERO_POINTS = np.empty(0, np.int64)
_NO_ZERO_POINTS.flags.writeable = False
_SCALES, _ZERO_POINTS = ("float16", "float32"), ("int8", "int16", "int32", "int64")
_NO_SCALES = np.empty(0, np.float32)


def detailed(record, count):
    """The Quantization of a QuantizationParameters record with details: custom, blockwise or along several axes.

    count: number of tensors in the subgraph.  Raises ValueError, which says what is wrong.
    """
    details = record.details
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
    zero_point = _NO_ZERO_POINTS if record.zero_point is None else record.zero_point
    return Quantization(scale, zero_point, record.quantized_dimension, **known)


def fetch_scales(tensors):
    """Copy scales and zero points that are stored as tensors to the tensors that they quantize.

    Raises ValueError if such a tensor has the wrong type.
    """
    for t in tensors:
        q = t.quantization
        if q is not None and q.scale_tensor >= 0:
            scale = _numbers(t, "scales", tensors[q.scale_tensor], _SCALES, q.scale)
            zero_point = q.zero_point
            if q.zero_point_tensor >= 0:
                zero_point = _numbers(t, "zero points", tensors[q.zero_point_tensor], _ZERO_POINTS, zero_point)
            tensors[t.index] = replace(t, quantization=replace(q, scale=scale, zero_point=zero_point))


def _numbers(owner, what, tensor, dtypes, default):
    """The elements of a constant, in the dtype of `default`; `default` if it has no data."""
    if tensor.dtype not in dtypes:
        raise ValueError(f"tensor {owner.index} {owner.name!r}: its {what} are tensor {tensor.index} {tensor.name!r} "
                         f"of {tensor.dtype}; they must be one of {', '.join(dtypes)}")
    if tensor.data is None:
        return default
    return tensor.data.view(tensor.dtype).astype(default.dtype)
