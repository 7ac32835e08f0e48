"""Saturation counts as a fault where a result changes, and not where none does."""
import numpy as np
import pytest

from pylite import Model, validation
from pylite.schema.builder import ModelBuilder
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison

CLASSES, NARROW = 4, 3       # times as wide as the logits' range would have to be


def classifier(dtype, last, reach):
    """Logits of up to `reach`, each the input times it, quantized to a third of that, and perhaps a SOFTMAX."""
    m, whole = ModelBuilder(), dtype == "int8"

    def grid(step, zero_point=0):
        return {"scale": step, "zero_point": zero_point} if whole else {}
    x = m.tensor("x", (1, CLASSES), dtype, **grid(1 / 127))
    y = m.tensor("logits", (1, CLASSES), dtype, **grid(reach / NARROW / 127))
    w = np.eye(CLASSES) * (127 if whole else reach)
    step = reach / 127
    w = m.constant("w", w.astype(np.int8 if whole else np.float32), **grid(step))
    b = m.constant("b", np.zeros(CLASSES, np.int32 if whole else np.float32), **grid(step / 127))
    m.operator("FULLY_CONNECTED", [x, w, b], [y])
    if last == "SOFTMAX":
        probabilities = m.tensor("probabilities", (1, CLASSES), dtype, **grid(1 / 256, -128))
        m.operator("SOFTMAX", [y], [probabilities], beta=1.0)
        y = probabilities
    m.inputs([x])
    m.outputs([y])
    return m.build()


def one_class(number):
    """The input whose class is `number`, by far."""
    return np.where(np.arange(CLASSES) == number % CLASSES, 1, -1).astype(np.float32)[None]


def compared(last, reach, samples):
    comparison = Comparison(*(Model(classifier(dtype, last, reach)) for dtype in ("int8", "float32")))
    for sample in samples:
        comparison.add([sample])
    return analyse(comparison)


def test_logits_that_saturate_without_a_change_of_the_probabilities_are_no_fault():
    report = compared("SOFTMAX", 60.0, map(one_class, range(8)))
    assert report.by_node(0).saturated_high > 0 and report.by_node(0).cause is None
    assert report.first_divergence is None and report.verdict["level"] == "good"
    assert any("node 0 (FULLY_CONNECTED): 100.00% of the values saturate, which does no harm" in note
               for note in report.notes)


def test_logits_whose_saturation_changes_the_probabilities_are_a_fault():
    """Two classes beyond the range become equally probable."""
    samples = [np.roll(np.float32([[1, 0.5, -1, -1]]), k) for k in range(8)]
    report = compared("SOFTMAX", 60.0, samples)
    assert report.by_node(0).cause == "range too narrow" and report.first_divergence == 0
    assert report.notes == []


@pytest.mark.parametrize("second", [-1.0, 0.9])
def test_logits_at_the_end_are_a_fault_unless_no_class_changes(tmp_path, second):
    """second: the next best logit; 0.9 saturates as the best one does, and comes before it in half of the samples."""
    for dtype in ("int8", "float32"):
        (tmp_path / f"{dtype}.tflite").write_bytes(classifier(dtype, None, 60.0))
    samples = [np.roll(np.float32([1, second, -1, -1]), k % CLASSES) for k in range(8)]
    np.savez(tmp_path / "data.npz", images=np.stack(samples), labels=np.argmax(samples, 1))
    pair = tmp_path / "int8.tflite", tmp_path / "float32.tflite", tmp_path / "data.npz"
    found = validation.compare(*pair, accuracy=validation.Settings("classification"))
    harmless = second < 0
    assert (found.by_node(0).cause is None) == harmless == (found.first_divergence is None)
    assert any("the class of no sample changes" in note for note in found.notes) == harmless
    assert validation.compare(*pair).by_node(0).cause == "range too narrow"     # classes are not known


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_probability_of_1_that_the_grid_has_no_level_for_is_not_saturated(value):
    report = compared("SOFTMAX", 12.0, [one_class(k) * (1 - value) + value for k in range(4)])
    assert report.by_node(1).saturated_high == report.by_node(1).saturated_low == 0
