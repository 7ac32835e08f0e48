"""The strided copy kernel on plain arrays: any strides, any size, any number of threads."""
import numpy as np
import pytest

from pylite._core import simd
from pylite._core.kernels.movement import Copy, LookUpRows

TYPES = ("uint8", "uint16", "float32", "int64", "complex128")


def random_view(rng, shape, dtype):
    """(whole array, a view of `shape` in it): axes in any order, with gaps, some reversed."""
    order = rng.permutation(len(shape))
    steps = [int(rng.integers(1, 3)) if rng.random() < 0.3 else 1 for _ in shape]
    whole = tuple(shape[axis] * steps[axis] + int(rng.integers(0, 2)) for axis in order)
    size = int(np.prod(whole))
    base = np.frombuffer(bytearray(rng.bytes(size * np.dtype(dtype).itemsize)), dtype).reshape(whole)
    view = base[(..., *(slice(0, shape[axis] * steps[axis], steps[axis]) for axis in order))]
    view = view.transpose(np.argsort(order))
    return base, view[(..., *(slice(None, None, -1 if rng.random() < 0.2 else 1) for _ in shape))]


def copied(x, base, y):
    """`base` after y, a view of it, has been overwritten with x."""
    want = base.copy()
    start = y.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    if y.size:
        np.ndarray(y.shape, y.dtype, want, start, y.strides)[...] = x
    return want


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("isa_level", simd.available())
def test_any_strides(dtype, isa_level):
    rng = np.random.default_rng(TYPES.index(dtype))
    chosen = simd.current
    simd.use(isa_level)
    try:
        for _ in range(300):
            rank = int(rng.integers(0, 7))
            largest = int(rng.choice([2, 4, 6, 40])) if rank < 4 else 3
            shape = tuple(0 if rng.random() < 0.02 else int(n) for n in rng.integers(1, largest + 1, rank))
            _, x = random_view(rng, shape, dtype)
            base, y = random_view(rng, shape, dtype)
            if shape and shape[-1] and rng.random() < 0.1:
                x = np.broadcast_to(x[..., :1], shape)
            want = copied(x, base, y)
            assert Copy(x, y).run() == 0
            assert base.tobytes() == want.tobytes(), (shape, x.strides, y.strides)
    finally:
        simd.use(chosen)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("shape", "axes"), [
    ((3_000_001,), (0,)), ((700, 1201), (1, 0)), ((5, 300, 701), (2, 0, 1)), ((2, 3, 400, 500), (0, 2, 3, 1)),
    ((1, 900, 1100, 3), (0, 3, 1, 2))])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_large_copies_are_shared_among_threads(shape, axes, dtype, threads):
    x = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    y = np.zeros([shape[axis] for axis in axes], dtype)
    assert Copy(x.transpose(axes), y).run(simd.Pool(threads)) == 0
    np.testing.assert_array_equal(y, x.transpose(axes))


def test_shapes_and_types_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"cannot copy float32\(2, 3\) to float32\(3, 2\)"):
        Copy(np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match="cannot copy"):
        Copy(np.zeros(4, np.float32), np.zeros(4, np.float64))
    y = np.zeros(4)
    y.flags.writeable = False
    with pytest.raises((ValueError, BufferError), match="read-only"):
        Copy(np.zeros(4), y)


def test_look_up_rows():
    rng = np.random.default_rng(0)
    x, table = rng.integers(0, 256, (7, 33)).astype(np.uint8), rng.integers(0, 256, 256).astype(np.uint8)
    y = np.zeros((7, 50), np.uint8)
    assert LookUpRows(x, table, y[:, 5:38]).run() == 0
    np.testing.assert_array_equal(y[:, 5:38], table[x])
    assert not y[:, :5].any() and not y[:, 38:].any()
