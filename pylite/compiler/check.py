"""Finds the operators of a graph that cannot run, and names all of them at once, before anything is lowered."""
from pylite import errors
from pylite.ir.registry import default
from pylite.schema.tables import enum_numbers

UNRESOLVED_CUSTOM = "Encountered unresolved custom op:"
UNRESOLVED = "Didn't find op for builtin opcode"
REMEDY = ("Register it with pylite.custom_op({name!r}), load it with pylite.load_custom_ops() if it is in C, or "
          "convert the model without it")
REMEDIES = {        # for custom ops that only a device's delegate runs
    "edgetpu-custom-op": "The model was compiled for a Coral Edge TPU: pass "
                         "experimental_delegates=[load_delegate('libedgetpu.so.1')], or use the file without _edgetpu "
                         "in its name",
}


def check(model, subgraphs, unresolved_only=False, find=default.find):
    """Raise UnsupportedOpError naming every operator of `subgraphs` that cannot run; True if all can.

    find(operator): its Op, or None.
    unresolved_only: raise only if a builtin operator or its version is unknown, which tf.lite reports when a model is
    opened; it reports custom ops and types when tensors are allocated.
    """
    missing, named = {}, {}     # {reason: nodes}, {reason: the tensors of the first node}
    unresolved = False
    for subgraph in subgraphs:
        operands = Operands(subgraph)
        for operator in subgraph.operators:
            reason = unsupported(operands, operator, find)
            if reason:
                unresolved |= _is_unresolved(operator, find(operator))
                where = f"{subgraph.index}:{operator.index}" if len(model.graph.subgraphs) > 1 else str(operator.index)
                missing.setdefault(reason, []).append(where)
                named.setdefault(reason, "" if find(operator) is None else _operands(subgraph, operator))
    if unresolved_only and not unresolved:
        return not missing
    if missing:
        lines = [located(reason, at, named[reason]) for reason, at in missing.items()]
        several = f"the model needs {len(lines)} kinds of operators that this runtime lacks: " if len(lines) > 1 else ""
        raise errors.UnsupportedOpError(several + " | ".join(lines))
    return True


def located(reason, nodes, operands=""):
    """A reason with its nodes, after tf.lite's own sentence, because programs look for that sentence."""
    where = f"node{'s' if len(nodes) > 1 else ''} {_few(nodes)}"
    if reason.startswith(UNRESOLVED_CUSTOM):
        first, dot, remedy = reason.partition(". ")
        return f"{first} ({where}){dot}{remedy}"
    return f"{reason}; {where}{operands}"


def _is_unresolved(operator, op):
    """Does pylite lack a builtin operator, or its version?"""
    if op is None:
        return not operator.custom
    return not op.attach and operator.version > op.versions[1]


class Operands:
    """The types of a subgraph's tensors, None for index -1, and the tensors that are quantized in blocks."""
    __slots__ = ("dtypes", "blockwise")

    def __init__(self, subgraph):
        self.dtypes = [*[t.dtype for t in subgraph.tensors], None]
        self.blockwise = {t.index for t in subgraph.tensors if t.quantization is not None and t.quantization.block_size}


def unsupported(operands, operator, find=default.find):
    """Why `operator` cannot run, as a sentence, or None.  operands: the Operands of its subgraph."""
    op = find(operator)
    if operator.custom and operator.name in enum_numbers("BuiltinOperator"):
        return (f"{UNRESOLVED_CUSTOM} {operator.name}. It has the name of a builtin op, so nothing can "
                "be registered for it: convert the model with another name")
    if op is None:
        if operator.custom:
            return f"{UNRESOLVED_CUSTOM} {operator.name}. {_remedy(operator.name)}{_registered()}"
        return f"{UNRESOLVED} '{operator.name}' version '{operator.version}'"
    low, high = op.versions
    if operator.version > high or (op.attach and operator.version < low):
        return _unsupported_version(op, operator)
    dtype = operands.dtypes.__getitem__
    inputs, outputs = tuple(map(dtype, operator.inputs)), tuple(map(dtype, operator.outputs))
    if not op.accepts(inputs, outputs):
        return _unsupported_types(op, operator, inputs, outputs)
    if operands.blockwise and not (op.attach or op.blockwise or operands.blockwise.isdisjoint(operator.inputs)):
        return f"{operator.name} version {operator.version} does not take blockwise quantized operands"
    return None


def _remedy(name):
    """What to do about a custom op that is not registered."""
    from pylite.ir import flex_ops  # for this message
    if not flex_ops.is_flex(name):
        return REMEDIES.get(name, REMEDY).format(name=name)
    if flex_ops.has(name):
        return ("It is TensorFlow's own op, which pylite has on request: call pylite.flex.register() before the "
                "interpreter is created, or pass --ops flex to a command")
    return ("It is TensorFlow's own op, and pylite.flex lacks it: register it as a custom op, or convert the model "
            "without SELECT_TF_OPS")


_MOST_NAMES = 8                 # names of ops that a message lists


def _registered():
    """The custom ops that are registered, one of which may have been meant; not TensorFlow's, whose names are known."""
    names = [] if default.entered is None else [repr(n) for n in default.entered.names() if not n.startswith("Flex")]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"; registered custom ops: {', '.join(names[:_MOST_NAMES])}{more}" if names else ""


def _unsupported_types(op, operator, inputs, outputs):
    takes, gives = (", ".join(map(str, dtypes)) for dtypes in (inputs, outputs))
    text = f"{operator.name} version {operator.version} does not take the types ({takes}) -> ({gives})"
    mismatch = op.mismatch(inputs, outputs)
    if mismatch is None:
        return f"{text}. `pylite ops {operator.name}` lists the types that it takes"
    position, allowed = mismatch
    where = f"input {position}" if position < len(inputs) else f"output {position - len(inputs)}"
    return f"{text}: {where} must be {' or '.join(sorted(allowed)) or 'absent'}"


def _unsupported_version(op, operator):
    low, high = op.versions
    if op.attach:
        registered = f"version {low}" if low == high else f"versions {low} to {high}"
        return f"{UNRESOLVED_CUSTOM} {operator.name} in version {operator.version}. It is registered in {registered}"
    return (f"{UNRESOLVED} '{operator.name}' version '{operator.version}' "
            f"(versions {low} to {high} are known; the nearest is {high})")


def _operands(subgraph, operator):
    """The operands of a node with their names, in brackets."""
    def listed(indices):
        names = [(i, errors.shortened(subgraph.tensors[i].name, 40)) for i in indices[:4] if i >= 0]
        return ", ".join([f"tensor {i} {name!r}" for i, name in names])
    return f" ({listed(operator.inputs)} -> {listed(operator.outputs)})"


def _few(indices):
    shown = ", ".join(map(str, indices[:8]))
    return shown if len(indices) <= 8 else f"{shown} and {len(indices) - 8} more"
