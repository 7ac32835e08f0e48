"""Models that are chains of custom ops, and functions to run them."""
from flatbuffers import flexbuffers

import pylite
from pylite import CustomOp
from pylite.schema.builder import ModelBuilder


def model(name="Atan", nodes=1, shape=(2, 3), options=None, inputs=1, outputs=1, dtype="float32", out_dtype=None,
          version=1, custom_options=True):
    """A chain of `nodes` nodes with `outputs` outputs each; the next node reads the first of them."""
    m = ModelBuilder()
    xs = [m.tensor(f"x{i}", shape, dtype) for i in range(inputs)]
    feed = xs
    for n in range(nodes):
        ys = [m.tensor(f"y{n}_{i}", shape, out_dtype or dtype) for i in range(outputs)]
        extra = {"custom_options": flexbuffers.Dumps(options) if options is not None else b""} if custom_options else {}
        m.operator(name, feed, ys, version=version, **extra)
        feed = ys[:1] + xs[1:]
    m.inputs(xs)
    m.outputs(ys)
    return m.build()


def interpreter(content, *ops, **arguments):
    """An interpreter with these (name, implementation) on top of all builtin ops."""
    known = pylite.BuiltinOpResolver()
    for name, op in ops:
        known.add_custom(name, op)
    return pylite.Interpreter(model_content=content, op_resolver=known, **arguments)


def run(i, *arrays):
    i.allocate_tensors()
    for detail, array in zip(i.get_input_details(), arrays, strict=True):
        i.set_tensor(detail["index"], array)
    i.invoke()
    results = [i.get_tensor(d["index"]) for d in i.get_output_details()]
    return results[0] if len(results) == 1 else results


def tracing(log, **methods):
    """A CustomOp class that logs its calls."""
    class Traced(CustomOp):
        def __init__(self, options):
            super().__init__(options)
            self.number = len([line for line in log if line[0] == "init"])
            log.append(("init", self.number))

        def prepare(self, node):
            log.append(("prepare", self.number, node.inputs[0].shape))
            return node.inputs[0].shape

        def invoke(self, x, y):
            log.append(("invoke", self.number))
            y[...] = x + 1

        def free(self):
            log.append(("free", self.number))
    for name, method in methods.items():
        setattr(Traced, name, method)
    return Traced
