"""Removes PADs whose readers all add the border themselves."""
from pylite.ir.lowered import Folded
from pylite.ir.values import roots


def run(lowered):
    """The Lowered without the calls that compute padded tensors without a reader."""
    used = {lowered.values[i].root for i in lowered.subgraph.outputs}
    reads = {node.index: set() for node, _ in lowered.pads}         # of each PAD; those of all others are `used`
    for call in lowered.calls:
        reads.get(call.node.index, used).update(roots(call))
    for node, pad in reversed(lowered.pads):
        if pad.folded and pad.y not in used:
            lowered.notes[node.index] = Folded(*pad.folded)
        else:
            used.update(reads.pop(node.index))
    lowered.calls = [call for call in lowered.calls if call.node.index not in reads]
    return lowered
