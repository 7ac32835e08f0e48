"""The host's functions refuse wrong arguments and states; tests/capi/plugins/refuses.c has the calls."""
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(PLUGINS / "refuses.c", tmp_path_factory.mktemp("refuses") / "refuses.so")


def test_an_op(library):
    m = ModelBuilder()
    x, k = m.tensor("x", (-1, 2)), m.constant("k", np.float32([3, 4]))
    y, z = m.tensor("y", (1, 2)), m.tensor("z", (1, 2))
    m.operator("Refused", [x, k], [y], custom_options=b"x")
    m.operator("NEG", [y], [z])
    m.inputs([x])
    m.outputs([z])
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Refused", pylite.load_custom_ops(library, ["Register_REFUSED"], register=False)[0])
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.allocate_tensors()
    i.set_tensor(0, np.float32([[1, 2]]))
    for _ in range(2):
        i.invoke()
        np.testing.assert_array_equal(i.get_tensor(z), [[-1, -2]])


def test_a_delegate(library):
    m = ModelBuilder()
    c, x, y = m.tensor("c", (), "bool"), m.tensor("x", (4,)), m.tensor("y", (4,))
    m.operator("IF", [c, x], [y], then_subgraph_index=1, else_subgraph_index=1)
    m.inputs([c, x])
    m.outputs([y])
    m.subgraph("branch")
    a, b = m.tensor("a", (4,)), m.tensor("b", (4,))
    m.operator("NEG", [a], [b])
    m.inputs([a])
    m.outputs([b])
    m.metadata("note", b"text")
    m.metadata("empty", b"")
    i = pylite.Interpreter(model_content=m.build(), experimental_delegates=[pylite.load_delegate(library)])
    i.allocate_tensors()
    i.set_tensor(c, np.bool_(True))
    i.set_tensor(x, np.ones(4, np.float32))
    i.invoke()
    np.testing.assert_array_equal(i.get_tensor(y), -np.ones(4))
