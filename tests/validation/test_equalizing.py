"""Channels scaled across layers: the float model computes the same, and int8 loses less."""
import numpy as np
import pytest

from pylite import Model
from pylite.schema.builder import ModelBuilder
from pylite.validation import agreement, repair_steps, repairer, steps
from pylite.validation.channels import shared
from pylite.validation.counterparts import counterparts
from pylite.validation.equalizing import CAP, METHODS, Equalizer, agree
from pylite.validation.judging import Judge, judged
from pylite.validation.litert import LiteRT
from pylite.validation.matching import match
from pylite.validation.repair import repair
from pylite.validation.requantizing import Requantizer
from pylite.validation.ties import tied
from pylite.validation.widening import widened
from tests.tools import resources
from tests.validation import outlying

CHANNELS = 8


class Network:
    """Builds a network twice: of int8 with rough ranges, and of real numbers."""

    def __init__(self, whole, seed=0):
        self.builder, self._whole, self._rng, self._count = ModelBuilder(), whole, np.random.default_rng(seed), 0

    def tensor(self, shape):
        self._count += 1
        grid = {"scale": 0.1, "zero_point": 0} if self._whole else {}
        return self.builder.tensor(f"t{self._count}", shape, "int8" if self._whole else "float32", **grid)

    def weighted(self, op, x, shape, output, activation="NONE"):
        """A node whose output channels differ much in magnitude."""
        axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
        spread = np.exp(self._rng.uniform(-2, 2, shape[axis]))
        along = [-1 if a == axis else 1 for a in range(len(shape))]
        weights = (self._rng.standard_normal(shape) * spread.reshape(along)).astype(np.float32)
        bias = (self._rng.standard_normal(shape[axis]) * spread).astype(np.float32)
        if self._whole:
            others = tuple(a for a in range(len(shape)) if a != axis)
            step = np.abs(weights).max(others) / np.float32(127)
            w = self.builder.constant(f"w{self._count}", np.rint(weights / step.reshape(along)).astype(np.int8),
                                      scale=step, axis=axis)
            b = self.builder.constant(f"b{self._count}", np.rint(bias / step / 0.1).astype(np.int32), scale=step * 0.1)
        else:
            w, b = (self.builder.constant(f"{name}{self._count}", values) for name, values in (("w", weights),
                                                                                               ("b", bias)))
        y = self.tensor(output)
        options = {"fused_activation_function": activation}
        if op != "FULLY_CONNECTED":
            options |= {"padding": "SAME", "stride_w": 1, "stride_h": 1}
        if op == "DEPTHWISE_CONV_2D":
            options |= {"depth_multiplier": 1}
        self.builder.operator(op, [x, w, b], [y], **options)
        return y

    def node(self, op, inputs, shape, **options):
        y = self.tensor(shape)
        self.builder.operator(op, inputs, [y], **options)
        return y

    def numbers(self, values):
        self._count += 1
        return self.builder.constant(f"n{self._count}", np.array(values, np.int32))


def residual(n, x, activation):
    """A block as in MobileNet v2, with a sum around it."""
    image = (1, 4, 4, CHANNELS)
    a = n.weighted("CONV_2D", x, (CHANNELS, 1, 1, 3), image)
    b = n.weighted("CONV_2D", a, (CHANNELS, 1, 1, CHANNELS), image, activation)
    c = n.weighted("DEPTHWISE_CONV_2D", b, (1, 3, 3, CHANNELS), image, activation)
    d = n.weighted("CONV_2D", c, (CHANNELS, 1, 1, CHANNELS), image)
    e = n.node("ADD", [a, d], image)
    f = n.node("MEAN", [e, n.numbers([1, 2])], (1, CHANNELS))
    return n.weighted("FULLY_CONNECTED", f, (4, CHANNELS), (1, 4))


def flattened(n, x, _):
    """Pixels become features of a FULLY_CONNECTED node."""
    a = n.weighted("CONV_2D", x, (CHANNELS, 1, 1, 3), (1, 4, 4, CHANNELS), "RELU")
    b = n.node("TRANSPOSE", [a, n.numbers([0, 3, 1, 2])], (1, CHANNELS, 4, 4))
    c = n.node("RESHAPE", [b, n.numbers([1, 16 * CHANNELS])], (1, 16 * CHANNELS))
    return n.weighted("FULLY_CONNECTED", c, (4, 16 * CHANNELS), (1, 4))


def gated(n, x, _):
    """Squeeze and excitation: the gate is not scaled."""
    image = (1, 4, 4, CHANNELS)
    a = n.weighted("CONV_2D", x, (CHANNELS, 1, 1, 3), image, "RELU")
    b = n.node("MEAN", [a, n.numbers([1, 2])], (1, 1, 1, CHANNELS), keep_dims=True)
    c = n.weighted("CONV_2D", b, (CHANNELS, 1, 1, CHANNELS), (1, 1, 1, CHANNELS))
    d = n.node("MUL", [a, n.node("LOGISTIC", [c], (1, 1, 1, CHANNELS))], image)
    return n.weighted("CONV_2D", d, (4, 1, 1, CHANNELS), (1, 4, 4, 4))


def built(body, activation="RELU"):
    """[int8, float32]"""
    found = []
    for whole in (True, False):
        n = Network(whole)
        x = n.tensor((1, 4, 4, 3))
        y = body(n, x, activation)
        n.builder.inputs([x])
        n.builder.outputs([y])
        found.append(n.builder.build())
    return found


def samples(count, size=1.0):
    rng = np.random.default_rng(1)
    return [[(size * rng.standard_normal((1, 4, 4, 3))).astype(np.float32)] for _ in range(count)]


def equalizer(contents):
    model, reference = Model(contents[0]), widened(contents[1])
    matches = {i: m.reference for i, m in match(model.graph.subgraphs[0], reference.graph.subgraphs[0]).matches.items()}
    requantizer = Requantizer(model)
    return Equalizer(model, reference, matches, dict(counterparts(model, requantizer, reference, matches)), tied(model))


def members(contents):
    return [(sorted(g.writers), sorted(g.readers), g.capped) for g in equalizer(contents).groups]


def test_groups_are_the_nodes_that_share_channels():
    assert members(built(residual)) == [([0, 3], [1, 6], False), ([1], [2], False), ([2], [3], False)]
    assert members(built(residual, "RELU6")) == [([0, 3], [1, 6], False), ([1], [2], True), ([2], [3], True)]
    assert members(built(flattened)) == [([0], [3], False)]
    assert members(built(gated)) == [([0], [2, 5], False)]


def test_channels_that_something_else_reads_are_left_alone():
    def body(last):
        def network(n, x, _):
            a = n.weighted("FULLY_CONNECTED", x, (CHANNELS, 48), (1, CHANNELS))
            return n.weighted("FULLY_CONNECTED", last(n, a), (4, CHANNELS), (1, 4))
        return network
    wide = 1, CHANNELS
    assert members(built(body(lambda n, a: n.node("RELU", [a], wide)))) == [([0], [2], False)]
    for last in (lambda n, a: n.node("LOGISTIC", [a], wide), lambda n, a: n.node("MUL", [a, a], wide),
                 lambda n, a: n.node("SOFTMAX", [a], wide, beta=1.0),
                 lambda n, a: n.node("ADD", [a, n.node("TANH", [a], wide)], wide),
                 lambda n, a: n.node("ADD", [a, a], wide, fused_activation_function="RELU_N1_TO_1"),
                 lambda n, a: n.node("ADD", [a, n.node("REVERSE_V2", [a, n.numbers([1])], wide)], wide)):
        assert members(built(body(last))) == []


def test_channels_that_are_mixed_are_no_group():
    def body(n, x, _):
        a = n.weighted("CONV_2D", x, (CHANNELS, 1, 1, 3), (1, 4, 4, CHANNELS))
        b = n.node("TRANSPOSE", [a, n.numbers([0, 1, 3, 2])], (1, 4, CHANNELS, 4))
        c = n.node("ADD", [a, n.node("RESHAPE", [b, n.numbers([1, 4, 4, CHANNELS])], (1, 4, 4, CHANNELS))],
                   (1, 4, 4, CHANNELS))
        return n.weighted("CONV_2D", c, (4, 1, 1, CHANNELS), (1, 4, 4, 4))
    assert members(built(body)) == []


def test_outputs_of_the_model_are_not_scaled():
    n = Network(True)
    x = n.tensor((1, 4, 4, 3))
    a = n.weighted("CONV_2D", x, (CHANNELS, 1, 1, 3), (1, 4, 4, CHANNELS))
    b = n.weighted("CONV_2D", a, (4, 1, 1, CHANNELS), (1, 4, 4, 4))
    n.builder.inputs([x])
    n.builder.outputs([b, a])
    assert shared(Model(n.builder.build()), {0, 1}) == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("body", "activation"), [(residual, "RELU"), (residual, "RELU6"), (flattened, "RELU"),
                                                  (gated, "RELU")])
def test_the_float_model_computes_the_same(body, activation, method):
    contents = built(body, activation)
    reference, found = widened(contents[1]), equalizer(contents)
    seen = samples(8, 0.2)
    scales = found.scales(seen, 1)[method]
    assert all(np.ptp(scale) > 0.1 for scale in scales.values())
    scaled = found.scaled(scales)
    assert agree(reference, scaled, reference.graph.subgraphs[0].outputs, seen, 1)
    inner = [reference.graph.subgraphs[0].operators[0].outputs[0]]
    assert not agree(reference, scaled, inner, seen, 1)


def test_channels_below_a_cap_come_up_to_it_and_no_further():
    found = equalizer(built(residual, "RELU6"))
    seen = samples(8, 0.2)
    for method, scales in found.scales(seen, 1).items():
        largest = found._magnitudes(seen, 1)
        for number, group in enumerate(found.groups):
            if group.capped:
                assert (scales[number] <= 1).all() and (largest[number] / scales[number] <= CAP * 1.0001).all()
                assert (scales[number][largest[number] >= CAP] == 1).all()
        assert any(g.capped and (s < 1).any() for g, s in zip(found.groups, scales.values(), strict=True)), method


@pytest.fixture(scope="module")
def transformer(tmp_path_factory):
    """(quantized, float) files of a transformer with outlier channels, and its repair."""
    resources.models()
    folder = tmp_path_factory.mktemp("outlying")
    paths = folder / "q.tflite", folder / "f.tflite"
    for path, contents in zip(paths, outlying.pair(), strict=True):
        path.write_bytes(contents)
    return paths, repair(*paths, [[words[None]] for words in outlying.inputs(32, 5)])


def test_outlier_channels_regain_six_decibels_on_unseen_samples(transformer):
    paths, found = transformer
    model, reference = Model(paths[0]), widened(paths[1])
    graph = model.graph.subgraphs[0]
    matches = {i: m.reference for i, m in match(graph, reference.graph.subgraphs[0]).matches.items()}
    unseen = [[words[None]] for words in outlying.inputs(32, 6)]
    judge = Judge(reference, judged(model, reference, matches, tied(model)), unseen, 1)
    assert judge.measure(Model(found.contents)) > judge.measure(model) + 6
    steps = [step for step in found.steps if step.name == "channels equalized"]
    assert steps[0].kept and steps[0].gained_db > 6


def test_litert_computes_the_same_with_scaled_channels(transformer):
    resources.peer()
    _, found = transformer
    few = [[words[None]] for words in outlying.inputs(2, 7)]
    result = agreement.compare_with(Model(found.contents), few, LiteRT(found.contents).results, "litert")
    assert result.equal and result.tensors, result.lines(3)


def test_scaled_channels_that_gain_too_little_are_not_kept(tmp_path, monkeypatch):
    paths = tmp_path / "q.tflite", tmp_path / "f.tflite"
    for path, contents in zip(paths, built(residual), strict=True):
        path.write_bytes(contents)
    found = repair(*paths, samples(16))
    gained = sum(step.gained_db for step in found.steps if step.kept)
    assert found.after_db == pytest.approx(found.before_db + gained)
    assert any(step.name == steps.EQUALIZED and step.kept for step in found.steps)
    with monkeypatch.context() as patch:
        patch.setitem(repair_steps.STEPS, steps.EQUALIZED, lambda _: iter(()))
        without = repair(*paths, samples(16))
    assert found.after_db >= without.after_db + repairer.EQUALIZED_DB
    monkeypatch.setattr(repairer, "EQUALIZED_DB", 100.0)
    refused = repair(*paths, samples(16))
    assert refused.contents == without.contents and refused.after_db == without.after_db
    assert refused.steps[:-1] == without.steps and refused.steps[-1].name == steps.EQUALIZED
    assert not refused.steps[-1].kept
    assert refused.steps[-1].gained_db == pytest.approx(found.after_db - without.after_db)
