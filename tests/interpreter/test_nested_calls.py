"""Ops that call their own interpreter: calls that would change the running program raise an error."""
import numpy as np
import pytest

from pylite.errors import ExecutionError
from pylite.interpreter import Interpreter
from pylite.plugins.resolver import MutableOpResolver
from pylite.schema.builder import ModelBuilder


def model():
    m = ModelBuilder()
    x, y = m.tensor("x", (2,), "float32"), m.tensor("y", (2,), "float32")
    m.operator("Call", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    m.signature("s", {"x": x}, {"y": y})
    return m.build()


CALLS = {
    "invoke": lambda i: i.invoke(),
    "allocate": lambda i: i.allocate_tensors(),
    "resize": lambda i: i.resize_tensor_input(0, (4,)),
    "set": lambda i: i.set_tensor(0, np.zeros(2, np.float32)),
    "reset": lambda i: i.reset_all_variables(),
    "close": lambda i: i.close(),
    "threads": lambda i: i._set_num_threads(2),
    "signature": lambda i: i.get_signature_runner("s")(x=np.zeros(2, np.float32)),
    "wrapper": lambda i: i._interpreter.Invoke(),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("how", ["fast", "slow", "signature"])
def test_calls_from_an_op(name, how):
    calls = []

    def call(x, y):
        y[...] = x
        if calls:
            calls[0](interpreter)

    resolver = MutableOpResolver()
    resolver.add_custom("Call", call)
    interpreter = Interpreter(model_content=model(), op_resolver=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.ones(2, np.float32))
    calls.append(CALLS[name])
    ways = {"fast": interpreter.invoke, "slow": interpreter._interpreter.Invoke,
            "signature": lambda: interpreter.get_signature_runner("s")(x=np.ones(2, np.float32))}
    with pytest.raises(ExecutionError, match="interpreter is running"):
        ways[how]()
    calls[0] = lambda i: i.get_tensor(0)        # reading is allowed
    interpreter.invoke()
    assert interpreter.get_tensor(1).tolist() == [1, 1]


def test_allocate_tensors_in_prepare_is_refused():
    class Op:
        def __init__(self, options):
            pass

        def prepare(self, node):
            interpreters[0].allocate_tensors()

        def invoke(self, x, y):
            y[...] = x

    resolver = MutableOpResolver()
    resolver.add_custom("Call", Op)
    interpreters = [Interpreter(model_content=model(), op_resolver=resolver)]
    with pytest.raises(RuntimeError, match="interpreter is running"):
        interpreters[0].allocate_tensors()
