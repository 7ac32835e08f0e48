"""A chain of element-wise operators, and a delegate in Python that takes some of them and keeps a log."""
import numpy as np

import pylite
from pylite import DelegateFlags, PythonDelegate
from pylite.schema.builder import ModelBuilder

X = np.array([1, -2, 3], np.float32)


def model():
    """abs -> neg -> exp -> abs, with tensors 0 to 4 of one unknown size."""
    m = ModelBuilder()
    tensors = [m.tensor(f"t{i}", (3,), shape_signature=(-1,)) for i in range(5)]
    for i, name in enumerate(("ABS", "NEG", "EXP", "ABS")):
        m.operator(name, [tensors[i]], [tensors[i + 1]])
    m.inputs(tensors[:1])
    m.outputs(tensors[-1:])
    return m.build()


EXPECTED = np.exp(-np.abs(X))
FUNCTIONS = {"ABS": np.abs, "NEG": np.negative, "EXP": np.exp}


class Kernel:
    """Computes a chain of element-wise nodes."""

    def __init__(self, delegate, part):
        self.delegate, self.part = delegate, part
        self.names = [node.name for node in part.nodes]
        self.log = delegate.log
        self.log.append(("init", part.index, [n.index for n in part.nodes], [v.index for v in part.inputs],
                         [v.index for v in part.outputs]))

    def prepare(self, node):
        self.log.append(("prepare", node.index, node.inputs[0].shape, [n.outputs[0].shape for n in self.part.nodes]))
        self.delegate.fail_at("kernel prepare")
        return [node.inputs[0].shape] if self.delegate.flags == DelegateFlags.ALLOW_DYNAMIC_TENSORS else None

    def invoke(self, x, y):
        self.log.append(("invoke", self.part.index))
        self.delegate.fail_at("invoke")
        for name in self.names:
            x = FUNCTIONS[name](x)
        y[...] = x

    def free(self):
        self.log.append(("free", self.part.index))


class MyDelegate(PythonDelegate):
    def __init__(self, *names, flags=DelegateFlags.NONE, fail=None):
        self.names, self.flags, self.fail, self.log = names, flags, fail, []

    def fail_at(self, stage):
        if self.fail == stage:
            raise ValueError("broken")

    def prepare(self, graph):
        self.log.append(("Prepare", [n.index for n in graph.nodes], graph.nodes[0].outputs[0].shape))
        self.fail_at("Prepare")
        super().prepare(graph)

    def supports(self, node):
        return node.name in self.names

    def compile(self, part):
        self.fail_at("compile")
        return Kernel(self, part)

    def taken(self):
        """Return the log and clear it."""
        log, self.log[:] = list(self.log), []
        return log


def interpreter(*delegates, **arguments):
    return pylite.Interpreter(model_content=model(), experimental_delegates=list(delegates), **arguments)


def run(i, x=X):
    i.allocate_tensors()
    i.set_tensor(0, x)
    i.invoke()
    return i.get_tensor(4)


def names(i):
    return [d["op_name"] for d in i._get_ops_details()]
