"""Activations of floats are applied by the operators before them."""
from pylite.ir import registry
from pylite.ir.graph import replace
from pylite.ir.lowered import ACTIVATIONS, FoldedActivation


def run(subgraph, find):
    """(the Subgraph in which operators apply the activations of floats behind them, [FoldedActivation]).

    find(operator): its Op.  An operator stays as it is where its result has another reader.
    """
    tensors, operators, readers, makers, found = subgraph.tensors, list(subgraph.operators), {}, {}, []
    for operator in operators:
        for i in operator.inputs:
            readers[i] = readers.get(i, 0) + 1
    for i in subgraph.outputs:
        readers[i] = readers.get(i, 0) + 1
    for position, operator in enumerate(operators):
        makers.update((i, position) for i in operator.outputs)
        if operator.name not in ACTIVATIONS or operator.inputs[0] not in makers:
            continue
        x, y = tensors[operator.inputs[0]], tensors[operator.outputs[0]]
        maker = operators[makers[x.index]]
        if (x.dtype == y.dtype == "float32" and not (x.is_variable or y.is_variable) and readers[x.index] == 1
                and find(operator).lower is registry.find(operator.name).lower      # not the user's own
                and len(maker.outputs) == 1 and find(maker).fuses_activation
                and getattr(maker.options, "fused_activation_function", None) == "NONE"):
            options = maker.options.TABLE(**maker.options.__dict__ | {"fused_activation_function": operator.name})
            operators[makers[x.index]] = replace(maker, outputs=operator.outputs, options=options)
            found.append(FoldedActivation(operator.index, maker.index, x.index, y.index))
    gone = {folded.operator for folded in found}
    return replace(subgraph, operators=tuple([o for o in operators if o.index not in gone])), found
