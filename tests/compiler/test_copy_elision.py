"""Concat/split aliasing: bit-identical results, no larger arenas."""
import numpy as np
import pytest

from pylite.compiler import memory_planner, placement
from pylite.errors import NotAllocatedError
from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import check_every_isa_level, lowered, run

COLUMNS = 3
pytestmark = pytest.mark.filterwarnings("ignore:experimental_preserve_all_tensors")


class Rows:
    """A random graph of matrices of COLUMNS columns: splits, concats, pads, slices, reshapes and functions."""

    def __init__(self, rng):
        self.rng, self.m, self.rows, self.shapes = rng, ModelBuilder(), {}, {}
        self.inputs = [self.tensor(int(rng.integers(1, 6))) for _ in range(rng.integers(1, 3))]
        for _ in range(rng.integers(3, 25)):
            getattr(self, rng.choice(["split", "concat", "pad", "slice", "compute", "compute", "add", "reshape"]))()
        made = [t for t in self.rows if t not in self.inputs]
        count = min(len(made), int(rng.integers(1, 4)))
        outputs = list(rng.choice(made, count, replace=False)) if made else self.inputs
        self.m.inputs(self.inputs)
        self.m.outputs([int(t) for t in outputs])

    def tensor(self, rows):
        index = self.m.tensor(f"t{len(self.m._current.tensors)}", (rows, COLUMNS))
        self.rows[index] = rows
        return index

    def constant(self, *numbers):
        return self.m.constant(f"c{len(self.m._current.tensors)}", np.array(numbers, np.int32))

    def any(self, least=1):
        found = [t for t, n in self.rows.items() if n >= least]
        return int(self.rng.choice(found)) if found else None

    def split(self):
        x = self.any(2)
        if x is None:
            return
        count = next(n for n in (4, 3, 2, self.rows[x]) if self.rows[x] % n == 0)
        self.m.operator("SPLIT", [self.m.constant(f"a{x}", np.array(0, np.int32)), x],
                        [self.tensor(self.rows[x] // count) for _ in range(count)], num_splits=count)

    def concat(self):
        xs = [self.any() for _ in range(self.rng.integers(1, 4))]
        self.m.operator("CONCATENATION", xs, [self.tensor(sum(self.rows[x] for x in xs))], axis=0,
                        fused_activation_function="NONE")

    def pad(self):
        x, (a, b) = self.any(), self.rng.integers(0, 3, 2)
        widths = self.m.constant(f"p{len(self.rows)}_{x}", np.array([[a, b], [0, 0]], np.int32))
        self.m.operator("PAD", [x, widths], [self.tensor(self.rows[x] + a + b)])

    def slice(self):
        x = self.any()
        begin = int(self.rng.integers(0, self.rows[x]))
        size = int(self.rng.integers(1, self.rows[x] - begin + 1))
        self.m.operator("SLICE", [x, self.constant(begin, 0), self.constant(size, COLUMNS)], [self.tensor(size)])

    def compute(self):
        x = self.any()
        self.m.operator(str(self.rng.choice(["NEG", "ABS", "SQUARE"])), [x], [self.tensor(self.rows[x])])

    def add(self):
        x = self.any()
        y = int(self.rng.choice([t for t, n in self.rows.items() if n == self.rows[x]]))
        self.m.operator("ADD", [x, y], [self.tensor(self.rows[x])], fused_activation_function="NONE")

    def reshape(self):
        x = self.any()
        self.m.operator("RESHAPE", [x, self.constant(self.rows[x], COLUMNS)], [self.tensor(self.rows[x])],
                        new_shape=[self.rows[x], COLUMNS])


@pytest.mark.parametrize("seed", range(150))
def test_slices_along_the_outer_axis_give_identical_results(seed):
    rng = np.random.default_rng(seed)
    graph = Rows(rng)
    model = graph.m.build()
    inputs = [rng.standard_normal((graph.rows[t], COLUMNS)).astype(np.float32) for t in graph.inputs]
    kept, want = run(model, inputs, experimental_preserve_all_tensors=True)
    plain, got = run(model, inputs)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want]
    for index in graph.rows:        # readable tensors have the right values
        try:
            seen = plain.get_tensor(index)
        except NotAllocatedError:
            continue
        np.testing.assert_array_equal(seen, kept.get_tensor(index), err_msg=f"tensor {index}")
    plain = placement.place(placement.lifetimes(lowered(model)))
    assert memory_planner.placement_of(lowered(model)).total <= plain.total


def streaming():
    """A model that appends a frame to the previous ones, and applies a function to each quarter of them."""
    m = ModelBuilder()
    x, last = m.tensor("x", (1, 2, 8)), m.tensor("last", (1, 6, 8))
    frames, y = m.tensor("frames", (1, 8, 8)), m.tensor("y", (1, 2, 8))
    fresh = m.tensor("fresh", (1, 2, 8))
    m.operator("NEG", [x], [fresh])
    m.operator("CONCATENATION", [last, fresh], [frames], axis=1, fused_activation_function="NONE")
    slices = [m.tensor(f"slice{i}", (1, 2, 8)) for i in range(4)]
    m.operator("SPLIT", [m.constant("axis", np.array(1, np.int32)), frames], slices, num_splits=4)
    ends = [m.tensor(f"end{i}", (1, 2, 8)) for i in range(4)]
    for part, end in zip(slices, ends, strict=True):
        m.operator("TANH", [part], [end])
    sums = [m.tensor(f"sum{i}", (1, 2, 8)) for i in range(2)]
    m.operator("ADD", ends[:2], [sums[0]], fused_activation_function="NONE")
    m.operator("ADD", ends[2:], [sums[1]], fused_activation_function="NONE")
    m.operator("MUL", sums, [y], fused_activation_function="NONE")
    m.inputs([x, last])
    m.outputs([y])
    return m.build()


def test_an_element_of_a_slice_with_steps():
    """x[3:7:2][1], whose result has no axis."""
    m = ModelBuilder()
    x, some, one, y = m.tensor("x", (64,)), m.tensor("some", (2,)), m.tensor("one", ()), m.tensor("y", ())

    def numbers(*values):
        return [m.constant(f"n{value}", np.array([value], np.int32)) for value in values]
    m.operator("STRIDED_SLICE", [x, *numbers(3, 7, 2)], [some])
    m.operator("STRIDED_SLICE", [some, *numbers(1, 2, 1)], [one], shrink_axis_mask=1)
    m.operator("NEG", [one], [y])
    m.inputs([x])
    m.outputs([y])
    _, (result,) = run(m.build(), [np.arange(64, dtype=np.float32)])
    assert result == -5


def test_copies_of_slices_disappear():
    found = lowered(streaming())
    memory_planner.placement_of(found)
    assert [c.node.name for c in found.calls].count("SPLIT") == 0
    assert [c.node.name for c in found.calls].count("CONCATENATION") == 1        # the one that reads the input
    assert found.notes[2] == "slice of tensor 2"
    assert found.notes[1] == "computed in place, in tensor 2"
    model, rng = streaming(), np.random.default_rng(0)
    frames = [rng.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 8), (1, 6, 8))]
    _, want = run(model, frames, experimental_preserve_all_tensors=True)
    _, got = run(model, frames)
    assert got[0].tobytes() == want[0].tobytes()


class Images:
    """A random graph of images of one size in 1 to 3 batches: convolutions, pools, resizes, concats and splits."""

    def __init__(self, rng, dtype):
        self.rng, self.dtype, self.m, self.channels = rng, dtype, ModelBuilder(), {}
        self.size = (9, 3) if rng.random() < 0.2 else (6, 8)        # short lines may be merged by the convolution
        self.kind = "float32" if dtype == "hybrid" else dtype
        self.batch = int(rng.integers(1, 4))
        self.scale = {} if self.kind == "float32" else {"scale": 0.1, "zero_point": 0 if dtype == "int16" else 7}
        self.input = self.image(int(rng.integers(1, 5)))
        self.conv(self.input)
        kinds = ["conv", "conv", "conv", "concat", "concat", "concat", "split", "pool", "resize", "resize", "enlarge",
                 "pad", "relu", "slice", "skip", "stack"]
        for _ in range(rng.integers(6, 20)):
            getattr(self, rng.choice(kinds))(int(rng.choice(list(self.channels))))
        self.conv(max(self.channels))
        made = [t for t in self.channels if t != self.input]
        self.m.inputs([self.input])
        self.m.outputs(sorted({max(made), *(int(t) for t in rng.choice(made, rng.integers(0, 2)))}))

    def image(self, channels, size=None, known=True):
        name = f"t{len(self.m._current.tensors)}"
        index = self.m.tensor(name, (self.batch, *(size or self.size), channels), self.kind, **self.scale)
        if known:
            self.channels[index] = channels
        return index

    def constant(self, array, *quantization, **axis):
        return self.m.constant(f"c{len(self.m._current.tensors)}", array, *quantization, **axis)

    def conv(self, x):
        w, k = self.filters(x)
        self.m.operator("CONV_2D", [x, w, None], [self.image(k)], padding="SAME", stride_h=1, stride_w=1,
                        dilation_h_factor=1, dilation_w_factor=1, fused_activation_function="NONE")

    def filters(self, x):
        """(weights, number of filters)"""
        taps = int(self.rng.choice([1, 1, 3]))
        k = int(self.rng.choice([1, 3, 4, 8, 16, 20] + [48] * (12 if self.dtype == "int16" else 1)))
        shape = k, taps, taps, self.channels[x]
        if self.dtype == "float32":
            return self.constant(self.rng.standard_normal(shape).astype(np.float32)), k
        if self.dtype == "uint8":
            return self.constant(self.rng.integers(0, 256, shape).astype(np.uint8), [0.02], [130]), k
        return self.constant(self.rng.integers(-90, 90, shape).astype(np.int8), [0.02] * k, [0] * k, axis=0), k

    def enlarge(self, x):
        small, (w, k) = self.pool(x, 2, False), self.filters(x)
        wanted = self.constant(np.array([self.batch, *self.size, k], np.int32))
        self.m.operator("TRANSPOSE_CONV", [wanted, w, small], [self.image(k)], padding="SAME", stride_h=2, stride_w=2)

    def concat(self, x):
        xs = [x] + [int(self.rng.choice(list(self.channels))) for _ in range(self.rng.integers(1, 3))]
        self.m.operator("CONCATENATION", xs, [self.image(sum(self.channels[x] for x in xs))], axis=3,
                        fused_activation_function="NONE")

    def split(self, x):
        c = self.channels[x]
        sizes = [c // 3, c - c // 3]
        if sizes[0]:
            sized, axis = self.constant(np.array(sizes, np.int32)), self.constant(np.array(3, np.int32))
            self.m.operator("SPLIT_V", [x, sized, axis], [self.image(n) for n in sizes], num_splits=2)

    def slice(self, x):
        if self.channels[x] > 2:
            size = [self.batch, *self.size, self.channels[x] - 2]
            self.m.operator("SLICE", [x, self.constant(np.array([0, 0, 0, 1], np.int32)),
                                      self.constant(np.array(size, np.int32))], [self.image(size[3])])

    def skip(self, x):
        """Every other channel."""
        c = self.channels[x]
        begin, end, step = (self.constant(np.array(numbers, np.int32)) for numbers in (
            [0] * 4, [self.batch, *self.size, c], [1, 1, 1, 2]))
        self.m.operator("STRIDED_SLICE", [x, begin, end, step], [self.image(-(-c // 2))])

    def stack(self, x):
        """Channels interleaved with those of another image."""
        c = self.channels[x]
        other = int(self.rng.choice([t for t, n in self.channels.items() if n == c]))
        name = f"t{len(self.m._current.tensors)}"
        both = self.m.tensor(name, (self.batch, *self.size, c, 2), self.kind, **self.scale)
        self.m.operator("PACK", [x, other], [both], axis=4, values_count=2)
        shape = [self.batch, *self.size, 2 * c]
        self.m.operator("RESHAPE", [both, self.constant(np.array(shape, np.int32))], [self.image(2 * c)],
                        new_shape=shape)

    def pad(self, x):
        before, after = (int(n) for n in self.rng.integers(0, 3, 2))
        widths = self.constant(np.array([[0, 0], [0, 0], [0, 0], [before, after]], np.int32))
        self.m.operator("PAD", [x, widths], [self.image(self.channels[x] + before + after)])

    def pool(self, x, stride=1, known=True):
        h, w = self.size
        y = self.image(self.channels[x], (-(-h // stride), -(-w // stride)), known)
        size = int(self.rng.choice([2, 3]))
        name = str(self.rng.choice(["MAX_POOL_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"]))
        self.m.operator(name, [x], [y], padding="SAME", stride_h=stride, stride_w=stride, filter_height=size,
                        filter_width=size)
        return y

    def resize(self, x):
        small, size = self.pool(x, 2, False), self.constant(np.array(self.size, np.int32))
        self.m.operator(str(self.rng.choice(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])), [small, size],
                        [self.image(self.channels[x])], align_corners=False, half_pixel_centers=False)

    def relu(self, x):
        self.m.operator("RELU", [x], [self.image(self.channels[x])])


CONVOLUTIONS = {"float32": {("conv_float.ConvF32", 0), ("conv_float.ConvF32", 1)},
                "int8": {("conv.ConvQ8", 0), ("conv.ConvQ8", 1)},
                "uint8": {("conv.ConvQ8", 0), ("conv.ConvQ8", 1)},
                "int16": {("conv16.Conv16", 0), ("conv16.Conv16", 1)},
                "hybrid": {("hybrid.ConvHybrid", 1)}}


@pytest.mark.parametrize("dtype", list(CONVOLUTIONS))
def test_slices_of_channels_give_identical_results(dtype):
    strided = set()
    for case in range(60):
        rng = np.random.default_rng(case)
        graph = Images(rng, dtype)
        model = graph.m.build()
        x = (rng.standard_normal((graph.batch, *graph.size, graph.channels[graph.input])) * 30).astype(graph.kind)
        found, plain = lowered(model), lowered(model)
        before = [(call, call.args) for call in found.calls]
        assert memory_planner.placement_of(found).total <= placement.place(placement.lifetimes(plain)).total
        strided.update((call.kernel, i) for call, args in before for i, a in enumerate(args) if a is not call.args[i])
        check_every_isa_level(model, [x], graph.channels, 1 + case % 2, case)
    assert strided >= CONVOLUTIONS[dtype] | {("pooling.Pooling", 0), ("pooling.Pooling", 1), ("resize.Bilinear", 1),
                                           ("resize.Nearest", 1), ("movement.Copy", 0), ("movement.Copy", 1)}
