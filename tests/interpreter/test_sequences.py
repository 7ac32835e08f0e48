"""Random sequences of calls, wrong ones included, on models whose shapes, contents or state change.

Each model has a function of numpy that says what must come out, so a call that succeeds, fails or leaves another state
where it must not is found, in whichever order the calls come.
"""
import pickle

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import pylite
from pylite.errors import OpError
from pylite.schema.builder import ModelBuilder

OPTIONS = ({}, {"num_threads": 2}, {"guard_bands": True}, {"cached_shapes": 1}, {"max_memory": 1 << 20},
           {"experimental_preserve_all_tensors": True,
            "experimental_op_resolver_type": pylite.OpResolverType.BUILTIN_REF})


class Graph:
    """A ModelBuilder for one input, x (n,) int32."""

    def __init__(self):
        self.m = ModelBuilder()
        self.x = self.tensor()

    def tensor(self, shape=(None,), dtype="int32"):
        return self.m.tensor(f"t{len(self.m.record.subgraphs[-1].tensors)}", shape, dtype)

    def ints(self, value):
        return self.m.constant("c", np.int32(value))

    def op(self, name, inputs, shape=(None,), dtype="int32", **options):
        y = self.tensor(shape, dtype)
        self.m.operator(name, inputs, [y], **options)
        return y

    def done(self, *outputs):
        self.m.inputs([self.x])
        self.m.outputs(outputs)
        self.m.signature("run", {"x": self.x}, {f"y{i}": y for i, y in enumerate(outputs)})
        return self

    def size(self):
        return self.op("SHAPE", [self.x], (1,), out_type="int32")


def mirrored():
    """An output that depends on the shape alone, and is refused for some shapes."""
    g = Graph()
    filled = g.op("FILL", [g.size(), g.ints(7)])
    return g.done(g.op("MIRROR_PAD", [filled, g.ints([[2, 2]])], mode="REFLECT"), g.op("NEG", [g.x]))


def mirrored_in_numpy(x, total):
    if len(x) < 3:
        raise OpError("too small to be mirrored")
    return [np.full(len(x) + 4, 7), -x]


def exchanged():
    """Both halves of x, exchanged, at places that are computed from its size."""
    g = Graph()
    size = g.size()
    half = g.op("FLOOR_DIV", [size, g.ints([2])], (1,))
    first, second = g.op("SLICE", [g.x, g.ints([0]), half]), g.op("SLICE", [g.x, half, g.op("SUB", [size, half], (1,))])
    return g.done(g.op("CONCATENATION", [second, first], axis=0), g.op("TILE", [first, half]))


def exchanged_in_numpy(x, total):
    half = len(x) // 2
    return [np.concatenate([x[half:], x[:half]]), np.tile(x[:half], half)]


def positive():
    """Shapes that depend on data."""
    g = Graph()
    at = g.op("WHERE", [g.op("GREATER", [g.x, g.ints(0)], dtype="bool")], (None, 1), "int64")
    kept = g.op("GATHER", [g.x, g.op("RESHAPE", [at, g.ints([-1])], dtype="int64")], axis=0)
    return g.done(g.op("CONCATENATION", [kept, g.x], axis=0), g.op("NEG", [kept]))


def positive_in_numpy(x, total):
    return [np.concatenate([x[x > 0], x]), -x[x > 0]]


def totals():
    """A resource variable: the sum of all inputs so far."""
    g = Graph()
    handle = g.op("VAR_HANDLE", [], (1,), "resource", shared_name="total", container="")
    g.m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    before = g.op("READ_VARIABLE", [handle], ())
    after = g.op("ADD", [before, g.op("SUM", [g.x, g.ints([0])], (), keep_dims=False)], ())
    g.m.operator("ASSIGN_VARIABLE", [handle, after], [])
    g.done(after, g.op("ADD", [g.x, before]))
    g.m.subgraph("begin")
    g.m.operator("ASSIGN_VARIABLE", [g.op("VAR_HANDLE", [], (1,), "resource", shared_name="total", container=""),
                                     g.ints(0)], [])
    g.m.inputs([])
    g.m.outputs([])
    return g


def totals_in_numpy(x, total):
    return [np.int32(total + x.sum()), x + total]


MODELS = [(mirrored, mirrored_in_numpy), (exchanged, exchanged_in_numpy), (positive, positive_in_numpy),
          (totals, totals_in_numpy)]
BUILT = [make().m.build() for make, _ in MODELS]


class Sequences(RuleBasedStateMachine):
    """sizes: of the input, as asked for and as allocated (None: not at all); x: its contents, if set; total: of all
    inputs that have run; wanted: the outputs of the last run, None if they may be anything.
    """

    @initialize(which=st.integers(0, len(MODELS) - 1), options=st.sampled_from(OPTIONS))
    def open(self, which, options):
        self.compute, self.options = MODELS[which][1], options
        self.interpreter = pylite.Interpreter(model_content=BUILT[which], **options)
        self.size, self.allocated, self.x, self.total, self.wanted = 1, None, None, 0, None

    def fails(self, kind, call, *args, **named):
        """The call must raise `kind`, and nothing else."""
        try:
            call(*args, **named)
        except kind:
            return
        raise AssertionError(f"{call.__name__} did not raise {kind.__name__}")

    @rule(n=st.integers(0, 9))
    def resize(self, n):
        self.interpreter.resize_tensor_input(0, [n])
        if n != self.size or self.allocated is None:
            self.size, self.allocated, self.x, self.wanted = n, None, None, None

    @rule(shape=st.sampled_from([[-1], [-2, 3]]), index=st.sampled_from([0, 1, 99, -1]))
    def resize_wrongly(self, shape, index):
        self.fails(RuntimeError, self.interpreter.resize_tensor_input, index, shape)

    @rule()
    def allocate(self):
        try:
            self.compute(np.zeros(self.size, np.int32), 0)
        except OpError:
            self.fails(OpError, self.interpreter.allocate_tensors)
            return
        self.interpreter.allocate_tensors()
        self.allocated = self.size

    @rule(seed=st.integers(0, 99))
    def set(self, seed):
        x = np.random.default_rng(seed).integers(-9, 10, self.size).astype(np.int32)
        if self.allocated is None:
            if self.size:       # no elements need no memory
                self.fails(ValueError, self.interpreter.set_tensor, 0, x)
            return
        self.interpreter.set_tensor(0, x)
        self.x = x

    @rule(x=st.sampled_from([np.zeros(11, np.int32), np.zeros((1, 2), np.int32), np.zeros(1, np.float32)]))
    def set_wrongly(self, x):
        self.fails(ValueError, self.interpreter.set_tensor, 0, x)

    @rule()
    def invoke(self):
        if self.allocated is None:
            self.fails(RuntimeError, self.interpreter.invoke)
        elif self.x is not None:
            self.interpreter.invoke()
            self.ran(self.x)

    def ran(self, x):
        self.wanted = self.compute(x, self.total)
        self.total += int(x.sum())

    @precondition(lambda self: self.wanted is not None)
    @rule()
    def read(self):
        for detail, wanted in zip(self.interpreter.get_output_details(), self.wanted, strict=True):
            np.testing.assert_array_equal(self.interpreter.get_tensor(detail["index"]), wanted)
            assert tuple(detail["shape"]) == np.shape(wanted)
        np.testing.assert_array_equal(self.interpreter.get_tensor(0), self.x)

    @rule(seed=st.integers(0, 99), n=st.integers(0, 9))
    def call_the_signature(self, seed, n):
        x = np.random.default_rng(seed).integers(-9, 10, n).astype(np.int32)
        run = self.interpreter.get_signature_runner("run")
        self.size, self.allocated, self.x, self.wanted = n, None, None, None
        try:
            self.compute(x, 0)
        except OpError:
            self.fails(OpError, run, x=x)
            return
        got = run(x=x)
        self.allocated, self.x = n, x
        self.ran(x)
        for i, wanted in enumerate(self.wanted):
            np.testing.assert_array_equal(got[f"y{i}"], wanted)

    @rule()
    def reset(self):
        self.interpreter.reset_all_variables()      # resource variables keep their contents

    @rule()
    def replace_by_a_copy(self):
        """A copy has the shapes, and is allocated; it has no contents and no state."""
        self.interpreter = pickle.loads(pickle.dumps(self.interpreter))
        self.x, self.wanted, self.total = None, None, 0


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
