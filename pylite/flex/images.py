"""Flex ops of images: (batch, height, width, channels)."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.flex.op import flex_op

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    _Array = NDArray[Any]

PIXELS = ("float32", "float64", "float16", "uint8", "int8", "uint16", "int16", "int32", "int64")
_TABLE = 1024       # steps of a pixel in which TensorFlow tabulates the cubic


def _cubic(distance: _Array, a: float) -> _Array:
    """The weight of a pixel at a distance below 2."""
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, far)


def _interpolated(x: _Array, axis: int, count: int, align_corners: bool, half_pixel: bool) -> _Array:
    """`x`, float64, with `count` pixels along an axis, each the weighted sum of four."""
    size = x.shape[axis]
    step = (size - 1) / (count - 1) if align_corners and count > 1 else size / count
    place = (np.arange(count) + 0.5) * step - 0.5 if half_pixel else np.arange(count) * step
    first = np.floor(place)
    share = np.rint((place - first) * _TABLE) / _TABLE
    weights, pixels = [], []
    for k in range(-1, 3):
        pixel = first.astype(int) + k
        weight = _cubic(np.abs(share - k), -0.5 if half_pixel else -0.75)
        inside = (pixel >= 0) & (pixel < size)
        if half_pixel:      # pixels outside do not count
            weight = np.where(inside, weight, 0)
        weights.append(weight)
        pixels.append(np.clip(pixel, 0, size - 1))
    total = np.sum(weights, 0)
    along = [-1 if i == axis else 1 for i in range(x.ndim)]
    result = np.zeros((*x.shape[:axis], count, *x.shape[axis + 1:]))
    for weight, pixel in zip(weights, pixels, strict=True):
        result += (weight / total).reshape(along) * x.take(pixel, axis)
    return result


@flex_op("ResizeBicubic", f"{'|'.join(PIXELS)} int32 -> float32",
         sized_by=(1,))
def resize_bicubic(x: _Array, size: _Array, *, align_corners: bool = False,
                   half_pixel_centers: bool = False) -> _Array:
    rows = _interpolated(x.astype(np.float64), 1, int(size[0]), align_corners, half_pixel_centers)
    return _interpolated(rows, 2, int(size[1]), align_corners, half_pixel_centers)


@flex_op("ExtractImagePatches", *[f"{t} -> {t}" for t in (*PIXELS, "uint32", "uint64", "bool", "complex64",
                                                          "complex128")])
def extract_image_patches(x: _Array, *, ksizes: list[int], strides: list[int], rates: list[int],
                          padding: str) -> _Array:
    """The channels of a result are the rows, columns and channels of the patch."""
    indices, pads = [], []
    for axis in (1, 2):
        size, step, reach = x.shape[axis], strides[axis], (ksizes[axis] - 1) * rates[axis] + 1
        count = -(-size // step) if padding == "SAME" else max(0, (size - reach) // step + 1)
        missing = max(0, (count - 1) * step + reach - size) if padding == "SAME" else 0
        pads.append((missing // 2, missing - missing // 2))
        indices.append(step * np.arange(count)[:, None] + rates[axis] * np.arange(ksizes[axis]))
    padded = np.pad(x, [(0, 0), *pads, (0, 0)])
    rows, columns = indices
    patches = padded[:, rows[:, None, :, None], columns[None, :, None, :]]
    return patches.reshape(len(x), len(rows), len(columns), ksizes[1] * ksizes[2] * x.shape[3])


@flex_op("AdjustContrastv2", "float32 float32 -> float32")
def adjust_contrast(x: _Array, factor: _Array) -> _Array:
    wide = x.astype(np.float64)
    mean = wide.mean((-3, -2), keepdims=True)
    return (wide - mean) * float(factor) + mean


@flex_op("RGBToHSV", "float32 -> float32", "float64 -> float64")
def rgb_to_hsv(x: _Array) -> _Array:
    wide = x.astype(np.float64)
    red, green, blue = np.moveaxis(wide, -1, 0)
    top, span = wide.max(-1), np.ptp(wide, -1)
    safe = np.where(span > 0, span, 1)
    hue = np.where(top == red, (green - blue) / safe,
                   np.where(top == green, 2 + (blue - red) / safe, 4 + (red - green) / safe)) / 6
    return np.stack([np.where(span > 0, hue % 1, 0), np.where(top > 0, span / np.where(top > 0, top, 1), 0), top], -1)


@flex_op("HSVToRGB", "float32 -> float32", "float64 -> float64")
def hsv_to_rgb(x: _Array) -> _Array:
    hue, saturation, value = np.moveaxis(x.astype(np.float64), -1, 0)
    colours = [np.clip(np.abs((hue * 6 - at) % 6 - 3) - 1, 0, 1) for at in (0, 2, 4)]
    return np.stack([((1 - saturation) + saturation * colour) * value for colour in colours], -1)
