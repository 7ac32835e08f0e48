"""Nodes whose inputs are all known are computed while the graph is lowered, and only then."""
import numpy as np

from pylite._core.run.memory import give_back
from pylite.compiler import binding
from pylite.errors import OpError
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.values import Alias, Call, Constant


def evaluate(op, node):
    """Compute the outputs of a node whose inputs are known, and their shapes, by the op's `evaluate`."""
    results = op.evaluate(node, *[None if value is None else value.data for value in node.inputs])
    for value, result in zip(node.outputs, results, strict=True):
        if value is not None:       # numpy's own indices have 32 bits on some machines, for example
            data = np.ascontiguousarray(result, NUMPY_DTYPES[value.dtype])
            value.data, value.shape = data.reshape(result.shape), result.shape


def fold(model, subgraph, node, emitted, pool):
    """Compute the outputs of a node whose inputs are known, by its calls.

    emitted: list of Call, Alias, Constant; pool: the MemoryPool for packing weights that are not the file's.  Results
    that depend on the file alone are kept with the model.
    """
    outputs = [value for value in node.outputs if value is not None]
    fixed = all(value is None or value.fixed for value in node.inputs)
    if fixed:
        for value in outputs:
            known = model.folded.get((subgraph.index, value.index))
            if known is not None:
                value.data, value.fixed = known, True
    if all(value.data is not None for value in outputs):
        return
    compute(model, node, emitted, outputs, pool)
    for value in outputs:
        value.data.flags.writeable = False
        if fixed:
            value.fixed = True
            model.folded[subgraph.index, value.index] = value.data
    _give_back(node.inputs)


def _give_back(operands):
    """Give the file's pages of operands back: in most models nothing else reads them."""
    for value in operands:
        if value is not None and value.fixed:
            give_back(value.data)


def compute(model, node, emitted, outputs, pool=None):
    """Give the Values `outputs` of `node` the contents that `emitted`, its calls, compute."""
    _assign_known(emitted)
    _run(model, node, [item for item in emitted if type(item) is Call], outputs, pool)


def _assign_known(emitted):
    """The contents of constants and aliases."""
    for item in emitted:
        if type(item) is Constant:
            item.y.data = np.asarray(item.data, order="C")
        elif type(item) is Alias:
            data = np.ascontiguousarray(item.x.data).reshape(-1).view(NUMPY_DTYPES[item.y.dtype])
            item.y.data = data.reshape(item.y.shape)


def _run(model, node, calls, outputs, pool):
    """Run the calls; the outputs that are not known yet get their contents."""
    computed = [value for value in outputs if value.data is None]
    arrays = {value.index: np.zeros(value.shape, NUMPY_DTYPES[value.dtype]) for value in computed}
    for kernel in binding.bind(calls, binding.Storage(arrays), model, pool):
        status = kernel.run()
        if status:
            raise OpError(f"{node}: {kernel.ERRORS.get(status, f'status {status}')}")
    for value in computed:
        value.data = arrays[value.index]
