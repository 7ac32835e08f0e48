"""RANDOM_UNIFORM, RANDOM_STANDARD_NORMAL, MULTINOMIAL and STABLEHLO_RNG_BIT_GENERATOR.

docs/numerics.md, "Random numbers".
"""
import os

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Scratch
from pylite.numerics.fixed_point import wrap32
from pylite.ops.elementwise import row_function
from pylite.ops.moves import scalar, shape_operand


def generator(node):
    """The state of the node's generator, uint32 (key and counter), which persists when the graph is lowered again.

    It is made from the low 32 bits of the two seeds; where both are 0, from the system's entropy.  `generators` also
    keeps the initial state, None if it is random: allocate() restores it after a change of shapes.
    """
    kept = node.host.shared.generators if node.host is not None else {}
    key = node.host.subgraph.index if node.host is not None else 0, node.index
    if key not in kept:
        o = node.options
        seeds = np.array([wrap32(o.seed), wrap32(o.seed2)], np.int64)
        seeded = seeds.any()
        if not seeded:
            seeds = np.frombuffer(os.urandom(16), np.int64)
        start = state_of(seeds)
        kept[key] = start.copy(), start if seeded else None
    return kept[key][0]


def state_of(seeds):
    """The initial state of a generator with two seeds, int64."""
    return np.array([*seeds[:1].view(np.uint32), 0, 0, *seeds[1:].view(np.uint32)], np.uint32)


# ---- RANDOM_UNIFORM and RANDOM_STANDARD_NORMAL ---------------------------------------------------------------
def infer_random(node):
    return [shape_operand(node, 0, "shape")]


def lower_random(node):
    y = node.outputs[0]
    return row_function("uniform", 1, 0, (y.size, node.name == "RANDOM_STANDARD_NORMAL"), generator(node), y)


for _name in ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL"):
    register(_name, types=["int32 -> float32"], infer=infer_random, lower=lower_random, stateful=True)


# ---- MULTINOMIAL ---------------------------------------------------------------------------------------------
def infer_multinomial(node):
    logits, samples = node.inputs[0], scalar(node, 1, "number of samples")
    if len(logits.shape) != 2 or logits.shape[1] == 0 or samples < 0:
        raise node.error(f"of shape {list(logits.shape)} gives no classes to draw {samples} samples from", logits)
    return [(logits.shape[0], samples)]


def lower_multinomial(node):
    logits, y = node.inputs[0], node.outputs[0]
    numbers = *logits.shape, y.shape[1], y.dtype == "int64"
    sums = Scratch((8 * logits.shape[1],), "uint8")
    return row_function("multinomial", 1, 0, numbers, generator(node), logits, y, sums)


register("MULTINOMIAL", types=["float32 int32 -> int32|int64"], infer=infer_multinomial, lower=lower_multinomial,
         stateful=True)


# ---- STABLEHLO_RNG_BIT_GENERATOR -----------------------------------------------------------------------------
def infer_random_bits(node):
    state, threefry = node.inputs[0], node.options.algorithm == "THREEFRY"
    if state.shape != (2,) and (threefry or state.shape != (3,)):
        raise node.error(f"of shape {list(state.shape)} is not a state of the algorithm "
                         f"{node.options.algorithm}", state)
    return [state.shape, node.outputs[1].shape]


def lower_random_bits(node):
    state, (new_state, bits) = node.inputs[0], node.outputs
    numbers = state.nbytes // 4, bits.nbytes // 4, node.options.algorithm == "THREEFRY"
    return row_function("random_bits", 1, 0, numbers, state, new_state, bits)


register("STABLEHLO_RNG_BIT_GENERATOR", types=["uint64 -> uint64 int32|uint32|int64|uint64"], infer=infer_random_bits,
         lower=lower_random_bits)
