"""SQUARED_DIFFERENCE.  docs/numerics.md section 5."""
import numpy as np

from pylite.ir.registry import register, same
from pylite.numerics.fixed_point import common_scale
from pylite.numerics.lookup_tables import bytes_of
from pylite.numerics.quantization import squared_difference_parameters
from pylite.ops.elementwise import binary, by_definition, infer_broadcast, parameters
from pylite.ops.wide import wide_binary

_SLOTS = {"float32": "squared_difference_f32", "int32": "squared_difference_i32"}


def lower_squared_difference(node):
    a, b, y = node.inputs[0], node.inputs[1], node.outputs[0]
    if y.dtype in _SLOTS:
        return binary(node, _SLOTS[y.dtype])
    if y.dtype == "int16":          # the reference has none
        return by_definition(node, -1, squared=True)
    if y.dtype != "int8":
        return wide_binary(node, "squared_difference")
    left, a_scaling, b_scaling, y_scaling = squared_difference_parameters(a.scale, b.scale, y.scale)
    if y_scaling[1] > 0:            # where the reference stops the process
        return by_definition(node, -1, squared=True)
    values = [common_scale(bytes_of("int8") - v.zero_point, left, *scaling)
              for v, scaling in ((a, a_scaling), (b, b_scaling))]
    p = parameters(node, "3i", *y_scaling, y.zero_point) + np.array(values, np.int32).tobytes()
    return binary(node, "squared_difference_q8", p)


register("SQUARED_DIFFERENCE", versions=(1, 2), types=same("float32 int8 int16 int32 int64", 2), infer=infer_broadcast,
         lower=lower_squared_difference, reference=lambda a, b, *_: np.square(a - b),
         conditions=("quantized: a b y one scale", "quantized: a b y scale > 0"))
