"""SVDF: features of each input, filtered over time; of floats, floats with integer weights, and integers.

Integers: docs/numerics.md section 10.
"""
from struct import pack

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call, Packed, Temporary
from pylite.numerics.quantization import quantize_multiplier
from pylite.ops import products
from pylite.ops.recurrent_layer import activation, scratch


def infer_svdf(node):
    x, features, time, bias, state = (node.input(i) for i in range(5))
    rank = node.options.rank
    if len(x.shape) != 2 or len(features.shape) != 2 or len(time.shape) != 2:
        raise node.error("input and weights must have 2 dimensions", x)
    filters = features.shape[0]
    if rank < 1 or filters % rank:
        raise node.error(f"its {filters} filters are not a multiple of the rank {rank}", features)
    if features.shape[1] != x.shape[1]:
        raise node.error(f"its rows must have {x.shape[1]} elements, as the input's", features)
    if time.shape[0] != filters:
        raise node.error(f"must have {filters} rows, one for each filter", time)
    if bias is not None and bias.size != filters // rank:
        raise node.error(f"must have {filters // rank} elements", bias)
    if state is None or state.kind != "variable":
        raise node.error("needs a variable tensor for its state", state)
    if state.size != x.shape[0] * time.size:
        raise node.error(f"holds {state.size} elements of state; {x.shape[0] * time.size} are needed", state)
    return [(x.shape[0], filters // rank)]


def lower_svdf(node):
    x, features, time, bias, state = (node.input(i) for i in range(5))
    y = node.outputs[0]
    for value in (features, time):
        products.contents(node, value, "weights")
    bias = products.contents(node, bias, "bias")
    filters = features.shape[0]
    if x.dtype == "int8":
        return _lower_integer(node, x, features, time, bias, state, y)
    steps = time.data
    if time.dtype != "float32":
        steps = time.data.view(np.int8) * np.float32(time.scale)
    projected = Temporary(node, (x.shape[0], filters), "float32")
    return [products.rows_of_floats(node, x, features, None, projected, (-np.inf, np.inf),
                                    asymmetric=node.options.asymmetric_quantize_inputs),
            Call("recurrent_basic.Svdf", projected.view(), y, state.flat, steps, bias=bias,
                 activation=activation(node))]


def _lower_integer(node, x, features, time, bias, state, y):
    products.require_scales(node, x, features, time, state, y)
    if node.options.fused_activation_function != "RELU":
        raise node.error("an SVDF of integers needs the fused activation RELU, not "
                         f"{node.options.fused_activation_function}")
    filters = features.shape[0]
    multipliers = [quantize_multiplier(a.scale * b.scale / c.scale)     # F: docs/numerics.md section 10
                   for a, b, c in ((x, features, state), (state, time, y))]

    def layer(state, steps, **details):
        return Call("recurrent_integer_basic.Svdf", x, y, state.flat, Packed("packing.pack_weights", features), steps,
                    bias=bias, newest=scratch(filters, "int16"), sums=scratch(filters, "int32"),
                    zeros=(x.zero_point, y.zero_point), multipliers=multipliers, **details)
    if state.dtype == "int16":
        return layer(state, time)
    # A state of int8 is widened to int16, less its zero point, while the layer runs.
    wide, zero = Temporary(node, state.shape, "int16"), state.zero_point
    widened = np.arange(256).astype(np.uint8).view(np.int8).astype(np.int16) - np.int16(zero)
    identity = pack("6i", -zero, *quantize_multiplier(1.0), 0, -128, 127)
    return [Call("elementwise.Unary", "lut8_i16", state.size, state.bytes, wide.bytes, widened.view(np.uint8)),
            layer(wide, time.data.astype(np.int16), bytes=True, bytes_zero=zero),
            Call("elementwise.Unary", "rescale_i16_i8", state.size, wide.bytes, state.bytes, identity)]


register("SVDF", versions=(1, 4), infer=infer_svdf, lower=lower_svdf, stateful=True,
         types=["float32 float32 float32 float32? float32 -> float32",
                "float32 int8|uint8 int8|uint8 float32? float32 -> float32",
                "int8 int8 int16 int32? int16 -> int8", "int8 int8 int8 int32? int8 -> int8"])
