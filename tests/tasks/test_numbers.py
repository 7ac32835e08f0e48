"""Numbers and labels that a task is given: each must mean something."""
import io

import numpy as np
import pytest

from pylite import cli
from pylite.errors import TensorError
from pylite.media import labels, models
from pylite.schema.builder import ModelBuilder
from pylite.tasks import FaceDetector, ImageClassifier, ImageSegmenter, ObjectDetector

NO_NUMBERS = ["nan", "inf", "-inf", "1e39"]      # the last one is infinite as float32
DETECTOR = models.path("digit-detector")


@pytest.mark.parametrize("name", ["mean", "std"])
@pytest.mark.parametrize("given", [*map(float, NO_NUMBERS), [127.5, float("nan"), 127.5]])
def test_scalings_are_finite(name, given):
    words = "1e\\+39" if given == 1e39 else "nan" if isinstance(given, list) else given
    with pytest.raises(ValueError, match=f"{name} (is {words}; expected a finite|has 3)"):
        ImageClassifier("digits", **{name: given})


@pytest.mark.parametrize("given", [0, 0.0, 1e-50])
def test_pixels_are_divided_by_a_number(given):
    with pytest.raises(ValueError, match=f"std is {given:g}; pixels are divided by it"):
        ImageClassifier("digits", std=given)


@pytest.mark.parametrize("option", ["--mean", "--std"])
@pytest.mark.parametrize("given", NO_NUMBERS)
@pytest.mark.parametrize("command", [["run", "digits", "-i", "seven"], ["validate", "digits", "--data", "."]])
def test_scalings_in_the_shell_are_finite(capsys, command, option, given):
    with pytest.raises(SystemExit):
        cli.main([*command, f"{option}={given}"])
    assert f"{option}: '{given}' is not a finite number" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["run", "digits", "-i", "seven"], ["validate", "digits", "--data", "."]])
@pytest.mark.parametrize("given", ["nan", "0", "-1", "2000000000", "16k"])
def test_rates_in_the_shell(capsys, command, given):
    with pytest.raises(SystemExit):
        cli.main([*command, f"--rate={given}"])
    assert f"--rate: '{given}' is not a whole number of samples per second" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--min-sqnr=nan", "--max-drop=nan%", "--fail-on=excess=nan", "--fail-on=rmse=nan%",
                                    "--target=nandB"])
def test_a_limit_that_nothing_can_pass_or_fail(capsys, option):
    """Every comparison with NaN is false: such a check would always pass."""
    with pytest.raises(SystemExit):
        cli.main(["validate", "digits", "--reference", "digits", "--data", ".", option])
    assert " is not " in capsys.readouterr().err


THRESHOLDS = [(name, *case) for name in ("score_threshold", "iou_threshold")
              for case in ((float("nan"), ValueError), (float("inf"), ValueError), ("0.5", TypeError))]


@pytest.mark.parametrize(("task", "model"), [(ObjectDetector, DETECTOR), (FaceDetector, "digits")])
@pytest.mark.parametrize(("name", "given", "kind"), [
    *THRESHOLDS, ("max_results", 1.5, TypeError), ("max_results", 0, ValueError)])
def test_thresholds_and_counts(task, model, name, given, kind):
    with pytest.raises(kind, match=f"{name} is {given!r}; "):
        task(model, **{name: given})


# ---- labels ----

@pytest.mark.parametrize(("given", "words"), [
    ({"7": "sieben"}, "the keys of labels are numbers of classes, such as 7, not '7'"),
    ({7: 7}, "labels holds 7; names must be strings")])
def test_labels_of_a_dictionary(given, words):
    """JSON gives the first kind."""
    with pytest.raises(TypeError, match=words):
        ImageClassifier("digits", labels=given)


def test_a_list_of_labels_that_lost_a_line(tmp_path, capsys):
    (tmp_path / "nine.txt").write_text("\n".join("abcdefghi"))
    for given in list("abcdefghi"), tmp_path / "nine.txt":
        with pytest.raises(ValueError, match="has 9 names, and the model 10 classes; give a name for each"):
            ImageClassifier("digits", labels=given)
    assert cli.main(["run", "digits", "-i", "seven", "--labels", str(tmp_path / "nine.txt")]) == 2
    assert "nine.txt: has 9 names, and the model gives 10 classes; give a name for" in capsys.readouterr().err


def test_a_dictionary_of_labels_keeps_its_numbers():
    """Nine names for ten classes: the tenth has none."""
    found = ImageClassifier("digits", labels=dict(enumerate("abcdefghi"))).classify("seven")
    assert (found.categories[0].index, found.categories[0].category_name) == (7, "h")


def scores_of(shape):
    m = ModelBuilder()
    x = m.tensor("image", (1, 8, 8, 3))
    m.inputs([x])
    m.outputs([m.constant("y", np.zeros(shape, np.float32))])
    return m.build()


def test_lists_without_the_background(tmp_path, capsys):
    """Of ImageNet's and Pascal VOC's classes, which models have with and without it."""
    found = ImageClassifier(scores_of((1, 1001)), labels=[f"class {i}" for i in range(1000)], max_results=2)
    assert [c.category_name for c in found.classify(np.zeros((8, 8), np.uint8)).categories] == ["background", "class 0"]
    areas = ImageSegmenter(scores_of((1, 4, 4, 21)), labels=[f"class {i}" for i in range(20)])
    assert areas.segment(np.zeros((8, 8), np.uint8)).labels[1] == "class 0"
    with pytest.raises(ValueError, match="labels has 4 names, and the model 5 classes"):
        ImageSegmenter(scores_of((1, 4, 4, 5)), labels=list("abcd"))
    (tmp_path / "m.tflite").write_bytes(scores_of((1, 8, 8, 5)))
    (tmp_path / "four.txt").write_text("a\nb\nc\nd")
    assert cli.main(["run", str(tmp_path / "m.tflite"), "-i", "seven", "--labels", str(tmp_path / "four.txt")]) == 2
    assert "has 4 names, and the model gives 5 classes" in capsys.readouterr().err
    assert labels.complete(dict.fromkeys(range(1000), "x"), 1001) and not labels.complete({0: "x"}, 2)


# ---- pictures ----

def test_a_photo_of_a_phone_is_turned_upright(tmp_path):
    """Its path and the Pillow image are the same picture."""
    image = pytest.importorskip("PIL.Image")
    picture = image.open(models.sample("seven")).rotate(90, expand=True)
    exif = picture.getexif()
    exif[0x112] = 6         # to be turned by 90 degrees clockwise
    picture.save(tmp_path / "photo.png", exif=exif)
    classifier = ImageClassifier("digits")
    assert classifier.classify(tmp_path / "photo.png") == classifier.classify("seven")
    assert classifier.classify(image.open(tmp_path / "photo.png")) == classifier.classify("seven")


@pytest.mark.parametrize(("given", "cure"), [
    (np.zeros((1, 8, 8, 1), np.uint8), "; give picture[0]"),
    (np.zeros((3, 9, 8), np.uint8), "picture.transpose(1, 2, 0)"),
    (np.zeros((1, 8, 8, 1), np.float32), "; give (255 * picture[0]).astype(numpy.uint8)"),
    (np.ones((9, 8), np.float32), "; give (255 * picture).astype(numpy.uint8)"),
    (np.zeros((2, 8, 8, 3), np.uint8), "a call takes one picture, such as picture[0]"),
    (np.full((9, 8), 200, np.float32), "; give picture.astype(numpy.uint8)"),
    (np.full((9, 8), 60000, np.uint16), "; give (picture / 257).astype(numpy.uint8)"),
    (np.full((9, 8), 60000, np.int32), "4)"), (np.full((9, 8), -1, np.float32), "itself: give them as 0 to 255"),
    (io.BytesIO(), "; of an open file give PIL.Image.open(file)"), (np.zeros((9, 8, 2), np.uint8), "4)")])
def test_an_array_that_is_no_picture_is_told_the_cure(given, cure):
    with pytest.raises(TensorError) as caught:
        ImageClassifier("digits").classify(given)
    assert str(caught.value).endswith(cure)
