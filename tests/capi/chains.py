"""Models that are a chain of nodes, and running them with custom ops in C."""
import numpy as np

import pylite
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder

X = np.array([[-1.5, 0.5, 2, -3]], np.float32)


def model(*names, version=1):
    m = ModelBuilder()
    t = [m.tensor(f"t{i}", (1, 4)) for i in range(len(names) + 1)]
    for x, y, name in zip(t, t[1:], names, strict=False):
        m.operator(name, [x], [y], **({} if name.isupper() else {"custom_options": b"", "version": version}))
    m.inputs([t[0]])
    m.outputs([t[-1]])
    return m.build()


def interpreter(content, ops):
    filled = resolver.BuiltinOpResolver()
    for op in ops:
        filled.add_custom(op.name, op)
    i = pylite.Interpreter(model_content=content, op_resolver=filled)
    i.allocate_tensors()
    return i


def run(i):
    i.set_tensor(0, X)
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"])
