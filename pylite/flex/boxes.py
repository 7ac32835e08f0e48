"""Flex ops of detectors: non-maximum suppression, and crops of boxes."""
from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np

from pylite.flex.images import PIXELS
from pylite.flex.op import flex_op

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    _Array = NDArray[Any]

_INF = math.inf


def _corners(boxes: _Array) -> _Array:
    """Boxes (n, 4), two opposite corners (y, x) each, with the corners ordered: least y and x, then largest y and x."""
    y, x = np.sort(boxes[:, 0::2], 1), np.sort(boxes[:, 1::2], 1)
    return np.stack([y[:, 0], x[:, 0], y[:, 1], x[:, 1]], 1)


def overlaps(box: _Array, others: _Array) -> _Array:
    """Intersection over union of a box with each of `others` (n, 4), with ordered corners; 0 if one has no area."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.prod(np.maximum(sides, 0), 1)
    areas = np.prod(others[:, 2:] - others[:, :2], 1)
    area = np.prod(box[2:] - box[:2])
    return np.where((areas > 0) & (area > 0), shared / (areas + area - shared), 0)


def _sunk(score: float, shares: list[float], iou_threshold: float, score_threshold: float, sigma: float) -> float:
    """A score, reduced for each overlap in `shares`; 0 for an overlap beyond the threshold."""
    for share in shares:
        score *= math.exp(-0.5 / sigma * share * share) if share <= iou_threshold else 0.0
        if score <= score_threshold:
            break
    return score


def suppressed(boxes: _Array, scores: _Array, most: int, iou_threshold: float, score_threshold: float = -_INF,
               sigma: float = 0.0) -> tuple[list[int], list[float]]:
    """(indices, scores) of at most `most` boxes, the best first; of boxes with equal scores, the earlier first.

    A box that overlaps a better one by more than iou_threshold is dropped; with sigma, its score is reduced instead.
    """
    boxes, scores = _corners(np.asarray(boxes, np.float64)), np.asarray(scores, np.float64)
    if len(boxes) != scores.size or boxes.shape[1:] != (4,):
        raise ValueError(f"{scores.size} scores for boxes of shape {list(boxes.shape)}")
    if not 0 <= iou_threshold <= 1 or sigma < 0:
        raise ValueError(f"an overlap of {iou_threshold} and a sigma of {sigma}; expected an overlap of 0 to 1, and a "
                         f"sigma of at least 0")
    waiting = [(-score, i, 0) for i, score in enumerate(scores.tolist()) if score > score_threshold]
    heapq.heapify(waiting)
    chosen: list[int] = []
    kept: list[float] = []
    while waiting and len(chosen) < most:
        negative, i, compared = heapq.heappop(waiting)
        shares = overlaps(boxes[i], boxes[chosen[compared:]])[::-1]
        score = -negative
        if sigma > 0:
            score = _sunk(score, shares.tolist(), iou_threshold, score_threshold, sigma)
        elif (shares > iou_threshold).any():
            continue
        if score == -negative:
            chosen.append(i)
            kept.append(score)
        elif score > score_threshold:
            heapq.heappush(waiting, (-score, i, len(chosen)))
    return chosen, kept


def _types(limits: int, *results: str) -> list[str]:
    """Signatures: boxes and scores of one type T, the number, and limits; results: types, T for that of the scores."""
    return [f"{t} {t} int32 {' '.join(['float32|float16'] * limits)} -> {' '.join(results).replace('T', t)}"
            for t in ("float32", "float16")]


@flex_op("NonMaxSuppression", "float32 float32 int32 -> int32", sized_by=None)
def first_version(boxes: _Array, scores: _Array, most: _Array, *, iou_threshold: float = 0.5) -> _Array:
    return np.array(suppressed(boxes, scores, int(most), iou_threshold)[0], np.int32)


@flex_op("NonMaxSuppressionV2", *_types(1, "int32"), sized_by=None)
def second_version(boxes: _Array, scores: _Array, most: _Array, iou_threshold: _Array) -> _Array:
    return np.array(suppressed(boxes, scores, int(most), float(iou_threshold))[0], np.int32)


@flex_op("NonMaxSuppressionV3", *_types(2, "int32"), sized_by=None)
def third_version(boxes: _Array, scores: _Array, most: _Array, iou_threshold: _Array,
                  score_threshold: _Array) -> _Array:
    return np.array(suppressed(boxes, scores, int(most), float(iou_threshold), float(score_threshold))[0], np.int32)


def _padded(numbers: list[Any], most: int, pad: bool, dtype: Any) -> _Array:
    padded = np.zeros(most if pad else len(numbers), dtype)
    padded[:len(numbers)] = numbers
    return padded


@flex_op("NonMaxSuppressionV4", *_types(2, "int32", "int32"), sized_by=None)
def fourth_version(boxes: _Array, scores: _Array, most: _Array, iou_threshold: _Array, score_threshold: _Array, *,
                   pad_to_max_output_size: bool = False) -> tuple[_Array, _Array]:
    chosen, _ = suppressed(boxes, scores, int(most), float(iou_threshold), float(score_threshold))
    return _padded(chosen, int(most), pad_to_max_output_size, np.int32), np.array(len(chosen), np.int32)


@flex_op("NonMaxSuppressionV5", *_types(3, "int32", "T", "int32"), sized_by=None)
def fifth_version(boxes: _Array, scores: _Array, most: _Array, iou_threshold: _Array, score_threshold: _Array,
                  sigma: _Array, *, pad_to_max_output_size: bool = False) -> tuple[_Array, _Array, _Array]:
    chosen, kept = suppressed(boxes, scores, int(most), float(iou_threshold), float(score_threshold), float(sigma))
    return (_padded(chosen, int(most), pad_to_max_output_size, np.int32),
            _padded(kept, int(most), pad_to_max_output_size, scores.dtype), np.array(len(chosen), np.int32))


@flex_op("CombinedNonMaxSuppression", "float32 float32 int32 int32 float32 float32 -> float32 float32 float32 int32",
         sized_by=(2, 3))
def combined(boxes: _Array, scores: _Array, most_of_class: _Array, most: _Array, iou_threshold: _Array,
             score_threshold: _Array, *, pad_per_class: bool = False,
             clip_boxes: bool = True) -> tuple[_Array, _Array, _Array, _Array]:
    """boxes: (batch, n, 1 or classes, 4), scores: (batch, n, classes); boxes, scores, classes and counts of each."""
    classes, each, count = scores.shape[2], int(most_of_class), int(most)
    if pad_per_class:
        count = min(count, each * classes)
    found_boxes = np.zeros((len(boxes), count, 4))
    found_scores, found_classes = np.zeros((2, len(boxes), count))
    counts = np.zeros(len(boxes), np.int32)
    for k in range(len(boxes)):
        best = []
        for c in range(classes):
            own = boxes[k, :, c if boxes.shape[2] > 1 else 0]
            chosen, kept = suppressed(own, scores[k, :, c], each, float(iou_threshold), float(score_threshold))
            best += [(-score, c, own[i]) for i, score in zip(chosen, kept, strict=True)]
        best = sorted(best, key=lambda entry: entry[0])[:count]
        counts[k] = len(best)
        for i, (negative, c, box) in enumerate(best):
            found_boxes[k, i], found_scores[k, i], found_classes[k, i] = box, -negative, c
    return np.clip(found_boxes, 0, 1) if clip_boxes else found_boxes, found_scores, found_classes, counts


def _places(start: _Array, end: _Array, size: int, count: int) -> _Array:
    """(boxes, count): where in `size` rows those of a crop lie, from `start` to `end`, which are shares."""
    start, end = start[:, None] * (size - 1), end[:, None] * (size - 1)
    if count == 1:
        return 0.5 * (start + end)
    return start + np.arange(count) * (end - start) / (count - 1)


@flex_op("CropAndResize", f"{'|'.join(PIXELS)} float32 int32 int32 -> float32",
         sized_by=(3,))
def crop_and_resize(images: _Array, boxes: _Array, image_of_box: _Array, size: _Array, *, method: str = "bilinear",
                    extrapolation_value: float = 0.0) -> _Array:
    """boxes: (n, 4) of y and x of two corners, as shares of the image; (n, height, width, channels)."""
    height, width = images.shape[1:3]
    if boxes.size and not 0 <= image_of_box.min() <= image_of_box.max() < len(images):
        raise ValueError(f"boxes of the images {image_of_box.tolist()[:8]}, of {len(images)} images")
    y = _places(boxes[:, 0].astype(np.float64), boxes[:, 2].astype(np.float64), height, int(size[0]))
    x = _places(boxes[:, 1].astype(np.float64), boxes[:, 3].astype(np.float64), width, int(size[1]))
    inside = ((y >= 0) & (y <= height - 1))[:, :, None] & ((x >= 0) & (x <= width - 1))[:, None, :]
    y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
    images = images.astype(np.float64)

    def at(rows: _Array, columns: _Array) -> _Array:
        return images[image_of_box[:, None, None], rows.astype(int)[:, :, None], columns.astype(int)[:, None, :]]
    if method == "nearest":
        pixels = at(np.floor(y + 0.5), np.floor(x + 0.5))
    else:
        down, right = (y - np.floor(y))[:, :, None, None], (x - np.floor(x))[:, None, :, None]
        top, bottom, left, end = np.floor(y), np.ceil(y), np.floor(x), np.ceil(x)
        upper = at(top, left) * (1 - right) + at(top, end) * right
        lower = at(bottom, left) * (1 - right) + at(bottom, end) * right
        pixels = upper * (1 - down) + lower * down
    return np.where(inside[..., None], pixels, extrapolation_value)
