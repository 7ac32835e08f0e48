"""Memory for arenas and packed weights is zeroed and aligned, and blocks do not overlap."""
import numpy as np
import pytest

from pylite._core.run import memory


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 5000, memory.HUGE // 2, memory.HUGE + 1, 3 * memory.HUGE - 5])
def test_memory_is_zeroed_and_aligned(nbytes):
    for make in (memory.aligned, memory.pooled):
        array = make(nbytes)
        assert array.shape == (nbytes,) and array.dtype == np.uint8 and array.flags.writeable
        assert not nbytes or array.ctypes.data % memory.ALIGNMENT == 0
        assert not array.any()


def test_pools_share_no_block():
    pools = [memory.MemoryPool(3 * memory.HUGE), memory.MemoryPool()]
    arrays = []
    for i in range(40):
        memory.use_pool(pools[i % 2])
        arrays.append(memory.pooled(300_000 if i % 3 else 70))
        arrays[-1][:] = i
    assert all((array == i).all() for i, array in enumerate(arrays))
    owners = [{id(array.base.base) for array in arrays[i::2]} for i in range(2)]
    assert owners[0].isdisjoint(owners[1])


def test_pooled_memory_does_not_overlap():
    rng = np.random.default_rng(0)
    arrays = [memory.pooled(int(n)) for n in rng.integers(0, memory.HUGE * 2 // 3, 30)]
    for i, array in enumerate(arrays):
        array[:] = i
    assert all((array == i).all() for i, array in enumerate(arrays))
