"""Turns a model's outputs into answers, by the kind of each output."""
import math

import numpy as np

from pylite.cli._answers import SHOWN, Areas, Box, Classes, Detections, Found, Named, Place, Point, Pose, Summary
from pylite.media.labels import fitted
from pylite.media.outputs import DETECTION, POSE, PROBABILITIES, key_points, objects, producer
from pylite.media.tensors import dequantize

LEAST_CLASSES = 10       # a row of so many numbers for a picture or a sound has the scores of classes
LEAST_PIXELS, MOST_CLASSES = 8, 512         # of an output that gives the class of each pixel


def answer(subgraph, outputs, labels, top, threshold, size, kinds=frozenset(("array",))):
    """The answers, a list.

    outputs: [(details, array)]; labels: [{class: name}], the caller's first; size: (height, width) of the input
    picture, or None; kinds: of the contents of inputs, "image" also if an array is a picture.  Any kind allows
    ranked classes, "image" poses and areas; with "image" or "audio", enough scores in a row are classes even if they
    have no names.
    """
    if len(outputs) == 4 and all(producer(subgraph, d["index"]) == DETECTION for d, _ in outputs):
        return [_detections([dequantize(a, d) for d, a in outputs], labels, top, threshold, size)]
    if len(outputs) == 1 and list(outputs[0][1].shape) == POSE and "image" in kinds:
        (detail, array), = outputs
        return [_pose(detail, array, threshold, size)]
    return [_output(subgraph, detail, array, labels, top, kinds) for detail, array in outputs]


def _output(subgraph, detail, array, labels, top, kinds):
    real, described = dequantize(array, detail), (detail["name"], list(array.shape), _type(array))
    classes = _classes_of_pixels(real) if "image" in kinds else None
    if classes is not None:
        return Areas(*described, _areas(classes, real, labels, top))
    row = real.reshape(-1)
    if kinds and _one_row(real):
        names = next(filter(None, (fitted(known, row.size) for known in labels)), None)
        likely = producer(subgraph, detail["index"]) in PROBABILITIES
        if likely or names or (row.size >= LEAST_CLASSES and not kinds.isdisjoint(("image", "audio"))):
            best = np.argsort(-row.astype(np.float64), kind="stable")[:top]     # -row wraps for integers
            return Classes(*described, likely, [Named(int(i), (names or {}).get(int(i)), _plain(float(row[i])))
                                                for i in best])
    values, facts = _summary(real)
    return Summary(*described, values, facts)


def _type(array):
    """The model's name for the type of an output."""
    return "string" if array.dtype == object else str(array.dtype)


def _one_row(real):
    """Can these be the scores of classes?  (1, n) and (1, n, 1, 1) can; (1, n, 1) has a number for each of n places."""
    return real.dtype.kind in "fiu" and real.size > 1 and real.size == max(real.shape) and (
        real.shape[-1] == real.size or real.ndim == 4)


def _classes_of_pixels(real):
    """The class of each pixel, (height, width), of an output that gives classes or their scores; None for another."""
    if real.ndim == 3 and real.shape[0] == 1 and min(real.shape[1:]) >= LEAST_PIXELS and real.dtype.kind in "iu":
        return real[0]
    if real.ndim == 4 and real.shape[0] == 1 and min(real.shape[1:3]) >= LEAST_PIXELS and (
            2 <= real.shape[3] <= MOST_CLASSES and real.dtype.kind == "f"):
        return real[0].argmax(2)
    return None


def _areas(classes, real, labels, top):
    """The classes with the largest areas; score: their share of the pixels."""
    known, counts = np.unique(classes, return_counts=True)
    size = real.shape[3] if real.ndim == 4 else int(known.max()) + 1
    names = next(filter(None, (fitted(each, size) or (real.ndim == 3 and each) for each in labels)), None) or {}
    order = np.argsort(-counts, kind="stable")[:top]
    return [Named(int(known[i]), names.get(int(known[i])), float(counts[i] / classes.size)) for i in order]


def _summary(real):
    """(values, facts) of a Summary."""
    row = real.reshape(-1)
    if real.dtype == object or not real.size:
        return [_plain(v) for v in row[:SHOWN]], {}
    if row.dtype.kind == "c":
        return [str(v) for v in row[:SHOWN]], {}
    known = row[np.isfinite(row)] if row.dtype.kind == "f" else row
    facts = {"min": _plain(known.min()), "max": _plain(known.max()),
             "mean": float(known.mean(dtype=np.float64))} if known.size else {}
    if known.size < row.size:
        facts["not_finite"] = int(row.size - known.size)
    return [_plain(v) for v in row[:SHOWN]], facts


def _plain(value):
    """A number or text for JSON, where NaN and infinities are null."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _detections(arrays, labels, top, threshold, size):
    boxes, classes, scores = objects(*arrays)
    names = labels[0] if labels else {}
    found = []
    for i in range(len(boxes)):
        if scores[i] >= threshold and len(found) < top:
            box = Box(*(float(v) for v in boxes[i]))
            pixels = Box(*(round(v * edge) for v, edge in zip(box, (*size, *size), strict=True))) if size else None
            number = int(classes[i])
            found.append(Found(number, names.get(number), _plain(float(scores[i])), box, pixels))
    return Detections(threshold, found)


def _pose(detail, array, threshold, size):
    """The points of one body."""
    height, width = size or (1, 1)
    points = [_point(name, x * width, y * height, score, (height, width), bool(size))
              for name, x, y, score in key_points(dequantize(array, detail))
              if score >= threshold and math.isfinite(x) and math.isfinite(y)]
    return Pose(detail["name"], list(array.shape), _type(array), threshold, points)


def _point(name, x, y, score, size, known=True):
    """A key point at (x, y) in pixels of a picture of `size`; unless that is known, it has fractions alone."""
    return Point(name, score, Place(x / size[1], y / size[0]), Place(round(x), round(y)) if known else None)


def of_detections(detections, threshold, size):
    """The answer for pylite.tasks.Detections in a picture of size (height, width)."""
    found = []
    for detection in detections:
        best, box = detection.categories[0], detection.bounding_box
        pixels = Box(box.origin_y, box.origin_x, box.origin_y + box.height, box.origin_x + box.width)
        points = None if detection.keypoints is None else [
            _point(p.name, p.x, p.y, p.score, size) for p in detection.keypoints if p.score >= threshold]
        found.append(Found(best.index, best.category_name or None, best.score,
                           Box(*(v / edge for v, edge in zip(pixels, (*size, *size), strict=True))), pixels, points))
    return Detections(threshold, found)
