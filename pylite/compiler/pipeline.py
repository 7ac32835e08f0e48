"""The passes, in order.  Each names what it gains and tells whether a graph has anything for it.

A pass is a module of `passes` with the function `run`, imported when the first graph wants it.
"""
import importlib
from itertools import pairwise

from pylite.ir.lowered import ACTIVATIONS, STREAMED

UNARY, BINARY, READ = "elementwise.Unary", "elementwise.Binary", "control.Read"


def _has_activations(subgraph):
    return not ACTIVATIONS.isdisjoint([operator.name for operator in subgraph.operators])


def _has_folded_pads(lowered):
    return any(pad.folded for _, pad in lowered.pads)


def _has_elementwise_pairs(lowered):
    return any(b.kernel in (UNARY, BINARY) and _feeds(a, b) for a, b in pairwise(lowered.calls))


def _feeds(a, b):
    """May `b` be fused with `a`, the call before it?  Tables always, others where results leave the cache."""
    if a.kernel == UNARY:
        return b.kernel == UNARY or a.args[3].shape[0] >= STREAMED
    return a.kernel == BINARY and a.args[6].shape[0] >= STREAMED


def _has_reads(lowered):
    return READ in [call.kernel for call in lowered.calls]


# Subgraph -> (Subgraph, [FoldedActivation]), before lowering: (module, what for, wanted).
GRAPH_PASSES = (
    ("activation_fusion", "operators apply the activations of floats that follow them", _has_activations),
)
# Lowered -> Lowered: (module, what for, wanted).
CALL_PASSES = (
    ("pad_elision", "a PAD is not run where its readers add the same border", _has_folded_pads),
    ("elementwise_fusion", "functions in a row become one table, or go block by block", _has_elementwise_pairs),
    ("late_reads", "variables are read where their values are needed first", _has_reads),
)


def _pass(name):
    return importlib.import_module(f"pylite.compiler.passes.{name}").run


def rewrite_graph(subgraph, find):
    """(the Subgraph with fewer operators, what was folded).  find(operator): its Op."""
    folded = []
    for name, _, wanted in GRAPH_PASSES:
        if wanted(subgraph):
            subgraph, found = _pass(name)(subgraph, find)
            folded += found
    return subgraph, folded


def rewrite_calls(lowered):
    """The Lowered with fewer or cheaper calls; results are the same."""
    for name, _, wanted in CALL_PASSES:
        if wanted(lowered):
            lowered = _pass(name)(lowered)
    return lowered
