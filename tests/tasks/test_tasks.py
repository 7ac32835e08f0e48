"""pylite.tasks: real models give what a plain statement with an Interpreter gives; metadata; arguments; errors."""
import inspect
import io
import sys
import wave
import zipfile

import numpy as np
import pytest

import pylite
from pylite import tasks
from pylite.errors import FileFormatError, ModelError, TensorError
from pylite.media import audio, images, labels, models
from pylite.runtime.model import Model
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.tasks import (
    AudioClassifier,
    BoundingBox,
    Embedding,
    ImageClassifier,
    ImageEmbedder,
    ImageSegmenter,
    ObjectDetector,
    PoseEstimator,
    TextEmbedder,
    image_task,
)
from tests.tools import resources
from tests.tools.plans import planned
from tests.tools.small_models import int16_window

PICTURE = np.random.default_rng(7).integers(0, 256, (60, 80, 3), np.uint8)


def real(name):
    return resources.models() / name


def plain(path, *arrays):
    """The outputs of a model, by an Interpreter alone."""
    run = pylite.Interpreter(str(path))
    run.allocate_tensors()
    for detail, array in zip(run.get_input_details(), arrays, strict=True):
        run.set_tensor(detail["index"], array)
    run.invoke()
    return [run.get_tensor(detail["index"]) for detail in run.get_output_details()]


def resized(size):
    return images.resize(PICTURE, size, size)[None]


# ---- plans ----

def test_a_task_finds_the_plan_of_an_earlier_one(tmp_path, monkeypatch):
    """In the user's cache folder, unless PYLITE_CACHE_DIR names another one or none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    model = read(models.path("digits").read_bytes())
    model.description = "a file that no other test has open, whose program would be shared"
    digits, picture = tmp_path / "digits.tflite", PICTURE[:, :60]
    digits.write_bytes(write(model))
    alone = ImageClassifier(digits).classify(picture)
    assert not (tmp_path / "cache").exists()        # tests/conftest.py sets the variable to nothing
    monkeypatch.delenv("PYLITE_CACHE_DIR")
    for source in digits, digits.read_bytes(), digits:
        task = ImageClassifier(source)
        assert task.classify(picture) == alone
        assert len(list((tmp_path / "cache" / "pylite").glob("*.plan"))) == 1
    assert planned(task.interpreter)
    assert not planned(ImageClassifier(pylite.Model(digits)).interpreter)


# ---- real models ----

def test_image_classifier():
    path = real("test_data/mobilenet_v2_1.0_224_quant.tflite")
    scores = plain(path, resized(224))[0][0] / np.float32(256)
    names = zipfile.ZipFile(path).read("imagenet_labels.txt").decode().splitlines()
    best = np.argsort(-scores, kind="stable")[:4]
    found = ImageClassifier(path, max_results=4).classify(PICTURE)
    assert [(c.index, c.score, c.category_name) for c in found.categories] == [
        (i, scores[i], names[i]) for i in best]
    assert found.classifications[0].head_name == "probability"


def test_image_classifier_normalizes_for_floats():
    path = real("tflite2onnx/assets/tests/mobilenet_v1_0.25_128.tflite")
    for arguments, mean, std in (({}, 127.5, 127.5), ({"mean": 100, "std": [50, 60, 70]}, 100, [50, 60, 70])):
        scores = plain(path, ((resized(128) - np.float32(mean)) / np.float32(std)).astype(np.float32))[0][0]
        best = ImageClassifier(path, max_results=1, **arguments).classify(PICTURE).categories[0]
        assert (best.index, best.score) == (scores.argmax(), scores.max())


def test_object_detector():
    path = real("go-tflite/_example/ssd/detect.tflite")
    boxes, classes, scores, count = plain(path, resized(300))
    found = ObjectDetector(path, score_threshold=0.1, labels=[f"thing {i}" for i in range(90)]).detect(PICTURE)
    kept = [i for i in range(int(count[0])) if scores[0, i] >= 0.1]
    assert len(found) == len(kept) > 0
    for detection, i in zip(found, sorted(kept, key=lambda i: -scores[0, i]), strict=True):
        top, left, bottom, right = (boxes[0, i].clip(0, 1).astype(np.float64) * [60, 80, 60, 80]).round().astype(int)
        assert detection.bounding_box == BoundingBox(left, top, right - left, bottom - top)
        category = detection.categories[0]
        assert (category.index, category.score) == (classes[0, i], scores[0, i])
        assert category.category_name == f"thing {int(classes[0, i])}"


def test_the_detector_of_digits_finds_them():
    scene = np.zeros((96, 96), np.uint8)
    scene[30:62, 20:52] = images.resize(images.read(models.sample("seven")), 32, 32)[:, :, 0]
    best = ObjectDetector(models.path("digit-detector"), max_results=1).detect(scene)[0]
    assert best.categories[0].category_name == "seven"
    box = best.bounding_box
    assert box.origin_x <= 36 <= box.origin_x + box.width and box.origin_y <= 46 <= box.origin_y + box.height


def test_segmenter_of_classes():
    path = real("test_data/deeplabv3_mnv2_dm05_pascal_quant.tflite")
    found = ImageSegmenter(path, labels={0: "background"}).segment(PICTURE)
    np.testing.assert_array_equal(found.category_mask, plain(path, resized(513))[0][0])
    assert found.category_mask.dtype == np.uint8 and found.confidence_masks is None
    assert found.labels == {0: "background"}


def test_segmenter_of_scores():
    path = real("keras/unet_transpose_128_float32.tflite")
    scores = plain(path, (resized(128).astype(np.float32) - np.float32(127.5)) / np.float32(127.5))[0][0]
    found = ImageSegmenter(path).segment(PICTURE)
    np.testing.assert_array_equal(found.category_mask, scores.argmax(2))
    np.testing.assert_array_equal(found.confidence_masks, scores.transpose(2, 0, 1))


def test_pose_estimator():
    path = real("test_data/movenet_single_pose_lightning_ptq.tflite")
    points = plain(path, resized(192))[0][0, 0].astype(np.float64)
    found = PoseEstimator(path).estimate(PICTURE)
    assert [(p.x, p.y, p.score) for p in found.keypoints] == [(x * 80, y * 60, s) for y, x, s in points.tolist()]
    assert found.keypoints[0].name == "nose" and found.keypoints[16].name == "right ankle"
    least = float(np.median(points[:, 2]))
    some = PoseEstimator(path, score_threshold=least).estimate(PICTURE)
    assert len(some.keypoints) == (points[:, 2] >= least).sum()
    assert some.score == pytest.approx(points[points[:, 2] >= least, 2].mean())
    assert PoseEstimator(path, score_threshold=1).estimate(PICTURE).score == 0


def test_texts_of_a_model_that_are_far_too_long(tmp_path):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.txt", "a\n" * (labels.MOST_LINES + 1))
    long = Model(int16_window() + packed.getvalue())
    assert labels.attached(long) == []
    with pytest.raises(FileFormatError, match=f"a text of {labels.MOST_LINES + 1} lines"):
        labels.parse(labels.Files(long).text("labels.txt"))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "ab":
            archive.writestr(f"{name}.txt", bytes(labels.LARGEST // 2 + 1))
    files = labels.Files(Model(int16_window() + packed.getvalue()))
    files.text("a.txt")
    with pytest.raises(ModelError, match=f"up to 'b.txt', have more than {labels.LARGEST} bytes"):
        files.text("b.txt")


def test_audio_classifier(tmp_path):
    path = real("flutter-tflite/example/audio_classification/assets/models/yamnet.tflite")
    stereo = (np.random.default_rng(0).standard_normal((40000, 2)) * 3000).astype("<i2")
    with wave.open(str(tmp_path / "noise.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(22050)
        file.writeframes(stereo.tobytes())
    classifier = AudioClassifier(path, max_results=2)
    assert (classifier.sample_rate, classifier.window_size) == (16000, 15600)
    samples = audio.resample(*audio.read(tmp_path / "noise.wav"), 16000)
    names = zipfile.ZipFile(path).read("yamnet_label_list.txt").decode().splitlines()
    found = classifier.classify(tmp_path / "noise.wav").classifications
    assert len(found) == 2 and [c.timestamp for c in found] == [0, 15600 / 16000]
    for i, window in enumerate(found):
        piece = samples[i * 15600:(i + 1) * 15600]
        scores = plain(path, np.pad(piece, (0, 15600 - len(piece))))[0][0]
        assert [(c.index, c.score, c.category_name) for c in window.categories] == [
            (k, scores[k], names[k]) for k in np.argsort(-scores, kind="stable")[:2]]
    of_array = classifier.classify(stereo, sample_rate=22050)
    assert [c.index for c in of_array.categories] == [c.index for c in found[0].categories]
    buffer = classifier.create_input_tensor_audio()
    for begin in range(0, len(samples), 1600):      # as a microphone delivers them
        buffer.load_from_array(samples[begin:begin + 1600])
    last = classifier.classify(buffer)
    assert len(last.classifications) == 1
    np.testing.assert_array_equal(buffer.buffer, samples[-15600:])
    assert last.categories[0].score == plain(path, samples[-15600:])[0][0].max()
    buffer.clear()
    assert classifier.classify(buffer).categories[0].category_name == "Silence"


def test_text_embedder():
    path = real("keras/transformer_block_64_float32.tflite")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "cafe", "play", "##ing", ",", "un", "##play", "##able"]
    ids = np.zeros((1, 64), np.int32)
    ids[0, :9] = [2, 4, 7, 5, 6, 8, 9, 10, 3]
    want = plain(path, ids)[0][0]
    embedder = TextEmbedder(path, vocabulary=words)
    found = embedder.embed("Café, playing\tunplayable")
    np.testing.assert_array_equal(found.feature_vector, want)
    unit = want / np.linalg.norm(want)
    np.testing.assert_allclose(TextEmbedder(path, vocabulary=words, l2_normalize=True).embed(
        "café, playing unplayable").feature_vector, unit, rtol=1e-6)
    small = TextEmbedder(path, vocabulary=words, quantize=True).embed("café, playing unplayable").feature_vector
    assert small.dtype == np.int8
    np.testing.assert_array_equal(small, (unit * 127).round())
    assert TextEmbedder.cosine_similarity(found, found) == pytest.approx(1)
    long = embedder.embed("play " * 500).feature_vector
    ids[0] = [2] + [5] * 62 + [3]
    np.testing.assert_array_equal(long, plain(path, ids)[0][0])


# ---- pictures ----

def test_kinds_of_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    images.write(tmp_path / "a.ppm", PICTURE)
    for given_image in (tmp_path / "a.ppm", str(tmp_path / "a.ppm"), image.fromarray(PICTURE),
                        image.fromarray(np.dstack([PICTURE, np.full((60, 80), 255, np.uint8)]))):
        np.testing.assert_array_equal(image_task.pixels_of(given_image), PICTURE)
    np.testing.assert_array_equal(image_task.pixels_of(PICTURE[:, :, ::-1], "BGR"), PICTURE)
    blue_first = np.dstack([PICTURE[:, :, ::-1], PICTURE[:, :, :1]])
    np.testing.assert_array_equal(image_task.pixels_of(blue_first, "BGR"), np.dstack([PICTURE, PICTURE[:, :, :1]]))
    grey = PICTURE[:, :, 0]
    np.testing.assert_array_equal(image_task.pixels_of(grey), grey[:, :, None])
    np.testing.assert_array_equal(image_task.pixels_of(image.fromarray(grey)), grey[:, :, None])
    np.testing.assert_array_equal(image_task.pixels_of(grey, "BGR"), grey[:, :, None])


def test_pictures_of_16_bits_become_8(tmp_path):
    image = pytest.importorskip("PIL.Image")
    grey = PICTURE[:, :, 0]
    deep = image.fromarray(grey.astype(np.uint16) * 257)
    deep.save(tmp_path / "deep.png")
    for given in deep, tmp_path / "deep.png":
        np.testing.assert_array_equal(image_task.pixels_of(given), grey[:, :, None])


@pytest.mark.parametrize(("mode", "dtype"), [("F", np.float32), ("I", np.int32)])
def test_pictures_whose_range_is_unknown_are_refused(tmp_path, mode, dtype):
    image = pytest.importorskip("PIL.Image")
    picture = image.fromarray(PICTURE[:, :, 0].astype(dtype))
    picture.save(tmp_path / "wide.tiff")
    with pytest.raises(TensorError, match=f"a picture of mode '{mode}'.*expected 8 or 16 bits. Scale the pixels"):
        image_task.pixels_of(picture)
    with pytest.raises(FileFormatError, match=f"wide.tiff: a picture of mode '{mode}'"):
        images.read(tmp_path / "wide.tiff")


@pytest.mark.parametrize("wrong", [np.zeros((4, 4, 3), np.float32), np.zeros((4, 4, 2), np.uint8),
                                   np.zeros((1, 4, 4, 3), np.uint8), np.zeros((0, 4, 3), np.uint8)])
def test_other_arrays_are_no_pictures(wrong):
    with pytest.raises(TensorError, match="expected uint8"):
        ImageClassifier(models.path("digits")).classify(wrong)


# ---- errors ----

def test_errors_say_what_to_do(tmp_path):
    digits = models.path("digits")
    cases = [
        (lambda: ImageClassifier(digits, max_results=0), ValueError, "at least 1"),
        (lambda: ImageClassifier(digits, category_allowlist=["one"], category_denylist=["two"]), ValueError, "exclude"),
        (lambda: ImageClassifier(digits, category_denylist=["cat"]), ValueError, "no class is called 'cat'"),
        (lambda: ImageClassifier(digits, std=0), ValueError, "std is 0"),
        (lambda: ImageClassifier(digits).classify(PICTURE, channel_order="GRB"), ValueError, "'RGB' or 'BGR'"),
        (lambda: ImageClassifier(digits).classify(tmp_path / "no.ppm"), OSError, "no.ppm"),
        (lambda: ImageClassifier(digits, mean=[1, 2]), ValueError, "mean has 2 numbers"),
        (lambda: ImageClassifier(int16_window(1000)), ModelError, "a picture.*; AudioClassifier takes it"),

        (lambda: ObjectDetector(digits), ModelError, "TFLite_Detection_PostProcess"),
        (lambda: ImageSegmenter(digits).segment(PICTURE), ModelError, "expected \\(1, height, width\\)"),
        (lambda: PoseEstimator(digits).estimate(PICTURE), ModelError, r"\[1, 1, 17, 3\]"),
        (lambda: AudioClassifier(digits), ModelError, "a window of samples"),
        (lambda: AudioClassifier(int16_window()), ValueError, "give sample_rate"),
        (lambda: TextEmbedder(digits), ModelError, "expected a text"),
        (lambda: TextEmbedder(int16_window()), ModelError, "give vocabulary: the path of the vocab.txt"),
        (lambda: TextEmbedder(int16_window(), vocabulary=["a"]), ValueError, r"\[UNK\]"),
        (lambda: TextEmbedder(int16_window(2), vocabulary=["[UNK]", "[CLS]", "[SEP]"]).embed("a"), ModelError,
         r"no room for a piece of the text between \[CLS\] and \[SEP\]"),
        (lambda: TextEmbedder.cosine_similarity(Embedding(np.ones(3)), Embedding(np.ones(2))), ValueError, "3 and 2"),
        (lambda: ImageEmbedder.cosine_similarity(Embedding(np.ones(2)), Embedding(np.zeros(2))), ValueError, "zeros"),
    ]
    for run, kind, says in cases:
        with pytest.raises(kind, match=says):
            run()
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(FileFormatError):
        ImageClassifier(digits, labels=tmp_path / "labels.txt")


def test_two_inputs_are_not_one_picture():
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (1, 2, 2, 3)) for name in "xyz")
    m.operator("ADD", [x, y], [z])
    m.inputs([x, y])
    m.outputs([z])
    with pytest.raises(ModelError, match="2 inputs"):
        ImageClassifier(m.build())


def test_tasks_are_imported_on_demand():
    import subprocess
    code = "import sys, pylite, pylite.tasks; print([m for m in sys.modules if m.startswith('pylite.tasks.')])"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    import pylite.tasks
    assert set(pylite.tasks.__all__) <= set(dir(pylite.tasks))
    assert ImageClassifier.create_from_file(models.path("digits"), max_results=1).classify(
        models.sample("two")).categories[0].category_name == "two"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = pylite.tasks.Nothing


def test_bundled_models_and_samples_are_known_by_name(tmp_path, monkeypatch):
    """As in the shell; a file of the name comes first."""
    monkeypatch.chdir(tmp_path)
    assert pylite.tasks.ImageClassifier("digits").classify("seven").categories[0].category_name == "seven"
    (tmp_path / "digits").write_bytes(models.path("digit-detector").read_bytes())
    assert pylite.tasks.ObjectDetector("digits").detect("seven") is not None
    (tmp_path / "digits").unlink()
    assert pylite.tasks.ImageClassifier("digits").classify("two").categories[0].category_name == "two"


def test_a_path_that_is_not_like_a_bundled_name_gets_no_hint(tmp_path):
    (tmp_path / "digits").write_bytes(b"")
    assert [models.hint(source) for source in ("detect.tflite", "yolo11n.tflite", b"digits", None, 3,
                                               tmp_path / "digits")] == [""] * 6
    assert models.hint(tmp_path / "digts") == ""
    assert "'digits'" in models.hint("digts.tflite")


def test_a_list_of_results_prints_as_text():
    """And is a list: in a notebook, a shell and a program that prints it."""
    scene = np.zeros((96, 96), np.uint8)
    scene[30:62, 20:52] = images.resize(images.read(models.sample("seven")), 32, 32)[:, :, 0]
    found = ObjectDetector("digit-detector", max_results=2).detect(scene)
    assert isinstance(found, list)
    assert found == list(found)
    assert str(found) == repr(found) == "\n".join(map(str, found))
    assert str(found).startswith("seven 0.")
    assert found._repr_html_() == f"<pre>{found}</pre>"
    none = ObjectDetector("digit-detector", score_threshold=1.0).detect(scene)
    assert (none, str(none)) == ([], "nothing reaches the threshold")


def test_notebooks_show_the_text_of_results():
    result = pylite.tasks.ImageClassifier("digits", labels=[f"<{n}>" for n in range(10)]).classify("seven")
    assert result._repr_html_() == f"<pre>{str(result).replace('<', '&lt;').replace('>', '&gt;')}</pre>"
    for name in ("Category", "Classifications", "BoundingBox", "Detection", "Segmentation", "Keypoint", "Pose",
                 "Embedding"):
        kind = getattr(pylite.tasks, name)
        assert kind._repr_html_ and "__str__" in vars(kind)


@pytest.mark.parametrize("name", [n for n in tasks.__all__ if hasattr(getattr(tasks, n), "create_from_options")])
def test_help_describes_each_argument(name):
    task = getattr(tasks, name)
    described = inspect.getdoc(task).partition("\nArguments:\n")[2].splitlines()
    assert [line.split(":")[0].strip() for line in described] == list(inspect.signature(task).parameters)
    assert all(line.split(":", 1)[1].strip() for line in described)


def test_the_sounds_of_the_bundled_model_are_not_called_a_picture():
    with pytest.raises(ModelError) as caught:
        AudioClassifier("sounds")
    assert "ImageClassifier" not in str(caught.value)


def test_modules_of_media_are_listed_once():
    assert "images" in dir(pylite.media) and len(dir(pylite.media)) == len({*dir(pylite.media)})
    assert not [name for name in dir(pylite.media) if name.startswith("_") or name == "importlib"]
