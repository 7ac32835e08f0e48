"""Resizing of NHWC images: bilinear and nearest neighbour."""
from functools import lru_cache

import numpy as np

from pylite._core.graph.dimensions import computed
from pylite.ir.registry import register, same
from pylite.ir.values import Call
from pylite.ops.moves import pixels

f32 = np.float32
_MANY = 1 << 14         # the tables of an axis with this many pixels are not kept


def _cached(make):
    """make(..., size, out, ...), whose tables are kept unless they are large, for the next lowering."""
    kept = lru_cache(256)(make)
    return lambda *key: (kept if max([n for n in key if type(n) is int]) <= _MANY else make)(*key)


def infer_resize(node):
    x = node.inputs[0]
    size = node.constant(1, "size")
    if len(x.shape) != 4:
        raise node.error("resizing needs 4 dimensions (batch, height, width, channels)", x)
    if size.shape != (2,) or size.min() < 0:
        raise node.error(f"holds {size.reshape(-1)[:4].tolist()}; expected a new height and width", node.inputs[1])
    size = size.tolist()
    node.check_memory(20 * sum(size), "tables of pixels")
    n, h, w, c = x.shape
    if n and c and min(size) and not (h and w):
        raise node.error("has no pixels to resize", x)
    return [(n, *size, c)]


def infer_bilinear(node):
    if node.options.half_pixel_centers and node.options.align_corners:
        raise node.error("half_pixel_centers and align_corners exclude each other")
    shape = infer_resize(node)
    if min(shape[0][1:3]) < 1:
        raise node.error(f"holds {list(shape[0][1:3])}; both must be at least 1", node.inputs[1])
    return shape


def _scale(size, out, align_corners):
    """Input pixels per output pixel, float32."""
    if align_corners and out > 1:
        return f32(size - 1) / f32(out - 1)
    return f32(size) / f32(out)


@_cached
def bilinear_axis(size, out, align_corners, half_pixel_centers):
    """(low, high, fraction) of each output index along one axis, in float32.  docs/numerics.md section 9."""
    at = np.arange(out, dtype=f32)
    scale = _scale(size, out, align_corners)
    at = (at + f32(0.5)) * scale - f32(0.5) if half_pixel_centers else at * scale
    low = np.minimum(np.maximum(np.floor(at), f32(0)), f32(size - 1))
    high = np.minimum(np.ceil(at), f32(size - 1))
    return _frozen(low.astype(np.int32), np.maximum(high, 0).astype(np.int32), at - low)


@_cached
def bilinear_axis_fixed(size, out, align_corners, half_pixel_centers):
    """The same in units of 1/1024 for int8 and int16.  docs/numerics.md section 9."""
    if align_corners and out > 1:
        scale = (1024 * (size - 1) + (out - 1) // 2) // (out - 1)
    else:
        scale = (1024 * size + out // 2) // out
    at = np.arange(out, dtype=np.int64) * scale
    if half_pixel_centers:
        at += scale // 2 - 512
    # Where the rounded scale leads beyond the last pixel the reference reads outside the image: stay inside.
    low = np.clip(at >> 10, 0, size - 1)
    high = np.clip((at + 1023) >> 10, 0, size - 1)
    return _frozen(low.astype(np.int32), high.astype(np.int32), (at - 1024 * low).astype(np.int32))


@_cached
def spread(axis, size, out, align_corners, half_pixel_centers, channels):
    """axis(...) with the fraction given for each channel of a pixel."""
    low, high, fraction = axis(size, out, align_corners, half_pixel_centers)
    return _frozen(low, high, np.repeat(fraction, channels))


@_cached
def nearest_axis(size, out, align_corners, half_pixel_centers):
    """The input index of each output index along one axis.  docs/numerics.md section 9."""
    at = (np.arange(out, dtype=f32) + f32(0.5 if half_pixel_centers else 0)) * _scale(size, out, align_corners)
    if align_corners:                       # halves away from zero; nothing is below zero
        whole = np.floor(at)
        at = whole + (at - whole >= f32(0.5))
    return _frozen(np.clip(np.floor(at), 0, size - 1).astype(np.int32))[0]


def _frozen(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


def lower_bilinear(node):
    x, y, o = node.inputs[0], node.outputs[0], node.options
    axis = bilinear_axis if x.dtype in ("float32", "uint8") else bilinear_axis_fixed
    _, h, w, c = x.shape
    _, rows, cols, _ = y.shape
    across = w, cols, o.align_corners, o.half_pixel_centers
    few = c < (8 if x.dtype == "float32" else 16 if x.dtype != "int16" and cols > w else 48)
    return Call("resize.Bilinear", x.bytes, pixels(y), x.dtype, x.shape,
                rows=computed(axis, h, rows, o.align_corners, o.half_pixel_centers),
                cols=computed(spread, axis, *across, c) if few else computed(axis, *across), gather=few,
                strided=() if few else (1,))


def lower_nearest(node):
    x, y, o = node.inputs[0], node.outputs[0], node.options
    _, h, w, _ = x.shape
    _, rows, cols, _ = y.shape
    tables = [computed(nearest_axis, size, out, o.align_corners, o.half_pixel_centers)
              for size, out in ((h, rows), (w, cols))]
    return Call("resize.Nearest", pixels(x), pixels(y), *tables, strided=(1,))


def reference_bilinear(x, size, o):
    for axis, out in zip((1, 2), size, strict=True):
        low, high, fraction = bilinear_axis(x.shape[axis], int(out), o.align_corners, o.half_pixel_centers)
        fraction = fraction.astype(np.float64).reshape([-1 if i == axis else 1 for i in range(4)])
        x = x.take(low, axis) * (1 - fraction) + x.take(high, axis) * fraction
    return x


def reference_nearest(x, size, o):
    rows, cols = (nearest_axis(n, int(out), o.align_corners, o.half_pixel_centers)
                  for n, out in zip(x.shape[1:3], size, strict=True))
    return x[:, rows][:, :, cols]


def types(dtypes):
    return [t.replace(" ->", " int32 ->") for t in same(dtypes)]


register("RESIZE_BILINEAR", versions=(1, 4), types=types("float32 uint8 int8 int16"), infer=infer_bilinear,
         lower=lower_bilinear, reference=reference_bilinear)
register("RESIZE_NEAREST_NEIGHBOR", versions=(1, 4), infer=infer_resize, lower=lower_nearest,
         types=types("float32 float16 bfloat16 int8 uint8 int16 uint16 int32 uint32 bool float8_e4m3fn float8_e5m2"),
         reference=reference_nearest)
