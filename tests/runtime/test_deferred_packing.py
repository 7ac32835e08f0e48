"""Deferred packing gives identical panels on any thread, and in a forked child."""
import os
import threading

import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels import depthwise_packing, packing
from pylite._core.simd import begin_packing, finish_packing


def draw(seed, columns=64, taps=3, channels=96):
    """Arguments of pack_q8 for weights large enough for a second thread."""
    rng = np.random.default_rng(seed)
    w = rng.integers(-128, 128, (columns, taps, taps, channels), np.int8)
    w[0] = 0                # a column of zeros, with a bias
    return (w, rng.integers(-1000, 1000, columns, np.int32), rng.integers(2**30, 2**31 - 1, columns, np.int32),
            rng.integers(-9, 0, columns, np.int32), 3, 0, 1, None, 1, (-128, 127))


def draw_depthwise(seed, channels=256):
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 256, (1, 3, 3, channels), np.uint8), None,
            rng.integers(2**30, 2**31 - 1, channels, np.int32), rng.integers(-9, 0, channels, np.int32), 3, -5,
            (3, 3, 1, 1, 1, 1, 1, 1), (-100, 90))


def packed_now(seeds):
    return [(packing.pack_q8(*draw(s)), packing.pack_weights(draw(s)[0]),
             depthwise_packing.pack_depthwise_q8(*draw_depthwise(s))) for s in seeds]


def packed_deferred(seeds):
    """The same, deferred; every argument is released immediately."""
    begin_packing()
    try:
        return packed_now(seeds)
    finally:
        finish_packing()


def check(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        for a, b in zip(sum(ours, ()), sum(theirs, ()), strict=True):
            np.testing.assert_array_equal(a, b)


def test_deferred_packing_is_complete_after_finish():
    check(packed_deferred(range(12)), packed_now(range(12)))


def test_finish_without_tasks():
    finish_packing()
    begin_packing()
    finish_packing()
    finish_packing()
    check(packed_now([1]), packed_deferred([1]))


def test_tasks_keep_their_isa_level():
    chosen = simd.current
    try:
        for isa_level in simd.available():
            simd.use(isa_level)
            expected = packed_now(range(3))
            begin_packing()
            found = packed_now(range(3))
            simd.use(simd.available()[0] if isa_level != simd.available()[0] else simd.available()[-1])
            finish_packing()
            check(found, expected)
    finally:
        simd.use(chosen)


def test_nested_deferral():
    expected = packed_now(range(3))
    begin_packing()
    outside = packed_now(range(3))
    check(packed_deferred(range(3)), expected)
    check(outside, expected)        # the inner finish_packing waits for all tasks
    more = packed_now(range(3))
    finish_packing()
    check(more, expected)


def test_threads_wait_for_the_tasks_of_others():
    expected = packed_now(range(4))
    found = {}

    def run(name):
        for turn in range(5):
            found[name, turn] = packed_deferred(range(4))

    threads = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for each in found.values():
        check(each, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_its_parents_tasks():
    expected = packed_now(range(12))
    for _ in range(5):
        begin_packing()
        found = packed_now(range(12))
        child = os.fork()
        if child == 0:
            try:
                finish_packing()
                check(found, expected)
                check(packed_deferred(range(3)), expected[:3])
                os._exit(0)
            finally:
                os._exit(1)
        finish_packing()
        check(found, expected)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
