"""Draw docs/pages/: the top of the pages that `pylite validate --html` writes for six pairs of models.

    python -m docs.draw_pages [PAIR ...]    in the repository's root; needs chromium, `pip install '.[test]'` and the
                                            models beside the checkout

Each is drawn for a screen of 1280 pixels and for a phone of 390, light and dark.
"""
import argparse
import contextlib
import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from pylite import Model, cli
from pylite.media import models
from pylite.schema import read, write
from tests.tools import browser
from tests.validation import planted

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "pages"
SIZES, SCHEMES = ((1280, 900), (390, 844)), ("light", "dark")
SAMPLES, QUALITY = 16, 70
SCALE = ["--mean", "0", "--std", "255"]


def bundled(folder, name):
    """A bundled model beside itself in real numbers, on the pictures of the samples or of the examples' scene."""
    shutil.copyfile(models.path(name), folder / f"{name}.tflite")
    (folder / "data").mkdir()
    pictures = [ROOT / "examples" / "raspberry_pi" / "samples" / "scene.pgm"] if name == "digit-detector" else \
        models.sample("seven").parent.iterdir()
    for picture in pictures:
        shutil.copy(picture, folder / "data")
    return [f"{name}.tflite", "--reference", name, "--data", "data", *SCALE]


def spoiled(folder):
    """`digits` with one channel of a layer three times too large."""
    command = bundled(folder, "digits")
    model = read(models.path("digits").read_bytes())
    weights = next(t for t in model.subgraphs[0].tensors if t.name == "trunk/4/weights")
    weights.quantization.scale = weights.quantization.scale.copy()
    weights.quantization.scale[7] *= 3
    (folder / "spoiled.tflite").write_bytes(write(model))
    return ["spoiled.tflite", *command[1:]]


def converted(folder, name):
    """A pair of tests/validation/planted.py, calibrated on samples like those that are compared."""
    pair = planted.Pair(name)
    (folder / f"{name}.tflite").write_bytes(pair.contents)
    shutil.copyfile(planted.MODELS / f"{planted.PAIRS[name][1]}.tflite", folder / f"{name}_float.tflite")
    model = Model(folder / f"{name}.tflite")
    samples = planted.samples(model, SAMPLES)
    inputs = model.graph.subgraphs[0].inputs
    np.savez(folder / "data.npz", **{f"arr_{k}": np.concatenate([arrays[k] for arrays in samples])
                                     for k in range(len(inputs))})
    return [f"{name}.tflite", "--reference", f"{name}_float.tflite", "--data", "data.npz"]


PAIRS = {"good": lambda folder: bundled(folder, "digits"), "spoiled": spoiled,
         "transformer": lambda folder: converted(folder, "transformer"),
         "detector": lambda folder: bundled(folder, "digit-detector"),
         "unet": lambda folder: converted(folder, "unet"), "keyword": lambda folder: converted(folder, "keyword")}


def draw(running, name):
    """Write the pictures of a pair."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        with contextlib.redirect_stdout(io.StringIO()):
            cli.main(["validate", *PAIRS[name](Path(scratch)), "--html", "page.html"])
        for size in SIZES:
            for scheme in SCHEMES:
                with browser.opened(running, Path(scratch, "page.html"), size, scheme) as shown:
                    picture = Image.open(io.BytesIO(shown.screenshot()))
                picture.convert("RGB").save(FOLDER / f"{name}-{size[0]}-{scheme}.webp", quality=QUALITY, method=6)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", default=list(PAIRS), metavar="PAIR")
    FOLDER.mkdir(exist_ok=True)
    with browser.browser() as chromium:
        for pair in parser.parse_args().pairs:
            draw(chromium, pair)
