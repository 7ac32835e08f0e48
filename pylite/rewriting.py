"""What need not be run: borders that the next node sees by itself, and functions of bytes one after the other."""
import numpy as np

from pylite import binding
from pylite.node import Banded, Call, Packed, Value, View

UNARY = "elementwise.Unary"
READ = "control.Read"


def drop_pads(lowered, pads):
    """Leave out the calls that compute the padded tensors which nobody reads any more.  pads: [(Node, Padded)]"""
    used = {lowered.values[i].root for i in lowered.subgraph.outputs}
    makers = {node.index: set() for node, _ in pads}
    for call in lowered.calls:
        makers.get(call.node.index, used).update(_roots(call))
    for node, padded in reversed(pads):
        if padded.folded and padded.y not in used:
            lowered.notes[node.index] = f"folded into node {', '.join(map(str, padded.folded))}"
        else:
            used.update(makers.pop(node.index))
    lowered.calls = [call for call in lowered.calls if call.node.index not in makers]


def _roots(call):
    return [a.root if type(a) is Value else a.value.root for a in call.args if type(a) in (Value, View, Banded)]


def join_tables(lowered, model):
    """Functions of one operand, the next one of the last one's result, from bytes to bytes are one table."""
    counts = {}
    for call in lowered.calls:
        for root in _roots(call):
            counts[root] = counts.get(root, 0) + 1
    for i in lowered.subgraph.outputs:
        counts[lowered.values[i].root] = 0
    chain, calls = [], []
    for call in lowered.calls:
        single = call.kernel == UNARY and len(call.args) == 5 and type(call.args[2]) is type(call.args[3]) is View
        if chain and not (single and _follows(call, chain[-1], counts)):
            calls += _as_table(lowered, model, chain)
            chain = []
        (chain if single else calls).append(call)
    lowered.calls = calls + _as_table(lowered, model, chain)


def _follows(call, before, counts):
    """Does nothing but `call` need what `before` computes?"""
    x, y = call.args[2].value, before.args[3].value
    return (x.root is y.root and counts[x.root] == 2 and x.root.kind == "temporary" and x.root.nbytes == y.nbytes
            and call.args[1] == before.args[1])         # BITCAST may make other elements of the same bytes


def _as_table(lowered, model, chain):
    """The chain, with the calls from the first that takes bytes to the last that gives some as one."""
    takes = [i for i, call in enumerate(chain) if call.args[2].value.nbytes == call.args[1]]
    gives = [i for i, call in enumerate(chain) if call.args[3].value.nbytes == call.args[1]]
    if not takes or not gives or takes[0] >= gives[-1]:
        return chain
    joined, last = chain[takes[0]:gives[-1] + 1], chain[gives[-1]]
    table = np.arange(256, dtype=np.uint8)
    for call in joined:
        row, n, _, y, p = call.args
        x, table = table, np.empty(256 * (y.value.nbytes // n), np.uint8)
        binding.kernel_class(UNARY)(row, 256, x, table, model.pack(p) if type(p) is Packed else p).run()
        lowered.notes[call.node.index] = f"folded into node {last.node.index}"
    lowered.notes.pop(last.node.index)
    x, y = joined[0].args[2], last.args[3]
    call = Call(UNARY, "lut8", last.args[1], x, y, table, inplace=(y.value, x.value))
    call.node, call.note = last.node, "a table of several nodes' functions"
    return [*chain[:takes[0]], call, *chain[gives[-1] + 1:]]


def read_late(calls):
    """Move reads of variables to where what they give is needed first.

    Converters put all of them first, where they live through the whole graph.  They pass no call that may change them.
    """
    for step in range(len(calls) - 1, -1, -1):
        call = calls[step]
        if call.kernel == READ:
            at = step + 1
            while at < len(calls) and call.args[1].root not in _roots(calls[at]) and _passes(calls[at], call.args[0]):
                at += 1
            calls.insert(at - 1, calls.pop(step))


def _passes(call, variable):
    """Does `call` leave the variable as it is?"""
    kernel = call.kernel
    return type(kernel) is str and (kernel == READ or not kernel.startswith(("control.", "python_op."))
                                    or (kernel == "control.Assign" and call.args[0] is not variable))
