"""Shape functions against numpy."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylite.ir import shapes

dims = st.lists(st.integers(0, 4), max_size=6).map(tuple)


@st.composite
def broadcastable(draw, operands=2):
    target = draw(dims)
    result = []
    for _ in range(operands):
        rank = draw(st.integers(0, len(target)))
        tail = target[len(target) - rank:]
        result.append(tuple(1 if draw(st.booleans()) else n for n in tail))
    return result


@given(st.lists(dims, min_size=1, max_size=3))
def test_broadcast_agrees_with_numpy(operands):
    try:
        expected = np.broadcast_shapes(*operands)
    except ValueError:
        with pytest.raises(ValueError, match="cannot be broadcast"):
            shapes.broadcast(*operands)
    else:
        assert shapes.broadcast(*operands) == expected


def walk(shape, strides):
    """The offsets visited by a nested loop, in order."""
    offsets = np.zeros((), np.int64)
    for n, stride in zip(shape, strides, strict=True):
        offsets = offsets[..., None] + np.arange(n) * stride
    return offsets.ravel()


@given(broadcastable())
def test_collapsed_broadcast_loops_visit_the_same_elements(operands):
    target = shapes.broadcast(*operands)
    strides = [shapes.broadcast_strides(s, target) for s in operands]
    for shape, stride in zip(operands, strides, strict=True):
        expected = np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), target)
        assert np.array_equal(walk(target, stride), expected.ravel())
    collapsed, *steps = shapes.collapse(target, *strides)
    for before, after in zip(strides, steps, strict=True):
        assert np.array_equal(walk(target, before), walk(collapsed, after))
    assert 1 not in collapsed


@pytest.mark.parametrize(("shape", "strides", "expected"), [
    ((2, 3, 4), [(12, 4, 1), (12, 4, 1)], ((24,), (1,), (1,))),
    ((2, 3, 4), [(12, 4, 1), (0, 0, 1)], ((6, 4), (4, 1), (0, 1))),
    ((2, 3, 4), [(12, 4, 1), (0, 0, 0)], ((24,), (1,), (0,))),
    ((1, 1), [(1, 1)], ((), ())),
])
def test_collapse_examples(shape, strides, expected):
    assert shapes.collapse(shape, *strides) == expected


@given(dims)
def test_strides_agree_with_numpy(shape):
    strides = shapes.contiguous_strides(shape)
    if 0 not in shape:
        assert strides == tuple(s // 8 for s in np.empty(shape, np.int64).strides)
    assert shapes.is_contiguous(shape, strides)


def test_contiguity():
    assert shapes.is_contiguous((2, 1, 3), (3, 99, 1))
    assert not shapes.is_contiguous((2, 3), (4, 1))


@given(dims, st.data())
def test_axes_and_reduction(shape, data):
    if not shape:
        with pytest.raises(ValueError, match="axis 0"):
            shapes.resolve_axes([0], 0)
        return
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1)))
    resolved = shapes.resolve_axes(axes, len(shape))
    for keep in (True, False):
        expected = np.ones(shape).sum(resolved, keepdims=keep).shape
        assert shapes.reduced(shape, resolved, keep) == expected
    with pytest.raises(ValueError, match="outside"):
        shapes.resolve_axis(len(shape), len(shape))


@given(dims, st.lists(st.integers(-2, 5), max_size=4))
def test_reshape_agrees_with_numpy(shape, requested):
    try:
        expected = np.empty(shape).reshape(requested).shape if min(requested, default=0) >= -1 else None
    except ValueError:
        expected = None
    if expected is None:
        with pytest.raises(ValueError, match="shape"):
            shapes.reshape(shape, requested)
    else:
        assert shapes.reshape(shape, requested) == expected


@given(st.integers(1, 30), st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))
def test_windows(size, window, stride, dilation):
    extent = (window - 1) * dilation + 1
    valid = shapes.window_output(size, window, stride, dilation, "VALID")
    assert max(valid, 0) == len(range(0, size - extent + 1, stride))
    same = shapes.window_output(size, window, stride, dilation, "SAME")
    assert same == len(range(0, size, stride))
    before, after = shapes.window_padding(size, window, stride, dilation, same)
    assert 0 <= after - before <= 1
    assert before + after == max((same - 1) * stride + extent - size, 0)
    if valid > 0:
        assert shapes.window_padding(size, window, stride, dilation, valid) == (0, 0)
    assert valid == int((size + stride - extent) / stride)      # as in C
