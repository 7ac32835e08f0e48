"""Fuses float activations into the operators before them."""
from pylite.ir import registry
from pylite.ir.graph import replace
from pylite.ir.lowered import ACTIVATIONS, FusedActivation


def run(subgraph, find):
    """(the Subgraph whose operators apply the float activations that followed them, [FusedActivation]).

    find(operator): its Op.
    """
    operators, readers, producers, fused = list(subgraph.operators), _reader_counts(subgraph), {}, []
    for position, operator in enumerate(operators):
        producers.update((i, position) for i in operator.outputs)
        if operator.name not in ACTIVATIONS or operator.inputs[0] not in producers:
            continue
        x, y = operator.inputs[0], operator.outputs[0]
        before = producers[x]
        producer = operators[before]
        if (readers[x] == 1 and _is_builtin(operator, find) and _are_floats(subgraph.tensors[x], subgraph.tensors[y])
                and _takes_activation(producer, find)):
            operators[before] = _with_activation(producer, operator)
            fused.append(FusedActivation(operator.index, producer.index, x, y))
    gone = {activation.operator for activation in fused}
    return replace(subgraph, operators=tuple([o for o in operators if o.index not in gone])), fused


def _reader_counts(subgraph):
    """{tensor: number of its readers}; the caller of the graph counts as a reader of its outputs."""
    counts = {}
    for indices in (*[operator.inputs for operator in subgraph.operators], subgraph.outputs):
        for i in indices:
            counts[i] = counts.get(i, 0) + 1
    return counts


def _is_builtin(operator, find):
    """Is the activation pylite's own op?  The user may have registered another."""
    return find(operator).lower is registry.find(operator.name).lower


def _are_floats(x, y):
    return x.dtype == y.dtype == "float32" and not (x.is_variable or y.is_variable)


def _takes_activation(producer, find):
    """Can the operator apply an activation, and does it apply none yet?"""
    return (len(producer.outputs) == 1 and find(producer).fuses_activation
            and getattr(producer.options, "fused_activation_function", None) == "NONE")


def _with_activation(producer, activation):
    options = producer.options.TABLE(**producer.options.__dict__ | {"fused_activation_function": activation.name})
    return replace(producer, outputs=activation.outputs, options=options)
