"""aeq.hadamard_rotation, a custom op that TensorFlow Lite has built in: Hadamard transforms of blocks of a row."""
from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.ops.custom_options import decoded, integer_option
from pylite.ops.elementwise import infer_same, row_function


def lower_rotation(node):
    x, y = node.inputs[0], node.outputs[0]
    size = integer_option(node, decoded(node), "hadamard_size", 1)
    if size & size - 1 or not x.shape or x.shape[-1] % size:
        raise node.error(f"of shape {list(x.shape)} cannot be rotated {size} elements at a time, which must be a power "
                         "of two that divides the last dimension", x)
    return [Call("movement.Copy", x, y), row_function("hadamard", y.size // size, 1 + 4096 // size, (size,), y)]


register("aeq.hadamard_rotation", types=["float32 -> float32"], infer=infer_same, lower=lower_rotation)
