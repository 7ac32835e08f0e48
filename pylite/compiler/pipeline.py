"""The passes, in their order.  Each is a module of `passes` with the function `run`, imported when it first applies.

The tables list each pass with its module, its purpose, and whether it applies to a graph.  Copy elision is not here:
it compares placements, so the memory planner runs it.
"""
import importlib
from itertools import pairwise

from pylite.ir.lowered import ACTIVATIONS, BINARY, BINARY_Y, READ, STREAMED, UNARY, UNARY_Y


def _has_activations(subgraph):
    return not ACTIVATIONS.isdisjoint([operator.name for operator in subgraph.operators])


def _has_concats_of_slices(subgraph):
    return {"CONCATENATION", "SLICE"}.issubset([operator.name for operator in subgraph.operators])


def _has_folded_pads(lowered):
    return any(pad.folded for _, pad in lowered.pads)


def _computes_half(lowered):
    return lowered.half


def _has_elementwise_pairs(lowered):
    return any(b.kernel in (UNARY, BINARY) and _may_fuse(a, b) for a, b in pairwise(lowered.calls))


def _may_fuse(a, b):
    """May `b` be fused with `a`, the call before it?  Tables always; blocks only if results do not fit the cache."""
    if a.kernel == UNARY:
        return b.kernel == UNARY or a.args[UNARY_Y].shape[0] >= STREAMED
    return a.kernel == BINARY and a.args[BINARY_Y].shape[0] >= STREAMED


def _has_reads(lowered):
    return READ in [call.kernel for call in lowered.calls]


# Subgraph -> (Subgraph, [FusedActivation]), before lowering.
GRAPH_PASSES = (
    ("activation_fusion", "operators apply the activations of floats that follow them", _has_activations),
)
# Subgraph -> Subgraph, before lowering, for subgraphs that operators call.
CALLEE_PASSES = (
    ("tensor_array_writes", "a write of one element of a TensorArray has known shapes", _has_concats_of_slices),
)
# Lowered -> Lowered.
CALL_PASSES = (
    ("pad_elision", "a PAD is not run where its readers add the same border", _has_folded_pads),
    ("half_storage", "tensors between kernels in float16 are stored as float16", _computes_half),
    ("elementwise_fusion", "chains of functions become one table, or run block by block", _has_elementwise_pairs),
    ("late_reads", "variables are read where their values are needed first", _has_reads),
)


def _pass(name):
    return importlib.import_module(f"pylite.compiler.passes.{name}").run


def rewrite_graph(subgraph, find):
    """(the Subgraph with fewer operators, the FusedActivations).  find(operator): its Op."""
    fused = []
    for name, _, applies in GRAPH_PASSES:
        if applies(subgraph):
            subgraph, more = _pass(name)(subgraph, find)
            fused += more
    return subgraph, fused


def rewrite_callee(subgraph):
    """A subgraph that operators call, rewritten so that fewer shapes depend on data."""
    for name, _, applies in CALLEE_PASSES:
        if applies(subgraph):
            subgraph = _pass(name)(subgraph)
    return subgraph


def rewrite_calls(lowered):
    """The Lowered with fewer or cheaper calls that have the same results."""
    for name, _, applies in CALL_PASSES:
        if applies(lowered):
            lowered = _pass(name)(lowered)
    return lowered
