"""What runs kernels: the times of a program's steps, and the worker pool."""
import os
import threading
import time

import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels import conv, packing, softmax
from pylite._core.run.program import Program
from tests.tools.operands import requantized, stored, sums


def test_profile_times_every_step():
    """Every step has a time; an array of another size is refused."""
    x, y = np.zeros((5, 7), np.uint8), np.zeros((5, 7), np.uint8)
    steps = Program([softmax.Softmax8(x, y, 8, 0x80, (1 << 30, 22, -240))] * 3)
    before = time.monotonic_ns()
    clock = np.zeros((2, 5), np.int64)
    assert steps.profile(clock) is None
    assert before <= clock[0, 0] <= clock[-1, -1] <= time.monotonic_ns()
    assert (np.diff(clock.ravel()) >= 0).all()
    with pytest.raises(ValueError, match="room for 2"):
        steps.profile(np.zeros((1, 2), np.int64))


def test_the_pool_records_who_runs_what():
    """The recorded ranges of a loop cover its items once; each thread runs one at a time."""
    x = np.zeros((5000, 9), np.uint8)
    kernel, pool = softmax.Softmax8(x, np.zeros_like(x), 8, 0x80, (1 << 30, 22, -240)), simd.Pool(3)
    rows = np.zeros((100, 5), np.int64)
    pool.record(rows)
    assert kernel.run(pool) == 0
    pool.record(None)
    found = rows[:pool.recorded]
    assert len(found) >= 3
    in_order = found[np.argsort(found[:, 2])]
    assert in_order[0, 2] == 0 and in_order[-1, 3] == 5000
    np.testing.assert_array_equal(in_order[1:, 2], in_order[:-1, 3])
    for thread in range(3):
        of_thread = found[found[:, 4] == thread]
        times = of_thread[np.argsort(of_thread[:, 0]), :2].ravel()
        assert (np.diff(times) >= 0).all()
    kernel.run(pool)
    assert pool.recorded == len(found)      # nothing after record(None)
    pool.record(rows[:1])
    kernel.run(pool)
    assert pool.recorded >= 3               # counted beyond the rows
    with pytest.raises(ValueError, match="rows of 5"):
        pool.record(np.zeros((3, 4), np.int64))


def test_unavailable_isa_level_is_refused():
    assert simd.available()[0] == "base"
    with pytest.raises(ValueError, match=r"this CPU has .*; unset it, or set one"):
        simd.use("abacus")


def product_kernel(seed=0):
    """A kernel with work for several threads, its output, and the expected output."""
    rng = np.random.default_rng(seed)
    x, w = rng.integers(-128, 128, (1, 40, 40, 16)), rng.integers(-128, 128, (32, 1, 1, 16))
    m, e = np.full(32, 2**30, np.int32), np.full(32, -6, np.int32)
    filter = (1, 1, 1, 1, 1, 1, 0, 0)
    want = requantized(sums(x, w, filter, (40, 40)), m, e, 0, -128, 127)
    y = np.zeros(want.shape, np.uint8)
    packed = packing.pack_q8(w.astype(np.int8), None, m, e, 0, 0)
    kernel = conv.ConvQ8(stored(x, 0), y, packed, filter=filter, groups=1, zero=np.zeros(16, np.uint8),
                         quantization=(0, 0, 0, 0), finish=(0, -128, 127, 0))
    return kernel, y, stored(want, 0)


def test_pool_after_fork():
    """A forked child starts workers of its own."""
    pool = simd.Pool(3)
    kernel, y, want = product_kernel()
    kernel.run(pool)
    child = os.fork()
    if child == 0:
        y[...] = 0
        kernel.run(pool)
        os._exit(0 if (y == want).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    y[...] = 0
    kernel.run(pool)
    np.testing.assert_array_equal(y, want)


def test_pool_shared_by_threads():
    """Of threads that use a pool at once, one gets the workers; the others work alone."""
    pool = simd.Pool(2)
    kernels = [product_kernel(seed) for seed in range(3)]

    def work(kernel):
        for _ in range(200):
            kernel.run(pool)
    runners = [threading.Thread(target=work, args=(k,)) for k, _, _ in kernels]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()
    for _, y, want in kernels:
        np.testing.assert_array_equal(y, want)
