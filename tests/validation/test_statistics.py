"""Sums of errors: equal to numpy's, exact, and the same in any order."""
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite._core import statistics
from pylite.validation import statistics as rows
from pylite.validation.statistics import ErrorSums, Grid


def tensor(rng, dtype, shape):
    """(Grid, values, reference) whose errors are of all kinds: small, large, saturated, not finite."""
    if dtype == "float32":
        grid, values = Grid(dtype), np.asarray(rng.standard_normal(shape), np.float32)
    else:
        limits = np.iinfo(dtype)
        grid = Grid(dtype, rng.uniform(1e-4, 2), int(rng.integers(limits.min, limits.max, endpoint=True)))
        values = np.asarray(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    reference = np.asarray(grid.real(values) + (grid.step or 1) * rng.standard_normal(shape) * 3, np.float32)
    reference[rng.uniform(size=shape) < 0.05] = rng.choice([np.inf, -np.inf, np.nan])
    return grid, values, reference


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float32"])
@pytest.mark.parametrize("shape", [(1,), (3, 1), (7, 5), (2, 9, 17), (40, 64), (6, 3), (64, 2), (0, 4), ()])
def test_sums_are_numpys(dtype, shape):
    rng = np.random.default_rng(len(shape))
    sums, parts = ErrorSums(shape[-1] if shape else 1), []
    grid = None
    for _ in range(3):
        one, values, reference = tensor(rng, dtype, shape)
        grid = grid or one
        sums.add(grid, values, reference)
        parts.append((grid.real(values), reference))
    y, r = (np.concatenate([p[i].reshape(-1, sums.channels) for p in parts]) for i in (0, 1))
    used = np.isfinite(r) & np.isfinite(y)
    y, r = np.where(used, y, 0), np.where(used, r, 0)
    e, r = (y - r).astype(np.float64), r.astype(np.float64)      # differences are of float32
    half = grid.step / 2
    expected = [used, e, e * e, r * r,
                used & (y <= grid.lowest) & (r < grid.lowest - half),
                used & (y >= grid.highest) & (r > grid.highest + half)]
    np.testing.assert_allclose(sums.sums(), [e.sum(0) for e in expected], rtol=1e-12, atol=1e-12)
    if not used.any(0).all():
        return
    np.testing.assert_allclose(sums.extremes[rows.MAX_ERROR], np.abs(e).max(0), rtol=0)
    np.testing.assert_array_equal(sums.extremes[rows.MAX_REFERENCE], np.where(used, r, -np.inf).max(0))
    np.testing.assert_array_equal(sums.extremes[rows.MIN_REFERENCE], np.where(used, r, np.inf).min(0))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e23, 1e23), min_size=1, max_size=40))
def test_sums_are_exact(numbers):
    """Down to the lowest bit that is kept, whatever the order."""
    limbs = np.zeros((statistics.LIMBS, 1), np.int64)
    for number in numbers:
        assert statistics.add_exactly(np.array([number]), limbs)
    other = np.zeros_like(limbs)
    for number in sorted(numbers):
        statistics.add_exactly(np.array([number]), other)
    np.testing.assert_array_equal(limbs, other)
    total = sum(int(limb) << 40 * (3 - k) for k, limb in enumerate(limbs[:, 0])) / 2**80
    assert math.isclose(total, math.fsum(numbers), rel_tol=1e-15, abs_tol=len(numbers) * 2.0**-80)


def test_what_cannot_be_summed_is_reported():
    limbs = np.zeros((statistics.LIMBS, 3), np.int64)
    assert not statistics.add_exactly(np.array([1.0, np.inf, 2.0]), limbs)
    assert not statistics.add_exactly(np.array([2.0**80]), limbs[:, :1].copy())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4))
def test_merged_sums_do_not_depend_on_the_split(seed, shares):
    rng = np.random.default_rng(seed)
    limits = Grid("int8", 0.037, 5)
    samples = []
    for _ in range(6):
        values = rng.integers(-128, 128, (5, 6)).astype(np.int8)
        errors = rng.standard_normal((5, 6)) * 10.0 ** rng.integers(-6, 6)
        samples.append((values, (limits.real(values) + errors).astype(np.float32)))
    whole = ErrorSums(6)
    parts = [ErrorSums(6) for _ in range(shares)]
    for one in samples:
        whole.add(limits, *one)
    for i in rng.permutation(len(samples)):
        parts[i % shares].add(limits, *samples[i])
    merged = ErrorSums.restored(parts[0].state())
    for part in parts[1:]:
        merged.merge(ErrorSums.restored(part.state()))
    assert merged.samples == whole.samples == 6
    assert merged.sums().tobytes() == whole.sums().tobytes()
    assert merged.extremes.tobytes() == whole.extremes.tobytes()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_a_round_trip_rounds_half_away_from_zero_and_saturates(dtype):
    grid = Grid(dtype, 0.5, 3)
    real = np.array([0.25, -0.25, 0.74, 1e9, -1e9, 0], np.float32)
    quantized = np.zeros(6, dtype)
    statistics.round_trip(real, quantized, grid.step, grid.zero_point)
    limits = np.iinfo(dtype)
    assert quantized.tolist() == [4, 2, 4, limits.max, limits.min, 3]
    np.testing.assert_array_equal(real, grid.real(quantized))


def test_sizes_are_checked():
    with pytest.raises(ValueError, match="sizes"):
        statistics.observe(np.zeros(3, np.int8), np.zeros(4, np.float32), 1, 0, 0, 0, 0, 0,
                           np.zeros((statistics.SUMS, 1)), np.zeros((statistics.EXTREMES, 1), np.float32))
    with pytest.raises(ValueError, match="column"):
        statistics.add_exactly(np.zeros(2), np.zeros((statistics.LIMBS, 1), np.int64))
    with pytest.raises(ValueError, match="number"):
        statistics.round_trip(np.zeros(2, np.float32), np.zeros(1, np.int8), 1, 0)
