"""An operator that repeats an earlier one is lowered as it would be by itself."""
import numpy as np
import pytest

from pylite import Model
from pylite._core.graph.dimensions import Computed, Dim, Recording
from pylite._core.graph.repeats import Repeats
from pylite.compiler import lowering
from pylite.ir.graph import replace
from pylite.ir.values import Alias, Packed, Scratch, Value, View
from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import lowered, run

SIDE = 4
KINDS = ["dense", "scaled", "added", "doubled", "moved", "pooled", "cut", "product", "soft", "widened", "convolved"]


class Lonely(Repeats):
    """Every operator is lowered by itself."""

    def kind_of(self, operator, op):
        return None


class Counting(Repeats):
    """Counts the operators that were copied."""
    copied = 0

    def template_of(self, kind, op):
        found = super().template_of(kind, op)
        Counting.copied += found is not None
        return found


class Blocks:
    """A graph of operators drawn from a few kinds, all of whose tensors have the shape (SIDE, SIDE)."""

    def __init__(self, rng, count):
        self.rng, self.m = rng, ModelBuilder()
        self.known = [self.m.tensor("x", (SIDE, SIDE))]
        self.m.inputs(self.known[:])
        for _ in range(count):
            getattr(self, rng.choice(KINDS))()
        self.m.outputs(self.known[-2:])

    def operand(self):
        return self.known[int(self.rng.integers(max(0, len(self.known) - 4), len(self.known)))]

    def constant(self, *shape):
        return self.m.constant(f"c{self.rng.random()}", self.rng.standard_normal(shape).astype(np.float32))

    def numbers(self, *numbers):
        return self.m.constant(f"n{self.rng.random()}", np.array(numbers, np.int32))

    def add(self, name, inputs, shape=(SIDE, SIDE), **options):
        y = self.m.tensor(f"t{self.rng.random()}", shape)
        self.m.operator(name, inputs, [y], **options)
        if tuple(shape) == (SIDE, SIDE):
            self.known.append(y)
        return y

    def dense(self):
        bias = [self.constant(SIDE)] if self.rng.integers(2) else []
        self.add("FULLY_CONNECTED", [self.operand(), self.constant(SIDE, SIDE), *bias],
                 fused_activation_function=str(self.rng.choice(["NONE", "RELU"])))

    def scaled(self):
        c = self.constant(*[(), (1,), (SIDE,), (SIDE, SIDE)][self.rng.integers(4)])
        self.add("MUL", [self.operand(), c][::int(self.rng.choice([1, -1]))])

    def added(self):
        self.add("ADD", [self.operand(), self.operand()])

    def doubled(self):
        x = self.operand()
        self.add("ADD", [x, x])

    def moved(self):
        self.add("TRANSPOSE", [self.operand(), self.numbers(*self.rng.permutation(2))])

    def pooled(self):
        mean = self.add("MEAN", [self.operand(), self.numbers(self.rng.integers(2))], (SIDE,))
        self.add("ADD", [self.operand(), mean])

    def cut(self):
        begin = self.rng.integers(2, size=2)
        part = self.add("SLICE", [self.operand(), self.numbers(*begin), self.numbers(2, 2)], (2, 2))
        self.add("PAD", [part, self.m.constant(f"p{self.rng.random()}", np.array([[1, 1], [1, 1]], np.int32))])

    def product(self):
        w = self.constant(SIDE, SIDE) if self.rng.integers(2) else self.operand()
        self.add("BATCH_MATMUL", [self.operand(), w], adj_y=bool(self.rng.integers(2)))

    def soft(self):
        self.add("SOFTMAX", [self.operand()], beta=float(self.rng.choice([0.5, 1.0])))

    def widened(self):
        flat = self.add("RESHAPE", [self.operand(), self.numbers(SIDE * SIDE)], (SIDE * SIDE,))
        self.add("RESHAPE", [flat, self.numbers(SIDE, SIDE)])

    def convolved(self):
        image = self.add("RESHAPE", [self.operand(), self.numbers(1, SIDE, SIDE, 1)], (1, SIDE, SIDE, 1))
        name, filters = [("CONV_2D", (1, 3, 3, 1)), ("DEPTHWISE_CONV_2D", (1, 3, 3, 1))][self.rng.integers(2)]
        y = self.add(name, [image, self.constant(*filters), self.constant(1)], (1, SIDE, SIDE, 1), padding="SAME",
                     stride_w=1, stride_h=1)
        self.add("RESHAPE", [y, self.numbers(SIDE, SIDE)])


def described(thing):
    """Something that is equal for arguments that mean the same."""
    kind = type(thing)
    if isinstance(thing, Value):
        return "value", thing.index, described(thing.shape), thing.root.index, described(thing.byte_offset)
    if kind is View:
        return "view", *map(described, (thing.value, thing.shape, thing.strides, thing.offset)), thing.dtype
    if kind is Scratch:
        return "scratch", described(thing.shape), thing.dtype
    if kind is Packed:
        return "packed", thing.function, described(thing.value), *map(described, thing.args)
    if kind is np.ndarray:
        return "array", thing.shape, str(thing.dtype), thing.tobytes()
    if kind in (tuple, list):
        return tuple(map(described, thing))
    if kind is Dim:
        return "Dim", thing.cell
    if kind is Computed:
        return "Computed", described(thing.args)
    if hasattr(kind, "__slots__"):
        return kind.__name__, *[described(getattr(thing, name)) for name in kind.__slots__]
    return thing


def described_calls(graph):
    return [(call.node.index, call.kernel, call.note, tuple(call.strided), call.inplace and described(call.inplace),
             *map(described, call.args)) for call in graph.calls]


def recorded(model):
    """The Lowered of `model` for many heights of its input."""
    model = Model(model)
    return lowering.lower(model, model.graph.subgraphs[0], [(Recording().add_input(SIDE), SIDE)])


@pytest.mark.parametrize("lower", [lowered, recorded])
@pytest.mark.parametrize("seed", range(12))
def test_repeated_operators_are_lowered_as_by_themselves(seed, lower, monkeypatch):
    model = Blocks(np.random.default_rng(seed), 60).m.build()
    monkeypatch.setattr(lowering, "Repeats", Lonely)
    alone = lower(model)
    monkeypatch.setattr(lowering, "Repeats", Counting)
    Counting.copied = 0
    together = lower(model)
    assert Counting.copied > 10
    assert described_calls(together) == described_calls(alone)
    assert together.notes == alone.notes
    assert [(*described(v), v.kind) for v in together.values] == [(*described(v), v.kind) for v in alone.values]
    assert [repr(n.inputs + n.outputs) for n in together.nodes] == [repr(n.inputs + n.outputs) for n in alone.nodes]


@pytest.mark.parametrize("seed", range(4))
def test_results_of_repeated_operators_are_their_own(seed, monkeypatch):
    model = Blocks(np.random.default_rng(seed), 40).m.build()
    x = np.random.default_rng(seed).standard_normal((SIDE, SIDE)).astype(np.float32)
    together = run(model, [x])[1]
    monkeypatch.setattr(lowering, "Repeats", Lonely)
    alone = run(bytes(bytearray(model)), [x])[1]
    for a, b in zip(together, alone, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_alias_is_copied_as_one():
    m = ModelBuilder()
    x = m.tensor("x", (2, 3))
    m.inputs([x])
    for i in range(6):
        y = m.tensor(f"y{i}", (3, 2) if i % 2 == 0 else (2, 3))
        m.operator("RESHAPE", [x, m.constant(f"s{i}", np.array([3, 2] if i % 2 == 0 else [2, 3], np.int32))], [y])
        x = m.tensor(f"z{i}", (3, 2) if i % 2 == 0 else (2, 3))
        m.operator("TANH", [y], [x])
    m.outputs([x])
    graph = lowered(m.build())
    assert len(graph.calls) == 6
    assert [note for _, note in sorted(graph.notes.items())] == [
        f"alias of tensor {graph.nodes[2 * i].inputs[0].index}" for i in range(6)]
    assert Alias not in map(type, graph.calls)


def test_operators_that_no_file_has_may_lack_options():
    """As those that measure mixed precision, which convert between real numbers and integers."""
    m = ModelBuilder()
    x = m.tensor("x", (2, 3))
    m.inputs([x])
    for i in range(4):
        y = m.tensor(f"y{i}", (2, 3))
        m.operator("TANH", [x], [y])
        x = y
    m.outputs([x])
    model = Model(m.build())
    graph = model.graph.subgraphs[0]
    bare = replace(graph, operators=tuple(replace(operator, options=None) for operator in graph.operators))
    shapes = [graph.tensors[i].shape for i in graph.inputs]
    assert described_calls(lowering.lower(model, bare, shapes)) == described_calls(lowering.lower(model, graph, shapes))
