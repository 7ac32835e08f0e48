"""Pooling."""
import itertools

import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.draw import activation, image, values
from tests.tools.oneop import differential, run_pylite


def pool(m, rng, dtype, name, shape=None, **options):
    shape = shape or image(rng)
    q = {} if dtype == "float32" else {"scale": float(rng.choice([0.5, 0.01, 1e-6, 40.0])),
                                       "zero_point": 0 if dtype == "int16" else int(values(rng, (), dtype))}
    x = m.tensor("x", shape, dtype, **q)
    y = m.tensor("y", (1, 1, 1, 1), dtype, **q)
    options = {"padding": str(rng.choice(["SAME", "VALID"])), "stride_h": int(rng.integers(1, 4)),
               "stride_w": int(rng.integers(1, 4)), "filter_height": int(rng.integers(1, 5)),
               "filter_width": int(rng.integers(1, 5)), "fused_activation_function": activation(rng)} | options
    # A window may exceed the image by one at most: beyond that the peer computes a negative size.
    for size, side, stride in zip(shape[1:3], ("filter_height", "filter_width"), ("stride_h", "stride_w"), strict=True):
        options[side] = min(options[side], size + options[stride])
    m.operator(name, [x], [y], **options)
    m.inputs([x])
    m.outputs([y])
    return [values(rng, shape, dtype)]


@differential("float32", "int8", "uint8", "int16", count=40)
def test_average_pool(m, rng, dtype):
    return pool(m, rng, dtype, "AVERAGE_POOL_2D")


@differential("float32", "int8", "uint8", "int16", count=40)
def test_max_pool(m, rng, dtype):
    return pool(m, rng, dtype, "MAX_POOL_2D")


@differential("float32", "int8", "uint8", "int16", count=20)
def test_max_pool_of_few_taps_and_many_channels(m, rng, dtype):
    shape = (int(rng.integers(1, 3)), *(int(n) for n in rng.integers(3, 9, 2)), int(rng.integers(16, 70)))
    side = int(rng.integers(2, 4))
    return pool(m, rng, dtype, "MAX_POOL_2D", shape, filter_height=side, filter_width=side)


@differential("float32", "int8", "uint8", "int16", count=20)
def test_pools_to_one_column(m, rng, dtype):
    """Images that are narrower than the windows, or that a pad makes as wide."""
    n, h, w, c = int(rng.integers(1, 3)), int(rng.integers(1, 40)), int(rng.integers(1, 4)), int(rng.choice([1, 9, 16]))
    width, name = w + int(rng.integers(0, 3)), str(rng.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"]))
    q = {} if dtype == "float32" else {"scale": 0.1, "zero_point": 0}
    x, padded, y = (m.tensor(f"t{i}", shape, dtype, **q) for i, shape in enumerate(
        ((n, h, w, c), (n, h + 2, width, c), (1, 1, 1, 1))))
    left = int(rng.integers(0, width - w + 1))
    widths = np.array([[0, 0], [1, 1], [left, width - w - left], [0, 0]], np.int32)
    m.operator("PAD", [x, m.constant("widths", widths)], [padded])
    valid = {"padding": "VALID", "filter_width": width, "stride_w": 1}
    same = {"padding": "SAME", "filter_width": width + 1, "stride_w": width}
    m.operator(name, [padded], [y], filter_height=int(rng.integers(1, 4)), stride_h=int(rng.integers(1, 3)),
               **(valid if rng.random() < 0.6 else same))
    m.inputs([x])
    m.outputs([y])
    return [np.abs(values(rng, (n, h, w, c), dtype))]


@differential("float32", "int8", "uint8", count=20)
def test_pools_of_slices(m, rng, dtype):
    """A chain of pools whose results are joined: they read and write slices of the joined tensor."""
    shape, count = (1, *(int(n) for n in rng.integers(2, 9, 2)), int(rng.choice([1, 3, 8, 16, 40, 70]))), 3
    name = "AVERAGE_POOL_2D" if dtype != "float32" and rng.random() < 0.4 else "MAX_POOL_2D"
    q = {} if dtype == "float32" else {"scale": 0.1, "zero_point": 3}
    joined = *shape[:3], shape[3] * (count + 1)
    x, *pooled = (m.tensor(f"t{i}", shape, dtype, **q) for i in range(count + 2))
    y, z = m.tensor("y", joined, dtype, **q), m.tensor("z", joined, dtype, **q)
    m.operator("MAX_POOL_2D", [x], pooled[:1], padding="SAME", stride_h=1, stride_w=1, filter_height=1, filter_width=1)
    for a, b in itertools.pairwise(pooled):
        m.operator(name, [a], [b], padding="SAME", stride_h=1, stride_w=1, filter_height=int(rng.integers(1, 6)),
                   filter_width=int(rng.integers(1, 6)))
    m.operator("CONCATENATION", pooled, [y], axis=3)
    m.operator("MAX_POOL_2D", [y], [z], padding="SAME", stride_h=1, stride_w=1, filter_height=1, filter_width=1)
    m.inputs([x])
    m.outputs([z])
    return [values(rng, shape, dtype)]


@differential("float32")
def test_l2_pool(m, rng, dtype):
    return pool(m, rng, dtype, "L2_POOL_2D")


@differential("float32", "int8", "uint8", "int16", count=6)
def test_pool_whole_images(m, rng, dtype):
    """Few taps and many channels, or more taps than float32 division is exact for."""
    h, w, c = (7, 5, 201) if rng.random() < 0.7 else (201, 199, 1)
    x, = pool(m, rng, dtype, "AVERAGE_POOL_2D", (1, h, w, c), padding="VALID", filter_height=h, filter_width=w,
              stride_h=1, stride_w=1)
    return [np.resize(x[0, 0], x.shape)]


@differential("float32", count=4)
def test_max_pool_passes_over_nan(m, rng, dtype):
    x, = pool(m, rng, dtype, "MAX_POOL_2D", fused_activation_function="NONE")
    x[rng.random(x.shape) < 0.5] = np.nan
    return [x]


@pytest.mark.parametrize(("rows", "columns", "size"), [(2, 6, (4, 0)), (2, 7, (0, 0)), (9, 2, (0, 4)), (9, 9, (0, 0))])
def test_windows_larger_than_the_image_give_nothing(rows, columns, size):
    """Columns below 0 leave no rows, either, in the reference."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 5, 5, 2)), m.tensor("y", (1, 1, 1, 2))
    m.operator("MAX_POOL_2D", [x], [y], padding="VALID", filter_height=rows, filter_width=columns, stride_h=1,
               stride_w=1)
    m.inputs([x])
    m.outputs([y])
    got, = run_pylite(m.build(), [np.ones((1, 5, 5, 2), np.float32)])
    assert got.shape == (1, *size, 2)


@pytest.mark.parametrize(("shape", "options", "words"), [
    ((2, 2, 1), {}, "4 dimensions"),
    ((1, 2, 2, 1), {"stride_h": 0}, "at least 1"),
    ((1, 2, 2, 1), {"filter_width": 0}, "at least 1"),
    ((1, 2, 2, 1), {"fused_activation_function": "RELU"}, "needs a scale above 0"),
])
def test_invalid_pools_are_refused(shape, options, words):
    m = ModelBuilder()
    x = m.tensor("x", shape, "int8")
    y = m.tensor("y", shape, "int8")
    unit = {"stride_h": 1, "stride_w": 1, "filter_height": 1, "filter_width": 1}
    m.operator("MAX_POOL_2D", [x], [y], **unit | options)
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(RuntimeError, match=words):
        Interpreter(model_content=m.build()).allocate_tensors()
