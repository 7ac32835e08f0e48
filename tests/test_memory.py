"""Memory for arenas and packed weights: zeroed, aligned, never handed out twice; and when the collector waits."""
import gc
import os
import warnings

import numpy as np
import pytest

from pylite._core import memory


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 5000, memory.HUGE // 2, memory.HUGE + 1, 3 * memory.HUGE - 5])
def test_memory_is_zeroed_and_aligned(nbytes):
    for make in (memory.aligned, memory.kept):
        array = make(nbytes)
        assert array.shape == (nbytes,) and array.dtype == np.uint8 and array.flags.writeable
        assert not nbytes or array.ctypes.data % memory.ALIGNMENT == 0
        assert not array.any()


def test_rooms_are_kept_apart():
    rooms = [memory.Room(3 * memory.HUGE), memory.Room()]
    arrays = []
    for i in range(40):
        memory.keep_in(rooms[i % 2])
        arrays.append(memory.kept(300_000 if i % 3 else 70))
        arrays[-1][:] = i
    assert all((array == i).all() for i, array in enumerate(arrays))
    owners = [{id(array.base.base) for array in arrays[i::2]} for i in range(2)]
    assert owners[0].isdisjoint(owners[1])


def test_what_is_kept_does_not_overlap():
    rng = np.random.default_rng(0)
    arrays = [memory.kept(int(n)) for n in rng.integers(0, memory.HUGE * 2 // 3, 30)]
    for i, array in enumerate(arrays):
        array[:] = i
    assert all((array == i).all() for i, array in enumerate(arrays))


@pytest.fixture
def collector():
    yield
    gc.enable()


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_waits_and_is_left_as_it_was(enabled, collector):
    (gc.enable if enabled else gc.disable)()
    with memory.Growing():
        with pytest.raises(KeyError), memory.Growing():
            raise KeyError
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_collector_runs_in_a_forked_child(collector):
    gc.enable()
    with memory.Growing():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)     # of forks beside other threads
            child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
