"""Chains of element-wise functions run block by block: results are identical to those of separate functions."""
from itertools import pairwise

import numpy as np
import pytest

from pylite.errors import NotAllocatedError
from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import check_every_isa_level, lowered, run

COUNT = 21000           # elements: more than a block of any type, and no multiple of a block
pytestmark = pytest.mark.filterwarnings("ignore:experimental_preserve_all_tensors")
UNARY = {"float32": ["ABS", "NEG", "TANH", "LOGISTIC", "SQUARE", "RELU", "EXP"], "int8": ["TANH", "LOGISTIC", "RELU"]}
BINARY = ["ADD", "SUB", "MUL", "MAXIMUM"]


class Functions:
    """A random graph of functions of one or two operands; most read the result of the previous one."""

    def __init__(self, rng, dtype):
        self.rng, self.dtype, self.m, self.made = rng, dtype, ModelBuilder(), []
        self.shape = (COUNT,) if rng.random() < 0.5 else (7, COUNT // 7)
        self.inputs = [self.tensor() for _ in range(2)]
        last = self.inputs[0]
        for _ in range(rng.integers(3, 12)):
            x = last if rng.random() < 0.85 else int(rng.choice(self.made))
            last = self.unary(x) if rng.random() < 0.5 else self.binary(x)
        outputs = {last, *(int(t) for t in rng.choice(self.made, rng.integers(0, 2)))} - set(self.inputs)
        self.m.inputs(self.inputs)
        self.m.outputs(sorted(outputs))

    def tensor(self, dtype=None, like=None):
        dtype = dtype or self.dtype
        q = {} if dtype == "float32" else {"scale": 1 / 128, "zero_point": 0} if like == "TANH" else {
            "scale": 1 / 256, "zero_point": -128} if like == "LOGISTIC" else {"scale": 0.05, "zero_point": 3}
        index = self.m.tensor(f"t{len(self.m._current.tensors)}", self.shape, dtype, **q)
        if dtype == self.dtype:
            self.made.append(index)
        return index

    def unary(self, x):
        if self.dtype == "int8" and self.rng.random() < 0.3:        # by way of float32
            wide, more = self.tensor("float32"), self.tensor("float32")
            self.m.operator("DEQUANTIZE", [x], [wide])
            self.m.operator(str(self.rng.choice(UNARY["float32"])), [wide], [more])
            self.m.operator("QUANTIZE", [more], [y := self.tensor()])
            return y
        name = str(self.rng.choice(UNARY[self.dtype]))
        self.m.operator(name, [x], [y := self.tensor(like=name)])
        return y

    def binary(self, x):
        kind, q = self.rng.integers(4), {} if self.dtype == "float32" else {"scale": 0.05, "zero_point": 3}
        if kind == 0:           # with one number, or one for each column
            shape = () if self.rng.random() < 0.5 else self.shape[-1:]
            other = self.m.constant(f"c{len(self.m._current.tensors)}",
                                    np.asarray(self.rng.standard_normal(shape) * 9).astype(self.dtype), **q)
        else:
            other = x if kind == 1 else int(self.rng.choice(self.made))
        names = BINARY[:3] if self.dtype == "int8" else BINARY      # of others, scales must agree
        pair = [x, other] if self.rng.random() < 0.5 else [other, x]
        self.m.operator(str(self.rng.choice(names)), pair, [y := self.tensor()])
        return y


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_chains_give_identical_results(dtype):
    chains = 0
    for case in range(60):
        rng = np.random.default_rng(case)
        graph = Functions(rng, dtype)
        model = graph.m.build()
        xs = [(rng.standard_normal(graph.shape) * 30).astype(dtype) for _ in range(2)]
        chains += sum(call.kernel == "elementwise.Chain" for call in lowered(model).calls)
        check_every_isa_level(model, xs, graph.made, 1 + case % 3, case)
    assert chains > 40


def abs_sqrt(count):
    m = ModelBuilder()
    x, t, y = (m.tensor(name, (count,)) for name in "xty")
    m.operator("ABS", [x], [t])
    m.operator("SQRT", [t], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


def test_a_folded_tensor_cannot_be_read():
    found = lowered(abs_sqrt(COUNT))
    assert [call.kernel for call in found.calls] == ["elementwise.Chain"]
    assert found.notes == {0: "folded into node 1"}
    assert found.calls[0].note == "with node 0"
    i, _ = run(abs_sqrt(COUNT), [np.ones(COUNT, np.float32)])
    with pytest.raises(NotAllocatedError, match=r"folded into node 1.*experimental_preserve_all_tensors"):
        i.get_tensor(1)


def test_few_elements_are_not_fused():
    assert [call.kernel for call in lowered(abs_sqrt(100)).calls] == ["elementwise.Unary"] * 2


def test_long_chains_are_split():
    m = ModelBuilder()
    tensors = [m.tensor(f"t{i}", (COUNT,)) for i in range(41)]
    for x, y in pairwise(tensors):
        m.operator("NEG", [x], [y])
    m.inputs(tensors[:1])
    m.outputs(tensors[-1:])
    assert [call.kernel for call in lowered(m.build()).calls] == ["elementwise.Chain"] * 3
    x = np.random.default_rng(0).standard_normal(COUNT).astype(np.float32)
    np.testing.assert_array_equal(run(m.build(), [x])[1][0], x)


def test_chain_in_a_graph_with_an_empty_batch():
    """An operator with a state runs with an empty batch, too."""
    m, q = ModelBuilder(), {"scale": 0.1, "zero_point": 0}
    x, state, y = m.tensor("x", (0, 4), "int8", **q), m.tensor("state", (0, 8), "int8", variable=True, **q), \
        m.tensor("y", (0, 4), "int8", **q)
    features, times = (m.constant(name, np.ones(shape, np.int8), [0.1], [0]) for name, shape in (
        ("features", (4, 4)), ("times", (4, 2))))
    m.operator("SVDF", [x, features, times, None, state], [y], rank=1, fused_activation_function="RELU")
    a, b, c = (m.tensor(name, (COUNT,)) for name in "abc")
    m.operator("ABS", [a], [b])
    m.operator("SQRT", [b], [c])
    m.inputs([x, a])
    m.outputs([y, c])
    _, got = run(m.build(), [np.zeros((0, 4), np.int8), np.full(COUNT, -4, np.float32)])
    assert got[0].shape == (0, 4)
    assert (got[1] == 2).all()
