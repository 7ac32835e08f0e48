"""Heads of YOLO models as Ultralytics exports them: their metadata, and the meaning of their outputs.

The exporter appends a zip archive with `metadata.json` to the file: the task, the names of the classes, the size of the
input.  Outputs, after dequantization (n boxes, c classes, k further numbers of each box):

    v8, 11      (1, 4 + c + k, n) or (1, n, 4 + c + k): centre x, y, width, height; a score for each class
    v5          (1, n, 5 + c + k): the same with the score of being an object before those of the classes
    end to end  (1, n, 6 + k): left, top, right, bottom, score, class; other boxes are already suppressed
    segment     k = 32 factors of prototypes, which are a second output (1, height, width, 32) or (1, 32, height, width)
    pose        k = points * 2 or 3: x, y and, of 3, a score
    obb         k = 1: the angle in radians
    classify    (1, c): a score for each class

Boxes and points are fractions of the input's size, in older files pixels of it.
"""
from __future__ import annotations

import ast
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError, shortened
from pylite.media import images, labels

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model

    Floats = NDArray[np.float64]

FILES = "metadata.json", "temp_meta.txt"        # the second: of exporters up to 2024, a dictionary of Python
TASKS = "detect", "segment", "pose", "obb", "classify"
MEAN_STD = [0.0], [255.0]       # for pixels: the models take 0..1
GREY = 114              # colour of the border that keeps a picture's proportions, as in training
FRACTIONS = 2.0         # coordinates below are fractions of the picture, others are pixels
PROTOTYPES = 32


@dataclass(frozen=True)
class Head:
    """The metadata of an Ultralytics model.

    points: (number of key points, numbers for each); end_to_end: does the model suppress boxes itself?
    """
    task: str
    names: dict[int, str]
    points: tuple[int, int] | None = None
    end_to_end: bool = False

    @property
    def extra(self) -> int:
        """Numbers of each box in addition to its place and scores."""
        if self.task == "pose":
            return (self.points or (17, 3))[0] * (self.points or (17, 3))[1]
        return {"segment": PROTOTYPES, "obb": 1}.get(self.task, 0)


@dataclass
class Candidates:
    """The objects in an output, the best first.  All places are fractions of the input's size.

    boxes: (n, 4): left, top, right and bottom; of obb centre x, y, width and height.  angles: (n,) radians, of obb;
    points: (n, points, 2 or 3); factors: (n, 32) of prototypes.
    """
    boxes: Floats
    scores: Floats
    classes: NDArray[np.int64]
    angles: Floats | None = None
    points: Floats | None = None
    factors: Floats | None = None

    def take(self, which: NDArray[Any]) -> Candidates:
        """The objects at these positions."""
        def chosen(array: Any) -> Any:
            return None if array is None else array[which]
        return Candidates(self.boxes[which], self.scores[which], self.classes[which], chosen(self.angles),
                          chosen(self.points), chosen(self.factors))


def head_of(model: Model) -> Head | None:
    """The Head of an Ultralytics model, or None for another model.

    Raises ModelError if the metadata are damaged, or name a task that is not one of TASKS.
    """
    name = next((name for name in model.associated_files if name in FILES), None)
    if name is None:
        return None
    text = labels.Files(model).text(name)
    try:
        head = _described(json.loads(text) if name == FILES[0] else ast.literal_eval(text))
    except (ValueError, SyntaxError, LookupError, TypeError, AttributeError, RecursionError, OverflowError,
            MemoryError) as error:
        raise ModelError(f"the file {name!r} at the model's end is damaged: {type(error).__name__}: {error}. Export "
                         "the model again") from None
    if head.task not in TASKS or (head.points and (head.points[0] < 1 or head.points[1] not in (2, 3))):
        raise ModelError(f"the file {name!r} at the model's end says task {head.task!r} and key points {head.points}; "
                         f"expected one of {', '.join(TASKS)}, and points of 2 or 3 numbers")
    if sorted(head.names) != [*range(len(head.names))] or not head.names:
        raise ModelError(f"the file {name!r} at the model's end names the classes {shortened(sorted(head.names))}; "
                         "expected names for 0, 1, 2 and so on")
    return head


def _described(known: Any) -> Head:
    names, points = known["names"], known.get("kpt_shape")
    names = dict(enumerate(names)) if isinstance(names, list) else {int(k): str(v) for k, v in names.items()}
    return Head(str(known.get("task") or "detect"), names, (int(points[0]), int(points[1])) if points else None,
                bool(known.get("end2end") or (known.get("args") or {}).get("nms")))


def boxes_of(outputs: list[NDArray[Any]], head: Head, size: tuple[int, int], least: float) -> Candidates:
    """The objects of the first output whose score is at least `least`, before suppression.

    size: (height, width) of the input.  A box has the class of its best score.  ModelError if the output has another
    shape.
    """
    rows, kind = _rows(outputs[0], head)
    rows = rows.astype(np.float64)
    if kind == "end to end":
        scores, classes, rest = rows[:, 4], rows[:, 5].astype(np.int64), rows[:, 6:]
    else:
        begin = 5 if kind == "v5" else 4
        count = rows.shape[1] - begin - head.extra
        every = rows[:, begin:begin + count] * (rows[:, 4:5] if kind == "v5" else 1)
        classes = every.argmax(1)
        scores, rest = every[np.arange(len(every)), classes], rows[:, begin + count:]
    unit = np.array([size[1], size[0]]) if rows[:, :4].size and np.nanmax(rows[:, :4]) > FRACTIONS else np.ones(2)
    kept = np.flatnonzero((scores >= least) & np.isfinite(rows).all(1))
    kept = kept[np.argsort(-scores[kept], kind="stable")]
    boxes, rest = rows[kept, :4] / np.tile(unit, 2), rest[kept]
    if kind != "end to end" and head.task != "obb":
        boxes = np.hstack([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2])
    candidates = Candidates(boxes, scores[kept], classes[kept])
    if head.task == "obb":
        candidates.angles = rest[:, 0]
    elif head.task == "pose":
        candidates.points = rest.reshape(len(rest), *(head.points or (17, 3)))
        candidates.points[:, :, :2] /= unit
    elif head.task == "segment":
        candidates.factors = rest
    return candidates


def _rows(output: NDArray[Any], head: Head) -> tuple[NDArray[Any], str]:
    """(the output with a row for each box, which kind of output it is)"""
    count, extra = len(head.names), head.extra
    widths = [(6 + extra, "end to end"), (4 + count + extra, "v8"), (5 + count + extra, "v5")]
    if not head.end_to_end:     # the width alone may be that of few classes
        widths.append(widths.pop(0))
    if output.ndim == 3 and output.shape[0] == 1:
        for width, kind in widths:
            fitting = [array for array in (output[0], output[0].T) if array.shape[1] == width]
            if fitting:
                return max(fitting, key=len), kind
    raise ModelError(f"the model's first output has the shape {list(output.shape)}; expected (1, n, w) or (1, w, n), w "
                     f"being {4 + count + extra} (v8, 11), {5 + count + extra} (v5) or {6 + extra} (end to end) for "
                     f"task {head.task!r} and {count} classes")


def suppressed(candidates: Candidates, overlap: float, most: int) -> Candidates:
    """`candidates` without boxes that overlap a better one of their class by more than `overlap`; at most `most`.

    Overlap is intersection over union; of rotated boxes, that of the normal distributions with their moments
    (arXiv:2106.06072).
    """
    area = (lambda boxes: boxes[:, 2] * boxes[:, 3]) if candidates.angles is not None else (
        lambda boxes: np.maximum(boxes[:, 2] - boxes[:, 0], 0) * np.maximum(boxes[:, 3] - boxes[:, 1], 0))
    areas = area(candidates.boxes)
    left, kept = np.arange(len(candidates.boxes)), list[int]()
    while left.size and len(kept) < most:
        best, left = left[0], left[1:]
        kept.append(best)
        rival = left[candidates.classes[left] == candidates.classes[best]]
        ratio = (_rotated_overlaps(candidates, best, rival) if candidates.angles is not None
                 else _overlaps(candidates.boxes, areas, best, rival))
        left = np.setdiff1d(left, rival[ratio > overlap], assume_unique=True)
    return candidates.take(np.array(kept, np.int64))


def _overlaps(boxes: Floats, areas: Floats, best: int, rivals: NDArray[Any]) -> Floats:
    low = np.maximum(boxes[best, :2], boxes[rivals, :2])
    high = np.minimum(boxes[best, 2:], boxes[rivals, 2:])
    common = np.maximum(high - low, 0).prod(1)
    return common / np.maximum(areas[best] + areas[rivals] - common, 1e-12)


def _rotated_overlaps(candidates: Candidates, best: int, rivals: NDArray[Any]) -> Floats:
    def moments(which: Any) -> tuple[Any, ...]:
        x, y, w, h = candidates.boxes[which].T
        angle = candidates.angles[which]  # type: ignore[index]
        a, b, c, s = w * w / 12, h * h / 12, np.cos(angle), np.sin(angle)
        return x, y, a * c * c + b * s * s, a * s * s + b * c * c, (a - b) * c * s
    x1, y1, a1, b1, c1 = moments(best)
    x2, y2, a2, b2, c2 = moments(rivals)
    a, b, c = a1 + a2, b1 + b2, c1 + c2
    base = a * b - c * c + 1e-12
    dx, dy = x1 - x2, y1 - y2
    distance = (a * dy * dy + b * dx * dx) / base / 4 - c * dx * dy / base / 2
    inside = np.sqrt(np.maximum(a1 * b1 - c1 * c1, 0) * np.maximum(a2 * b2 - c2 * c2, 0))
    distance = distance + 0.5 * np.log(base / (4 * inside + 1e-12) + 1e-12)
    return 1 - np.sqrt(1 - np.exp(-np.clip(distance, 1e-12, 100)) + 1e-12)


def corners(boxes: Floats, angles: Floats) -> Floats:
    """(n, 4, 2): the corners of rotated boxes in pixels, (n, 4) of centre x, y, width and height."""
    centre, half = boxes[:, None, :2], boxes[:, 2:] / 2
    across = np.stack([np.cos(angles), np.sin(angles)], 1)[:, None] * half[:, None, :1]
    down = np.stack([-np.sin(angles), np.cos(angles)], 1)[:, None] * half[:, None, 1:]
    return np.concatenate([centre - across - down, centre + across - down, centre + across + down,
                           centre - across + down], 1)


@dataclass(frozen=True)
class Placement:
    """The place of a picture of `height` x `width` pixels in the input, scaled, with a border around it.

    rows, columns: size of the input; taken: (rows, columns) that the picture takes; top, left: where it begins.
    """
    height: int
    width: int
    rows: int
    columns: int
    taken: tuple[int, int]
    top: int
    left: int

    def points(self, fractions: Floats) -> Floats:
        """(..., 2) fractions of the input's size as x, y in pixels of the picture, within it."""
        scale = np.array([self.width / self.taken[1], self.height / self.taken[0]])
        pixels = (fractions * [self.columns, self.rows] - [self.left, self.top]) * scale
        return pixels.clip(0, [self.width, self.height])

    def lengths(self, fractions: Floats) -> Floats:
        """(..., 2) widths and heights in pixels of the picture."""
        return fractions * [self.columns * self.width / self.taken[1], self.rows * self.height / self.taken[0]]


def cropped(pixels: images.Pixels, rows: int, columns: int) -> images.Pixels:
    """The largest part in the middle of the picture that has the proportions of `rows` x `columns` pixels."""
    height, width = pixels.shape[:2]
    scale = min(height / rows, width / columns)
    taken = max(1, round(rows * scale)), max(1, round(columns * scale))
    top, left = (height - taken[0]) // 2, (width - taken[1]) // 2
    return pixels[top:top + taken[0], left:left + taken[1]]


def letterboxed(pixels: images.Pixels, rows: int, columns: int,
                border: int = GREY) -> tuple[images.Pixels, Placement]:
    """The picture in the middle of `rows` x `columns` pixels, with its proportions; border: the value around it."""
    height, width = pixels.shape[:2]
    scale = min(rows / height, columns / width)
    taken = max(1, round(height * scale)), max(1, round(width * scale))
    top, left = round((rows - taken[0]) / 2 - 0.1), round((columns - taken[1]) / 2 - 0.1)
    image = np.full((rows, columns, pixels.shape[2]), border, np.uint8)
    image[top:top + taken[0], left:left + taken[1]] = images.resize(pixels, *taken)
    return image, Placement(height, width, rows, columns, taken, top, left)


def masks_of(prototypes: NDArray[Any], candidates: Candidates, place: Placement) -> NDArray[np.bool_]:
    """(n, height, width): the pixels of the picture that belong to each object, within its box.

    prototypes: the model's second output.  ModelError if it has another shape.
    """
    factors = candidates.factors
    if factors is None or prototypes.ndim != 4 or prototypes.shape[0] != 1 or PROTOTYPES not in (
            prototypes.shape[1], prototypes.shape[3]):
        raise ModelError(f"the model's second output has the shape {list(prototypes.shape)}; expected the prototypes "
                         f"of masks, (1, height, width, {PROTOTYPES})")
    basis = prototypes[0] if prototypes.shape[3] == PROTOTYPES else prototypes[0].transpose(1, 2, 0)
    rows, columns = basis.shape[:2]
    top, left = place.top * rows / place.rows, place.left * columns / place.columns
    y = (np.arange(place.height) + 0.5) * place.taken[0] * rows / place.rows / place.height + top
    x = (np.arange(place.width) + 0.5) * place.taken[1] * columns / place.columns / place.width + left
    found_masks = np.zeros((len(factors), place.height, place.width), bool)
    edges = place.points(candidates.boxes.reshape(-1, 2, 2)).reshape(-1, 4)
    for mask, row, box in zip(found_masks, factors, edges, strict=True):
        begin_x, begin_y = np.floor(box[:2]).astype(int)
        end_x, end_y = np.ceil(box[2:]).astype(int)
        logits = _sampled(basis @ row, y[begin_y:end_y], x[begin_x:end_x])
        mask[begin_y:end_y, begin_x:end_x] = logits > 0
    return found_masks


def _sampled(image: NDArray[Any], y: Floats, x: Floats) -> NDArray[Any]:
    """`image` (rows, columns) at the positions y, x in its pixels, bilinear between their centres."""
    def between(at: Floats, size: int) -> tuple[NDArray[Any], NDArray[Any], Floats]:
        at = np.clip(at - 0.5, 0, size - 1)
        low = at.astype(np.int64)
        return low, np.minimum(low + 1, size - 1), at - low
    low, high, weight = between(y, image.shape[0])
    image = image[low] * (1 - weight)[:, None] + image[high] * weight[:, None]
    low, high, weight = between(x, image.shape[1])
    return image[:, low] * (1 - weight) + image[:, high] * weight
