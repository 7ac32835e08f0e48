"""The memory planner: properties of every plan."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite._core import arena

BLOCK = st.tuples(st.integers(0, 5000), st.integers(0, 40), st.integers(0, 40)).map(
    lambda b: (b[0], min(b[1:]), max(b[1:])))


def columns(blocks):
    return [np.array(column, np.int64) for column in zip(*blocks, strict=True)]


@given(st.lists(BLOCK, min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_two_live_blocks_overlap(blocks):
    size, first, last = columns(blocks)
    offset, total, bound = arena.plan(size, first, last)
    assert (offset % arena.ALIGNMENT == 0).all() and (offset >= 0).all()
    assert total == max((offset + size)[size > 0], default=0)
    for i in range(len(size)):
        for j in range(i):
            if size[i] and size[j] and first[i] <= last[j] and first[j] <= last[i]:
                assert offset[i] >= offset[j] + size[j] or offset[j] >= offset[i] + size[i]
    alive = [size[(first <= t) & (t <= last)].sum() for t in range(41)]
    assert bound == max(alive) <= total


@given(st.lists(BLOCK, max_size=60))
@settings(max_examples=50, deadline=None)
def test_the_same_blocks_get_the_same_plan(blocks):
    blocks = blocks or [(1, 0, 0)]
    one, other = arena.plan(*columns(blocks)), arena.plan(*columns(blocks))
    assert one[0].tolist() == other[0].tolist() and one[1:] == other[1:]


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 6)), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_a_chain_reaches_the_bound_of_its_aligned_sizes(blocks):
    """In a chain each block lives with the one before and the one after it: two alternating ends always suffice."""
    size = np.array([64 * n for n, _ in blocks], np.int64)
    first = np.arange(len(size), dtype=np.int64)
    _, total, bound = arena.plan(size, first, first + 1)
    assert total <= 1.5 * bound


def test_nothing_to_plan():
    offset, total, bound = arena.plan(*[np.empty(0, np.int64)] * 3)
    assert len(offset) == 0 and (total, bound) == (0, 0)


@pytest.mark.parametrize("blocks", [[(-1, 0, 0)], [(1, 2, 1)], [(1, -1, 0)]])
def test_impossible_blocks_are_refused(blocks):
    with pytest.raises(ValueError, match="negative size or ends before it begins"):
        arena.plan(*columns(blocks))


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="2 sizes, 1 first uses"):
        arena.plan(np.ones(2, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64))
