"""CALL_ONCE: a subgraph that runs once in an interpreter, which initializes its variables and tables."""
import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.ops.callees import callee, lower_call


def initializer(node):
    """(the Host of the subgraph, uint8 (1,): 1 once it has run in this interpreter)."""
    index = node.options.init_subgraph_index
    host = callee(node, index, [], [])
    return host, node.host.shared.once.setdefault(index, np.zeros(1, np.uint8))


def infer_once(node):
    host, _ = initializer(node)
    return None if host.prepared([], {}).boundary is not None else []


def lower_once(node):
    host, done = initializer(node)
    return lower_call(node, [host], lambda: Call("control.Once", host.entry(), done), evaluate_once, [], {})


def evaluate_once(node):
    host, done = initializer(node)
    if not done[0]:
        host.call([])
        done[0] = 1
    return []


register("CALL_ONCE", types=["->"], infer=infer_once, lower=lower_once, evaluate=evaluate_once, stateful=True)
