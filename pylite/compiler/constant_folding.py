"""Nodes whose inputs are all known are computed while the graph is lowered, and only then."""
import numpy as np

from pylite.compiler import binding
from pylite.errors import OpError
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.values import Alias, Call, Constant


def evaluate(op, node):
    """Compute the outputs of a node whose inputs are known, now."""
    results = op.evaluate(node, *[None if value is None else value.data for value in node.inputs])
    for value, result in zip(node.outputs, results, strict=True):
        if value is not None:       # numpy's own positions have 32 bits on some machines, say
            data = np.ascontiguousarray(result, NUMPY_DTYPES[value.dtype])
            value.data, value.shape = data.reshape(result.shape), result.shape


def fold(model, subgraph, node, emitted):
    """Run a node whose inputs are all known, now; results from the file alone are kept with the model."""
    fixed = all(value is None or value.fixed for value in node.inputs)
    for value in node.outputs:
        if value is None:
            continue
        known = model.folded.get((subgraph.index, value.index)) if fixed else None
        if known is not None:
            value.data, value.fixed = known, True
    if all(value is None or value.data is not None for value in node.outputs):
        return
    calls = []
    fresh = {}
    for item in emitted:
        if type(item) is Call:
            calls.append(item)
        elif type(item) is Constant:
            item.y.data = np.asarray(item.data, order="C")
        elif type(item) is Alias:
            bits = np.ascontiguousarray(item.x.data).reshape(-1).view(NUMPY_DTYPES[item.y.dtype])
            item.y.data = bits.reshape(item.y.shape)
    for value in node.outputs:
        if value is not None and value.data is None:
            fresh[value.index] = np.zeros(value.shape, NUMPY_DTYPES[value.dtype])
    kernels = binding.bind(calls, binding.Storage(fresh), model)
    for kernel in kernels:
        status = kernel.run()
        if status:
            raise OpError(f"{node}: {kernel.ERRORS.get(status, f'status {status}')}")
    for value in node.outputs:
        if value is None:
            continue
        if value.index in fresh:
            value.data = fresh[value.index]
        value.data.flags.writeable = False
        if fixed:
            value.fixed = True
            model.folded[subgraph.index, value.index] = value.data
