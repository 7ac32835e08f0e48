"""Sums of errors: equal to numpy's, exact, and the same in any order."""
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylite._core.run import statistics
from pylite.validation import statistics as rows
from pylite.validation.interleaving import quantizing_kernels
from pylite.validation.measures import NONE_DB, Errors
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
@pytest.mark.parametrize("shape", [(1,), (3, 1), (7, 5), (2, 9, 17), (40, 64), (6, 3), (64, 2), (0, 4), (),
                                   (601, 3), (9, 300), (77, 48), (3, 1025), (35, 256)])
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
    # A few rows are summed in float32 before they are added to doubles.
    for found, addends in zip(sums.sums(), (e, e * e, r * r), strict=True):
        np.testing.assert_allclose(found, addends.sum(0), rtol=0, atol=3e-6 * np.abs(addends).sum(0).max(initial=0))
    expected = [used, used & (y <= grid.lowest) & (r < grid.lowest - grid.step),
                used & (y >= grid.highest) & (r > grid.highest + grid.step)]
    np.testing.assert_array_equal(sums.counts, [*(e.sum(0) for e in expected), np.zeros(sums.channels)])
    if not used.any(0).all():
        return
    np.testing.assert_allclose(sums.extremes[rows.MAX_ERROR], np.abs(e).max(0), rtol=0)
    np.testing.assert_array_equal(sums.extremes[rows.MAX_REFERENCE], np.where(used, r, -np.inf).max(0))
    np.testing.assert_array_equal(sums.extremes[rows.MIN_REFERENCE], np.where(used, r, np.inf).min(0))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1e23, 1e23), min_size=1, max_size=40))
def test_sums_are_exact(numbers):
    """Down to the lowest bit that is kept, whatever the order."""
    limbs, too_large = np.zeros((statistics.LIMBS, 1), np.int64), np.zeros(1, np.int64)
    for number in numbers:
        statistics.add_exactly(np.array([number]), limbs, too_large)
    other = np.zeros_like(limbs)
    for number in sorted(numbers):
        statistics.add_exactly(np.array([number]), other, too_large)
    np.testing.assert_array_equal(limbs, other)
    assert not too_large.any()
    total = sum(int(limb) << 40 * (3 - k) for k, limb in enumerate(limbs[:, 0])) / 2**80
    assert math.isclose(total, math.fsum(numbers), rel_tol=1e-15, abs_tol=len(numbers) * 2.0**-80)


def test_what_cannot_be_summed_is_counted():
    limbs, too_large = np.zeros((statistics.LIMBS, 4), np.int64), np.zeros(4, np.int64)
    statistics.add_exactly(np.array([1.0, np.inf, np.nan, -2.0**80]), limbs, too_large)
    assert too_large.tolist() == [0, 1, 1, 1] and limbs.any(0).tolist() == [True, False, False, False]


def test_errors_too_large_to_be_summed_leave_no_ratio():
    sums = ErrorSums(2)
    sums.add(Grid("float32"), np.array([3e38, 1], np.float32), np.array([-3e38, 1], np.float32))
    errors = Errors.of(sums)
    assert errors.sqnr_db == NONE_DB and errors.channel_sqnr_db() == [NONE_DB, math.inf]


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
    quantized, represented = np.zeros(6, dtype), np.zeros(6, np.float32)
    for kernel in quantizing_kernels(grid, real, quantized, [represented]):
        assert kernel.run() == 0
    limits = np.iinfo(dtype)
    assert quantized.tolist() == [4, 2, 4, limits.max, limits.min, 3]
    np.testing.assert_array_equal(represented, grid.real(quantized))


def test_sizes_are_checked():
    sums = ErrorSums(1)
    with pytest.raises(ValueError, match="sizes"):
        sums.observer(Grid("int8", 1), np.zeros(3, np.int8), np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="column"):
        statistics.add_exactly(np.zeros(2), np.zeros((statistics.LIMBS, 1), np.int64), np.zeros(1, np.int64))
