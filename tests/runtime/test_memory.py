"""Memory for arenas and packed weights is zeroed and aligned, and blocks do not overlap; weights are in memory once."""
import subprocess
import sys

import numpy as np
import pytest

from pylite._core.run import memory
from pylite.schema.builder import ModelBuilder

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


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


def resident():
    """Resident bytes of this process that are of files."""
    with open("/proc/self/status", encoding="ascii") as file:
        return 1024 * next(int(line.split()[1]) for line in file if line.startswith("RssFile"))


@linux
def test_pages_of_a_file_are_given_back_and_read_again(tmp_path):
    contents = np.random.default_rng(0).integers(0, 256, 8 << 20, np.uint8)
    contents.tofile(tmp_path / "file")
    with open(tmp_path / "file", "rb") as file:
        array = np.frombuffer(memory.Pages(contents.nbytes, file.fileno()), np.uint8)
    before = resident()
    np.testing.assert_array_equal(array, contents)
    assert resident() - before > 7 << 20
    memory.give_back(array[1000:-1000])
    assert resident() - before < 1 << 20
    np.testing.assert_array_equal(array, contents)


@pytest.mark.parametrize("array", [np.arange(1 << 18), np.arange(1 << 18)[::-2], np.full(1 << 14, "text", object)],
                         ids=["contiguous", "strided", "objects"])
def test_other_memory_is_not_given_back(array):
    before = array.copy()
    memory.give_back(array)
    np.testing.assert_array_equal(array, before)


def convolutions():
    """Plain filters, and three for Winograd, which are transformed at run time: 15 MB."""
    rng, builder = np.random.default_rng(0), ModelBuilder()
    x = builder.tensor("x", (1, 8, 8, 256))
    builder.inputs([x])
    for i, shape in enumerate([(1024, 1, 1, 256), (256, 3, 3, 1024), (256, 3, 3, 256), (256, 3, 3, 256)]):
        filters = builder.constant(f"w{i}", rng.standard_normal(shape, np.float32) / 100)
        bias = builder.constant(f"b{i}", rng.standard_normal(shape[0], np.float32))
        y = builder.tensor(f"y{i}", (1, 8, 8, shape[0]))
        builder.operator("CONV_2D", [x, filters, bias], [y], padding="SAME", stride_h=1, stride_w=1)
        x = y
    builder.outputs([x])
    return builder.build()


def matrices():
    """Two matrices of float32, 24 MB."""
    rng, builder = np.random.default_rng(0), ModelBuilder()
    x = builder.tensor("x", (1, 2000))
    builder.inputs([x])
    for i, shape in enumerate([(1500, 2000), (2000, 1500)]):
        w, y = builder.constant(f"w{i}", rng.standard_normal(shape, np.float32)), builder.tensor(f"y{i}", (1, shape[0]))
        builder.operator("FULLY_CONNECTED", [x, w, -1], [y])
        x = y
    builder.outputs([x])
    return builder.build()


@linux
@pytest.mark.parametrize(("model", "megabytes"), [(convolutions, 15), (matrices, 24)])
def test_float_weights_are_in_memory_once(tmp_path, model, megabytes):
    """The peak while a model is prepared: its packed weights, and 14 MB for all else."""
    (tmp_path / "model.tflite").write_bytes(model())
    code = f"""
import numpy
from pylite.interpreter import Interpreter
def peak():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1000
before = peak()
interpreter = Interpreter({str(tmp_path / "model.tflite")!r}, cache_dir="")
interpreter.allocate_tensors()
interpreter.invoke()
print(peak() - before)"""
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(found) < megabytes + 14
