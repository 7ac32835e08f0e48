"""A task refuses a model that it cannot run, and names the task that takes it."""
import ast
from pathlib import Path

import numpy as np
import pytest

from pylite import tasks
from pylite.errors import ModelError
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from tests.tools import resources, small_models

ALL = ["AudioClassifier", "FaceDetector", "ImageClassifier", "ImageEmbedder", "ImageSegmenter", "ObjectDetector",
       "PoseEstimator", "TextClassifier", "TextEmbedder"]
OPTIONS = {"AudioClassifier": {"sample_rate": 16000}, "TextClassifier": {"vocabulary": ["[UNK]"]},
           "TextEmbedder": {"vocabulary": ["[UNK]"]}}
INPUTS = {"AudioClassifier": np.zeros(16, np.float32), "TextClassifier": "a", "TextEmbedder": "a"}
CALLS = ("classify", "detect", "segment", "estimate", "embed")


def words():
    return small_models.reshape("string", (1, 3), (1, 3))


def picture_of(shape, dtype="float32", out="float32"):
    """A picture of 8 x 8 pixels, and a constant for an output."""
    m = ModelBuilder()
    x = m.tensor("image", (1, 8, 8, 3), dtype)
    m.inputs([x])
    m.outputs([m.constant("y", np.zeros(shape, out))])
    return m.build()


@pytest.mark.parametrize(("task", "model", "words"), [
    ("ImageClassifier", small_models.int16_window(1000),
     "'x' of type int16 and shape [1, 1000]|; AudioClassifier takes it"),
    ("ImageEmbedder", small_models.int16_window(1000), "does not take a picture|; AudioClassifier takes it"),
    ("TextEmbedder", words(), "the model's output 'output' is of strings; expected real numbers"),
    ("TextClassifier", words(), "the model's output 'output' is of strings; expected real numbers"),
    ("AudioClassifier", words(), "expected one input for a window of samples"),
    ("ImageClassifier", words(), "does not take a picture"),
    ("ImageClassifier", picture_of((1, 9, 9, 5)), "[1, 9, 9, 5]|; ImageSegmenter takes it"),
    ("ImageClassifier", picture_of((1, 1, 17, 3)), "; PoseEstimator takes it"),
    ("ImageClassifier", models.path("digit-detector"), "; ObjectDetector takes it"),
    ("PoseEstimator", picture_of((1, 9, 9), out="int64"), "; ImageSegmenter takes it"),
    ("ObjectDetector", models.path("digits"), "; ImageClassifier takes it"),
    ("FaceDetector", models.path("digits"), "; ImageClassifier takes it"),
    ("ImageSegmenter", models.path("digits"), "; ImageClassifier takes it"),
    ("TextEmbedder", models.path("digits"), "; ImageClassifier takes it"),
    ("AudioClassifier", models.path("digits"), "; ImageClassifier takes it")])
def test_the_task_that_fits_is_named(task, model, words):
    with pytest.raises(ModelError) as caught:
        getattr(tasks, task)(model, **OPTIONS.get(task, {}))
    for word in words.split("|"):
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["LiteRT/tflite/testdata/string_input_model.bin", "keras/lstm_tfk_28_int8.tflite",
                                  "test_data/deeplabv3_mnv2_dm05_pascal_quant.tflite",
                                  "test_data/movenet_single_pose_lightning_ptq.tflite",
                                  "flutter-tflite/example/audio_classification/assets/models/yamnet.tflite"])
def test_what_is_refused_could_not_run(name):
    """And a task that is named takes the model."""
    path = resources.models() / name
    picture = np.zeros((9, 9, 3), np.uint8)
    for task in ALL:
        try:
            made = getattr(tasks, task)(path, **OPTIONS.get(task, {}))
        except ModelError as error:
            if str(error).endswith(" takes it"):
                other = str(error).removesuffix(" takes it").rpartition("; ")[2]
                getattr(tasks, other)(path, **OPTIONS.get(other, {}))
        else:
            call = next(getattr(made, call) for call in CALLS if hasattr(made, call))
            call(INPUTS.get(task, picture))


@pytest.mark.parametrize(("name", "size"), [("dense", 16), ("embedding_input", 2000)])
def test_a_row_of_numbers_is_no_window_of_sound(name, size):
    """As hands' landmarks, or the numbers of a text's words: AudioClassifier itself takes them, if asked."""
    m = ModelBuilder()
    x, y = m.tensor(name, (1, size)), m.tensor("y", (1, size))
    m.operator("ABS", [x], [y])
    m.inputs([x])
    m.outputs([y])
    for task in tasks.ImageClassifier, tasks.TextClassifier:
        with pytest.raises(ModelError) as caught:
            task(m.build())
        assert "takes it" not in str(caught.value)
    assert tasks.AudioClassifier(m.build(), sample_rate=16000).window_size == size


def test_models_that_only_look_like_classifiers():
    """A window of a wake word's features, and the points of a hand with two scores."""
    window = ModelBuilder()
    x, y = window.tensor("features", (1, 3, 40)), window.tensor("y", (1, 120))
    window.operator("RESHAPE", [x, window.constant("s", np.array([1, 120], np.int32))], [y])
    window.inputs([x])
    window.outputs([y])
    hand = ModelBuilder()
    picture = hand.tensor("image", (1, 8, 8, 3))
    hand.inputs([picture])
    hand.outputs([hand.constant("points", np.zeros((1, 63), np.float32)),
                  hand.constant("score", np.zeros((1, 1), np.float32))])
    for model in window, hand:
        with pytest.raises(ModelError) as caught:
            tasks.PoseEstimator(model.build())
        assert "takes it" not in str(caught.value)
        tasks.ImageClassifier(model.build())        # if asked


def test_names_of_the_task_library_and_mediapipe():
    detector = tasks.ObjectDetector.create_from_model_path(models.path("digit-detector"))
    found = detector.detect(np.zeros((96, 96), np.uint8))
    assert type(detector) is tasks.ObjectDetector and found.detections is found


@pytest.mark.parametrize("inputs", [0, 1])
@pytest.mark.parametrize("name", [n for n in tasks.__all__ if hasattr(getattr(tasks, n), "create_from_options")])
def test_a_model_without_inputs_or_outputs(name, inputs):
    m = ModelBuilder()
    m.inputs([m.tensor("x", (1, 4))][:inputs])
    m.outputs([])
    with pytest.raises(ModelError, match=f"has {inputs} inputs? and 0 outputs"):
        getattr(tasks, name)(m.build())


def test_options_of_the_task_library():
    options = tasks.ObjectDetectorOptions(
        base_options=tasks.BaseOptions(file_name=models.path("digit-detector"), use_coral=False, num_threads=-1),
        detection_options=tasks.DetectionOptions(max_results=1, score_threshold=0.0, category_name_denylist=["zero"]))
    detector = tasks.ObjectDetector.create_from_options(options)
    image = tasks.TensorImage.create_from_array(np.full((50, 70, 3), 200, np.uint8))
    assert len(detector.detect(image).detections) == 1
    content = models.path("digit-detector").read_bytes()
    base = tasks.BaseOptions(file_content=content, use_coral=True)
    with pytest.raises(ValueError, match=r"libedgetpu\.so\.1"):
        tasks.ObjectDetector.create_from_options(tasks.ObjectDetectorOptions(base_options=base))
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        tasks.ObjectDetector.create_from_options(tasks.ObjectDetectorOptions(model="digit-detector", colour=1))
    with pytest.raises(AttributeError, match="'ObjectDetectoOptions'"):
        tasks.ObjectDetectoOptions      # noqa: B018


def test_the_stub_has_all_names():
    stub = ast.parse((Path(tasks.__file__).parent / "__init__.pyi").read_text())
    names = {alias.asname for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    same = {node.targets[0].id: node.value.id for node in stub.body if isinstance(node, ast.Assign)}
    assert names == set(tasks.__all__)
    for name, other in same.items():
        assert getattr(tasks, name) is getattr(tasks, other)


def test_a_model_of_no_task_gets_no_hint():
    m = ModelBuilder()
    a, b = m.tensor("a", (2, 3)), m.tensor("b", (2, 3))
    m.inputs([a, b])
    m.outputs([a])
    with pytest.raises(ModelError, match=r"the picture$"):
        tasks.ImageClassifier(m.build())


def test_results_and_options_have_the_names_of_the_task_library():
    mask = tasks.SegmentationResult(np.array([[0, 2]], np.uint8), None, {0: "background", 1: "cat", 2: "dog"})
    assert mask.segmentations == [mask]
    assert [(label.category_name, label.color) for label in mask.colored_labels] == [
        ("background", (0, 0, 0)), ("cat", (128, 0, 0)), ("dog", (0, 128, 0))]
    vector = tasks.EmbeddingResult(np.array([3, 4], np.float32))
    assert vector.embeddings[0] is vector
    assert tasks.TextEmbedder.cosine_similarity(vector.feature_vector, vector) == 1
    options = tasks.ImageClassifierOptions(tasks.BaseOptions("m.tflite"), tasks.ClassificationOptions(max_results=2))
    assert options.arguments() == {"model": "m.tflite", "max_results": 2}
    kind = tasks.SegmentationOptions.OutputType.CATEGORY_MASK
    assert kind is tasks.OutputType.CATEGORY_MASK
    assert tasks.ImageSegmenterOptions(tasks.SegmentationOptions(output_type=kind)).arguments() == {}
