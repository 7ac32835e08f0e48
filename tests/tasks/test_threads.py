"""A task that several threads share."""
import threading

import numpy as np
import pytest

from pylite.errors import ExecutionError
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from pylite.tasks import ImageClassifier, ImageEmbedder, ImageSegmenter, task
from tests.tasks.test_yolo import described, model

HALF = 0.3      # seconds that a call without a lock would need less than a hundredth of


def alone(monkeypatch, first, second):
    """The result of first(), when another thread calls second() as soon as the inputs of the first are set."""
    feed, other = task.feed, threading.Thread(target=second)

    def interrupted(*arguments):
        feed(*arguments)
        if threading.current_thread() is not other:
            other.start()
            other.join(HALF)

    with monkeypatch.context() as patched:
        patched.setattr(task, "feed", interrupted)
        found = first()
        other.join()
    return found


def test_a_call_gets_the_answer_to_its_own_picture(monkeypatch):
    classifier = ImageClassifier("digits", max_results=1)
    found = alone(monkeypatch, lambda: classifier.classify("seven"), lambda: classifier.classify("two"))
    assert found.categories[0].category_name == "seven"
    assert classifier.classify(models.sample("two")).categories[0].category_name == "two"


def test_a_call_keeps_the_shape_of_its_own_picture(monkeypatch):
    """Of a model that takes pictures of any size, which a call resizes and allocates."""
    m = ModelBuilder()
    x, y = (m.tensor(name, (1, None, None, 3)) for name in "xy")
    m.operator("ABS", [x], [y])
    m.inputs([x])
    m.outputs([y])
    embedder = ImageEmbedder(m.build(), mean=0, std=1)
    small, large = (np.full((size, size, 3), size, np.uint8) for size in (2, 5))
    found = alone(monkeypatch, lambda: embedder.embed(small), lambda: embedder.embed(large))
    np.testing.assert_array_equal(found.feature_vector, np.full(12, 2))


def test_a_closed_task_runs_no_more():
    with ImageClassifier("digits") as classifier:
        assert classifier.classify("seven").categories[0].category_name == "seven"
    with pytest.raises(ExecutionError, match="is closed"):
        classifier.classify("seven")
    with ImageSegmenter(model([np.zeros((1, 39, 64)), np.zeros((1, 16, 16, 32))], described("segment"))) as segmenter:
        pass
    with pytest.raises(ExecutionError, match="is closed"):
        segmenter.segment(np.zeros((8, 8, 3), np.uint8))
