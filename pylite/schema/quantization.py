"""Quantization parameters of rare kinds: a tensor's record, checked, to graph.Quantization.

_core/graph/records.pyx does the others.
"""
import numpy as np

from pylite.ir.graph import Quantization, replace

_NO_ZERO_POINTS = np.empty(0, np.int64)
_NO_ZERO_POINTS.flags.writeable = False
_SCALES, _ZERO_POINTS = ("float16", "float32"), ("int8", "int16", "int32", "int64")
_NO_SCALES = np.empty(0, np.float32)


def detailed(record, count):
    """The Quantization of a QuantizationParameters record with details: custom, blockwise or along several axes.

    count: of tensors in the subgraph.  Raises ValueError that says what is wrong.
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
    """Copy scales and zero points that are tensors of their own to the tensors that they quantize.

    Raises ValueError where these tensors have other types.
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
    """A constant's elements in `default`'s dtype, or `default` where they are unknown."""
    if tensor.dtype not in dtypes:
        raise ValueError(f"tensor {owner.index} {owner.name!r}: its {what} are tensor {tensor.index} {tensor.name!r} "
                         f"of {tensor.dtype}; they must be one of {', '.join(dtypes)}")
    if tensor.data is None:
        return default
    return tensor.data.view(tensor.dtype).astype(default.dtype)
