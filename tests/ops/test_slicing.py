"""SLICE and STRIDED_SLICE against the peer: random windows, every mask."""
import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder
from tests.ops.moving import WIDTHS, one_op, random_array, random_shape
from tests.tools.oneop import differential, run_pylite


@differential(*WIDTHS, "int4", count=30)
def test_slice(m, rng, dtype):
    shape = random_shape(rng, 0 if dtype == "int4" else 1, 6 if dtype != "int4" else 4, empty=dtype != "int4")
    begin = [int(rng.integers(0, n + 1)) for n in shape]
    size = [int(rng.integers(0, n - b + 1)) if rng.random() < 0.7 else -1 for n, b in zip(shape, begin, strict=True)]
    kind = "int32" if rng.random() < 0.5 else "int64"
    x = random_array(rng, shape, dtype)
    return one_op(m, "SLICE", dtype, [x], [np.array(begin, kind), np.array(size, kind)], version=5)


def drawn_entries(rng, shape, count):
    """[(begin, end, stride, mask letters)] for the first `count` axes"""
    entries = []
    for n in shape[:count]:
        if rng.random() < 0.15:
            index = int(rng.integers(-n, n)) if n else 0
            entries.append((index, index + 1, 1, "s" if n else ""))
            continue
        stride = int(rng.choice([1, 1, 2, 3, -1, -2]))
        begin, end = (int(v) for v in rng.integers(-n - 2, n + 3, 2))
        entries.append((begin, end, stride, "".join(c for c in "be" if rng.random() < 0.3)))
    return entries


@differential(*WIDTHS, count=60)
def test_strided_slice(m, rng, dtype):
    shape = random_shape(rng, 1, 5, empty=False)
    ellipsis = rng.integers(0, len(shape) + 1) if rng.random() < 0.4 else -1
    named = len(shape) - int(rng.integers(1, 3)) if ellipsis >= 0 else int(rng.integers(1, len(shape) + 1))
    entries = drawn_entries(rng, shape, max(named, 0))
    if ellipsis >= 0:       # the ellipsis may move entries to other axes, whose sizes may be smaller
        entries.insert(min(ellipsis, len(entries)), (0, 0, 1, "o"))
        entries = [(0, 1, 1, "s") if e[3] == "s" else e for e in entries]
    for _ in range(int(rng.integers(0, 3)) if rng.random() < 0.4 and len(shape) < 4 else 0):
        entries.insert(int(rng.integers(0, len(entries) + 1)), (0, 1, 1, "n"))
    masks = {name: sum(1 << i for i, e in enumerate(entries) if letter in e[3]) for name, letter in (
        ("begin_mask", "b"), ("end_mask", "e"), ("ellipsis_mask", "o"), ("new_axis_mask", "n"),
        ("shrink_axis_mask", "s"))}
    begin, end, strides = (np.array([e[i] for e in entries], np.int32) for i in range(3))
    return one_op(m, "STRIDED_SLICE", dtype, [random_array(rng, shape, dtype)], [begin, end, strides], version=4,
                  **masks)


@differential("int8", "float32", count=20)
def test_strided_slice_offset(m, rng, dtype):
    shape = random_shape(rng, 1, 4, empty=False)
    begin = [int(rng.integers(0, n)) for n in shape]
    length = [int(rng.integers(1, n - b + 1)) for n, b in zip(shape, begin, strict=True)]
    strides = [int(v) for v in rng.integers(1, 3, len(shape))]
    return one_op(m, "STRIDED_SLICE", dtype, [random_array(rng, shape, dtype)],
                  [np.array(v, np.int32) for v in (begin, length, strides)], version=4, offset=True)


@pytest.mark.parametrize(("masks", "shape"), [({"end_mask": 2}, (1, 2)), ({"end_mask": 1}, (1, 2)),
                                              ({"ellipsis_mask": 2}, (1, 2)), ({"begin_mask": 2}, (1, 2))])
def test_the_end_counts_from_the_beginning_even_if_a_mask_frees_it(masks, shape):
    """The reference computes this shape (and then writes beyond it)."""
    m = ModelBuilder()
    fed = one_op(m, "STRIDED_SLICE", "int32", [np.arange(20, dtype=np.int32).reshape(5, 4)],
                 [np.array(v, np.int32) for v in ([1, 1], [1, 2], [1, 1])], version=4, offset=True, **masks)
    got, = run_pylite(m.build(), fed)
    first = 4 if "ellipsis_mask" in masks or "begin_mask" in masks else 5
    assert got.shape == shape and got.tolist() == [[first, first + 1]]


@pytest.mark.parametrize(("begin", "size"), [([0, 3], [2, 3]), ([0], [1]), ([-1, 0], [1, 1])])
def test_slices_out_of_bounds_are_refused(begin, size):
    m = ModelBuilder()
    one_op(m, "SLICE", "float32", [np.zeros((2, 4), np.float32)], [np.array(v, np.int32) for v in (begin, size)])
    with pytest.raises(OpError, match=r"SLICE.*x0"):
        Interpreter(model_content=m.build()).allocate_tensors()


def test_an_index_out_of_range_is_refused():
    m = ModelBuilder()
    one_op(m, "STRIDED_SLICE", "float32", [np.zeros((2, 4), np.float32)],
           [np.array(v, np.int32) for v in ([0, 4], [1, 5], [1, 1])], shrink_axis_mask=2)
    with pytest.raises(OpError, match="no index 4 along axis 1"):
        Interpreter(model_content=m.build()).allocate_tensors()


@pytest.mark.parametrize("mask", [5, 6])
def test_bits_beyond_the_entries_say_nothing(mask):
    m = ModelBuilder()
    one_op(m, "STRIDED_SLICE", "float32", [np.zeros((2, 4), np.float32)],
           [np.array(v, np.int32) for v in ([0, 0], [1, 1], [1, 1])], ellipsis_mask=mask)
    Interpreter(model_content=m.build()).allocate_tensors()


def test_two_ellipses_are_refused():
    """As in TensorFlow; the reference skips axes."""
    m = ModelBuilder()
    one_op(m, "STRIDED_SLICE", "float32", [np.zeros((2, 4), np.float32)],
           [np.array(v, np.int32) for v in ([0, 0], [1, 1], [1, 1])], ellipsis_mask=3)
    with pytest.raises(OpError, match="ellipsis_mask 3 has several bits"):
        Interpreter(model_content=m.build()).allocate_tensors()
