"""FILL and ZEROS_LIKE: a tensor filled with one value."""
import numpy as np

from pylite.ir.registry import register
from pylite.ops.elementwise import infer_same
from pylite.ops.moves import INDICES, filled, movable, shape_operand


def infer_fill(node):
    return [shape_operand(node, 0, "dimensions")]


def lower_fill(node):
    return filled(node.outputs[0], node.inputs[1])


register("FILL", versions=(1, 5), types=movable(f"{INDICES} T -> T"), infer=infer_fill, lower=lower_fill,
         reference=lambda shape, value, options: np.full(shape.tolist(), value, value.dtype))
register("ZEROS_LIKE", types=movable("T -> T"), infer=infer_same,
         lower=lambda node: filled(node.outputs[0], 0), reference=lambda x, options: np.zeros_like(x))
