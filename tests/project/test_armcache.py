"""benchmarks/armcache.c: known patterns of accesses, and what the simulated caches count."""
import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).resolve().parents[2] / "benchmarks" / "armcache.c"
L2, DRAM, CODE, AHEAD, WRITTEN, COUNTERS = 1, 3, 4, 7, 10, 11
LINE = 64
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


@pytest.fixture
def caches(tmp_path):
    """1 kB and 4 kB of two and four ways, without a prefetcher: run(accesses) returns the counters."""
    path = tmp_path / "armcache.so"
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    library = ctypes.CDLL(str(path))
    library.cache_access.argtypes = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int
    library.cache_fetch.argtypes = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64

    def run(*accesses, option=None):
        if option:
            assert library.cache_option(option) == 0
        for address, size, store in accesses:
            library.cache_access(address, size, store)
        found = np.zeros(COUNTERS, np.uint32)
        library.cache_counters(found.ctypes.data_as(ctypes.c_void_p))
        return found.tolist()
    run.library = library
    for option in (b"l1i=1024:2", b"l1d=1024:2", b"l2=4096:4", b"streams=0"):
        assert library.cache_option(option) == 0
    return run


def lines(count, step=1, store=0, first=0):
    return [((first + i * step) * LINE, 16, store) for i in range(count)]


def test_each_line_of_a_sequence_is_missed_once(caches):
    found = caches(*[(address, 4, 0) for address in range(0, 8 * LINE, 4)])
    assert found[DRAM] == 8 and sum(found) == 8


def test_a_set_of_lines_that_just_fits_stays(caches):
    caches(*lines(16))
    assert sum(caches(*lines(16), *lines(16))) == 0


def test_a_set_of_lines_that_just_does_not_fit_is_missed(caches):
    """17 lines in order: of least recently used lines, those of the set that has three are always gone."""
    caches(*lines(17))
    found = caches(*lines(17))
    assert found[L2] == 3 and found[DRAM] == 0


def test_a_stride_of_the_cache_uses_one_set(caches):
    """Three lines eight apart share a set of two ways, five lines sixteen apart a set of the second level."""
    caches(*lines(3, 8))
    assert caches(*lines(3, 8))[L2] == 3
    caches(*lines(5, 16), *lines(5, 16))
    assert caches(*lines(5, 16))[DRAM] == 5


def test_the_second_level_just_fits_and_just_does_not(caches):
    caches(*lines(64))
    assert caches(*lines(64))[L2:DRAM + 1] == [64, 0, 0]
    caches(*lines(65))
    assert caches(*lines(65))[DRAM] == 5


def test_a_third_level_is_between(caches):
    caches(*lines(65), option=b"l3=8192:8")
    assert caches(*lines(65))[L2:DRAM + 1] == [60, 5, 0]


def test_stores_are_written_back_once(caches):
    found = caches(*lines(64, store=1))
    assert found[WRITTEN] == 0
    assert caches(*lines(128, first=64))[WRITTEN] == 64
    assert caches(*lines(128, first=64))[WRITTEN] == 0


def test_an_access_over_two_lines_touches_both(caches):
    assert caches((LINE - 4, 8, 0))[DRAM] == 2


@pytest.mark.parametrize("step", [1, 2, -1])
def test_the_prefetcher_covers_streams(caches, step):
    """Three misses show the distance; all later lines come ahead of the load."""
    found = caches(*lines(40, step, first=100), option=b"streams=2")
    assert found[DRAM] == 3 and found[AHEAD + 2] == 37 + 4


def test_more_streams_than_the_prefetcher_has_are_missed(caches):
    mixed = [access for group in zip(*(lines(8, first=1000 * k) for k in range(3)), strict=True) for access in group]
    assert caches(*mixed, option=b"streams=2")[DRAM] == 24


def test_instructions_have_a_cache_of_their_own(caches):
    for _ in range(2):
        caches.library.cache_fetch(0, 8 * LINE, 128)
    found = caches(*lines(8))
    assert found[0] == 256 and found[CODE:CODE + 3] == [0, 0, 8] and found[L2] == 8


def test_unknown_options_are_refused(caches):
    for option in (b"l4=1024:2", b"l1d=64:2", b"l1d=1024", b"streams=99"):
        assert caches.library.cache_option(option) == -1
