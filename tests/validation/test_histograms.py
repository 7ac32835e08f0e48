"""Histograms: equal to numpy's, and the same in any order, though their bins widen as values arrive."""
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylite import validation
from pylite._core.run import statistics
from pylite.errors import ComparisonError
from pylite.media import images, models
from pylite.validation.histograms import KINDS, Histograms
from pylite.validation.partial import Partial
from pylite.validation.statistics import ErrorSums, Grid

GRID = Grid("int8", 0.25, 3)
FLOATS = Grid("float32")


def parts(count, seed, grid):
    """[(values, reference)] of very different magnitudes, with some that are not finite."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        reference = np.asarray(rng.standard_normal(200) * 10.0 ** rng.integers(-3, 4), np.float32)
        if grid.step:
            values = np.clip(np.round(reference / grid.step) + grid.zero_point, -128, 127).astype(np.int8)
        else:
            values = reference * np.float32(1.01)
        reference[k::50] = rng.choice([np.inf, -np.inf, np.nan])
        yield values, reference


def counter(histograms, grid, values, reference):
    """A kernel that counts a sample."""
    return histograms.counter(ErrorSums(1).observer(grid, values, reference))


@pytest.mark.parametrize("grid", [GRID, FLOATS])
def test_counts_are_numpys(grid):
    found, given_ = Histograms(grid), list(parts(5, 1, grid))
    for values, reference in given_:
        assert counter(found, grid, values, reference).run() == 0
    real, expected = (np.concatenate(x).astype(np.float64) for x in zip(*((grid.real(v), r) for v, r in given_),
                                                                      strict=True))
    error = (real.astype(np.float32) - expected.astype(np.float32)).astype(np.float64) / (grid.step or 1)
    for kind, all_values in zip(KINDS, (real, expected, error), strict=True):
        h = found.to_dict()[kind]
        finite = all_values[np.isfinite(all_values)]
        assert sum(h["counts"]) == finite.size
        bins, counts = np.unique(np.floor((finite - h["start"]) / h["width"] + 1e-9).astype(int), return_counts=True)
        assert bins[0] == 0 and bins[-1] == len(h["counts"]) - 1
        if kind == "values":    # others may lie so close to an edge that the rounding of this statement decides
            assert np.array_equal(np.array(h["counts"])[bins], counts)
        else:
            assert np.abs(np.cumsum(np.array(h["counts"])[bins]) - np.cumsum(counts)).max() <= 2
        reach = np.abs(finite).max()
        assert h["width"] * statistics.BINS / 2 > reach * (1 - 1e-9)
        if not grid.step:
            assert h["width"] * statistics.BINS / 4 <= reach       # as narrow as possible


@given(st.permutations(range(6)), st.integers(0, 6), st.sampled_from([GRID, FLOATS]), st.integers(0, 99))
def test_any_order_and_any_parts_give_the_same(order, cut, grid, seed):
    samples = list(parts(6, seed, grid))
    plain = Histograms(grid)
    for one in samples:
        counter(plain, grid, *one).run()
    first, second = Histograms(grid), Histograms(grid)
    for k, i in enumerate(order):
        counter(first if k < cut else second, grid, *samples[i]).run()
    first.merge(Histograms.restored(second.state()))
    assert np.array_equal(first.exponents, plain.exponents) and np.array_equal(first.counts, plain.counts)


def test_sizes_are_checked():
    counts, exponents = np.zeros((3, statistics.BINS), np.int64), np.zeros(3, np.int32)
    observer = ErrorSums(1).observer(GRID, np.zeros(4, np.int8), np.zeros(4, np.float32))
    for wrong in ((counts[:, 1:].copy(), exponents), (counts[1:], exponents), (counts, exponents[1:])):
        with pytest.raises(ValueError, match="three histograms of 256 bins"):
            statistics.Count(observer, 1, 0, *wrong)


def test_workers_files_and_shards_give_the_same_histograms(tmp_path):
    data = tmp_path / "d.npy"
    np.save(data, np.stack([images.read(models.sample(name)) for name in models.samples()])[..., None] / 255.0)
    digits = models.path("digits")
    plain = validation.compare(digits, digits, data, histograms=True)
    assert all(sum(t.histograms["values"]["counts"]) == sum(t.histograms["reference"]["counts"]) > 0
               for t in plain.tensors)
    assert validation.compare(digits, digits, data, histograms=True, workers=2).to_json() == plain.to_json()
    for part in (1, 2):
        validation.compare(digits, digits, data, histograms=True, shard=(part, 2), save=tmp_path / f"{part}.npz")
    assert validation.merge(digits, digits, [tmp_path / "1.npz", tmp_path / "2.npz"]).to_json() == plain.to_json()
    assert validation.compare(digits, digits, data).tensors[0].histograms is None
    with pytest.raises(ComparisonError, match="other models, data"):
        validation.compare(digits, digits, data, shard=(1, 2), save=tmp_path / "1.npz")
    assert Partial.load(tmp_path / "1.npz").header["settings"]["histograms"] is True
