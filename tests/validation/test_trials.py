"""The node to blame is the one that costs the outputs most, and not the one with the most noise."""
import numpy as np

from pylite import validation
from pylite.media import models
from tests.validation.planted import Editor
from tests.validation.test_causes import CHANNELS
from tests.validation.test_differences import chain

PICTURES, SCALE = str(models.sample("seven").parent), {"mean": [0], "std": [255]}


def saved(tmp_path, contents):
    (tmp_path / "model.tflite").write_bytes(contents)
    return tmp_path / "model.tflite"


def test_what_costs_the_output_is_blamed_and_not_what_has_the_most_noise(tmp_path):
    """The logits of a classifier saturate, which its softmax hides; some filters are too large."""
    editor = Editor(models.path("digits").read_bytes())
    logits = editor.subgraph.operators[8].outputs[0]
    editor.set_scale(logits, editor.scale(logits) / 4)
    index = editor.own(4, 1)
    editor.set_scale(index, editor.scale(index) * np.where(np.arange(editor.scale(index).size) < 6, 1.5, 1))
    found = validation.compare(saved(tmp_path, editor.written()), "digits", PICTURES, **SCALE)
    assert found.ranking[0] == 8 and max(found.regained, key=found.regained.get) == 4
    assert "Most noise comes from node 4 (DEPTHWISE_CONV_2D), without which the SQNR is " in found.verdict["text"]


def test_operands_are_put_right_where_nodes_are_tried(tmp_path):
    (tmp_path / "float.tflite").write_bytes(chain("float32"))
    samples = [[x.astype(np.float32)] for x in np.random.default_rng(1).uniform(-1, 1, (8, 1, CHANNELS))]
    found = validation.compare(saved(tmp_path, chain("int8", order=(1, 0))), tmp_path / "float.tflite", samples)
    assert found.regained[2] > 10
    assert "Most noise comes from node 2 (CONCATENATION)" in found.verdict["text"]


def test_a_good_model_is_not_tried():
    assert validation.compare("digits", "digits", PICTURES, **SCALE).regained == {}
