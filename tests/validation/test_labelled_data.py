"""Data sets as people have them: folders, lists, masks, annotations and sound; what is wrong with them is said."""
import contextlib
import io
import json
import shutil
import struct
import wave

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite import cli, validation
from pylite.errors import ComparisonError, FileFormatError
from pylite.interpreter import Interpreter
from pylite.media import images, metadata, models
from pylite.model import Model
from pylite.schema.builder import ModelBuilder
from pylite.validation.data import Samples
from tests import resources, small_models

DIGITS = models.path("digits")
ORDER = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
YAMNET = "flutter-tflite/example/audio_classification/assets/models/yamnet.tflite"


def accuracy(path, model=DIGITS, **options):
    return validation.accuracy(model, path, **options)


def digits(folder, name):
    """The bundled samples in a folder, under names made of theirs and their number."""
    for number, digit in enumerate(ORDER):
        file = folder / name.format(digit, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(models.sample(digit), file)
    return folder


def test_a_folder_for_each_class(tmp_path):
    found = accuracy(digits(tmp_path / "names", "{0}/a.pgm"))
    assert found.metrics["top1"].model == 1 and found.samples == 10 and not found.notes
    assert accuracy(digits(tmp_path / "spelt", "{0}_/deep/a.pgm")).metrics["top1"].model == 1
    numbers = digits(tmp_path / "numbers", "{1}/a.pgm")
    assert accuracy(numbers).metrics["top1"].model == 1
    (numbers / "9").rename(numbers / "-1")
    with pytest.raises(ComparisonError, match="label -1 is none of the 10 classes"):
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


@pytest.mark.parametrize(("name", "text", "words"), [
    ("a.csv", "path,label\nzero.pgm\n", r"a\.csv, line 2: has not the 2 columns"),
    ("b.csv", "path,label\nzero.pgm,zero\nzero.pgm,one,two\n", r"b\.csv, line 3: has not the 2 columns"),
    ("c.csv", "path,label\nzero.pgm,zero\nzero.pgm,ten\n", r"c\.csv, line 3: the model has no class 'ten'"),
    ("d.csv", "path,label\nzero.pgm,zero\nzero.pgm,11\n", r"d\.csv, line 3: the model has no class '11'"),
    ("j.csv", "path,label\nzero.pgm,0\nzero.pgm,11\n", r"j\.csv, line 3: label 11 is none of the 10 classes"),
    ("e.csv", "path,label\ngone.pgm,zero\n", r"gone\.pgm"),
    ("f.csv", "image,label\n1 2 x 4,3\n", r"1 2 x 4"),
    ("g.csv", "image,label\n1 2 3,3\n", r"g\.csv, line 2: input 'image' takes .* has \[3\]"),
    ("h.csv", "wide,label\n1,3\n", r"h\.csv, line 2: has no image; it has wide, label"),
    ("i.csv", b"path,label\n\xff\xfe,zero\n", r"i\.csv: .*utf-8"),
    ("a.jsonl", '{"file": "zero.pgm", "label": 0}\n{"file": "zero.pgm"}\n', r"a\.jsonl, line 2: has no label, un"),
    ("b.jsonl", '{"file": "zero.pgm", "label": 0}\n\n{"file": \n', r"b\.jsonl, line 3: Expecting value"),
    ("c.jsonl", '["zero.pgm"]\n', r"c\.jsonl, line 1: is no object"),
    ("d.jsonl", '{"label": 0}\n', r"d\.jsonl, line 1: has no image"),
    ("a.json", "{", r"a\.json: Expecting"),
    ("b.json", "[]", r"b\.json: is no list of objects in COCO's form"),
    ("c.json", '{"images": [{"id": 1}], "categories": []}', r"c\.json: .*file_name"),
    ("d.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [{"id": 1, "name": "zero"}], '
     '"annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 2, 3]}]}', r'd\.json: "annotations"\[0\]'),
    ("e.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [], "annotations": [{"image_id": 1, '
     '"category_id": 1, "bbox": [1, 2, 3, 4]}]}', r'e\.json: "annotations"\[0\].*category 1'),
    ("f.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [{"id": 1, "name": "zero"}], '
     '"annotations": [{"image_id": 7, "category_id": 1, "bbox": [1, 2, 3, 4]}]}', r'"annotations"\[0\]: KeyError\(7\)'),
    ("g.json", '{"images": [{"id": 1, "file_name": "gone.pgm"}], "categories": [], "annotations": []}',
     r"g\.json: gone\.pgm is not in .*--images"),
    ("h.json", '{"images": [{"id": 1, "file_name": "zero.pgm"}], "categories": [{"id": 1, "name": "zero"}], '
     '"annotations": []}', r"COCO's objects, and output .* leave the task open"),
    ("a.npz", b"PK\3\4 no archive", r"a\.npz"), ("b.npy", b"no array", r"b\.npy"),
    ("x.txt", "", "unknown kind of data")])
def test_what_is_wrong_with_a_file_is_said(tmp_path, name, text, words):
    shutil.copy(models.sample("zero"), tmp_path / "zero.pgm")
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ComparisonError, match=words):
        accuracy(tmp_path / name)


def test_what_is_wrong_with_arrays_is_said(tmp_path):
    path = tmp_path / "a.npz"
    image = np.zeros((4, 8, 8, 1))
    for arrays, words in (({"image": image, "labels": np.zeros(3, int)}, r"have \[3, 4\] samples"),
                          ({"image": image}, "has no labels for classification"),
                          ({"a": image, "b": image}, "has a, b; the model takes image"),
                          ({"image": image, "labels": np.array(["x", "one", "two", "two"])}, "sample 0: .* class 'x'"),
                          ({"image": image[:0], "labels": np.zeros(0, int)}, "has no samples")):
        np.savez(path, **arrays)
        with pytest.raises(ComparisonError, match=words):
            accuracy(path)
    np.savez(path, image=image, labels=np.array(["one", "two", "three", "four"]))
    assert accuracy(path).samples == 4
    with pytest.raises(ComparisonError, match="no task is called 'sorting'"):
        accuracy(path, task="sorting")
    with pytest.raises(ComparisonError, match="detection takes COCO's annotations"):
        accuracy(path, task="detection")


def sound(path, samples, rate=16000):
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def test_sound_in_folders_is_resampled_as_the_metadata_say(tmp_path):
    """YAMNet takes 16,000 samples per second; its own interpreter, on the same sound, is the statement."""
    model = resources.models() / YAMNET
    at, rng = np.arange(44100) / 44100, np.random.default_rng(0)
    for name, samples in (("Sine wave", np.sin(at * 880 * np.pi) / 2), ("Silence", at * 0),
                          ("White noise", rng.normal(0, 0.2, 44100))):
        sound(tmp_path / "data" / name / "a.wav", samples, 44100)
    found = accuracy(tmp_path / "data", model)
    assert found.task == "classification" and len(found.labels) == 521
    interpreter = Interpreter(str(model))
    interpreter.allocate_tensors()
    right = 0
    for name in ("Silence", "Sine wave", "White noise"):
        with wave.open(str(tmp_path / "data" / name / "a.wav")) as file:
            samples = np.frombuffer(file.readframes(44100), "<i2").astype(np.float32) / 32768
        taken = np.interp(np.arange(16000) * 44100 / 16000, np.arange(44100), samples).astype(np.float32)[:15600]
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], taken)
        interpreter.invoke()
        row = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0]
        right += found.labels[row.argmax()] == name
    assert found.metrics["top1"].model == pytest.approx(right / 3) and right >= 2
    slow = accuracy(tmp_path / "data", model, rate=44100)
    assert slow != found
    (tmp_path / "data" / "Silence" / "a.wav").write_bytes(b"RIFF")
    with pytest.raises(ComparisonError, match=r"Silence.a\.wav"):
        accuracy(tmp_path / "data", model)
    sound(tmp_path / "other" / "low tone" / "a.wav", at)
    with pytest.raises(ComparisonError, match="takes features of sound, not sound"):
        accuracy(tmp_path / "other", models.path("sounds"))


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


@pytest.mark.parametrize("name", ["test_data/deeplabv3_mnv2_dm05_pascal_quant", "keras/unet_transpose_128_int8"])
def test_real_segmentation(name):
    """By the interpreter's own output."""
    model = resources.models() / f"{name}.tflite"
    interpreter = Interpreter(str(model))
    interpreter.allocate_tensors()
    detail, = interpreter.get_input_details()
    rng = np.random.default_rng(5)
    values = rng.integers(-100, 100, detail["shape"]).astype(np.int64) - (0 if detail["dtype"] == np.int8 else -128)
    interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
    interpreter.invoke()
    output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0]
    shown = output.argmax(2) if output.ndim == 3 else output
    mask = np.where(rng.random(shown.shape) < 0.5, shown, 0)
    scale, zero_point = detail["quantization"]
    found = accuracy([((values[0] - zero_point) * scale, mask)], model)
    assert found.metrics["pixel_accuracy"].model == (shown == mask).mean()


def scenes(folder, rng, count=8):
    """Pictures with digits and COCO's annotations of them, in the layout of COCO's archives."""
    folder.mkdir()
    (folder / "annotations").mkdir()
    (folder / "val").mkdir()
    listed, boxes = [], []
    for number in range(count):
        picture = np.full((96, 144, 1), 40, np.uint8)
        for place in range(number % 3):
            digit = int(rng.integers(10))
            pixels = images.resize(images.read(models.sample(ORDER[digit])), 26, 36)
            top, left = 8 + 40 * place, int(rng.integers(0, 100))
            picture[top:top + 26, left:left + 36] = np.maximum(picture[top:top + 26, left:left + 36], pixels)
            boxes.append({"id": len(boxes) + 1, "image_id": 100 + number, "category_id": 10 + digit, "iscrowd": 0,
                          "bbox": [left + 3, top, 30, 26], "area": 30 * 26})
        images.write(folder / "val" / f"{number}.pgm", picture)
        listed.append({"id": 100 + number, "file_name": f"{number}.pgm"} | (
            {"height": 96, "width": 144} if number % 2 else {}))
    content = {"images": listed, "annotations": boxes, "categories": [{"id": 99, "name": "digits"}] + [
        {"id": 10 + i, "name": name.title()} for i, name in enumerate(ORDER)]}
    (folder / "annotations" / "instances_val.json").write_text(json.dumps(content))
    return folder / "annotations" / "instances_val.json"


def evaluated(path, results):
    """COCO's statistics of results in its own form."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
    (path.parent / "results.json").write_text(json.dumps(results))
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO(str(path))
        evaluation = COCOeval(truth, truth.loadRes(str(path.parent / "results.json")), "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats


@pytest.mark.parametrize("model", [models.path("digit-detector"), "go-tflite/_example/ssd/detect.tflite"])
def test_detection_is_cocos(tmp_path, model):
    """Of the bundled detector and of a real SSD, by the interpreter and pycocotools."""
    resources.tool("pycocotools")
    rng = np.random.default_rng(1)
    path = scenes(tmp_path / "coco", rng)
    names, options = {i: 10 + i for i in range(10)}, {}
    if isinstance(model, str):
        model = resources.models() / model
        names = {i: 10 + i % 10 for i in (0, 1, 2, 40, 84, 85, 86, 87, 88, 89)}
        text = ["???"] + [f"thing {i}" for i in range(90)]
        for number, category in names.items():
            text[number + 1] = ORDER[category - 10]
        (tmp_path / "labels.txt").write_text("\n".join(text) + "\n")
        options["labels"] = tmp_path / "labels.txt"
        with pytest.raises(ComparisonError, match=r"the model has no labels; .*--labels FILE"):
            accuracy(path, model)
    found = accuracy(path, model, **options)
    interpreter = Interpreter(str(model))
    interpreter.allocate_tensors()
    detail, = interpreter.get_input_details()
    results = []
    for number in range(8):
        pixels = images.channels(images.read(tmp_path / "coco" / "val" / f"{number}.pgm"), detail["shape"][3])
        pixels = images.resize(pixels, *detail["shape"][1:3])
        interpreter.set_tensor(detail["index"], (pixels if detail["dtype"] == np.uint8 else
                                                 (pixels ^ 0x80).view(np.int8))[None])
        interpreter.invoke()
        boxes, classes, scores, count = (interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details())
        for box, c, score in list(zip(boxes[0], classes[0], scores[0], strict=True))[:int(count[0])]:
            if int(c) in names:
                top, left, bottom, right = (box * np.array([96, 144, 96, 144], np.float64)).tolist()
                results.append({"image_id": 100 + number, "category_id": names[int(c)], "score": float(score),
                                "bbox": [left, top, right - left, bottom - top]})
    assert results
    stats = evaluated(path, results)
    assert found.task == "detection" and found.samples == 8
    for metric, place in (("mean_ap", 0), ("ap50", 1), ("ap75", 2), ("ar100", 8)):
        assert found.metrics[metric].model == pytest.approx(stats[place], abs=1e-9), metric
    if "labels" not in options:
        assert found.metrics["ap50"].model > 0.3
    both = accuracy(path, model, reference=model, **options)
    assert both.flipped == 0 and both.drop == 0 and both.metrics["mean_ap"].model == found.metrics["mean_ap"].model
    moved = shutil.move(path, tmp_path / "elsewhere.json")
    with pytest.raises(ComparisonError, match="--images"):
        accuracy(moved, model, **options)
    assert accuracy(moved, model, pictures=tmp_path / "coco" / "val", **options).metrics == found.metrics


def test_a_category_that_the_model_lacks(tmp_path):
    path = scenes(tmp_path / "coco", np.random.default_rng(1))
    content = json.loads(path.read_text())
    content["categories"][-1]["name"] = "ten"
    content["annotations"][0]["category_id"] = 19
    path.write_text(json.dumps(content))
    with pytest.raises(ComparisonError, match="the model has no class 'ten'; it has zero, one"):
        accuracy(path, models.path("digit-detector"))


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


@pytest.mark.parametrize(("name", "other"), [
    ("tiny/benchmark/training/image_classification/trained_models/pretrainedResnet_quant",
     "tiny/benchmark/training/image_classification/trained_models/pretrainedResnet"),
    ("tiny/benchmark/training/keyword_spotting/trained_models/kws_ref_model",
     "tiny/benchmark/training/keyword_spotting/trained_models/kws_ref_model_float32"),
    ("keras/mobilenet_v1_050_160_int8_uint8io", "keras/mobilenet_v1_050_160_float32")])
def test_real_classification(name, other):
    """Of both models of a pair, by the interpreter's own outputs."""
    paths = [resources.models() / f"{path}.tflite" for path in (name, other)]
    interpreters = [Interpreter(str(path)) for path in paths]
    shape = interpreters[1].get_input_details()[0]["shape"]
    rng = np.random.default_rng(7)
    samples = [images.resize(rng.integers(0, 256, (5, 5, shape[3]), dtype=np.uint8), *shape[1:3]) / 127.5 - 1
               for _ in range(12)]
    scores = []
    for interpreter in interpreters:
        interpreter.allocate_tensors()
        (given,), (taken,) = interpreter.get_input_details(), interpreter.get_output_details()
        scale, zero_point = given["quantization"]
        rows = []
        for sample in samples:
            real = sample.astype(np.float32)[None]
            if scale:
                steps = real / np.float32(scale)
                limits = np.iinfo(given["dtype"])
                real = (np.trunc(steps + np.copysign(np.float32(0.5), steps)) + zero_point).clip(limits.min, limits.max)
            interpreter.set_tensor(given["index"], real.astype(given["dtype"]))
            interpreter.invoke()
            rows.append(interpreter.get_tensor(taken["index"])[0].astype(np.float64))
        scores.append(np.array(rows))
    labels = np.where(rng.random(12) < 0.7, scores[1].argmax(1), rng.integers(0, scores[1].shape[1], 12))
    found = accuracy(list(zip(samples, labels, strict=True)), paths[0], reference=paths[1])
    for side, rows in zip(("model", "reference"), scores, strict=True):
        assert getattr(found.metrics["top1"], side) == pytest.approx((rows.argmax(1) == labels).mean())
        order = np.argsort(-rows, 1, kind="stable")[:, :5]
        assert getattr(found.metrics["top5"], side) == pytest.approx((order == labels[:, None]).any(1).mean())
    assert found.flipped == (scores[0].argmax(1) != scores[1].argmax(1)).sum()


def test_samples_outside_the_range_of_an_input_are_noted(tmp_path):
    """However they are shared."""
    digits(tmp_path / "data", "{0}/a.pgm")
    wrong = accuracy(tmp_path / "data", mean=[127.5], std=[127.5])
    assert len(wrong.notes) == 1 and wrong.notes[0].startswith(
        "input 'image': in 100.0% of the samples, more than 1 % of the numbers are outside 0 to 1, what it can ")
    assert accuracy(tmp_path / "data", mean=[127.5], std=[127.5], workers=2) == wrong
    report = validation.compare(DIGITS, DIGITS, tmp_path / "data", mean=[0], std=[200])
    assert len(report.notes) == 1 and f"note: {report.notes[0]}" in report.lines()
    assert json.loads(report.to_json())["notes"] == report.notes
    assert not validation.compare(DIGITS, DIGITS, tmp_path / "data").notes


def test_pictures_of_any_size(tmp_path):
    """A model that takes them gets each as it is; tensors are compared where all are alike."""
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
    with pytest.raises(ComparisonError, match="they must agree"):
        validation.compare(tmp_path / "mean.tflite", tmp_path / "mean.tflite", tmp_path / "data")


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
        assert "take --reference, and tensors that are compared" in run(*option, code=2).err
