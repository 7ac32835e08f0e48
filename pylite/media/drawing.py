"""Draws detected objects into a picture."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.media import images

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

COLOURS = np.array([(230, 25, 75), (60, 180, 75), (67, 99, 216), (245, 130, 49), (145, 30, 180), (66, 212, 244),
                    (240, 50, 230), (191, 239, 69), (250, 190, 212), (70, 153, 144)], np.uint8)      # by class


def detections(pixels: images.Pixels, objects: Sequence[Any]) -> images.Pixels:
    """A copy of a picture, uint8 (height, width, 3), with the objects in it.

    objects: pylite.tasks.Detections: their boxes or corners, masks and key points; labels if Pillow is installed.
    """
    drawn = np.array(images.channels(pixels, 3))
    thick = _thickness(drawn)
    for detection in reversed(objects):           # the best is on top
        colour = _colour(detection)
        if detection.mask is not None:
            drawn[detection.mask] = (drawn[detection.mask] // 2 + colour // 2).astype(np.uint8)
        for begin, end in zip(corners := _corners(detection), np.roll(corners, -1, 0), strict=True):
            _line(drawn, begin, end, colour, thick)
        for point in detection.keypoints or ():
            _dot(drawn, point.x, point.y, colour, 2 * thick)
    return _labelled(drawn, objects)


def points(pixels: images.Pixels, places: Sequence[tuple[float, float]]) -> images.Pixels:
    """A copy of a picture, uint8 (height, width, 3), with a dot at each (x, y)."""
    drawn = np.array(images.channels(pixels, 3))
    for x, y in places:
        _dot(drawn, x, y, COLOURS[0], 2 * _thickness(drawn))
    return drawn


def _thickness(drawn: images.Pixels) -> int:
    """The width of lines in pixels."""
    return max(1, round(min(drawn.shape[:2]) / 200))


def _colour(detection: Any) -> NDArray[np.uint8]:
    return COLOURS[detection.categories[0].index % len(COLOURS)]


def _corners(detection: Any) -> NDArray[np.float64]:
    """(4, 2): x and y of the corners of the box."""
    if detection.corners is not None:
        return detection.corners
    box = detection.bounding_box
    right, bottom = box.origin_x + box.width - 1, box.origin_y + box.height - 1
    return np.array([(box.origin_x, box.origin_y), (right, box.origin_y), (right, bottom), (box.origin_x, bottom)],
                    np.float64)


def _line(drawn: images.Pixels, begin: NDArray[Any], end: NDArray[Any], colour: NDArray[Any], thick: int) -> None:
    count = int(np.abs(end - begin).max()) + 2
    for x, y in np.linspace(begin, end, count).round():
        _dot(drawn, x, y, colour, thick)


def _dot(drawn: images.Pixels, x: float, y: float, colour: NDArray[Any], size: int) -> None:
    """A square of `size` pixels, as far as it lies in the picture."""
    left, top = round(x) - size // 2, round(y) - size // 2
    drawn[max(top, 0):max(top + size, 0), max(left, 0):max(left + size, 0)] = colour


def _labelled(drawn: images.Pixels, objects: Sequence[Any]) -> images.Pixels:
    """The picture with the name and the score of each object, if Pillow is installed."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        return drawn
    picture = Image.fromarray(drawn)
    draw = ImageDraw.Draw(picture)
    for detection in reversed(objects):
        text = str(detection.categories[0])
        x, y = _corners(detection).min(0)
        left, top, right, bottom = draw.textbbox((x, max(y - 12, 0)), text)
        colour = tuple(int(part) for part in _colour(detection))
        draw.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=colour)
        draw.text((x, max(y - 12, 0)), text, fill="white")
    return np.asarray(picture)
