"""Labelled data for tests: the bundled samples in folders, and pictures with COCO's annotations."""
import json
import shutil

import numpy as np

from pylite import validation
from pylite.media import images, models

DIGITS = models.path("digits")
ORDER = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def accuracy(path, model=DIGITS, **options):
    return validation.accuracy(model, path, **options)


def digits(folder, name):
    """The bundled samples in a folder, under names made of theirs and their number."""
    for number, digit in enumerate(ORDER):
        file = folder / name.format(digit, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(models.sample(digit), file)
    return folder


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
