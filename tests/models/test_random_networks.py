"""Random quantized networks, whose integers equal the reference kernels' in every tensor.

One-op tests cannot see what passes do across operators: fuse activations, pads and tables, share memory, skip copies.
Machines without the peer compare checksums of its tensors; `python -m tests.models.test_random_networks` stores them.
"""
import json
import os
import zlib
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from pylite.interpreter import Interpreter, OpResolverType
from pylite.numerics.quantization import LIMITS
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import peer

STORED = Path(__file__).with_name("random_networks.json")
DTYPES = ("int8", "uint8", "int16")
SEEDS, STORED_SEEDS = 24, 8
MOST = 6000             # elements of a tensor beyond the batch
Quantized = namedtuple("Quantized", "index shape scale zero_point")
FIXED = {"LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
         "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
         "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
         "L2_NORMALIZATION": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)}}
UNARY = {"int8": ["RELU", "RELU6", "RELU_N1_TO_1", "HARD_SWISH", "LEAKY_RELU", "QUANTIZE", *FIXED],
         "uint8": ["RELU", "RELU6", "RELU_N1_TO_1", "HARD_SWISH", "LEAKY_RELU", "QUANTIZE", *FIXED],
         "int16": ["RELU", "RELU6", "LEAKY_RELU", "QUANTIZE", "LOGISTIC", "TANH", "SOFTMAX"]}
OPTIONS = {"LEAKY_RELU": {"alpha": 0.3}, "SOFTMAX": {"beta": 1.0}}


class Network:
    """A network under construction; each step takes a Quantized of shape (n, h, w, c), and returns another."""

    def __init__(self, rng, dtype):
        self.rng, self.dtype, self.m = rng, dtype, ModelBuilder()
        self.bits = 16 if dtype == "int16" else 8
        shape = (int(rng.integers(1, 3)), *(int(n) for n in rng.integers(1, 17, 2)), int(rng.choice([1, 2, 3, 8, 17])))
        self.made = [self.tensor(shape)]
        steps = [self.conv, self.conv, self.depthwise, self.unary, self.unary, self.binary, self.row, self.pool,
                 self.gate, self.pad, self.transpose, self.part, self.halves, self.joined, self.resize, self.mean,
                 self.dense, self.reshaped, self.folded, self.upward, self.extreme]
        while len(self.made) < 12:
            x = self.made[-1] if rng.random() < 0.7 else self.made[rng.integers(len(self.made))]
            self.made.append(steps[rng.integers(len(steps))](x))

    def build(self):
        """The model, for any batch, and its input."""
        outputs = {x.index for x in self.made[1:-1] if self.rng.random() < 0.15}
        self.m.inputs([self.made[0].index])
        self.m.outputs([*(outputs - {self.made[-1].index}), self.made[-1].index])
        return self.m.build(), self.values(self.made[0].shape)

    # ---- tensors -------------------------------------------------------------------------------------------------
    def values(self, shape, dtype=None):
        low, high = LIMITS[dtype or self.dtype]
        return self.rng.integers(low, high, shape, dtype or self.dtype, endpoint=True)

    def name(self):
        return f"t{len(self.m.record.subgraphs[0].tensors)}"

    def tensor(self, shape, scale=None, zero_point=None):
        if scale is None:
            scale = float(np.float32(np.exp(self.rng.uniform(-5, -1))) / (256 if self.bits == 16 else 1))
        if zero_point is None:
            low, high = LIMITS[self.dtype]
            zero_point = 0 if self.bits == 16 else int(self.rng.integers(low // 2, high // 2 + 1))
        index = self.m.tensor(self.name(), shape, self.dtype, scale, zero_point)
        return Quantized(index, tuple(shape), scale, zero_point)

    def like(self, x, shape=None):
        """A tensor with the quantization of x."""
        return self.tensor(x.shape if shape is None else shape, x.scale, x.zero_point)

    def ints(self, *values):
        return self.m.constant(self.name(), np.array(values, np.int32))

    def constant(self, shape):
        scale = float(np.float32(self.rng.uniform(0.001, 0.05))) / (256 if self.bits == 16 else 1)
        zero_point = 0 if self.bits == 16 else int(self.values(()))
        return self.m.constant(self.name(), self.values(shape), scale, zero_point)

    def op(self, name, inputs, y, **options):
        self.m.operator(name, [x.index if isinstance(x, Quantized) else x for x in inputs], [y.index], **options)
        return y

    def activation(self):
        return str(self.rng.choice(["NONE", "NONE", "RELU", "RELU6"]))

    def product(self, name, x, shape, axis, y_shape, taps, **options):
        """A layer with weights of `shape`, whose outputs lie along `axis`."""
        n = shape[axis]
        per_tensor = self.dtype == "uint8" or name == "FULLY_CONNECTED"
        scales = np.float32(self.rng.uniform(0.001, 0.02, 1 if per_tensor else n))
        weights = self.values(shape, "uint8" if self.dtype == "uint8" else "int8")
        if self.dtype != "uint8":
            weights = np.maximum(weights, -127)
        w = self.m.constant(self.name(), weights, scales, int(self.values(())) if self.dtype == "uint8" else 0, axis)
        span = 2.0 ** self.bits
        bias = self.rng.integers(-20, 21, n) * int(span * np.sqrt(taps))
        b = self.m.constant(self.name(), bias.astype(np.int64 if self.bits == 16 else np.int32), scales * x.scale)
        spread = x.scale * float(scales.mean(dtype=np.float64)) * span * 256 * np.sqrt(taps) / 12
        y = self.tensor(y_shape, float(np.float32(spread * np.exp(self.rng.uniform(-1, 1)) * 5 / span)))
        return self.op(name, [x, w, b], y, fused_activation_function=self.activation(), **options)

    def window(self, x, size, stride=1, dilation=1):
        """The height and width of a window's output, and its options."""
        reach = (size - 1) * dilation + 1
        padding = "VALID" if min(x.shape[1:3]) >= reach and self.rng.random() < 0.5 else "SAME"
        h, w = (-(-(n - reach + 1 if padding == "VALID" else n) // stride) for n in x.shape[1:3])
        return h, w, {"padding": padding, "stride_h": stride, "stride_w": stride}

    def choose(self, *numbers):
        return int(self.rng.choice(numbers))

    # ---- steps ---------------------------------------------------------------------------------------------------
    def conv(self, x):
        size, stride = self.choose(1, 1, 2, 3, 3, 5), self.choose(1, 1, 2)
        dilation = self.choose(1, 1, 2) if stride == 1 else 1
        h, w, options = self.window(x, size, stride, dilation)
        c = self.choose(1, 2, 4, 8, 16, 19)
        return self.product("CONV_2D", x, (c, size, size, x.shape[3]), 0, (x.shape[0], h, w, c),
                            size * size * x.shape[3], dilation_h_factor=dilation, dilation_w_factor=dilation, **options)

    def depthwise(self, x):
        size, stride = self.choose(2, 3, 3, 5), self.choose(1, 1, 2)
        dilation, multiplier = self.choose(1, 1, 2) if stride == 1 else 1, self.choose(1, 1, 1, 2)
        h, w, options = self.window(x, size, stride, dilation)
        c = x.shape[3] * multiplier
        return self.product("DEPTHWISE_CONV_2D", x, (1, size, size, c), 3, (x.shape[0], h, w, c), size * size,
                            depth_multiplier=multiplier, dilation_h_factor=dilation, dilation_w_factor=dilation,
                            **options)

    def dense(self, x):
        c = self.choose(1, 5, 16)
        return self.product("FULLY_CONNECTED", x, (c, x.shape[3]), 0, (*x.shape[:3], c), x.shape[3],
                            keep_num_dims=True)

    def unary(self, x):
        name = str(self.rng.choice(UNARY[self.dtype]))
        least = {"scale": x.scale / 4} if name == "HARD_SWISH" else {}      # the reference shifts only to the right
        y = self.tensor(x.shape, *FIXED.get(name, {}).get(self.dtype, ()), **least)
        return self.op(name, [x], y, **OPTIONS.get(name, {}))

    def other(self, x):
        """A tensor of the shape of x: an earlier one, x itself, or a constant."""
        alike = [y for y in self.made if y.shape == x.shape]
        constant = self.rng.random() < 0.2
        return self.constant((1, *x.shape[1:])) if constant else alike[self.rng.integers(len(alike))]

    def arithmetic(self, x, other, shape):
        name = str(self.rng.choice(["ADD", "SUB", "MUL"]))
        operands = [x, other] if self.rng.random() < 0.7 else [other, x]
        return self.op(name, operands, self.tensor(shape), fused_activation_function=self.activation(),
                       **({} if name == "MUL" else {"pot_scale_int16": False}))

    def binary(self, x):
        return self.arithmetic(x, self.other(x), x.shape)

    def row(self, x):
        shape = [(x.shape[3],), (1,), (), (1, 1, 1, x.shape[3])][self.rng.integers(4)]
        return self.arithmetic(x, self.constant(shape), x.shape)

    def mean(self, x):
        shape = (x.shape[0], 1, 1, x.shape[3])
        return self.op("MEAN", [x, self.ints(1, 2)], self.tensor(shape), keep_dims=True)

    def gate(self, x):
        """x times a function of its means, as in squeeze-and-excite."""
        y = self.mean(x)
        gate = self.op("LOGISTIC", [y], self.tensor(y.shape, *FIXED["LOGISTIC"][self.dtype]))
        return self.op("MUL", [x, gate], self.tensor(x.shape), fused_activation_function="NONE")

    def pool(self, x):
        size, stride, kind = self.choose(2, 3), self.choose(1, 2), str(self.rng.choice(["MAX", "AVERAGE"]))
        h, w, options = self.window(x, size, stride)
        return self.op(f"{kind}_POOL_2D", [x], self.like(x, (x.shape[0], h, w, x.shape[3])), filter_height=size,
                       filter_width=size, fused_activation_function=self.activation(), **options)

    def extreme(self, x):
        name = str(self.rng.choice(["MAXIMUM", "MINIMUM"]))
        alike = [y for y in self.made if y.shape == x.shape and y[2:] == x[2:]]
        return self.op(name, [x, alike[self.rng.integers(len(alike))]], self.like(x))

    def pad(self, x):
        n, h, w, c = x.shape
        top, left, right = (int(k) for k in self.rng.integers(0, 3, 3))
        widths = self.m.constant(self.name(), np.array([[0, 0], [top, 1], [left, right], [0, 0]], np.int32))
        return self.op("PAD", [x, widths], self.like(x, (n, h + top + 1, w + left + right, c)))

    def transpose(self, x):
        order = [0, *(int(i) for i in self.rng.permutation([1, 2, 3]))]
        return self.op("TRANSPOSE", [x, self.ints(*order)], self.like(x, [x.shape[i] for i in order]))

    def part(self, x):
        begin = [0, *(int(self.rng.integers(n)) for n in x.shape[1:])]
        end = [1, *(int(self.rng.integers(b + 1, n + 1)) for n, b in zip(x.shape[1:], begin[1:], strict=True))]
        step = [1, self.choose(1, 2), self.choose(1, 1, 3), self.choose(1, 1, 2)]
        shape = [x.shape[0], *(-(-(e - b) // s) for b, e, s in zip(begin[1:], end[1:], step[1:], strict=True))]
        return self.op("STRIDED_SLICE", [x, self.ints(*begin), self.ints(*end), self.ints(*step)], self.like(x, shape),
                       begin_mask=1, end_mask=1)      # all of the batch; the reference's SLICE takes no other batch

    def halves(self, x):
        """One half of x times or plus the other, by channels."""
        if x.shape[3] % 2:
            return self.unary(x)
        halves = [self.like(x, (*x.shape[:3], x.shape[3] // 2)) for _ in range(2)]
        self.m.operator("SPLIT", [self.ints(3), x.index], [y.index for y in halves], num_splits=2)
        return self.arithmetic(*halves, halves[0].shape)

    def joined(self, x):
        axis = self.choose(1, 2, 3, 3)
        alike = [y for y in self.made if y[2:] == x[2:] and all(
            y.shape[i] == x.shape[i] for i in range(4) if i != axis)]
        others = [x, *(alike[self.rng.integers(len(alike))] for _ in range(self.rng.integers(1, 3)))]
        shape = list(x.shape)
        shape[axis] = sum(y.shape[axis] for y in others)
        if np.prod(shape[1:]) > MOST:
            return self.part(x)
        return self.op("CONCATENATION", others, self.like(x, shape), axis=axis, fused_activation_function="NONE")

    def resize(self, x):
        n, h, w, c = x.shape
        h, w = int(self.rng.integers(1, 2 * h + 1)), int(self.rng.integers(1, 2 * w + 1))
        if h * w * c > MOST:
            return self.pool(x)
        name = str(self.rng.choice(["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"]))
        return self.op(name, [x, self.ints(h, w)], self.like(x, (n, h, w, c)),
                       half_pixel_centers=bool(self.rng.random() < 0.5))

    def reshaped(self, x):
        n, h, w, c = x.shape
        shape = [(n, w, h, c), (n, 1, h * w, c), (n, h, 1, w * c)][self.rng.integers(3)]
        return self.op("RESHAPE", [x, self.ints(-1, *shape[1:])], self.like(x, shape))

    def folded(self, x):
        n, h, w, c = x.shape
        if h % 2 or w % 2 or self.bits == 16:       # of 16 bits the reference has neither this op nor its inverse
            return self.reshaped(x)
        return self.op("SPACE_TO_DEPTH", [x], self.like(x, (n, h // 2, w // 2, 4 * c)), block_size=2)

    def upward(self, x):
        n, h, w, c = x.shape
        if c % 4 or h * w * c > MOST or self.bits == 16:
            return self.depthwise(x)
        return self.op("DEPTH_TO_SPACE", [x], self.like(x, (n, 2 * h, 2 * w, c // 4)), block_size=2)


def run(interpreter, x):
    interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter


def reference(model, x):
    """An interpreter of the reference kernels that has run on x, and kept all tensors."""
    litert = peer()
    return run(litert.Interpreter(model_content=model, experimental_preserve_all_tensors=True,
                                  experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF), x)


def checksums(interpreter, indices):
    return [zlib.crc32(interpreter.get_tensor(i).tobytes()) for i in indices]


def options_of(tmp_path):
    plan = {"cache_dir": str(tmp_path)}
    return {}, {"num_threads": 3}, {"guard_bands": True}, plan, plan     # the second time, the plan is read


def all_kept(model):
    return Interpreter(model_content=model, experimental_preserve_all_tensors=True,
                       experimental_op_resolver_type=OpResolverType.BUILTIN_REF)     # which only silences a warning


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(STORED_SEEDS))
def test_whole_networks_equal_stored_ones(seed, dtype, tmp_path):
    model, x = Network(np.random.default_rng(seed), dtype).build()
    drawn, wanted = json.loads(STORED.read_text())[f"{dtype} {seed}"]
    assert zlib.crc32(model) == drawn, "this numpy draws another model"
    found = checksums(run(all_kept(model), x), range(len(wanted)))
    assert [i for i, (got, want) in enumerate(zip(found, wanted, strict=True)) if got != want] == []
    for options in options_of(tmp_path):
        interpreter = run(Interpreter(model_content=model, **options), x)
        outputs = [detail["index"] for detail in interpreter.get_output_details()]
        assert checksums(interpreter, outputs) == [wanted[i] for i in outputs]


def assert_equal(interpreter, other, details):
    for detail in details:
        index = detail["index"]
        assert np.array_equal(interpreter.get_tensor(index), other.get_tensor(index)), f"tensor {index}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_tensors_equal_the_reference(seed, dtype, tmp_path):
    others = os.environ.get("PYLITE_CASES", "")     # text for other cases
    network = Network(np.random.default_rng([seed, *others.encode()]), dtype)
    model, x = network.build()
    wanted, interpreter = reference(model, x), run(all_kept(model), x)
    assert_equal(interpreter, wanted, interpreter.get_tensor_details())
    for options in options_of(tmp_path):
        interpreter = run(Interpreter(model_content=model, **options), x)
        assert_equal(interpreter, wanted, interpreter.get_output_details())
    for batch in (3, 4, 1, 7):      # from the second on, without lowering
        x = network.values((batch, *x.shape[1:]))
        assert_equal(run(interpreter, x), reference(model, x), interpreter.get_output_details())


def store():
    """Store checksums of the models and of the reference's tensors."""
    found = {}
    for dtype in DTYPES:
        for seed in range(STORED_SEEDS):
            model, x = Network(np.random.default_rng(seed), dtype).build()
            wanted = reference(model, x)
            count = len(Interpreter(model_content=model).get_tensor_details())
            found[f"{dtype} {seed}"] = [zlib.crc32(model), checksums(wanted, range(count))]
    STORED.write_text("{\n" + ",\n".join(f'"{key}": {json.dumps(row)}' for key, row in found.items()) + "\n}\n")


if __name__ == "__main__":
    store()
