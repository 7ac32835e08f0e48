"""The operators of a graph that cannot run: all are named at once, before anything is lowered."""
from pylite import errors
from pylite.ir.registry import default

UNRESOLVED = "Didn't find op for builtin opcode"


def check(model, subgraphs, unresolved_only=False, find=default.find):
    """Raise UnsupportedOpError naming every operator of `subgraphs` that cannot run; True if all can.

    find(operator): its Op, or None.
    unresolved_only: raise only where a builtin operator or its version is unknown, which tf.lite reports when a model
    is opened; it reports custom ops and types when tensors are allocated.
    """
    missing = {}
    for subgraph in subgraphs:
        for operator in subgraph.operators:
            reason = unsupported(subgraph, operator, find)
            if reason:
                where = f"{subgraph.index}:{operator.index}" if len(model.graph.subgraphs) > 1 else str(operator.index)
                missing.setdefault(reason, []).append(where)
    if unresolved_only and not any(reason.startswith(UNRESOLVED) for reason in missing):
        return not missing
    if missing:
        lines = [f"{reason}; node{'s' if len(at) > 1 else ''} {_few(at)}" for reason, at in missing.items()]
        raise errors.UnsupportedOpError("the model needs what this runtime does not have: " + " | ".join(lines))
    return True


def unsupported(subgraph, operator, find=default.find):
    """Why `operator` cannot run, as a sentence, or None."""
    op = find(operator)
    if op is None:
        if operator.custom:
            return (f"Encountered unresolved custom op: {operator.name}. Register it as a custom op, or convert the "
                    "model without it")
        return f"{UNRESOLVED} '{operator.name}' version '{operator.version}'"
    return _unsupported_version(op, operator) or _unsupported_operands(op, subgraph.tensors, operator)


def _unsupported_version(op, operator):
    low, high = op.versions
    if op.attach and not low <= operator.version <= high:
        return (f"Encountered unresolved custom op: {operator.name} in version {operator.version}. It is registered in "
                f"versions {low} to {high}")
    if operator.version > high:
        return (f"{UNRESOLVED} '{operator.name}' version '{operator.version}' "
                f"(versions {low} to {high} are known; the nearest is {high})")
    return None


def _unsupported_operands(op, tensors, operator):
    inputs = tuple([tensors[i].dtype if i >= 0 else None for i in operator.inputs])
    outputs = tuple([tensors[i].dtype if i >= 0 else None for i in operator.outputs])
    if not op.accepts(inputs, outputs):
        takes = ", ".join(str(d) for d in inputs)
        gives = ", ".join(str(d) for d in outputs)
        return f"{operator.name} version {operator.version} does not take the types ({takes}) -> ({gives})"
    if not op.attach and not op.blockwise:
        for i in operator.inputs:
            q = tensors[i].quantization if i >= 0 else None
            if q is not None and q.block_size > 0:
                return f"{operator.name} version {operator.version} does not take blockwise quantized operands"
    return None


def _few(indices):
    shown = ", ".join(indices[:8])
    return shown if len(indices) <= 8 else f"{shown} and {len(indices) - 8} more"
