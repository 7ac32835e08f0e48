"""SEGMENT_SUM and UNSORTED_SEGMENT_PROD, _MAX, _SUM, _MIN: the slices of x combined by their segment's number."""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.numerics.quantization import FLT_MAX, LIMITS
from pylite.ops.boxes import scatter
from pylite.ops.moves import filled, scalar
from pylite.ops.wide import combining


def infer_segment_sum(node):
    """The output has a row for each segment number up to the largest.  OpError unless the numbers are sorted."""
    x, ids = node.inputs
    numbers = node.constant(1, "segment numbers")
    if numbers.ndim != 1 or numbers.shape != x.shape[:1] or (np.diff(numbers) < 0).any() or (numbers[:1] < 0).any():
        raise node.error(f"should be a rising number for each of {x.shape[:1]} rows", ids)
    return [((int(numbers[-1]) + 1 if numbers.size else 0), *x.shape[1:])]


def infer_unsorted_segment(node):
    x, ids = node.inputs[:2]
    count = scalar(node, 2, "number of segments")
    if ids.shape != x.shape[:len(ids.shape)] or count < 0:
        raise node.error(f"of shape {list(ids.shape)} does not number the parts of {list(x.shape)} in {count} segments",
                         ids)
    return [(count, *x.shape[len(ids.shape):])]


# The binary op, and its identity, which is the result of an empty segment.
_COMBINATIONS = {"PROD": ("mul", lambda dtype: 1), "SUM": ("add", lambda dtype: 0),
                 "MAX": ("maximum", lambda dtype: LIMITS[dtype][0] if dtype in LIMITS else -FLT_MAX),
                 "MIN": ("minimum", lambda dtype: LIMITS[dtype][1] if dtype in LIMITS else FLT_MAX)}


def lower_segment(node):
    x, ids, y = node.inputs[0], node.inputs[1], node.outputs[0]
    op, identity = _COMBINATIONS[node.name.rpartition("_")[2]]
    run = prod(x.shape[len(ids.shape):])
    return [filled(y, identity(y.dtype)),
            scatter(y, ids, x, vectors=[(ids.size, 1, run, 0)], components=[(0, y.shape[0] - 1, run, -1)],
                    shape=[(run, 1, 1)], policy="skip negative", combining=combining(op, y.dtype))]


register("SEGMENT_SUM", types=["float32 int32 -> float32", "int32 int32 -> int32"], infer=infer_segment_sum,
         lower=lower_segment)
for _name in ("UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_MIN"):
    register(_name, types=[f"{t} int32 int32 -> {t}" for t in ("float32", "int32")], infer=infer_unsorted_segment,
             lower=lower_segment)
