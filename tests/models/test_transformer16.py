"""16x8 transformers of random weights: node by node against the reference, and as a whole against float32."""
import numpy as np
import pytest

import pylite
from pylite import Model
from pylite.schema import load
from pylite.schema.builder import ModelBuilder
from pylite.validation.excerpt import excerpt
from tests.ops.test_conditions import defined
from tests.tools.oneop import assert_equal, check, run_peer, run_pylite
from tests.tools.resources import peer

TOKENS, WIDTH, HEADS, WORDS, HIDDEN = 6, 16, 2, 20, 24
FIXED = {"SOFTMAX": 2.0**-15, "LOGISTIC": 2.0**-15, "TANH": 2.0**-15}
MOVES = {"RESHAPE", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "SPLIT", "GATHER", "EMBEDDING_LOOKUP"}
LACKING = {"SQUARED_DIFFERENCE", "HARD_SWISH"}      # of the reference


class Transformer:
    """Blocks of attention and a feed-forward part, in float32 or, with the largest magnitude of each tensor, in 16x8.

    A tensor's number is the same in both.
    """

    def __init__(self, seed, blocks, largest=None, bias="int64"):
        self.m, self.rng, self.largest, self.bias = ModelBuilder(), np.random.default_rng(seed), largest, bias
        self.scales = {}
        words = self.m.tensor("words", (TOKENS,), "int32")
        table = self.constant(self.rng.normal(0, 1, (WORDS, WIDTH)))
        x = self.op("GATHER", [table, words], (TOKENS, WIDTH), axis=0) if seed % 2 else self.op(
            "EMBEDDING_LOOKUP", [words, table], (TOKENS, WIDTH))
        x = self.op("RESHAPE", [x, self.integers([1, TOKENS, WIDTH])], (1, TOKENS, WIDTH), new_shape=[1, TOKENS, WIDTH])
        for block in range(blocks):
            x = self.op("ADD", [x, self.attention(self.normalized(x), block)], (1, TOKENS, WIDTH))
            x = self.op("ADD", [x, self.feed_forward(self.normalized(x), block)], (1, TOKENS, WIDTH))
        self.m.inputs([words])
        self.m.outputs([self.normalized(x)])
        self.data = self.m.build()

    def scale(self, name, x):
        """Of the next tensor, a result of an op on x."""
        if self.largest is None:
            return None
        if name in FIXED:
            return FIXED[name]
        return self.scales[x] if name in MOVES else max(float(self.largest[len(self.m._current.tensors)]), 1e-6) / 32767

    def op(self, name, inputs, shape, count=1, **options):
        made = []
        for _ in range(count):
            scale = self.scale(name, inputs[name in ("SPLIT", "EMBEDDING_LOOKUP")])
            index = self.m.tensor("t", shape, "float32" if scale is None else "int16", scale)
            self.scales[index] = scale
            made.append(index)
        if self.largest is not None and name in ("ADD", "SUB"):
            options["pot_scale_int16"] = False
        self.m.operator(name, inputs, made, **options)
        return made if count > 1 else made[0]

    def integers(self, values):
        return self.m.constant("integers", np.array(values, np.int32))

    def constant(self, array):
        """A constant operand of 16 bits."""
        array = array.astype(np.float32)
        if self.largest is None:
            index = self.m.constant("c", array)
        else:
            scale = float(np.abs(array).max()) / 32767
            index = self.m.constant("c", np.rint(array / scale).astype(np.int16), scale)
            self.scales[index] = scale
        return index

    def connected(self, x, n, k, **options):
        w = self.rng.normal(0, k**-0.5, (n, k)).astype(np.float32)
        b = self.rng.normal(0, 0.1, n).astype(np.float32)
        if self.largest is None:
            operands = [x, self.m.constant("w", w), self.m.constant("b", b)]
        else:
            scales = np.abs(w).max(1) / 127
            steps = (scales * self.scales[x]).astype(np.float32)
            operands = [x, self.m.constant("w", np.rint(w / scales[:, None]).astype(np.int8), scales),
                        self.m.constant("b", np.rint(b / steps).astype(self.bias), steps)]
            options["quantized_bias_type"] = self.bias
        return self.op("FULLY_CONNECTED", operands, (1, TOKENS, n), keep_num_dims=True, **options)

    def normalized(self, x):
        row, full, axis = (1, TOKENS, 1), (1, TOKENS, WIDTH), [2]
        mean = self.op("MEAN", [x, self.integers(axis)], row, keep_dims=True)
        squares = self.op("SQUARED_DIFFERENCE", [x, mean], full)
        variance = self.op("MEAN", [squares, self.integers(axis)], row, keep_dims=True)
        variance = self.op("ADD", [variance, self.constant(np.full(1, 1e-3))], row)
        centred = self.op("SUB", [x, mean], full)
        y = self.op("MUL", [centred, self.op("RSQRT", [variance], row)], full)
        y = self.op("MUL", [y, self.constant(self.rng.normal(1, 0.1, WIDTH))], full)
        return self.op("ADD", [y, self.constant(self.rng.normal(0, 0.1, WIDTH))], full)

    def attention(self, x, block):
        """Even blocks split into heads by RESHAPE and TRANSPOSE; odd ones by SPLIT or SLICE, joined again."""
        q, k, v = (self.connected(x, WIDTH, WIDTH) for _ in range(3))
        q = self.op("MUL", [q, self.constant(np.full(1, (WIDTH // HEADS) ** -0.5))], (1, TOKENS, WIDTH))
        part = WIDTH // HEADS
        if block % 2 == 0:
            shape, turned = (1, TOKENS, HEADS, part), (1, HEADS, TOKENS, part)
            q, k, v = (self.op("TRANSPOSE", [self.op("RESHAPE", [t, self.integers(shape)], shape, new_shape=shape),
                                             self.integers([0, 2, 1, 3])], turned) for t in (q, k, v))
            y = self.op("TRANSPOSE", [self.attend(q, k, v, (1, HEADS)), self.integers([0, 2, 1, 3])], shape)
            y = self.op("RESHAPE", [y, self.integers([1, TOKENS, WIDTH])], (1, TOKENS, WIDTH),
                        new_shape=[1, TOKENS, WIDTH])
        else:
            shape = (1, TOKENS, part)
            queries = self.op("SPLIT", [self.integers(2), q], shape, count=HEADS, num_splits=HEADS)
            heads = []
            for h in range(HEADS):
                key = self.op("SLICE", [k, self.integers([0, 0, h * part]), self.integers(shape)], shape)
                value = self.op("STRIDED_SLICE", [v, self.integers([0, 0, h * part]), self.integers(
                    [1, TOKENS, (h + 1) * part]), self.integers([1, 1, 1])], shape)
                heads.append(self.attend(queries[h], key, value, (1,)))
            y = self.op("CONCATENATION", heads, (1, TOKENS, WIDTH), axis=2)
        return self.connected(y, WIDTH, WIDTH)

    def attend(self, q, k, v, batch):
        scores = self.op("BATCH_MATMUL", [q, k], (*batch, TOKENS, TOKENS), adj_y=True)
        shares = self.op("SOFTMAX", [scores], (*batch, TOKENS, TOKENS), beta=1.0)
        return self.op("BATCH_MATMUL", [shares, v], (*batch, TOKENS, WIDTH // HEADS))

    def feed_forward(self, x, block):
        shape = (1, TOKENS, HIDDEN)
        h = self.connected(x, HIDDEN, WIDTH)
        kind = ("GELU", "HARD_SWISH", "SWISH", "GELU tanh", "RELU6", "TANH")[(block + self.rng.integers(0, 2) * 3) % 6]
        if kind == "SWISH":
            h = self.op("MUL", [h, self.op("LOGISTIC", [h], shape)], shape)
        else:
            name, _, form = kind.partition(" ")
            h = self.op(name, [h], shape, **({"approximate": bool(form)} if name == "GELU" else {}))
        return self.connected(h, WIDTH, HIDDEN)


def tensors_of(data, inputs):
    """All tensors of a run: [array or None]."""
    interpreter = pylite.Interpreter(model_content=data, experimental_preserve_all_tensors=True,
                                     experimental_op_resolver_type=pylite.OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_tensor_details()]


def draw(seed, count):
    return [np.random.default_rng((seed, i)).integers(0, WORDS, TOKENS).astype(np.int32) for i in range(count)]


def quantized(seed, blocks, bias):
    """(the float32 model, the 16x8 one)"""
    whole = Transformer(seed, blocks)
    runs = [tensors_of(whole.data, [words]) for words in draw(seed, 16)]
    largest = [max(np.abs(run[i]).max(initial=0) for run in runs) for i in range(len(runs[0]))]
    return whole.data, Transformer(seed, blocks, largest, bias).data


def by_definition(data, arrays):
    """What a model of one node that the reference lacks must give."""
    graph = load(data).subgraphs[0]
    scales = [float(graph.tensors[i].quantization.scale[0]) for i in (*graph.operators[0].inputs, graph.outputs[0])]
    if graph.operators[0].name == "SQUARED_DIFFERENCE":
        a, b = np.broadcast_arrays(*arrays)
        return defined(a.ravel(), b.ravel(), scales, (0, 0, 0), lambda p, q: (p - q) ** 2, "int16").reshape(a.shape)
    x = arrays[0].ravel()
    return defined(x, x, (scales[0], *scales), (0, 0, 0), lambda p, _: p * min(max(p + 3, 0), 6) / 6,
                   "int16").reshape(arrays[0].shape)


CASES = [(0, 3, "int64"), (1, 2, "int64"), (2, 3, "int32"), (4, 2, "int32")]


@pytest.mark.parametrize(("seed", "blocks", "bias"), CASES)
def test_each_node_is_the_reference_s_or_the_definition_s(seed, blocks, bias):
    peer()
    _, data = quantized(seed, blocks, bias)
    words, = sample = draw(seed, 17)[-1:]
    whole, model = tensors_of(data, sample), Model(data)
    for operator in model.graph.subgraphs[0].operators:
        node, contents = excerpt(model, operator.index, operator.index, sample)
        arrays = list(contents.values())
        want = [by_definition(node, arrays)] if operator.name in LACKING else run_peer(node, arrays)
        label = f"node {operator.index} {operator.name}"
        assert_equal(run_pylite(node, arrays), want, label)
        assert_equal([whole[i] for i in operator.outputs], want, f"{label} in the model")
    want, = (whole[i] for i in model.graph.subgraphs[0].outputs)
    check(data, [words], [want], f"{blocks} blocks")


@pytest.mark.parametrize(("seed", "blocks", "bias"), CASES)
def test_a_16x8_transformer_is_near_its_float32_form(seed, blocks, bias):
    """As near as the rule for RSQRT lets it be, which interpolates 1 / sqrt(x) over 512 equal segments."""
    whole, data = quantized(seed, blocks, bias)
    scale = load(data).subgraphs[0].tensors[load(data).subgraphs[0].outputs[0]].quantization.scale[0]
    signal = noise = 0
    for sample in draw(seed, 40)[16:]:
        want, = run_pylite(whole, [sample])
        got, = run_pylite(data, [sample])
        signal += np.square(want).sum()
        noise += np.square(got * scale - want).sum()
    decibels = 10 * np.log10(signal / noise)
    assert decibels > 15, decibels
