"""The accuracy of real models is what their interpreter's outputs say: sound, masks, classes, objects."""
import contextlib
import io
import json
import shutil
import wave

import numpy as np
import pytest

from pylite.errors import ComparisonError
from pylite.interpreter import Interpreter
from pylite.media import images, models
from tests.tools import resources
from tests.validation.labelled import ORDER, accuracy, scenes

YAMNET = "flutter-tflite/example/audio_classification/assets/models/yamnet.tflite"


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
    with pytest.raises(ComparisonError, match="does not take sound"):
        accuracy(tmp_path / "other", models.path("sounds"))


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
