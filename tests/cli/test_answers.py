"""`pylite run`: useful answers for segmenters and for classifiers without names; inputs without meaning are refused."""
import numpy as np
import pytest

from pylite import cli
from pylite.media import models
from pylite.schema.builder import ModelBuilder


def segmenter(folder, scores):
    """A model whose output is (1, 16, 16) of classes, or (1, 16, 16, 3) of their scores: the left half is class 2."""
    m = ModelBuilder()
    classes = np.zeros((1, 16, 16), np.int32)
    classes[:, :, :8] = 2
    array = (classes[..., None] == np.arange(3)).astype(np.float32) if scores else classes
    m.inputs([m.tensor("image", (1, 8, 8, 1))])
    m.outputs([m.constant("classes", array)])
    path = folder / "segmenter.tflite"
    path.write_bytes(m.build())
    return path


@pytest.mark.parametrize("scores", [False, True])
def test_segmenters_give_classes_by_area(tmp_path, capsys, scores):
    path, labels = segmenter(tmp_path, scores), tmp_path / "labels.txt"
    labels.write_text("sky\nroad\ntree\n")
    assert cli.main(["run", str(path), "--input", "seven", "--labels", str(labels)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:4] == [["area", "class", "label"], ["50.0%", "0", "sky"], ["50.0%", "2", "tree"]]
    assert cli.main(["run", str(path), str(models.sample("seven")), "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split(",")[2:6] == ["1", "0", "", "0.5"]


def test_classes_without_names_are_ranked_for_a_picture(tmp_path, capsys):
    m = ModelBuilder()
    m.inputs([m.tensor("image", (1, 8, 8, 1))])
    m.outputs([m.constant("scores", np.arange(200, dtype=np.float32)[None] % 77)])
    (tmp_path / "plain.tflite").write_bytes(m.build())
    assert cli.main(["run", str(tmp_path / "plain.tflite"), "--input", "seven"]) == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()[1:4]] == [
        ["rank", "score", "class"], ["1", "76.0000", "76"], ["2", "76.0000", "153"]]


def test_inputs_that_are_no_numbers_are_refused(tmp_path, capsys):
    array = np.zeros((1, 8, 8, 1), np.float32)
    array[0, 3, 4, 0] = np.nan
    np.save(tmp_path / "nan.npy", array)
    assert cli.main(["run", "digits", "--input", str(tmp_path / "nan.npy")]) == 2
    assert "1 numbers that are NaN or infinite, the first at [0, 3, 4, 0]" in capsys.readouterr().err
