"""Random graphs with data-dependent shapes, branches and loops, run repeatedly on changing inputs.

`python -m tests.models.test_random_graphs` stores the peer's outputs again.
"""
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools import stored
from tests.tools.resources import peer

STORED = Path(__file__).with_name("random_graphs.npz")
SEEDS, RUNS = 40, 3
OPTIONS = [{}, {"guard_bands": True}, {"num_threads": 2},
           {"experimental_preserve_all_tensors": True,
            "experimental_op_resolver_type": pylite.OpResolverType.BUILTIN_REF}]


class RandomModel:
    """A model of two inputs, x (n, 3) float32 and k (1,) int32; each of its steps computes an (m, 3) from another."""

    def __init__(self, rng):
        self.rng, self.m, self.callees = rng, ModelBuilder(), []
        self.x, self.k = self.tensor((None, 3)), self.tensor((1,), "int32")
        self.m.inputs([self.x, self.k])
        made = [self.x]
        for _ in range(rng.integers(2, 9)):
            x = made[rng.integers(len(made))] if rng.random() < 0.4 else made[-1]
            step = rng.choice([self.add, self.keep, self.concat, self.tile, self.first, self.unique, self.transpose,
                               self.fill, self.largest, self.branch, self.loop])
            made.append(step(x, made[rng.integers(len(made))]))
        self.m.outputs(dict.fromkeys([made[-1], *[x for x in made[1:-1] if rng.random() < 0.3]]))
        for make in self.callees:
            self.m.subgraph("callee")
            make()

    def tensor(self, shape=(None, 3), dtype="float32"):
        return self.m.tensor(f"t{len(self.m.record.subgraphs[-1].tensors)}", shape, dtype)

    def ints(self, *values):
        return self.m.constant("c", np.array(values, np.int32))

    def op(self, name, inputs, shape=(None, 3), dtype="float32", more=(), **options):
        y = self.tensor(shape, dtype)
        self.m.operator(name, inputs, [y, *more], **options)
        return y

    def add(self, x, _):
        return self.op("ADD", [x, x])

    def keep(self, x, _):
        """The rows whose sum is not below the mean."""
        total = self.op("SUM", [x, self.ints(1)], (None,), keep_dims=False)
        mean = self.op("MEAN", [total, self.ints(0)], (), keep_dims=False)
        at = self.op("WHERE", [self.op("GREATER_EQUAL", [total, mean], (None,), "bool")], (None, 1), "int64")
        return self.op("GATHER", [x, self.op("RESHAPE", [at, self.ints(-1)], (None,), "int64")], axis=0)

    def concat(self, x, other):
        return self.op("CONCATENATION", [x, other], axis=0)

    def tile(self, x, _):
        return self.op("TILE", [x, self.op("CONCATENATION", [self.k, self.ints(1)], (2,), "int32", axis=0)])

    def first(self, x, _):
        none = self.op("SUB", [self.k, self.k], (1,), "int32")
        begin = self.op("CONCATENATION", [none, self.ints(0)], (2,), "int32", axis=0)
        return self.op("SLICE", [x, begin, self.ints(1, 3)])

    def unique(self, x, _):
        flat, index = self.op("RESHAPE", [x, self.ints(-1)], (None,)), self.tensor((None,), "int32")
        found = self.op("UNIQUE", [flat], (None,), more=[index], idx_out_type="int32")
        return self.op("TILE", [self.op("RESHAPE", [found, self.ints(-1, 1)], (None, 1)), self.ints(1, 3)])

    def transposed(self, x):
        return self.op("TRANSPOSE", [x, self.ints(1, 0)], (3, None))

    def transpose(self, x, _):
        return self.op("RESHAPE", [self.transposed(x), self.ints(-1, 3)])

    def fill(self, x, _):
        shape = self.op("SHAPE", [x], (2,), "int32", out_type="int32")
        return self.op("FILL", [shape, self.m.constant("value", np.array(2.5, np.float32))])

    def largest(self, x, _):
        index, one = self.tensor((3, None), "int32"), self.m.constant("one", np.array(1, np.int32))
        return self.op("RESHAPE", [self.op("TOPK_V2", [self.transposed(x), one], (3, None), more=[index]),
                                   self.ints(-1, 3)])

    def called(self, *makers):
        self.callees += makers
        return range(len(self.callees) - len(makers) + 1, len(self.callees) + 1)

    def some(self, x):
        """The sum, the concatenation, or the tensor itself."""
        return [lambda: self.add(x, x), lambda: self.concat(x, x), lambda: x][self.rng.integers(3)]()

    def branch(self, x, _):
        def make():
            x = self.tensor()
            self.m.inputs([x])
            self.m.outputs([self.some(x)])
        then, otherwise = self.called(make, make)
        condition = self.op("LESS", [self.k, self.ints(2)], (1,), "bool")
        return self.op("IF", [condition, x], then_subgraph_index=then, else_subgraph_index=otherwise)

    def loop(self, x, _):
        def test():
            k, x = self.tensor((1,), "int32"), self.tensor()
            self.m.inputs([k, x])
            self.m.outputs([self.op("GREATER", [k, self.ints(0)], (1,), "bool")])

        def body():
            k, x = self.tensor((1,), "int32"), self.tensor()
            self.m.inputs([k, x])
            self.m.outputs([self.op("SUB", [k, self.ints(1)], (1,), "int32"), self.some(x)])
        test, body = self.called(test, body)
        left, y = self.tensor((1,), "int32"), self.tensor()
        self.m.operator("WHILE", [self.k, x], [left, y], cond_subgraph_index=test, body_subgraph_index=body)
        return y


def run(interpreter, x, k):
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.set_tensor(1, k)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def draw(rng):
    """(model, pairs of inputs)"""
    model = RandomModel(rng).m.build()
    return model, [(rng.integers(-3, 4, (rng.integers(1, 5), 3)).astype(np.float32),
                    rng.integers(1, 3, 1).astype(np.int32)) for _ in range(RUNS)]


def theirs(model, inputs):
    """The peer's outputs for each pair of inputs, each from a new interpreter."""
    litert = peer()
    kind = litert.OpResolverType.BUILTIN_REF
    return [run(litert.Interpreter(model_content=model, experimental_op_resolver_type=kind), *given)
            for given in inputs]


@pytest.mark.parametrize("source", ["stored", "peer"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_graphs_equal_the_peer(seed, source):
    rng = np.random.default_rng(seed)
    model, inputs = draw(rng)
    wanted = theirs(model, inputs) if source == "peer" else [
        stored.load(STORED)[f"{seed}/{i}"] for i in range(RUNS)]
    interpreter = pylite.Interpreter(model_content=model, **OPTIONS[seed % len(OPTIONS)])
    for i in rng.integers(0, RUNS, 8):
        for got, want in zip(run(interpreter, *inputs[i]), wanted[i], strict=True):
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def store():
    """Store the peer's outputs."""
    found = {}
    for seed in range(SEEDS):
        found |= {f"{seed}/{i}": outputs for i, outputs in enumerate(
            theirs(*draw(np.random.default_rng(seed))))}
    stored.save(STORED, found)


if __name__ == "__main__":
    store()
