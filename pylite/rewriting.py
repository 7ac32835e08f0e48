"""What need not be run: borders that the next node sees by itself; and what is better run later."""
from pylite.node import Banded, Value, View

READ = "control.Read"


def drop_pads(lowered, pads):
    """Leave out the calls that compute the padded tensors which nobody reads any more.  pads: [(Node, Padded)]"""
    used = {lowered.values[i].root for i in lowered.subgraph.outputs}
    makers = {node.index: set() for node, _ in pads}
    for call in lowered.calls:
        makers.get(call.node.index, used).update(roots(call))
    for node, padded in reversed(pads):
        if padded.folded and padded.y not in used:
            lowered.notes[node.index] = f"folded into node {', '.join(map(str, padded.folded))}"
        else:
            used.update(makers.pop(node.index))
    lowered.calls = [call for call in lowered.calls if call.node.index not in makers]


def roots(call):
    """The values whose memory `call` sees, one for each argument."""
    return [a.root if type(a) is Value else a.value.root for a in call.args if type(a) in (Value, View, Banded)]


def read_late(calls):
    """Move reads of variables to where what they give is needed first.

    Converters put all of them first, where they live through the whole graph.  They pass no call that may change them.
    """
    for step in range(len(calls) - 1, -1, -1):
        call = calls[step]
        if call.kernel == READ:
            at = step + 1
            while at < len(calls) and call.args[1].root not in roots(calls[at]) and _passes(calls[at], call.args[0]):
                at += 1
            calls.insert(at - 1, calls.pop(step))


def _passes(call, variable):
    """Does `call` leave the variable as it is?"""
    kernel = call.kernel
    return type(kernel) is str and (kernel == READ or not kernel.startswith(("control.", "python_op."))
                                    or (kernel == "control.Assign" and call.args[0] is not variable))
