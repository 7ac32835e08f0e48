"""`pylite run`: input files, outputs, labels, and errors."""
import csv
import json
import struct
import subprocess
import sys
import wave
import zlib
from pathlib import Path

import numpy as np
import pytest

from pylite import cli
from pylite.cli import _answering
from pylite.cli._common import UsageError
from pylite.errors import FileFormatError
from pylite.ir import graph
from pylite.media import images, labels, models, tensors
from pylite.schema.builder import ModelBuilder
from tests.cli.running import report, run
from tests.tools.model_metadata import unit, with_metadata


def save(path, **arrays):
    if len(arrays) == 1 and "only" in arrays:
        np.save(path, arrays["only"])
    else:
        np.savez(path, **arrays)
    return path


def test_numbers_are_quantized_and_dequantized(model, tmp_path, capsys):
    given = save(tmp_path / "x.npy", only=np.array([[-3.0, -0.25, 0.25, 1e9]], np.float32))
    found = report(capsys, model((1, 4), "int8", 0.5, 3), "--input", given)["outputs"][0]
    assert found["values"] == [-3.0, -0.5, 0.5, 62.0] and found["dtype"] == "int8"


def test_integers_of_the_input_type_are_not_converted(model, tmp_path, capsys):
    given = save(tmp_path / "x.npy", only=np.array([1, 2, 3, 4], np.int64))
    assert report(capsys, model((1, 4), "int8", 0.5, 0), "--input", given)["outputs"][0]["values"] == [.5, 1, 1.5, 2]
    given = save(tmp_path / "x.npy", only=np.array([1, 2, 3, 400]))
    assert "int8, which cannot represent" in run(capsys, model((1, 4), "int8", 0.5, 0), "--input", given, code=2).err


def test_labels_rank_the_classes(model, tmp_path, capsys):
    given = save(tmp_path / "x.npz", x=np.array([0.1, 0.7, 0.2], np.float32), other=np.zeros(3))
    names = tmp_path / "labels.txt"
    names.write_text("ant\nbee\ncat\n")
    path = model((1, 3))
    lines = run(capsys, path, "--input", f"x={given}", "--labels", names, "--top", 2).out.splitlines()
    assert [line.split() for line in lines[2:4]] == [["1", "0.7000", "1", "bee"], ["2", "0.2000", "2", "cat"]]
    found = report(capsys, path, "--input", f"x={given}", "--labels", names)["outputs"][0]
    assert [c["label"] for c in found["classes"]] == ["bee", "cat", "ant"]


def test_inputs_without_a_file_are_an_error_that_says_what_to_give(model, capsys):
    error = run(capsys, model((1, 4)), code=2).err
    assert "no contents for input 'x' (float32[1, 4])" in error
    assert all(option in error for option in ("--input FILE", "--random SEED", "--zeros"))


def test_inputs_without_a_file_are_filled_on_request_and_ranked_if_top_is_given(model, capsys, tmp_path):
    done = run(capsys, model((1, 4)), "--zeros")
    assert "filled with zeros" in done.err and "min 0, max 0" in done.out
    one, other = (report(capsys, model((1, 4)), "--random", 7) for _ in range(2))
    assert one["outputs"] == other["outputs"] and "seed 7" in one["notes"][0]
    (tmp_path / "labels.txt").write_text("ant\nbee\ncat\ndog\n")
    [found] = report(capsys, model((1, 4)), "--random", 7, "--labels", tmp_path / "labels.txt")["outputs"]
    [ranked] = report(capsys, "digits", "--random", 7, "--top", 3)["outputs"]
    assert found["kind"] == "tensor" and len(ranked["classes"]) == 3


def test_many_files_are_lines_and_a_failed_one_is_named(model, folder, capsys):
    done = run(capsys, model((1, 3)), folder / "data", "--labels", folder / "labels.txt", code=1)
    assert done.out.splitlines() == [f"{folder}/data/a.npy: ant 0.7000", f"{folder}/data/b.npy: cat 0.7000"]
    assert f"{folder}/data/c.npy: input 'x' takes [1, 3]" in done.err and "1 of 3 files failed" in done.err


def test_files_before_and_after_options(model, folder, capsys):
    path, a, b = model((1, 3)), folder / "data/a.npy", folder / "data/b.npy"
    named = ["--labels", folder / "labels.txt"]
    expected = [f"{a}: ant 0.7000", f"{b}: cat 0.7000"]
    for arguments in [path, a, b, *named], [path, a, *named, b], [path, *named, a, b], [*named, path, a, "--top", 1, b]:
        assert run(capsys, *arguments).out.splitlines() == expected
    with pytest.raises(SystemExit):
        run(capsys, path, *named, a, "--tpo", 1, b)
    assert "there is no option --tpo; did you mean --top?" in capsys.readouterr().err
    assert cli.main(["resolver", "digits", "-o", str(folder / "both.py"), "digit-detector"]) == 0
    assert "the ops of digits, digit-detector." in (folder / "both.py").read_text()


def test_patterns_give_csv_and_json_lines(model, folder, capsys):
    path = model((1, 3))
    options = path, folder / "data" / "[ab].npy", "--labels", folder / "labels.txt", "--top", 2
    rows = list(csv.DictReader(run(capsys, *options, "--csv").out.splitlines()))
    assert [(Path(row["file"]).name, row["rank"], row["label"]) for row in rows] == [
        ("a.npy", "1", "ant"), ("a.npy", "2", "cat"), ("b.npy", "1", "cat"), ("b.npy", "2", "bee")]
    first, second = map(json.loads, run(capsys, *options, "--jsonl").out.splitlines())
    assert first["outputs"][0]["classes"][0]["label"] == "ant" and second["file"].endswith("b.npy")
    [failed] = map(json.loads, run(capsys, path, folder / "data" / "c.npy", "--jsonl", code=1).out.splitlines())
    assert "takes [1, 3], and the file has [1, 2]" in failed["error"]
    [failed] = csv.DictReader(run(capsys, path, folder / "data" / "c.npy", "--csv", code=1).out.splitlines())
    assert "takes [1, 3], and the file has [1, 2]" in failed["error"] and not failed["score"]


def test_each_of_many_files_gives_what_it_gives_alone(capsys):
    names = models.samples()
    lines = run(capsys, "digits", *names, "--jsonl", "--top", 3).out.splitlines()
    assert len(lines) == len(names)
    for name, line in zip(names, lines, strict=True):
        assert json.loads(line)["outputs"] == report(capsys, "digits", "--input", name, "--top", 3)["outputs"]


@pytest.mark.parametrize(("arguments", "says"), [
    (["nowhere/*.npy"], "nowhere/*.npy: no file matches"), (["--csv"], "give FILE ..."),
    (["a.npy", "--json"], "give --jsonl or --csv")])
def test_wrong_arguments_for_many_files(model, arguments, says, capsys):
    assert says in run(capsys, model((1, 4)), *arguments, code=2).err


def test_outputs_are_written(model, tmp_path, capsys):
    given = save(tmp_path / "x.npy", only=np.array([1.0, 2.0], np.float32))
    run(capsys, model((1, 2), "uint8", 0.5, 128), "--input", given, "--output", tmp_path / "out")
    assert np.load(tmp_path / "out")["y"].tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(("given", "written"), [(["file", "args"], ["args", "file"]), (["", "y"], ["", "y"]),
                                                (["y", "y"], ["y 1", "y 2"])])
def test_outputs_of_any_names_are_written(tmp_path, capsys, given, written):
    """Also those that are parameters of numpy.savez, and the same twice."""
    m = ModelBuilder()
    x = m.tensor("x", (1, 3))
    outputs = [m.tensor(name, (1, 3)) for name in given]
    for op, y in zip(("ABS", "NEG"), outputs, strict=True):
        m.operator(op, [x], [y])
    m.inputs([x])
    m.outputs(outputs)
    (tmp_path / "m.tflite").write_bytes(m.build())
    value = save(tmp_path / "x.npy", only=np.array([[1, -2, 3]], np.float32))
    run(capsys, tmp_path / "m.tflite", "--input", value, "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        assert sorted(found.files) == written
        assert sorted(found[name].tolist() for name in written) == [[[-1, 2, -3]], [[1, 2, 3]]]


def test_a_full_disk_is_named_and_the_former_file_stays(tmp_path, capsys):
    given = models.sample("seven")
    assert run(capsys, "digits", "--input", given, "--output", "/dev/full", code=2).err == (
        "pylite run: /dev/full: No space left on device\n")
    (tmp_path / "folder").mkdir()
    assert "folder: Is a directory" in run(capsys, "digits", "-i", given, "-o", tmp_path / "folder", code=2).err


def test_an_unknown_dimension_is_resized(model, tmp_path, capsys):
    given = save(tmp_path / "x.npy", only=np.arange(6, dtype=np.float32))
    assert report(capsys, model((1, 1), signature=(1, -1)), "--input", given)["outputs"][0]["shape"] == [1, 6]


@pytest.mark.parametrize(("arguments", "says"), [
    (["--input", "nowhere.npy"], "nowhere.npy: No such file"),
    (["--input", "nowhere.xyz"], "unknown kind of file"),
    (["--input", "nothing"], "no bundled sample is called 'nothing'"),
    (["--labels", "nowhere.txt"], "nowhere.txt: No such file"),
])
def test_a_wrong_argument_is_one_line_and_code_2(model, arguments, says, capsys):
    error = run(capsys, model((1, 4)), *arguments, code=2).err
    assert error.startswith("pylite run: ") and error.count("\n") == 1 and says in error


def test_a_shape_that_does_not_fit_is_named(model, tmp_path, capsys):
    path = model((1, 4))
    given = save(tmp_path / "x.npy", only=np.zeros((2, 2), np.float32))
    assert "takes [1, 4], and the file has [2, 2]; reshape the array" in run(capsys, path, "--input", given, code=2).err
    given = save(tmp_path / "x.npz", a=np.zeros(4), b=np.zeros(4))
    assert "no input is called 'a'; the model has 'x'" in run(capsys, path, "--input", given, code=2).err


def test_debug_shows_the_exception(model):
    with pytest.raises(UsageError):
        cli.main(["run", model((1, 4)), "--frames", "1", "--debug"])


def write_ppm(path, pixels):
    kind = b"P6" if pixels.shape[2] == 3 else b"P5"
    path.write_bytes(kind + b"\n# a comment\n%d %d\n255\n" % pixels.shape[1::-1] + pixels.tobytes())


def write_bmp(path, pixels):
    height, width = pixels.shape[:2]
    row = -(-width * 3 // 4) * 4
    padded = np.zeros((height, row), np.uint8)
    padded[:, :width * 3] = pixels[::-1, :, ::-1].reshape(height, -1)
    header = struct.pack("<2s I I I I i i H H I I i i I I", b"BM", 54 + padded.size, 0, 54, 40, width, height, 1, 24, 0,
                         padded.size, 0, 0, 0, 0)
    path.write_bytes(header + padded.tobytes())


def write_png(path, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = pixels.shape[:2]
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], 1).tobytes()
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


@pytest.mark.parametrize(("suffix", "write"), [("ppm", write_ppm), ("bmp", write_bmp), ("png", write_png)])
def test_pictures_are_read(tmp_path, suffix, write):
    if suffix == "png":
        pytest.importorskip("PIL", reason="Pillow is not installed")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    path = tmp_path / f"picture.{suffix}"
    write(path, pixels)
    assert (images.read(str(path)) == pixels).all()


def test_text_and_grey_pictures_are_read(tmp_path):
    path = tmp_path / "grey.pgm"
    path.write_bytes(b"P2 3 2\n# half bright\n 15\n0 1 2\n3 14 15\n")
    assert images.read(str(path))[:, :, 0].tolist() == [[0, 17, 34], [51, 238, 255]]
    path.write_bytes(b"P5 3 2 255\n1")
    with pytest.raises(FileFormatError, match="damaged picture"):
        images.read(str(path))


def test_resizing_keeps_a_ramp_and_the_mean():
    ramp = np.repeat(np.arange(0, 256, 8, dtype=np.uint8)[None, :, None], 16, 0)
    big = images.resize(ramp, 32, 64)[:, :, 0].astype(int)
    assert big.shape == (32, 64) and (np.diff(big, axis=1) >= 0).all() and (big == big[0]).all()
    noise = np.random.default_rng(1).integers(0, 256, (100, 150, 3), np.uint8)
    small = images.resize(noise, 10, 15)
    assert np.abs(small.reshape(10, 15, 3) - noise.reshape(10, 10, 15, 10, 3).mean((1, 3))).max() <= 0.5


def test_pixels_are_converted_to_each_type(model, tmp_path, capsys):
    write_ppm(tmp_path / "p.ppm", np.array([[[0, 51, 255]]], np.uint8))
    shape = (1, 1, 1, 3)

    def values(path, *options):
        return report(capsys, path, "--input", tmp_path / "p.ppm", *options)["outputs"][0]["values"]
    assert values(model(shape)) == pytest.approx([-1, -0.6, 1])
    assert values(model(shape), "--mean", 0, "--std", 255) == pytest.approx([0, 0.2, 1])
    assert values(model(shape), "--mean", "0,1,2", "--std", "1,5,23") == pytest.approx([0, 10, 11])
    assert "2 numbers" in run(capsys, model(shape), "--input", tmp_path / "p.ppm", "--mean", "1,2", code=2).err
    assert values(model(shape, "uint8", 1 / 255, 0)) == pytest.approx([0, 0.2, 1])
    assert values(model(shape, "int8", 1 / 255, -128)) == pytest.approx([0, 0.2, 1])
    assert values(model(shape, "int8", 1 / 127.5, 0), "--mean", 127.5) == pytest.approx([-1, -0.6, 1], abs=0.01)
    assert values(model((1, 3, 1, 2))) == pytest.approx([-1, -1, -0.6, -0.6, 1, 1])     # channels first
    assert values(model((1, 2, 2, 1))) == pytest.approx([(59 - 127.5) / 127.5] * 4)    # grey


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_sound_is_read(model, tmp_path, capsys, width):
    samples = np.array([0, 0.5, -0.5, -1.0])
    steps = np.round(samples * 2 ** (8 * width - 1)).astype(np.int64)
    stereo = np.repeat(steps + (128 if width == 1 else 0), 2)
    path = tmp_path / "s.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(width)
        file.setframerate(16000)
        file.writeframes(b"".join(int(s % 2 ** (8 * width)).to_bytes(width, "little") for s in stereo))
    assert report(capsys, model((1, 1), signature=(1, -1)), "--input", path)["outputs"][0]["values"] == samples.tolist()
    padded = report(capsys, model((1, 6)), "--input", path)
    assert padded["outputs"][0]["values"] == [*samples, 0, 0] and "padded with silence" in padded["notes"][0]


def test_label_file_formats():
    assert labels.parse("ant\n\ncat\n") == {0: "ant", 2: "cat"}
    assert labels.parse("0 person\n2: bicycle wheel\n") == {0: "person", 2: "bicycle wheel"}
    assert labels.fitted({0: "ant", 1: "bee"}, 3) == {0: "background", 1: "ant", 2: "bee"}
    assert labels.fitted({5: "far"}, 3) is None and labels.fitted({}, 3) is None


def test_quantizing_rounds_half_away_from_zero():
    detail = {"dtype": np.int8, "quantization": (0.5, -1)}
    assert tensors.quantize(np.array([0.25, -0.25, 0.2, 1000, -1000]), detail).tolist() == [0, -2, -1, 127, -128]


def test_detections_are_boxes():
    operator = graph.Operator(0, _answering.DETECTION, 32, True, 1, (0,), (1, 2, 3, 4), None)
    subgraph = graph.Subgraph(0, "", (), (0,), (1, 2, 3, 4), (operator,))
    arrays = [np.array([[[0, .25, .5, 1], [0, 0, 1, 1]]], np.float32), np.array([[1, 0]], np.float32),
              np.array([[.9, .2]], np.float32), np.array([2], np.float32)]
    empty = {"scales": np.empty(0), "zero_points": np.empty(0), "quantized_dimension": 0}
    outputs = [({"index": i + 1, "name": "", "quantization_parameters": empty}, a) for i, a in enumerate(arrays)]
    [found] = _answering.answer(subgraph, outputs, [{1: "cat"}], 5, 0.3, (100, 200))
    assert found.to_dict()["detections"] == [{"class": 1, "label": "cat", "score": pytest.approx(0.9),
                                              "box": {"top": 0, "left": .25, "bottom": .5, "right": 1},
                                              "pixels": {"top": 0, "left": 50, "bottom": 50, "right": 200}}]
    assert "cat" in found.lines()[1]


@pytest.mark.parametrize(("value", "wanted"), [([np.nan] * 4, []), ([0, 0, 1, 1], [1])])
def test_objects_without_a_box_are_no_detections(value, wanted):
    operator = graph.Operator(0, _answering.DETECTION, 32, True, 1, (0,), (1, 2, 3, 4), None)
    subgraph = graph.Subgraph(0, "", (), (0,), (1, 2, 3, 4), (operator,))
    empty = {"scales": np.empty(0), "zero_points": np.empty(0), "quantized_dimension": 0}
    arrays = [np.array([[value]], np.float32), *(np.array([[1]], np.float32) for _ in range(2)), np.ones(1, np.float32)]
    outputs = [({"index": i + 1, "name": "", "quantization_parameters": empty}, a) for i, a in enumerate(arrays)]
    [found] = _answering.answer(subgraph, outputs, [], 5, 0.3, (100, 200))
    assert [d.number for d in found.entries] == wanted


def test_scores_without_a_sign_are_ranked_and_those_that_are_no_number_are_shown(model, tmp_path, capsys):
    (tmp_path / "labels.txt").write_text("ant\nbee\ncat\n")
    given = save(tmp_path / "x.npy", only=np.array([[0, 3, 7]], np.uint8))
    arguments = "--labels", tmp_path / "labels.txt", "--input", given
    [found] = report(capsys, model((1, 3), "uint8"), *arguments)["outputs"]
    assert [c["label"] for c in found["classes"]] == ["cat", "bee", "ant"]
    path = constant_output(tmp_path, [np.nan, 3, np.inf])
    save(tmp_path / "x.npy", only=np.zeros((1, 3), np.float32))
    [found] = report(capsys, path, *arguments)["outputs"]
    assert [c["score"] for c in found["classes"]] == [None, 3, None]
    assert run(capsys, path, *arguments).out.count("nan or inf") == 2
    assert "nan or inf" in run(capsys, path, given, "--labels", tmp_path / "labels.txt", "--top", "3").out


def test_numbers_that_json_does_not_support(tmp_path, capsys):
    path = constant_output(tmp_path, [np.nan, np.inf, 1])
    found = report(capsys, path, "--zeros")["outputs"][0]
    assert found["values"] == [None, None, 1.0] and found["not_finite"] == 2 and found["max"] == 1.0
    assert "2 not finite" in run(capsys, path, "--zeros").out


def constant_output(folder, scores):
    """A model whose output is (1, n) of these numbers."""
    m = ModelBuilder()
    m.inputs([m.tensor("x", (1, 3))])
    m.outputs([m.constant("y", np.array([scores], np.float32))])
    path = folder / "constant.tflite"
    path.write_bytes(m.build())
    return path


@pytest.mark.parametrize("arguments", [["run", "digits", "--random", "-5"], ["bench", "digits", "--seed", "-1"]])
def test_a_negative_seed_gives_one_line(capsys, arguments):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    lines = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and "is not a whole number of at least 0" in lines[0]


def test_a_closed_output_gives_one_line():
    done = subprocess.run(f"{sys.executable} -P -m pylite run digits --input seven >&-", shell=True, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "pylite: the standard output is closed\n"


def test_a_full_disk_gives_one_line():
    done = subprocess.run(f"{sys.executable} -P -m pylite run digits --input seven > /dev/full", shell=True,
                          check=False, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "pylite run: No space left on device\n"


def test_the_sound_of_a_file_is_resampled_on_request(model, tmp_path, capsys):
    with wave.open(str(tmp_path / "slow.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.array([0, 8192, 16384], "<i2").tobytes())
    path = model((1, 6))
    given = path, "--input", tmp_path / "slow.wav", "--rate", 16000
    assert report(capsys, *given)["outputs"][0]["values"] == [0, .125, .25, .375, .5, .5]


def test_what_metadata_say_of_pixels_and_sound_counts(tmp_path, capsys):
    """The normalization of a float input, and the rate."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 1, 1, 3)), m.tensor("y", (1, 3))
    m.operator("RESHAPE", [x, m.constant("shape", np.array([1, -1], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    path = tmp_path / "model.tflite"
    path.write_bytes(with_metadata(m, [{"process_units": [
        unit("NormalizationOptions", mean=(0, 100, 200), std=(1, 1, 4))]}]))
    images.write(tmp_path / "x.ppm", np.full((2, 2, 3), 100, np.uint8))
    given = path, "--input", tmp_path / "x.ppm"
    assert report(capsys, *given)["outputs"][0]["values"] == [100, 0, -25]
    assert report(capsys, *given, "--mean", 0, "--std", 2)["outputs"][0]["values"] == [50] * 3


def test_a_file_among_many_that_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = run(capsys, "digits", "gone.npy", "seven", code=1)
    assert printed.err == ("pylite run: gone.npy: No such file or directory; it was looked for in "
                           f"{tmp_path}\npylite run: 1 of 2 files failed\n")
    assert printed.out.endswith("seven: seven 0.9961\n")


def test_strings_have_the_type_of_the_model(capsys, tmp_path):
    m = ModelBuilder()
    x, y = m.tensor("x", (1,), "string"), m.tensor("y", (1, 1), "string")
    m.operator("RESHAPE", [x, m.constant("shape", np.array([1, 1], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "words.tflite").write_bytes(m.build())
    assert run(capsys, tmp_path / "words.tflite", "--input", "It rains.").out.startswith(
        "y  [1, 1] string\n  It rains.\n")
