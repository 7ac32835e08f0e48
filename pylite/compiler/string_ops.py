"""Nodes that read or write strings: Python runs them by the op's reference, as no kernel handles objects."""
import numpy as np

from pylite.ir.values import Call, Constant


def by_reference(op, node, emitted):
    """What computes a node: `emitted`, or where it has strings, the reference of its op."""
    if not _strings(node) or getattr(op, "reference", None) is None or _in_python(emitted[0]):
        return emitted
    return [_by_numpy(op, node)]


def _strings(node):
    return any(value is not None and value.dtype == "string" for value in (*node.inputs, *node.outputs))


def _in_python(emitted):
    return type(emitted) is Constant or (type(emitted) is Call and emitted.kernel == "python_op.PythonOp")


def _by_numpy(op, node):
    """A Call that runs the op's reference.

    Where an op only moves the elements of one tensor, the reference runs once, on their indices.
    """
    count, (y, *others) = len(node.inputs), node.outputs
    moved = [value for value in node.inputs if value is not None and value.data is None]
    if len(moved) == 1 and moved[0].dtype == y.dtype == "string" and not others:
        x = moved[0]
        source = op.reference(*[np.arange(x.size).reshape(x.shape) if value is x else value.data
                                for value in node.inputs if value is not None], node.options)
        if source.dtype == np.int64:
            source = np.ascontiguousarray(source).reshape(y.shape)

            def copy(x, y):
                y[...] = x

            def take(x, y):
                x.take(source, None, y, "clip")
            if x.shape == y.shape and (source.reshape(-1) == np.arange(x.size)).all():
                take = copy
            return Call("python_op.PythonOp", take, 1, 1, x, y)

    def run(*arrays):
        results = op.reference(*[x for x in arrays[:count] if x is not None], node.options)
        for y, result in zip(arrays[count:], results if isinstance(results, list) else [results], strict=True):
            y[...] = result
    return Call("python_op.PythonOp", run, count, len(node.outputs), *node.inputs, *node.outputs)
