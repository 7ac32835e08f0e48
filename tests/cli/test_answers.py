"""`pylite run`: useful answers for segmenters and for classifiers without names; inputs without meaning are refused."""
import io
import json
import wave
import zipfile

import numpy as np
import pytest

from pylite import cli
from pylite.cli import _inputs
from pylite.media import metadata, models
from pylite.schema.builder import ModelBuilder
from tests.cli.running import report, run
from tests.tools.model_metadata import file, unit, with_metadata


def test_tensors_without_names(tmp_path, capsys):
    m = ModelBuilder()
    x, y = m.tensor("", (1, 2)), m.tensor("", (1, 2))
    m.operator("ABS", [x], [y])
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "m.tflite").write_bytes(m.build())
    found = run(capsys, tmp_path / "m.tflite", "--zeros")
    assert "no file for input 0: filled with zeros" in found.err
    assert found.out.startswith("(no name)  [1, 2] float32\n")
    assert cli.main(["inspect", str(tmp_path / "m.tflite")]) == 0
    assert "input     0  (no name)  float32[1, 2]" in capsys.readouterr().out


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


def test_numbers_for_many_places_are_no_classes(tmp_path, capsys):
    """(1, n, 1), such as the scores of n anchors."""
    m = ModelBuilder()
    m.inputs([m.tensor("image", (1, 8, 8, 1))])
    m.outputs([m.constant("anchors", np.zeros((1, 200, 1), np.float32)),
               m.constant("classes", np.zeros((1, 200, 1, 1), np.float32))])
    (tmp_path / "m.tflite").write_bytes(m.build())
    assert [one["kind"] for one in report(capsys, tmp_path / "m.tflite", "--input", "seven")["outputs"]] == [
        "tensor", "classes"]


def test_classes_without_names_have_no_column_for_them(tmp_path, capsys):
    path = segmenter(tmp_path, True)
    out = run(capsys, path, "--input", "seven").out
    assert "label\n" not in out and "the model has no names for its classes; --labels FILE gives them" in out
    (tmp_path / "labels.txt").write_text("sky\nroad\ntree\n")
    out = run(capsys, path, "--input", "seven", "--labels", tmp_path / "labels.txt").out
    assert "label\n" in out and "--labels" not in out


def tokens(vocabulary):
    """A model that gives the numbers of six words; its metadata have a vocabulary, or none."""
    m = ModelBuilder()
    x, y = m.tensor("ids", (1, 6), "int32"), m.tensor("y", (1, 6))
    m.operator("CAST", [x], [y])
    m.inputs([x])
    m.outputs([y])
    if not vocabulary:
        return m.build()
    words = unit("BertTokenizerOptions", vocab_file=[file("vocab.txt", metadata.VOCABULARY)])
    return with_metadata(m, inputs=[{"name": "ids"}], units=[words],
                         files={"vocab.txt": "[PAD]\n[CLS]\n[SEP]\n[UNK]\ngood\nfilm\n"})


@pytest.mark.parametrize("as_file", [True, False])
def test_a_text_becomes_the_numbers_of_its_words(tmp_path, capsys, as_file):
    (tmp_path / "m.tflite").write_bytes(tokens(True))
    (tmp_path / "t.txt").write_text("good good film\n")
    [found] = report(capsys, tmp_path / "m.tflite", "--input",
                     tmp_path / "t.txt" if as_file else "good good film")["outputs"]
    assert found["values"] == [1, 4, 4, 5, 2, 0]


def test_a_text_for_a_model_without_a_vocabulary(tmp_path, capsys):
    (tmp_path / "m.tflite").write_bytes(tokens(False))
    assert cli.main(["run", str(tmp_path / "m.tflite"), "--input", "a good film"]) == 2
    assert ("'a good film' is a text, and the model takes numbers: 'ids' (int32[1, 6]); it has no vocabulary to "
            "turn words into them: give --vocabulary FILE" in capsys.readouterr().err)


def test_a_vocabulary_may_be_given(tmp_path, capsys):
    (tmp_path / "m.tflite").write_bytes(tokens(False))
    (tmp_path / "v.txt").write_text("[PAD]\n[CLS]\n[SEP]\n[UNK]\ngood\nfilm\nGood\n")
    for given, *options, ids in (("Good good", [1, 4, 4, 2, 0, 0]), ("good", [1, 4, 2, 0, 0, 0]),
                                 ("ids=good", [1, 4, 2, 0, 0, 0]),
                                 ("Good good", "--cased", [1, 6, 4, 2, 0, 0]), ("", [1, 2, 0, 0, 0, 0])):
        assert report(capsys, tmp_path / "m.tflite", "--input", given, "--vocabulary", tmp_path / "v.txt",
                      *options)["outputs"][0]["values"] == ids
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("good film")
    rows = run(capsys, tmp_path / "m.tflite", tmp_path / "a.txt", tmp_path / "b.txt", "--vocabulary",
               tmp_path / "v.txt", "--csv").out.splitlines()
    assert len(rows) == 3 and all("1.0 4.0 5.0 2.0" in row for row in rows[1:])


def test_a_vocabulary_that_serves_nothing_is_refused(tmp_path, capsys):
    (tmp_path / "m.tflite").write_bytes(tokens(False))
    (tmp_path / "v.txt").write_text("good\n")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    for given, words, says in (("digits", "v.txt", "--vocabulary is for a model that takes token ids"),
                               (tmp_path / "m.tflite", "v.txt", "v.txt: the vocabulary of 1 words lacks [UNK]"),
                               (tmp_path / "m.tflite", "latin.txt", "latin.txt: not UTF-8 text, since byte 3 is 0xe9"),
                               (tmp_path / "m.tflite", "gone.txt", "gone.txt: No such file")):
        picture = "seven" if given == "digits" else "a good film"
        assert says in run(capsys, given, "--input", picture, "--vocabulary", tmp_path / words, code=2).err


def test_inputs_that_are_no_numbers_are_refused(tmp_path, capsys):
    array = np.zeros((1, 8, 8, 1), np.float32)
    array[0, 3, 4, 0] = np.nan
    np.save(tmp_path / "nan.npy", array)
    assert cli.main(["run", "digits", "--input", str(tmp_path / "nan.npy")]) == 2
    assert "1 numbers that are NaN or infinite, the first at [0, 3, 4, 0]" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["image", "array"])
def test_pictures_in_arrays_are_pictures(tmp_path, capsys, kind):
    m = ModelBuilder()
    m.inputs([m.tensor("image", (1, 8, 8, 1))])
    m.outputs([m.constant("scores", np.arange(200, dtype=np.float32)[None] % 77)])
    (tmp_path / "plain.tflite").write_bytes(m.build())
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8, 1), np.float32))
    given = "seven" if kind == "image" else tmp_path / "x.npy"
    [found] = report(capsys, tmp_path / "plain.tflite", "--input", given)["outputs"]
    assert [c["class"] for c in found["classes"]] == [76, 153, 75, 152, 74]


# ---- sound ---------------------------------------------------------------------------------------------------------
RATE = 10       # samples a second
LOUD = [0, 8192, 16384, -8192]      # a window in which class 2 is the best


@pytest.fixture
def sound(tmp_path):
    """A .wav file of 1.4 s: three windows of four samples of which class 2 is the best, then half of one."""
    with wave.open(str(tmp_path / "long.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.array([16384, 0, 0, 0, *LOUD, *LOUD, 16384, 0], "<i2").tobytes())
    return tmp_path / "long.wav"


def test_a_long_sound_is_heard_to_its_end(model, tmp_path, capsys, sound):
    labels = tmp_path / "labels.txt"
    labels.write_text("ant\nbee\ncat\ndog\n")
    given = model((1, 4)), "--input", sound, "--labels", labels
    lines = [line.split() for line in run(capsys, *given).out.splitlines()]
    assert lines[:5] == [["y", "[1,", "4]", "float32"], ["seconds", "score", "class", "label"],
                         ["0.00", "to", "0.40", "0.5000", "0", "ant"], ["0.40", "to", "1.20", "0.5000", "2", "cat"],
                         ["1.20", "to", "1.40", "0.5000", "0", "ant"]]
    assert ["mean", "of", "all", "windows:"] in lines and lines[-1][:3] == ["4", "windows", "took"]
    found = report(capsys, *given)
    assert [(window["begin"], window["end"]) for window in found["windows"]] == [
        (0, .4), (.4, .8), (.8, 1.2), (1.2, 1.4)]
    assert [c["label"] for c in found["outputs"][0]["classes"]] == ["cat", "ant", "bee", "dog"]
    assert [c["score"] for c in found["outputs"][0]["classes"]] == pytest.approx([4 / 14, 3 / 14, 2 / 14, -2 / 14])


def test_each_window_of_a_sound_is_what_it_is_alone(model, tmp_path, capsys, sound):
    path = model((1, 4), "int8", 1 / 128, 0)
    run(capsys, path, "--input", sound, "--output", tmp_path / "o.npz")
    with np.load(tmp_path / "o.npz") as found:
        assert found["y"].tolist() == [[[.5, 0, 0, 0]], [[0, .25, .5, -.25]], [[0, .25, .5, -.25]], [[.5, 0, 0, 0]]]
    [mean] = report(capsys, path, "--input", sound)["outputs"]
    assert mean["values"] == pytest.approx([3 / 14, 2 / 14, 4 / 14, -2 / 14])      # half a window counts half
    assert "1.20 to 1.40 s  y 0.5 0 0 0" in run(capsys, path, "--input", sound).out


def test_a_model_that_takes_any_length_hears_the_sound_at_once(model, capsys, sound):
    found = report(capsys, model((1, 1), signature=(1, -1)), "--input", sound)
    assert "windows" not in found and found["outputs"][0]["shape"] == [1, 14]


def test_many_sounds_are_lines_of_means(model, capsys, sound):
    done = run(capsys, model((1, 4)), sound, sound)
    assert done.out.splitlines() == [f"{sound}: y 0.214286 0.142857 0.285714 -0.142857"] * 2


def test_variables_last_from_window_to_window(tmp_path, capsys, sound):
    """A model that counts its runs starts over with the next file."""
    m = ModelBuilder()
    x, state, y = m.tensor("x", (1, 4)), m.tensor("state", (1, 1), variable=True), m.tensor("y", (1, 1))
    constants = [m.constant(name, np.array(value, np.float32))
                 for name, value in (("w", [[0, 0, 0, 0]]), ("recurrent", [[1]]), ("one", [1]))]
    m.operator("RNN", [x, *constants, state], [y])
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "counter.tflite").write_bytes(m.build())
    first, second = run(capsys, tmp_path / "counter.tflite", sound, sound, "--jsonl").out.splitlines()
    for line in first, second:
        windows = json.loads(line)["windows"]
        assert [window["outputs"][0]["values"] for window in windows] == [[1], [2], [3], [4]]


def test_the_rate_that_nobody_said_is_a_note(model, capsys, sound):
    path = model((1, 4))
    assert "the file's is used, 10 Hz; --rate" in run(capsys, path, "--input", sound).err
    assert "--rate" not in run(capsys, path, "--input", sound, "--rate", 10).err


# ---- strings -------------------------------------------------------------------------------------------------------
@pytest.fixture
def echo(tmp_path):
    """A function that makes a model that returns strings."""
    def make(shape=(1,)):
        m = ModelBuilder()
        x, y = m.tensor("x", shape, "string"), m.tensor("y", shape, "string")
        m.operator("RESHAPE", [x, m.constant("shape", np.array(shape, np.int32))], [y])
        m.inputs([x])
        m.outputs([y])
        path = tmp_path / "echo.tflite"
        path.write_bytes(m.build())
        return path
    return make


@pytest.mark.parametrize(("given", "wanted"), [
    ("It rains.", "It rains."), ("x=a = b", "a = b"), ("a = b", "a = b"), ("\u00e9t\u00e9", "\u00e9t\u00e9"),
    ("seven", "seven")])
def test_a_text_is_given_on_the_command_line(echo, capsys, given, wanted):
    assert report(capsys, echo(), "--input", given)["outputs"][0]["values"] == [wanted]


def test_texts_are_read_from_files(echo, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("two\nlines", "utf-8")
    assert report(capsys, echo(), "--input", tmp_path / "a.txt")["outputs"][0]["values"] == ["two\nlines"]
    np.save(tmp_path / "a.npy", np.array(["\u00e9", "b"]))
    assert report(capsys, echo((2,)), "--input", tmp_path / "a.npy")["outputs"][0]["values"] == ["\u00e9", "b"]
    (tmp_path / "b.txt").write_bytes(b"\xff")
    assert "b.txt: not UTF-8 text" in run(capsys, echo(), "--input", tmp_path / "b.txt", code=2).err


def test_wrong_texts_are_refused(echo, capsys):
    assert "takes 2 strings, and 1 was given; give a .txt" in run(capsys, echo((2,)), "-i", "a", code=2).err
    assert "no contents for input 'x' (string[1]): give --input TEXT" in run(capsys, echo(), code=2).err


def test_several_texts_are_the_lines_of_a_file(echo, tmp_path, capsys):
    """And they are quoted in the answer."""
    (tmp_path / "a.txt").write_text("one\ntwo, three\n")
    assert "\n  'one', 'two, three'\n" in run(capsys, echo((2,)), "--input", tmp_path / "a.txt").out
    found = run(capsys, echo((2,)), "--random", "1")
    assert "filled with random numbers (seed 1), strings are empty" in " ".join(found.err.split())
    assert "\n  '', ''\n" in found.out


def test_a_model_without_outputs_says_so(tmp_path, capsys):
    m = ModelBuilder()
    m.inputs([m.tensor("x", (2,))])
    (tmp_path / "m.tflite").write_bytes(m.build())
    assert run(capsys, tmp_path / "m.tflite", "--zeros").out.startswith("the model has no outputs\n")
    assert cli.main(["inspect", str(tmp_path / "m.tflite")]) == 0
    assert "None" not in capsys.readouterr().out


def test_inputs_are_filled_once_the_model_can_run(tmp_path, capsys, monkeypatch):
    """A damaged shape took all memory for numbers that nothing would read."""
    monkeypatch.setattr(_inputs, "blank", None)
    m = ModelBuilder()
    a, b, y = (m.tensor(name, shape, "int8", scale=1.0) for name, shape in (
        ("a", (1, 16, 1 << 30, 1)), ("b", (1, 16, 16, 1)), ("y", (1, 16, 16, 1))))
    m.operator("SUB", [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    (tmp_path / "big.tflite").write_bytes(m.build())
    for option in ["--zeros"], ["--random", "1"]:
        assert cli.main(["run", str(tmp_path / "big.tflite"), *option]) == 1
        assert "cannot be broadcast together" in capsys.readouterr().err


def test_zeros_are_the_inputs_own(tmp_path):
    detail = {"dtype": np.uint8, "shape": (2, 3), "quantization": (0.5, 7)}
    np.testing.assert_array_equal(_inputs.blank(detail, None), np.full((2, 3), 7, np.uint8), strict=True)


def test_a_part_of_a_yolo_model_runs(tmp_path, capsys):
    """It keeps the metadata of the whole, and takes no picture."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 7, 20)), m.tensor("y", (1, 7, 20))
    m.operator("NEG", [x], [y])
    m.inputs([x])
    m.outputs([y])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("metadata.json", json.dumps({"names": ["a", "b", "c"], "task": "detect"}))
    (tmp_path / "part.tflite").write_bytes(m.build() + archive.getvalue())
    assert report(capsys, tmp_path / "part.tflite", "--zeros")["outputs"][0]["kind"] == "tensor"
