"""`pylite validate`: a spoiled model and its reference in, the guilty node out."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from pylite import Model, cli, validation
from pylite.errors import ComparisonError
from pylite.media import images, models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.validation import arrays
from pylite.validation.data import Samples
from pylite.validation.matching import match
from tests.project.pages import ROOT, blocks
from tests.tools import resources

PAGE = "docs/validation.md"
SPOILED = 4     # the node that the page spoils
PIXELS = ("--mean", "0", "--std", "255")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the page's program has run."""
    place = tmp_path_factory.mktemp("page")
    with contextlib.chdir(place):
        for block in blocks(PAGE, "python"):
            exec(compile(block, PAGE, "exec"), {"__name__": PAGE})
    return place


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def run(capsys, *arguments, code=0):
    assert cli.main(["validate", *map(str, arguments)]) == code
    return capsys.readouterr()


def report(capsys, *arguments, code=0):
    return json.loads(run(capsys, *arguments, "--json", code=code).out)


def pictures():
    return np.stack([images.read(models.sample(name)) for name in models.samples()])[..., None] / 255


def test_the_report_follows_the_schema(here, capsys):
    resources.tool("jsonschema")
    import jsonschema
    schema = json.loads((ROOT / "docs" / "validation.schema.json").read_text())
    found = report(capsys, "spoiled.tflite", "--reference", "digits", "--data", "pictures", *PIXELS)
    jsonschema.validate(found, schema)
    jsonschema.validate(report(capsys, "spoiled.tflite", "--reference", "digits", "--data", "pictures", *PIXELS,
                               "--local-samples", 0), schema)
    listed = {t for t in schema["$defs"]["tensor"]["properties"]["cause"]["enum"] if t}
    from pylite.validation.causes import NAMES
    assert listed == set(NAMES)
    assert set(found["tensors"][0]) == set(schema["$defs"]["tensor"]["properties"])
    assert found["ranking"][0] == found["first_divergence"] == SPOILED
    worst = next(t for t in found["tensors"] if t["node"] == SPOILED)
    assert set(worst["channels"]) == {"sqnr_db", "sqnr_local_db", "rmse_over_scale", "mean_error_steps",
                                      "max_error_steps", "saturated_low", "saturated_high", "range_used"}
    assert max(worst["channels"]["max_error_steps"]) == worst["max_error_steps"]
    assert 0 < max(worst["channels"]["range_used"]) <= worst["range_used"] < 1
    assert np.argmin(worst["channels"]["sqnr_db"]) == 7
    scales = Model("spoiled.tflite").graph.subgraphs[0]
    scales = next(t for t in scales.tensors if t.name == "trunk/4/weights").quantization.scale
    assert worst["weights"]["scale_spread"] == pytest.approx(scales.max() / scales.min())
    assert worst["cause"] == "channel scale" and np.argmax(worst["weights"]["gain"]) == 7
    assert np.argmin(worst["channels"]["sqnr_local_db"]) == 7


def test_a_good_model_passes_and_a_spoiled_one_fails(here, capsys):
    limits = ["--data", "pictures", *PIXELS, "--min-sqnr", "40", "--fail-on", "excess=6", "--fail-on", "rmse=1"]
    assert "No node has more noise" in run(capsys, "digits", "--reference", "digits", *limits).out
    lines = run(capsys, "spoiled.tflite", "--reference", "digits", *limits, code=1).err.splitlines()
    assert [line.split(":")[1].split("(")[0].strip() for line in lines] == ["node 4", "node 4"]
    lines = run(capsys, "spoiled.tflite", "--reference", "digits", "--data", "pictures", *PIXELS, "--min-sqnr", "100",
                code=1).err
    assert "'probabilities'): the output's SQNR is" in lines


def test_a_node_that_saturates_fails(here, capsys):
    model = read(models.path("digits").read_bytes())
    narrow = next(t for t in model.subgraphs[0].tensors if t.name == "trunk/2")
    narrow.quantization.scale = narrow.quantization.scale / 4
    Path("narrow.tflite").write_bytes(write(model))
    said = run(capsys, "narrow.tflite", "--reference", "digits", "--data", "pictures", *PIXELS, "--fail-on",
               "saturation=5%", code=1).err
    assert "node 2 (CONV_2D, 'trunk/2'): saturation is 0." in said


@pytest.mark.parametrize(("limit", "nodes"), [
    ("cause", {4}), ("cause=channel scale", {4}), ("cause=bias", set()), ("divergence", {4}),
    ("saturation=0.05", set()), ("rmse=100", set())])
def test_junit_reports_name_the_nodes_that_fail(here, capsys, limit, nodes):
    text = run(capsys, "spoiled.tflite", "--reference", "digits", "--data", "pictures", *PIXELS, "--fail-on", limit,
               "--junit", "report.xml", code=1 if nodes else 0).err
    suite, = ElementTree.parse("report.xml").getroot()
    assert suite.get("tests") == "10" == str(len(suite)) and suite.get("failures") == str(len(nodes))
    failed = {int(case.get("name").split()[1]): case[0].get("message") for case in suite if len(case)}
    assert set(failed) == nodes and all(message in text for message in failed.values())
    assert {case.get("classname") for case in suite} == {"spoiled.tflite"}


def test_junit_reports_of_other_tasks(here, capsys):
    data = ["--data", "pictures", *PIXELS]
    run(capsys, "digits", *data, "--record", "desk.npz")
    run(capsys, "digits", *data, "--check", "desk.npz", "--junit", "same.xml")
    suite, = ElementTree.parse("same.xml").getroot()
    assert suite.get("failures") == "0" and suite[0].get("name") == "comparison with desk.npz"
    run(capsys, "spoiled.tflite", "--reference", "digits", *data, "--sensitivity", "--target", "900dB", "--junit",
        "target.xml", code=1)
    suite, = ElementTree.parse("target.xml").getroot()
    assert suite[0].get("name") == "target"
    assert suite[0][0].get("message").startswith("no set of nodes in float reaches 900.0 dB; all nodes in float reach")


def test_causes_that_do_not_exist_are_refused(here, capsys):
    assert "there is no such cause; the causes are weight scale" in run(
        capsys, "digits", "--reference", "digits", "--data", "pictures", "--fail-on", "cause=moon", code=2).err


def test_every_kind_of_data_gives_the_same_report(here, capsys):
    """Arrays, files one by one, lists of files and of numbers."""
    real = pictures().astype(np.float32)
    names = models.samples()
    np.savez("named.npz", image=real, labels=np.arange(10))
    np.savez("unnamed.npz", real)
    np.save("one.npy", real)
    folder = here / "arrays"
    folder.mkdir(exist_ok=True)
    for name, one in zip(names, real, strict=True):
        np.save(folder / name, one)
    (here / "list.csv").write_text("file,label\n" + "".join(f"arrays/{n}.npy,x\n" for n in names))
    (here / "numbers.csv").write_text("image\n" + "".join(" ".join(map(repr, one.reshape(-1).tolist())) + "\n"
                                                          for one in real))
    (here / "list.jsonl").write_text("".join(json.dumps({"file": f"arrays/{n}.npy"}) + "\n" for n in names))
    (here / "numbers.jsonl").write_text("".join(json.dumps({"image": one.tolist()}) + "\n" for one in real))
    wanted = report(capsys, "spoiled.tflite", "--reference", "digits", "--data", "pictures", *PIXELS)
    for path in ("named.npz", "unnamed.npz", "one.npy", "arrays", "list.csv", "numbers.csv", "list.jsonl",
                 "numbers.jsonl"):
        assert report(capsys, "spoiled.tflite", "--reference", "digits", "--data", path) == wanted, path


def test_without_local_samples_the_ranking_is_by_cumulative_errors_and_says_so(here, capsys):
    spoiled = ["spoiled.tflite", "--reference", "digits", "--data", "pictures", *PIXELS]
    full, found = (report(capsys, *spoiled, *more) for more in ((), ("--local-samples", 0)))
    assert (full["ranked_by"], found["ranked_by"]) == ("excess_db", "cumulative_excess_db")
    assert found["ranking"][0] == SPOILED and found["first_divergence"] is None and found["local_samples"] == 0
    measured = "node", "name", "reference_name", "sqnr_db", "cumulative_excess_db", "weights"
    assert [[t[key] for key in measured] for t in found["tensors"]] == [
        [t[key] for key in measured] for t in full["tensors"]]
    assert {t[key] for t in found["tensors"] for key in ("excess_db", "rmse_over_scale", "saturated_low", "cause")} == {
        None}
    assert "Ranked by cumulative errors" in run(capsys, *spoiled, "--local-samples", 0).out
    lines = run(capsys, *spoiled, "--local-samples", 0, "--min-sqnr", 100, "--explorer", "cumulative.json", code=1).err
    assert "'probabilities'): the output's SQNR is" in lines
    assert json.loads((here / "cumulative.json").read_text())["main"]["name"] == "cumulative excess (dB)"
    assert "--local-samples 0" in run(capsys, *spoiled, "--local-samples", 0, "--fail-on", "excess=6", code=2).err


def test_the_speed_is_said_in_the_text_and_not_in_json(here, capsys):
    *_, last = run(capsys, "digits", "--reference", "digits", "--data", "pictures", *PIXELS).out.splitlines()
    number, words = last.split(" ", 1)
    assert float(number) > 0 and words == "samples a second"
    assert "second" not in run(capsys, "digits", "--reference", "digits", "--data", "pictures", *PIXELS, "--samples",
                               1).out.splitlines()[-1]
    assert "samples a second" not in run(capsys, "digits", "--reference", "digits", "--data", "pictures", *PIXELS,
                                         "--json").out


@pytest.mark.parametrize("streams", [("stdout",), ("stdout", "stderr")])
def test_a_reader_that_ends_changes_neither_files_nor_the_exit_code(here, streams):
    """As `pylite validate ... | head` in continuous integration, under `set -o pipefail`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pylite", "validate", "spoiled.tflite", "--reference", "digits", "--data",
               "pictures", *PIXELS, "--fail-on", "excess=6", "--junit", "report.xml"]
    done = subprocess.run([*map(str, command)], **{"stderr": subprocess.PIPE} | dict.fromkeys(streams, write))
    os.close(write)
    assert done.returncode == 1 and "excess is" in Path("report.xml").read_text()


def test_fewer_samples(here, capsys):
    found = report(capsys, "digits", "--reference", "digits", "--data", "pictures", "--samples", 4,
                   "--local-samples", 3)
    assert found["samples"] == 4 and found["local_samples"] == 3


@pytest.mark.parametrize("option", [
    ("--fail-on", "nonsense", "saturation=5%"), ("--fail-on", "saturation=5", "saturation=5%"),
    ("--fail-on", "rmse=5%", "rmse=STEPS"), ("--shard", "half", "1/2"), ("--mean", "a,b", "each channel"),
    ("--target", "good", "20dB")])
def test_what_is_wrong_with_an_option_is_said(option, capsys):
    with pytest.raises(SystemExit) as exit_code:
        cli.main(["validate", "digits", "--reference", "digits", "--data", "x", *option[:2]])
    said = capsys.readouterr().err
    assert exit_code.value.code == 2 and f"{option[0]}: {option[1]!r} is not" in said and option[2] in said


@pytest.mark.parametrize("more", [[], ["--sensitivity", "--target", "9dB"], ["--tensors", "0"], ["--workers", "2"]])
def test_a_reference_of_another_model_is_refused(here, capsys, more):
    said = run(capsys, "digits", "--reference", "sounds", "--data", "pictures", *more, code=2).err
    assert "[1, 8, 8, 1]" in said and "same model in float" in said


def test_a_reference_with_other_inputs_is_refused():
    built = []
    for count in (1, 2):
        m = ModelBuilder()
        tensors = [m.tensor(f"x{i}", (1, 4)) for i in range(count)]
        y = m.tensor("y", (1, 4))
        m.operator("ADD", [tensors[0], tensors[-1]], [y])
        m.inputs(tensors)
        m.outputs([y])
        built.append(Model(m.build()).graph.subgraphs[0])
    with pytest.raises(ComparisonError, match="has 1 inputs and the reference 2"):
        match(*built)


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("workers", [1, 2])
def test_samples_that_are_no_numbers_are_refused(here, capsys, number, workers):
    arrays = np.repeat(pictures(), 2, 0).astype(np.float32)
    arrays[5, 3, 3] = number
    np.savez("odd.npz", image=arrays)
    said = run(capsys, "digits", "--reference", "digits", "--data", "odd.npz", "--workers", workers, code=2).err
    assert "odd.npz, sample 5: input 'image' is given 1 numbers that are not finite" in said


def test_data_that_are_not_there_are_named(here, capsys):
    (here / "empty").mkdir(exist_ok=True)
    (here / "unreadable").mkdir(exist_ok=True)
    (here / "unreadable" / "a.png").write_text("no picture")
    for data, words in (("gone", "gone: there is no such file or folder"), ("empty", "there is no .png"),
                        ("unreadable", "such as .png or .jpg; repair the file or leave it out")):
        assert words in run(capsys, "digits", "--reference", "digits", "--data", data, code=2).err


@pytest.mark.parametrize(("name", "contents", "words"), [
    ("a.txt", "", "unknown kind of data"), ("empty.csv", "file\n", "no samples"),
    ("bad.jsonl", "{", "line 1"), ("list.jsonl", "[1]", "is not an object"),
    ("names.csv", "picture\na.png\n", "no image"),
    ("gone.csv", "file\ngone.png\n", "gone.png"), ("short.csv", "image\n1 2 3\n", "takes")])
def test_what_is_wrong_with_data_is_said(here, capsys, name, contents, words):
    (here / name).write_text(contents)
    text = run(capsys, "digits", "--reference", "digits", "--data", name, code=2).err
    assert words in text and name.partition(".")[0] in text + name


def test_arrays_that_do_not_fit(here, capsys):
    np.savez("two.npz", a=np.zeros((2, 8, 8, 1)), b=np.zeros((2, 3)))
    assert "the model takes image" in run(capsys, "digits", "--reference", "digits", "--data", "two.npz", code=2).err
    assert "digits2" in run(capsys, "digits2", "--reference", "digits", "--data", "two.npz", code=2).err
    with pytest.raises(SystemExit):
        cli.main(["validate", "digits", "--reference", "digits", "--data", "x", "--fail-on", "nonsense=1"])


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_of_an_archive_are_read_by_rows_and_the_same(tmp_path, monkeypatch, write, order):
    images = np.asarray(np.random.default_rng(0).random((5, 8, 8, 1), np.float32), order=order)
    write(tmp_path / "d.npz", image=images, labels=np.arange(5))
    read = arrays.load(str(tmp_path / "d.npz"))
    monkeypatch.setattr(arrays, "LARGE", 0)
    rows = arrays.load(str(tmp_path / "d.npz"))
    assert isinstance(rows["image"], arrays.Rows) == (write is np.savez and order == "C")
    for name in ("image", "labels"):
        np.testing.assert_array_equal([rows[name][i] for i in range(5)], read[name])
    found = Samples(tmp_path / "d.npz", Model(models.path("digits")).graph.subgraphs[0])
    np.testing.assert_array_equal(np.concatenate([image for image, in found]), images)
    assert all(one.flags.aligned for one, in found)


@pytest.mark.parametrize("large", [0, 1 << 30])
def test_archives_that_are_damaged_are_refused(tmp_path, monkeypatch, large):
    """Cut off, or with an array whose header says another size."""
    monkeypatch.setattr(arrays, "LARGE", large)
    np.savez(tmp_path / "d.npz", image=np.zeros((5, 8, 8, 1), np.float32))
    whole = (tmp_path / "d.npz").read_bytes()
    for contents in (whole[:len(whole) // 2], whole.replace(b"(5, 8, 8, 1)", b"(9, 8, 8, 1)")):
        (tmp_path / "e.npz").write_bytes(contents)
        with pytest.raises(ComparisonError, match=r"e\.npz"):
            arrays.load(str(tmp_path / "e.npz"))


def test_samples_of_a_folder_are_in_the_order_of_their_paths(tmp_path):
    for name in ("b/2.pgm", "a/9.pgm", "a/1.pgm"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(models.sample("one"), tmp_path / name)
    graph = Model(models.path("digits")).graph.subgraphs[0]
    found = Samples(tmp_path, graph, limit=2)
    assert len(found) == 2 and found[1][0].shape == (1, 8, 8, 1)
    with pytest.raises(IndexError):
        found[2]
    with pytest.raises(ComparisonError, match="must not be 0"):
        Samples(tmp_path, graph, std=[0.0])


def test_in_python(here):
    found = validation.compare("spoiled.tflite", models.path("digits"), [[one[None]] for one in pictures()])
    assert found.by_node(found.ranking[0]).cause == "channel scale"
    assert found._repr_html_().count("<tr>") == 1 + len(found.ranking)
    assert [t.name for t in found.outputs] == ["probabilities"]


@pytest.mark.parametrize(("options", "said"), [
    (["--nan"], "--nan needs --data, and does not work with --merge"),
    (["--delegate", "x.so"], "--delegate needs --data, and does not work with --merge"),
    (["--against", "litert"], "--record, --check and --against need --data, and do not work with --merge")])
def test_options_that_run_models_take_data(here, capsys, options, said):
    assert said in run(capsys, "digits", "--merge", "sums", *options, code=2).err


def test_a_delegate_has_no_page(here, capsys):
    said = run(capsys, "digits", "--data", "pictures", "--delegate", "x.so", "--html", "page.html", code=2).err
    assert "--delegate writes no --html and no --explorer" in said
