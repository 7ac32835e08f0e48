"""The node whose range is wrong comes before those that suffer from it; a cause says what calibrating cannot mend."""
import numpy as np
import pytest

from pylite import Model
from pylite.schema.builder import ModelBuilder
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from pylite.validation.ranking import causes_first
from tests.validation.planted import Editor

SCALES = 1 / 127, 0.04, 0.2        # of the activations of layers()
CHANNELS = 16


def layers(dtype, reader):
    """A layer, and one that reads its result: another layer with a bias, or RESHAPE."""
    rng, m, whole = np.random.default_rng(0), ModelBuilder(), dtype == "int8"
    x = first = m.tensor("x", (1, CHANNELS), dtype, **({"scale": SCALES[0]} if whole else {}))
    for k in range(2):
        weights, bias = rng.normal(0, 0.3, (CHANNELS, CHANNELS)), rng.normal(0, 1 + 7 * k, CHANNELS)
        step = np.abs(weights).max() / 127
        scale = SCALES[1] if reader == "RESHAPE" else SCALES[k + 1]
        y = m.tensor(f"y{k}", (1, CHANNELS), dtype, **({"scale": scale} if whole else {}))
        if k and reader == "RESHAPE":
            m.operator("RESHAPE", [x, m.constant("shape", np.array([1, CHANNELS], np.int32))], [y])
        else:
            product = step * SCALES[k]
            if whole:
                weights, bias = np.rint(weights / step).astype(np.int8), np.rint(bias / product).astype(np.int32)
            else:
                weights, bias = weights.astype(np.float32), bias.astype(np.float32)
            w = m.constant(f"w{k}", weights, **({"scale": step} if whole else {}))
            b = m.constant(f"b{k}", bias, **({"scale": product} if whole else {}))
            m.operator("FULLY_CONNECTED", [x, w, b], [y])
        x = y
    m.inputs([first])
    m.outputs([x])
    return m.build()


def compared(contents, reference, shape=(1, CHANNELS), count=8):
    comparison, rng = Comparison(Model(contents), Model(reference)), np.random.default_rng(1)
    for _ in range(count):
        comparison.add([rng.uniform(-1, 1, shape).astype(np.float32) for _ in comparison.subgraph.inputs])
    return analyse(comparison)


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("reader", ["FULLY_CONNECTED", "RESHAPE"])
def test_a_range_too_narrow_is_the_fault_of_its_producer(reader, factor):
    """A scale that is halved, and nothing else: the reader's bias or numbers are then in the old scale."""
    contents, reference = layers("int8", reader), layers("float32", reader)
    assert compared(contents, reference).first_divergence is None
    editor = Editor(contents)
    index = editor.subgraph.operators[0].outputs[0]
    editor.set_scale(index, editor.scale(index) / factor)
    report = compared(editor.written(), reference)
    assert report.by_node(1).excess_db > report.by_node(0).excess_db
    assert report.ranking == [0, 1] and report.by_node(0).cause == "range too narrow"
    assert "node 0" in report.verdict["text"]


def test_a_reader_with_a_fault_of_its_own_keeps_its_place():
    contents, reference = layers("int8", "FULLY_CONNECTED"), layers("float32", "FULLY_CONNECTED")
    editor = Editor(contents)
    index = editor.subgraph.operators[0].outputs[0]
    editor.set_grid(index, editor.scale(index)[0] / 1.5, 0)
    weights = editor.subgraph.operators[1].inputs[1]
    editor.set_scale(weights, editor.scale(weights) * 8)
    report = compared(editor.written(), reference)
    assert report.ranking == [1, 0] and report.by_node(1).cause == "weight scale"


def test_causes_come_before_their_effects_in_any_depth():
    blamed = {3: [2], 2: [1, 5], 4: []}
    assert causes_first([4, 3, 1, 2, 5], lambda node: blamed.get(node, [])) == [4, 1, 5, 2, 3]


@pytest.mark.parametrize(("large", "cause"), [(300.0, "one scale for all operands"), (2.0, None)])
def test_boxes_and_scores_under_one_scale_are_to_be_split(large, cause):
    built = []
    for dtype in ("int8", "float32"):
        m = ModelBuilder()
        grid = {"scale": large / 127} if dtype == "int8" else {}
        a = m.tensor("a", (1, 4), dtype, **({"scale": 1 / 127} if dtype == "int8" else {}))
        b = m.tensor("b", (1, 4), dtype, **grid)
        boxes, y = m.tensor("boxes", (1, 4), dtype, **grid), m.tensor("y", (1, 8), dtype, **grid)
        w = m.constant("w", np.eye(4, dtype=np.int8 if dtype == "int8" else np.float32) * (
            127 if dtype == "int8" else np.float32(large)), **grid)
        step = large / 127 / 127
        bias = m.constant("c", np.zeros(4, np.int32 if dtype == "int8" else np.float32),
                          **({"scale": step} if dtype == "int8" else {}))
        m.operator("FULLY_CONNECTED", [a, w, bias], [boxes])
        m.operator("CONCATENATION", [boxes, b], [y], axis=1)
        m.inputs([a, b])
        m.outputs([y])
        built.append(m.build())
    found = compared(*built, shape=(1, 4)).by_node(1)
    assert found.cause == cause
    if cause:
        assert "'boxes' reaches" in found.detail and "'b'" in found.detail and "Split" in found.remedy
