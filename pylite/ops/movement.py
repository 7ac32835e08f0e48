"""Ops that move or reinterpret elements and compute nothing."""
import math

import numpy as np

from pylite.node import Alias, Constant
from pylite.registry import register

ANY = ["any any? -> any"]


def infer_reshape(node):
    """RESHAPE: the second input, else the option, names the shape; one -1 takes what is left."""
    x = node.inputs[0]
    if node.input(1) is not None:
        wanted = [int(n) for n in node.constant(1, "shape").ravel()]
    else:
        wanted = list(node.options.new_shape if node.options.new_shape is not None else ())
    return [_filled(node, x, wanted)]


def _filled(node, x, wanted):
    unknown = [i for i, n in enumerate(wanted) if n == -1]
    known = math.prod(n for n in wanted if n != -1)
    if len(unknown) == 1 and known and x.size % known == 0:
        wanted[unknown[0]] = x.size // known
    if len(unknown) > 1 or min(wanted, default=0) < 0 or math.prod(wanted) != x.size:
        raise node.error(f"has {x.size} elements, which cannot take the shape {wanted}. If the input was resized, "
                         "the shape was fixed when the model was converted", x)
    return tuple(wanted)


def lower_alias(node):
    return Alias(node.outputs[0], node.inputs[0])


register("RESHAPE", types=ANY, infer=infer_reshape, lower=lower_alias, reference=np.reshape)


def infer_shape(node):
    return [(len(node.inputs[0].shape),)]


def lower_shape(node):
    y = node.outputs[0]
    return Constant(y, np.array(node.inputs[0].shape, y.dtype))


register("SHAPE", types=["any -> int32|int64"], infer=infer_shape, lower=lower_shape, reference=np.shape)
