"""Ops that go along an axis in order: CUMSUM, TOPK_V2, LOCAL_RESPONSE_NORMALIZATION; and random numbers."""
import os
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Scratch
from pylite.numerics.fixed_point import wrap32
from pylite.ops.elementwise import infer_same, task
from pylite.ops.filling import sizes
from pylite.ops.moves import axis_of, scalar


def lower_cumsum(node):
    x, y = node.inputs[0], node.outputs[0]
    axis = axis_of(node, scalar(node, 1, "axis"), len(x.shape), x)
    numbers = (x.dtype, x.shape[axis], prod(x.shape[axis + 1:]),
               node.options.exclusive, node.options.reverse, x.itemsize)
    return task("cumsum", prod(x.shape[:axis]), 1 + 32768 // max(numbers[1] * numbers[2], 1), numbers, x, y)


register("CUMSUM", types=[f"{t} int32 -> {t}" for t in ("float32", "int32", "int64")], infer=infer_same,
         lower=lower_cumsum)


def infer_top_k(node):
    x, k = node.inputs[0], scalar(node, 1, "k")
    if not x.shape or not 0 <= k <= x.shape[-1]:
        raise node.error(f"of shape {list(x.shape)} does not have the {k} largest elements in a row", x)
    return [x.shape[:-1] + (k,)] * 2


def lower_top_k(node):
    x, (values, indices) = node.inputs[0], node.outputs
    k = values.shape[-1]
    numbers = x.dtype, x.shape[-1], k, x.itemsize, indices.itemsize
    return task("top_k", prod(x.shape[:-1]), 0, numbers, x, values, indices, Scratch((16 * k,), "uint8"))


register("TOPK_V2", versions=(1, 3), infer=infer_top_k, lower=lower_top_k,
         types=[f"{t} int16|int32 -> {t} int16|int32" for t in ("float32", "int8", "uint8", "int16", "int32", "int64")])


def lower_local_response(node):
    x, y, o = node.inputs[0], node.outputs[0], node.options
    n = x.shape[-1]
    return task("local_response", x.size // n, 1 + 2048 // n, (n, o.radius), x, y, reals=(o.bias, o.alpha, o.beta))


def infer_local_response(node):
    if not node.inputs[0].shape:
        raise node.error("is a scalar, which has no channels", node.inputs[0])
    return [node.inputs[0].shape]


register("LOCAL_RESPONSE_NORMALIZATION", types=["float32 -> float32"], infer=infer_local_response,
         lower=lower_local_response)


# ---- random numbers ----------------------------------------------------------------------------------------------
def generator(node):
    """The state of the node's generator, which outlives a lowering: uint32, key and counter.

    The two seeds give them, of which the low 32 bits count; where both are 0, they are different each time.  It is kept
    with its start, if the seeds tell one, to which allocate() takes it back after a change of shapes.
    """
    kept = node.host.shared.setdefault("generators", {}) if node.host is not None else {}
    key = node.host.subgraph.index if node.host is not None else 0, node.index
    if key not in kept:
        o = node.options
        seeds = np.array([wrap32(o.seed), wrap32(o.seed2)], np.int64)
        given = seeds.any()
        if not given:
            seeds = np.frombuffer(os.urandom(16), np.int64)
        start = np.array([*seeds[:1].view(np.uint32), 0, 0, *seeds[1:].view(np.uint32)], np.uint32)
        kept[key] = start.copy(), start if given else None
    return kept[key][0]


def lower_random(node):
    y = node.outputs[0]
    return task("uniform", 1, 0, (y.size, node.name == "RANDOM_STANDARD_NORMAL"), generator(node), y)


for _name in ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"):
    register(_name, types=["int32 -> float32"], infer=lambda node: [sizes(node, 0, "shape")], lower=lower_random,
             stateful=True)


def infer_multinomial(node):
    logits, samples = node.inputs[0], scalar(node, 1, "number of samples")
    if len(logits.shape) != 2 or logits.shape[1] == 0 or samples < 0:
        raise node.error(f"of shape {list(logits.shape)} gives no classes to draw {samples} samples from", logits)
    return [(logits.shape[0], samples)]


def lower_multinomial(node):
    logits, y = node.inputs[0], node.outputs[0]
    numbers = *logits.shape, y.shape[1], y.dtype == "int64"
    return task("multinomial", 1, 0, numbers, generator(node), logits, y, Scratch((8 * logits.shape[1],), "uint8"))


register("MULTINOMIAL", types=["float32 int32 -> int32|int64"], infer=infer_multinomial, lower=lower_multinomial,
         stateful=True)


def infer_random_bits(node):
    state, threefry = node.inputs[0], node.options.algorithm == "THREEFRY"
    if state.shape != (2,) and (threefry or state.shape != (3,)):
        raise node.error(f"of shape {list(state.shape)} is no state of the algorithm {node.options.algorithm}", state)
    return [state.shape, node.outputs[1].shape]


def lower_random_bits(node):
    state, (later, bits) = node.inputs[0], node.outputs
    numbers = state.nbytes // 4, bits.nbytes // 4, node.options.algorithm == "THREEFRY"
    return task("random_bits", 1, 0, numbers, state, later, bits)


register("STABLEHLO_RNG_BIT_GENERATOR", types=["uint64 -> uint64 int32|uint32|int64|uint64"], infer=infer_random_bits,
         lower=lower_random_bits)
