"""Data sets as people have them: folders, lists, masks; and how pictures become numbers."""
import json
import struct
import sys

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite import Model, cli, validation
from pylite.errors import ComparisonError, FileFormatError
from pylite.media import images, metadata, models
from pylite.schema.builder import ModelBuilder
from pylite.validation.data import Samples
from tests.tools import resources, small_models
from tests.validation.labelled import DIGITS, ORDER, accuracy, digits


def test_a_folder_for_each_class(tmp_path):
    found = accuracy(digits(tmp_path / "names", "{0}/a.pgm"))
    assert found.metrics["top1"].model == 1 and found.samples == 10 and not found.notes
    assert accuracy(digits(tmp_path / "spelt", "{0}_/deep/a.pgm")).metrics["top1"].model == 1
    numbers = digits(tmp_path / "numbers", "{1}/a.pgm")
    assert accuracy(numbers).metrics["top1"].model == 1
    (numbers / "9").rename(numbers / "-1")
    with pytest.raises(ComparisonError, match="label -1 is not one of the 10 classes"):
        accuracy(numbers)
    assert accuracy(digits(tmp_path / "wrong", "{1}/a.pgm"), label_offset=0).metrics["top1"].model == 1
    (tmp_path / "names" / "seven").rename(tmp_path / "names" / "eleven")
    with pytest.raises(ComparisonError, match=r"eleven.a\.pgm: the model has no class 'eleven'; it has zero, one, "):
        accuracy(tmp_path / "names")
    with pytest.raises(ComparisonError, match="has no labels for classification; give a folder for each"):
        accuracy(digits(tmp_path / "flat", "{0}.pgm"))


def test_classes_without_names_in_the_model(tmp_path):
    """The alphabetical order is not taken unasked."""
    (tmp_path / "model.tflite").write_bytes(small_models.reshape(shape=(1, 3), to=(1, 3)))
    for i, name in enumerate(("cat", "ant", "bee")):
        (tmp_path / "data" / name).mkdir(parents=True)
        np.save(tmp_path / "data" / name / "x.npy", np.eye(3, dtype=np.float32)[[2, 0, 1][i]])
    with pytest.raises(ComparisonError, match="--labels sorted"):
        accuracy(tmp_path / "data", tmp_path / "model.tflite")
    found = accuracy(tmp_path / "data", tmp_path / "model.tflite", labels="sorted")
    assert found.metrics["top1"].model == 1 and found.labels == ["ant", "bee", "cat"]
    (tmp_path / "labels.txt").write_text("cat\nant\nbee\n")
    found = accuracy(tmp_path / "data", tmp_path / "model.tflite", labels=tmp_path / "labels.txt")
    assert found.metrics["top1"].model == 0 and found.confusion["model"] == [[0, 2, 1], [1, 0, 1], [2, 1, 1]]


def test_numbers_that_may_count_a_background():
    rng = np.random.default_rng(0)
    data = [(rng.random((49, 40, 1)), i % 5) for i in range(10)]
    with pytest.raises(ComparisonError, match=r"class 0 of the model is 'background'.*--label-offset 0 or 1"):
        accuracy(data, models.path("sounds"))
    shown = {row[0] for row in accuracy(data, models.path("sounds"), label_offset=1).confusion["model"]}
    assert shown == {1, 2, 3, 4, 5}


def test_lists(tmp_path):
    digits(tmp_path, "{0}.pgm")
    rows = [(f"{name}.pgm", name) for name in ORDER]
    (tmp_path / "a.csv").write_text("path,label\n" + "".join(f"{a}, {b}\n" for a, b in rows))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"file": a, "label": i}) + "\n"
                                              for i, (a, _) in enumerate(rows)))
    for name in ("a.csv", "b.jsonl"):
        found = accuracy(tmp_path / name)
        assert found.metrics["top1"].model == 1 and found.samples == 10
    (tmp_path / "c.csv").write_text("path,label\nseven.pgm,seven\none.pgm,nine\n")
    found = accuracy(tmp_path / "c.csv")
    assert found.metrics["top1"].model == 0.5
    assert [(f.path, f.label, f.model) for f in found.worst] == [(str(tmp_path / "one.pgm"), 9, 1)]


def test_columns_of_numbers(tmp_path):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(20, 3)).round(4)
    (tmp_path / "model.tflite").write_bytes(small_models.reshape(shape=(1, 3), to=(1, 3)))
    (tmp_path / "a.csv").write_text("width,height,depth,label\n" + "".join(
        ",".join(map(str, row)) + f",{row.argmax()}\n" for row in rows))
    found = accuracy(tmp_path / "a.csv", tmp_path / "model.tflite")
    assert found.task == "classification" and found.metrics["top1"].model == 1
    (tmp_path / "b.csv").write_text("input,label\n" + "".join(
        " ".join(map(str, row)) + "," + " ".join(map(str, row + 1)) + "\n" for row in rows))
    found = accuracy(tmp_path / "b.csv", tmp_path / "model.tflite", task="regression")
    assert found.metrics["mae"].model == pytest.approx(1, abs=1e-6)
    (tmp_path / "one.tflite").write_bytes(small_models.reshape(shape=(1, 1), to=(1, 1)))
    (tmp_path / "c.csv").write_text("input,label\n1,1.5\n2,2.5\n")
    found = accuracy(tmp_path / "c.csv", tmp_path / "one.tflite")
    assert found.task == "regression" and found.metrics["rmse"].model == pytest.approx(0.5)


def test_masks_beside_pictures(tmp_path):
    """As .png beside .jpg with a palette, as a_mask.png, and named in a list."""
    resources.tool("PIL")
    from PIL import Image
    rng = np.random.default_rng(0)
    (tmp_path / "model.tflite").write_bytes(small_models.reshape(shape=(1, 8, 8, 3), to=(1, 8, 8, 3)))
    pictures = rng.integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    masks = pictures.argmax(3).astype(np.uint8)
    masks[:, :2] = 255
    masks[:, 7] = 0
    for form, taken in (("{}.png", "{}_mask.png"), ("{}.bmp", "{}_mask.png")):
        folder = tmp_path / form[3:]
        folder.mkdir()
        for i, (picture, mask) in enumerate(zip(pictures, masks, strict=True)):
            Image.fromarray(picture).save(folder / form.format(i))
            flat = Image.fromarray(mask, "P" if i % 2 else "L")
            if i % 2:
                flat.putpalette(rng.integers(0, 256, 768).astype(np.uint8).tobytes())
            flat.save(folder / taken.format(i))
        found = accuracy(folder, tmp_path / "model.tflite", mean=[0], std=[255])
        assert found.task == "segmentation" and found.samples == 5
        shown = pictures.argmax(3)[:, 2:]
        assert found.metrics["pixel_accuracy"].model == pytest.approx((shown == masks[:, 2:]).mean())
    (tmp_path / "list.csv").write_text("path,label\n" + "".join(f"png/{i}.png,png/{i}_mask.png\n" for i in range(5)))
    assert accuracy(tmp_path / "list.csv", tmp_path / "model.tflite", mean=[0], std=[255]).metrics == found.metrics
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.fromarray(pictures[0]).save(photos / "a.jpg")
    Image.fromarray(masks[0]).save(photos / "a.png")
    assert accuracy(photos, tmp_path / "model.tflite").samples == 1
    Image.fromarray(masks[0] * 0 + 3).save(photos / "a.png")
    with pytest.raises(ComparisonError, match=r"a\.png: the mask has class 3, and the model 3 classes"):
        accuracy(photos, tmp_path / "model.tflite")
    Image.fromarray(pictures[0]).save(photos / "a.png")
    with pytest.raises(FileFormatError, match="one number for each pixel"):
        accuracy(photos, tmp_path / "model.tflite")


def test_a_mask_of_one_channel_has_two_classes(tmp_path):
    (tmp_path / "model.tflite").write_bytes(small_models.reshape(shape=(1, 4, 4, 1), to=(1, 4, 4, 1)))
    rng = np.random.default_rng(0)
    data = [(rng.normal(size=(4, 4, 1)), (rng.random((4, 4)) > 0.5) * 255) for _ in range(6)]
    found = accuracy(data, tmp_path / "model.tflite")
    assert found.metrics["pixel_accuracy"].model == pytest.approx(np.mean(
        [(x[..., 0] > 0) == (y > 0) for x, y in data]))
    with pytest.raises(ComparisonError, match="a mask has one number for each pixel"):
        accuracy([(data[0][0], np.zeros((2, 2, 3)))], tmp_path / "model.tflite")


def described(mean, std, rate=None):
    """Metadata of one input, as converters write them."""
    builder = flatbuffers.Builder(256)

    def vector(tables):
        builder.StartVector(4, len(tables), 4)
        for table in reversed(tables):
            builder.PrependUOffsetTRelative(table)
        return builder.EndVector()

    def table(**slots):
        builder.StartObject(1 + max(int(name[1:]) for name in slots))
        for name, value in slots.items():
            slot = int(name[1:])
            if name[0] == "u":
                builder.PrependUint8Slot(slot, value, 0)
            elif name[0] == "n":
                builder.PrependUint32Slot(slot, value, 0)
            else:
                builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return builder.EndObject()
    numbers = []
    for values in (mean, std):
        builder.StartVector(4, len(values), 4)
        for value in reversed(values):
            builder.PrependFloat32(value)
        numbers.append(builder.EndVector())
    slots = {"t4": vector([table(u0=1, t1=table(t0=numbers[0], t1=numbers[1]))])}
    if rate is not None:
        slots["t3"] = table(u0=4, t1=table(n0=rate))
    inputs = vector([table(**slots)])
    builder.Finish(table(t3=vector([table(t2=inputs)])), b"M001")
    return bytes(builder.Output())


def test_the_metadata_normalize():
    data = described([1, 2, 3], [4, 5, 6], 8000)
    known = {"TFLITE_METADATA": memoryview(data)}
    assert metadata.of_input(known, 0) == {"mean": [1, 2, 3], "std": [4, 5, 6], "rate": 8000}
    assert metadata.of_input(known, 1) == metadata.of_input({}, 0) == {}
    for i in range(len(data)):
        for value in (0, 255):
            assert isinstance(metadata.of_input({"TFLITE_METADATA": data[:i] + bytes([value]) + data[i + 1:]}, 0), dict)
        metadata.of_input({"TFLITE_METADATA": data[:i]}, 0)
    assert metadata.of_input(known | {"TFLITE_METADATA": struct.pack("<I", 2 ** 31)}, 0) == {}


def test_how_pixels_become_numbers(tmp_path):
    """By what is given, by the range of a quantized input, by metadata; else -1 to 1, which is noted."""
    images.write(tmp_path / "a.pgm", np.array([[[0], [255]], [[51], [128]]], np.uint8))

    def sample(dtype="float32", given=None, **quantization):
        graph = Model(small_models.reshape(dtype, (1, 2, 2, 1), (4,), **quantization)).graph
        known = {} if given is None else {"TFLITE_METADATA": memoryview(given)}
        samples = Samples(tmp_path, graph.subgraphs[0], metadata=known)
        return samples[0][0].reshape(-1), samples.notes
    values, notes = sample()
    assert values.tolist() == pytest.approx([-1, 1, -0.6, 1 / 255]) and "became -1 to 1" in notes[0]
    values, notes = sample(given=described([0], [255]))
    assert values.tolist() == pytest.approx([0, 1, 0.2, 128 / 255]) and not notes
    for dtype, scale, zero_point, low, high in (("int8", 1 / 255, -128, 0, 1), ("uint8", 1 / 128, 128, -1, 127 / 128),
                                                ("int8", 1, -128, 0, 255), ("int8", 1 / 127.5, 0, -1.00392, 0.99608)):
        values, notes = sample(dtype, scale=scale, zero_point=zero_point, given=described([3], [2]))
        assert values[:2].tolist() == pytest.approx([low, high], abs=1e-4) and not notes
    values, notes = sample("int16", scale=1 / 32767, zero_point=0)
    assert values[:2].tolist() == [-1, 1] and not notes
    values, _ = sample("int8", scale=0.02, zero_point=-14, given=described([120], [60]))
    assert values[:2].tolist() == pytest.approx([-2, 2.25])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2 ** 32 - 1), sizes=st.tuples(*[st.integers(1, 40)] * 4),
       channels=st.sampled_from([1, 3, 4]))
def test_pictures_are_resized_as_the_formula_says(seed, sizes, channels):
    """Blocks are averaged, then pixels interpolated between the centres of their neighbours, down and across."""
    have, wanted = sizes[:2], sizes[2:]
    pixels = np.random.default_rng(seed).integers(0, 256, (*have, channels), dtype=np.uint8)
    down, across = (max(1, a // b) for a, b in zip(have, wanted, strict=True))
    image = pixels[:have[0] // down * down, :have[1] // across * across].astype(np.float32)
    image = image.reshape(have[0] // down, down, have[1] // across, across, channels).mean((1, 3))
    for axis, count in enumerate(wanted):
        at = np.clip((np.arange(count) + 0.5) * image.shape[axis] / count - 0.5, 0, image.shape[axis] - 1)
        low = at.astype(int)
        weight = np.expand_dims((at - low).astype(np.float32), tuple(i for i in range(3) if i != axis))
        high = np.minimum(low + 1, image.shape[axis] - 1)
        image = image.take(low, axis) * (1 - weight) + image.take(high, axis) * weight
    found = images.resize(pixels, *wanted)
    assert np.array_equal(found, image.round().astype(np.uint8) if have != wanted else pixels)
    assert found.flags.c_contiguous


def test_samples_outside_the_range_of_an_input_are_noted(tmp_path):
    """However they are shared."""
    digits(tmp_path / "data", "{0}/a.pgm")
    wrong = accuracy(tmp_path / "data", mean=[127.5], std=[127.5])
    assert len(wrong.notes) == 1 and wrong.notes[0].startswith(
        "input 'image': in 100.0% of the samples, more than 1 % of the numbers are outside 0 to 1, what it can ")
    assert accuracy(tmp_path / "data", mean=[127.5], std=[127.5], workers=2) == wrong
    report = validation.compare(DIGITS, DIGITS, tmp_path / "data", mean=[0], std=[200])
    outside, quantized = report.notes
    assert f"note: {outside}" in report.lines() and quantized.startswith("the reference is quantized, too")
    assert json.loads(report.to_json())["notes"] == report.notes
    assert validation.compare(DIGITS, DIGITS, tmp_path / "data").notes == [quantized]


def test_pictures_of_any_size(tmp_path):
    """A model that takes them gets each as it is."""
    m = ModelBuilder()
    x = m.tensor("x", (1, 1, 1, 3), shape_signature=(1, -1, -1, 3))
    y = m.tensor("y", (1, 3), shape_signature=(1, 3))
    m.operator("MEAN", [x, m.constant("axes", np.array([1, 2], np.int32))], [y], keep_dims=False)
    m.inputs([x])
    m.outputs([y])
    (tmp_path / "mean.tflite").write_bytes(m.build())
    rng = np.random.default_rng(0)
    for number, size in enumerate(((4, 5), (9, 3), (4, 5), (1, 1))):
        pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
        folder = tmp_path / "data" / str(pixels.astype(float).mean((0, 1)).argmax())
        folder.mkdir(parents=True, exist_ok=True)
        images.write(folder / f"{number}.ppm", pixels)
    assert accuracy(tmp_path / "data", tmp_path / "mean.tflite").metrics["top1"].model == 1
    report = validation.compare(tmp_path / "mean.tflite", tmp_path / "mean.tflite", tmp_path / "data")
    assert [(t.op, t.sqnr_db) for t in report.tensors] == [("MEAN", np.inf)]


def test_on_the_command_line(tmp_path, capsys):
    digits(tmp_path / "digits", "{0}/a.pgm")
    (tmp_path / "digits" / "four").rename(tmp_path / "digits" / "four.")
    (tmp_path / "names.txt").write_text("\n".join(ORDER).replace("four", "four."))

    def run(*arguments, code=0):
        assert cli.main(["validate", "digits", "--data", str(tmp_path / "digits"), *arguments]) == code
        return capsys.readouterr()
    assert "no class 'four.'; it has zero, one" in run(code=2).err
    text = run("--labels", str(tmp_path / "names.txt")).out
    assert text.startswith("digits.tflite: 10 samples\naccuracy (classification): 10 samples\n")
    assert "reference" not in text
    assert json.loads(run("--labels", "sorted", "--json").out)["accuracy"]["metrics"]["top1"]["model"] < 0.5
    assert "no such file" in run("--labels", str(tmp_path / "gone.txt"), code=2).err.lower()
    for option in (["--min-sqnr", "20"], ["--fail-on", "excess=6"], ["--explorer", str(tmp_path / "x.json")],
                   ["--reference", "digits", "--tensors", "0", "--min-sqnr", "20"]):
        assert "need --reference or --golden, and --tensors above 0" in run(*option, code=2).err


def test_samples_of_other_shapes_are_refused(tmp_path):
    """But for axes of size 1: the same numbers in another order would give a report about nothing."""
    (tmp_path / "model.tflite").write_bytes(small_models.reshape(shape=(1, 4, 3), to=(12,)))
    data = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32)

    def compared(array):
        np.savez(tmp_path / "d.npz", x=array)
        found = validation.compare(tmp_path / "model.tflite", tmp_path / "model.tflite", tmp_path / "d.npz")
        return found.samples
    for shape in ((5, 4, 3), (5, 1, 4, 3), (5, 4, 1, 3, 1)):
        assert compared(data.reshape(shape)) == 5
    for shape, remedy in (((5, 3, 4), "transpose the array"), ((5, 12), "reshape the array"),
                          ((5, 6, 2), "reshape the array"), ((5, 4, 3, 1, 2), "give an array of this shape")):
        with pytest.raises(ComparisonError) as error:
            compared(np.resize(data, shape))
        assert str(error.value) == (f"{tmp_path / 'd.npz'}, sample 0: input 'input' takes [1, 4, 3], and the sample "
                                    f"has {list(shape[1:])}; {remedy}")
    one = data[:1].transpose(0, 2, 1)
    for samples in (one, [one], [[one]]):
        with pytest.raises(ComparisonError, match=r"^sample 0: input 'input' takes .*; transpose the array"):
            validation.compare(tmp_path / "model.tflite", tmp_path / "model.tflite", samples)
    assert validation.compare(tmp_path / "model.tflite", tmp_path / "model.tflite", data).samples == 5


def test_what_nothing_reads_is_noted(tmp_path):
    """Labels have either of two names."""
    (tmp_path / "model.tflite").write_bytes(small_models.reshape(shape=(1, 3), to=(1, 3)))
    rows = np.eye(3, dtype=np.float32)
    np.savez(tmp_path / "a.npz", input=rows, label=[0, 1, 1], ages=[1, 2, 3], names=["a", "b", "c"])
    (tmp_path / "a.csv").write_text("input,labels,age\n" + "".join(
        f"{' '.join(map(str, row))},{label},7\n" for row, label in zip(rows, (0, 1, 1), strict=True)))
    for name, unused in (("a.npz", "arrays ages, names are"), ("a.csv", "column age is")):
        found = accuracy(tmp_path / name, tmp_path / "model.tflite")
        assert found.metrics["top1"].model == pytest.approx(2 / 3)
        assert found.notes == [f"{tmp_path / name}: the {unused} not used"]
    np.savez(tmp_path / "b.npz", rows, labels=[0, 1, 2])
    assert not accuracy(tmp_path / "b.npz", tmp_path / "model.tflite").notes


def test_one_mean_for_all_channels_is_a_number(tmp_path):
    folder = digits(tmp_path, "{0}/a.pgm")
    assert accuracy(folder, mean=0, std=255).metrics == accuracy(folder, mean=[0], std=[255]).metrics
    one = validation.compare(DIGITS, DIGITS, folder, mean=np.float32(127.5), std=1, save=tmp_path / "sums.npz")
    assert one.lines() == validation.compare(DIGITS, DIGITS, folder, mean=[127.5], std=(1,), save=tmp_path /
                                             "sums.npz").lines()


def test_a_missing_pandas_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    report = validation.compare(DIGITS, DIGITS, [np.zeros((1, 8, 8, 1))])
    with pytest.raises(ImportError, match=r"^to_pandas\(\) needs pandas: pip install pandas"):
        report.to_pandas()
