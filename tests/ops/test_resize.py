"""Resizing."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.ops.resize import bilinear_axis
from pylite.schema.builder import ModelBuilder
from tests.ops import draw
from tests.tools import oneop


def resize(m, rng, dtype, name, align_corners, half_pixel_centers):
    shape = draw.image(rng, 8)
    size = rng.integers(1, 16, 2).astype(np.int32)
    q = draw.quantization(rng, dtype)
    x = m.tensor("x", shape, dtype, **q)
    y = m.tensor("y", (1, 1, 1, 1), dtype, **q)
    m.operator(name, [x, m.constant("size", size)], [y], align_corners=align_corners,
               half_pixel_centers=half_pixel_centers)
    m.inputs([x])
    m.outputs([y])
    return [draw.values(rng, shape, dtype)]


@oneop.differential("float32", "int8", "uint8", "int16", count=40)
def test_resize_bilinear(m, rng, dtype):
    return resize(m, rng, dtype, "RESIZE_BILINEAR", *[(False, False), (True, False), (False, True)][rng.integers(3)])


@oneop.differential("float32", "int8", "uint8", count=12)
def test_resize_bilinear_of_many_channels(m, rng, dtype):
    """Wider images are interpolated line by line if a line of that many channels fits the buffer."""
    return to_any_width(m, rng, dtype, [17, 21, 70, 1030])


@oneop.differential("float32", "int8", "uint8", count=12)
def test_resize_bilinear_of_three_or_eight_channels(m, rng, dtype):
    """Which have loops of their own."""
    return to_any_width(m, rng, dtype, [3, 8])


def to_any_width(m, rng, dtype, channels):
    shape = (1, *rng.integers(1, 7, 2), int(rng.choice(channels)))
    size = np.array([rng.integers(1, 4), rng.integers(1, 12)], np.int32)
    q = draw.quantization(rng, dtype)
    x, y = m.tensor("x", shape, dtype, **q), m.tensor("y", (1, 1, 1, 1), dtype, **q)
    m.operator("RESIZE_BILINEAR", [x, m.constant("size", size)], [y], half_pixel_centers=bool(rng.integers(2)))
    m.inputs([x])
    m.outputs([y])
    return [draw.values(rng, shape, dtype)]


@oneop.differential("float32", "int8", "uint8", "int16", "int32", "bool", "float16", count=30)
def test_resize_nearest_neighbor(m, rng, dtype):
    return resize(m, rng, dtype, "RESIZE_NEAREST_NEIGHBOR", bool(rng.integers(2)), bool(rng.integers(2)))


@pytest.mark.parametrize("options", [{}, {"align_corners": True}, {"half_pixel_centers": True}], ids=str)
@pytest.mark.parametrize(("sizes", "outs"), [
    ((3, 5), (6, 20)), ((2, 4), (128, 256)), ((5, 9), (257, 17)), ((2, 2), (512, 64)), ((5, 6), (10, 7)),
    ((8, 12), (4, 3))])
@pytest.mark.parametrize("channels", [1, 5, 16, 21])
def test_bytes_are_blended_as_floats(isa_level, options, sizes, outs, channels):
    """In the steps of the reference, also where weights are integers because all steps are exact."""
    x = np.random.default_rng(0).integers(0, 256, (1, *sizes, channels)).astype(np.uint8)
    interpreter = Interpreter(model_content=model("RESIZE_BILINEAR", x.shape, outs, "uint8", **options))
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    (low, high, dy), (left, right, dx) = (bilinear_axis(size, out, options.get("align_corners", False),
                                                        options.get("half_pixel_centers", False))
                                          for size, out in zip(sizes, outs, strict=True))
    dy, dx = dy[:, None, None], dx[None, :, None]
    image, one = x[0].astype(np.float32), np.float32(1)
    want = image[low][:, left] * (one - dy) * (one - dx)
    for rows, columns, down, across in ((high, left, dy, one - dx), (low, right, one - dy, dx), (high, right, dy, dx)):
        want = want + image[rows][:, columns] * down * across
    np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0],
                                  (want + np.float32(0.5)).astype(np.int32))


def model(name, shape, size, dtype="float32", **options):
    m = ModelBuilder()
    x = m.tensor("x", shape, dtype, **({"scale": 0.1} if dtype != "float32" else {}))
    y = m.tensor("y", (1, 1, 1, 1), dtype, **({"scale": 0.1} if dtype != "float32" else {}))
    m.operator(name, [x, m.constant("size", np.array(size, np.int32))], [y], **options)
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("half_pixel_centers", [False, True])
def test_a_rounded_scale_stays_within_the_image(size, half_pixel_centers):
    """At a thousandfold enlargement the fixed-point scale is too coarse; the reference reads past the image."""
    x = np.arange(size, dtype=np.int8).reshape(1, size, 1, 1) + 10
    got, = oneop.run_pylite(model("RESIZE_BILINEAR", x.shape, (size * 1500, 1), "int8",
                                  half_pixel_centers=half_pixel_centers), [x])
    assert got.min() >= x.min() and got.max() <= x.max()


@pytest.mark.parametrize(("name", "shape", "size", "options", "words"), [
    ("RESIZE_BILINEAR", (1, 3, 3, 1), (4, 4), {"align_corners": True, "half_pixel_centers": True}, "exclude"),
    ("RESIZE_BILINEAR", (1, 3, 3, 1), (0, 4), {}, "at least 1"),
    ("RESIZE_BILINEAR", (1, 0, 3, 1), (4, 4), {}, "no pixels"),
    ("RESIZE_NEAREST_NEIGHBOR", (1, 0, 3, 1), (4, 4), {}, "no pixels"),
    ("RESIZE_NEAREST_NEIGHBOR", (1, 3, 3, 1), (-1, 4), {}, "height and width"),
    ("RESIZE_NEAREST_NEIGHBOR", (3, 3, 1), (4, 4), {}, "4 dimensions"),
])
def test_invalid_resizes_are_refused(name, shape, size, options, words):
    with pytest.raises(RuntimeError, match=words):
        Interpreter(model_content=model(name, shape, size, **options)).allocate_tensors()
