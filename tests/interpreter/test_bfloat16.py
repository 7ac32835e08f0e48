"""bfloat16 is the type of ml_dtypes where the program has imported that, as in the peer, and uint16 otherwise."""
import sys

import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import peer

X = np.array([1, -2.5, 3.14159, np.inf], np.float32)
BITS = np.array([0x3F80, 0xC020, 0x4049, 0x7F80], np.uint16)


@pytest.fixture
def library():
    """ml_dtypes, which is not imported any more after the test."""
    before = sys.modules.get("ml_dtypes")
    yield pytest.importorskip("ml_dtypes")
    if before is None:
        del sys.modules["ml_dtypes"]


def model():
    """x, float32, to y, bfloat16, and z, bfloat16, to w, float32."""
    m = ModelBuilder()
    x, y, z, w = (m.tensor(name, (4,), dtype) for name, dtype in zip(
        "xyzw", ("float32", "bfloat16", "bfloat16", "float32"), strict=True))
    m.operator("CAST", [x], [y], in_data_type="float32", out_data_type="bfloat16")
    m.operator("CAST", [z], [w], in_data_type="bfloat16", out_data_type="float32")
    m.inputs([x, z])
    m.outputs([y, w])
    m.signature("serve", {"x": x, "z": z}, {"y": y, "w": w})
    return m.build()


def opened(module=pylite):
    i = module.Interpreter(model_content=model())
    i.allocate_tensors()
    i.set_tensor(0, X)
    return i


def test_without_the_library(monkeypatch):
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)
    i = opened()
    for _ in range(3):
        i.set_tensor(2, BITS)
        i.invoke()
        for got in (i.get_tensor(1), i.tensor(1)().copy()):
            assert got.dtype == np.uint16
            np.testing.assert_array_equal(got, BITS)
        np.testing.assert_array_equal(i.get_tensor(3), BITS.astype(np.uint32).__lshift__(16).view(np.float32))
    assert i.get_tensor_details()[1]["dtype"] is np.uint16 and "ml_dtypes" not in sys.modules


def test_with_the_library(library):
    i, want = opened(), X.astype(library.bfloat16)
    for given in (want, want.view(np.uint16), np.stack([want, want], 1)[:, 0]):
        for _ in range(3):
            i.set_tensor(2, given)
            i.invoke()
            for got in (i.get_tensor(1), i.tensor(1)().copy(), i.get_tensor(2)):
                assert got.dtype == library.bfloat16
                np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(i.get_tensor(3), want.astype(np.float32))
    i.tensor(2)()[...] = 2
    i.invoke()
    assert i.get_tensor(3).tolist() == [2] * 4
    assert i._get_ops_details()[0]["result_types"] == [library.bfloat16]
    run = i.get_signature_runner("serve")
    assert run.get_output_details()["y"]["dtype"] is library.bfloat16
    result = run(x=X, z=want)
    assert result["y"].dtype == library.bfloat16 and result["w"].tolist() == want.astype(np.float32).tolist()
    with pytest.raises(ValueError, match=r"expected type BFLOAT16 .* numpy.asarray\(value, ml_dtypes.bfloat16\)"):
        i.set_tensor(2, X)
    with pytest.raises(ValueError, match="Dimension mismatch"):
        i.set_tensor(2, want[:3])


def test_the_library_is_imported_later(monkeypatch, library):
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "ml_dtypes")
        i = opened()
        i.set_tensor(2, BITS)
        i.invoke()
        assert i.get_tensor(1).dtype == i.get_tensor(1).dtype == np.uint16
    i.set_tensor(2, X.astype(library.bfloat16))
    assert i.get_tensor(1).dtype == i.get_tensor(2).dtype == i.get_input_details()[1]["dtype"] == library.bfloat16


def test_the_peer_gives_the_same(library):
    ours, theirs = opened(), opened(peer())
    for i in (ours, theirs):
        i.set_tensor(2, X.astype(library.bfloat16))
        i.invoke()
    for index in range(4):
        a, b = ours.get_tensor(index), theirs.get_tensor(index)
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    assert [d["dtype"] for d in ours.get_tensor_details()] == [d["dtype"] for d in theirs.get_tensor_details()]
