"""Computes nodes whose inputs are all known, once, while the graph is lowered."""
import numpy as np

from pylite._core.run.memory import give_back
from pylite.compiler import binding
from pylite.errors import OpError
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.lowered import UNARY
from pylite.ir.values import Alias, Call, Constant, Deferred, View, known_array, raw

LEAST_DEFERRED = 1 << 16    # bytes of a result; smaller ones are computed at once
_CONVERSIONS = UNARY, "elementwise.UnaryPerAxis"


def evaluate(op, node):
    """Compute the outputs of a node whose inputs are known, and their shapes, by the op's `evaluate`."""
    results = op.evaluate(node, *[None if value is None else known_array(value) for value in node.inputs])
    for value, result in zip(node.outputs, results, strict=True):
        if value is not None:       # the type may differ: numpy's indices have 32 bits on some machines
            data = np.ascontiguousarray(result, NUMPY_DTYPES[value.dtype])
            value.data, value.shape = data.reshape(result.shape), result.shape


def fold(model, subgraph, node, emitted, pool):
    """Compute the outputs of a node whose inputs are known by running its calls.

    emitted: list of Call, Alias, Constant; pool: the MemoryPool for packing weights that are not in the file.  The
    model keeps results that depend only on the file.
    """
    outputs = [value for value in node.outputs if value is not None]
    fixed = all(value is None or value.fixed for value in node.inputs)
    if fixed:
        for value in outputs:
            known = model.weights.folded.get((subgraph.index, value.index))
            if known is not None:
                value.data, value.fixed = known, True
    if all(value.data is not None for value in outputs):
        return
    compute(model, node, emitted, outputs, pool)
    for value in outputs:
        value.data.flags.writeable = False
        if fixed:
            value.fixed = True
            model.weights.folded[subgraph.index, value.index] = value.data
    _give_back(node.inputs)


def defer(node, emitted, is_packed):
    """Leave the output of `node` as the file stores it, if the node only converts it and is_packed(its index).

    Most such nodes are DEQUANTIZE of float16 or int8 weights.  Packing then converts one operator's weights at a time.
    """
    x, y, call = node.inputs[0], node.outputs[0], emitted[0]
    if (len(emitted) > 1 or type(call) is not Call or call.kernel not in _CONVERSIONS or len(node.inputs) > 1
            or not x.fixed or type(x.data) is Deferred or y.nbytes < LEAST_DEFERRED or not is_packed(y.index)):
        return False
    args = [arg if type(arg) is not View else raw(x.data) if arg.value is x else None for arg in call.args]
    y.data, y.fixed = Deferred(y, x.data, call.kernel, args), True
    return True


def _give_back(operands):
    """Return the operands' pages of the file to the system, because in most models nothing else reads them."""
    for value in operands:
        if value is not None and value.fixed:
            give_back(value.data.stored if type(value.data) is Deferred else value.data)


def compute(model, node, emitted, outputs, pool=None):
    """Run `emitted`, the calls of `node`, and set the contents of its Values `outputs`."""
    _assign_known(emitted)
    _run(model, node, [item for item in emitted if type(item) is Call], outputs, pool)


def _assign_known(emitted):
    """Set the contents of constants and aliases."""
    for item in emitted:
        if type(item) is Constant:
            item.y.data = np.asarray(item.data, order="C")
        elif type(item) is Alias:
            data = np.ascontiguousarray(item.x.data).reshape(-1).view(NUMPY_DTYPES[item.y.dtype])
            item.y.data = data.reshape(item.y.shape)


def _run(model, node, calls, outputs, pool):
    """Run the calls, and set the contents of outputs that are not known yet."""
    computed = [value for value in outputs if value.data is None]
    arrays = {value.index: np.zeros(value.shape, NUMPY_DTYPES[value.dtype]) for value in computed}
    for kernel in binding.bind(calls, binding.Storage(arrays), model, pool):
        status = kernel.run()
        if status:
            raise OpError(f"{node}: {kernel.ERRORS.get(status, f'status {status}')}")
    for value in computed:
        value.data = arrays[value.index]
