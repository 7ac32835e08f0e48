"""The graph's records and data types."""
import numpy as np
import pytest

from pylite import graph, records


def test_dtypes_follow_the_numbers_of_the_file():
    assert len(graph.DTYPES) == 23
    assert graph.DTYPES.index("int8") == 9 and graph.DTYPES.index("float8_e5m2") == 22


def test_every_dtype_has_a_numpy_dtype_that_holds_it():
    for name, bits in graph.DTYPE_BITS.items():
        dtype = graph.NUMPY_DTYPES[name]
        assert dtype.hasobject if bits is None else dtype.itemsize * 8 == max(bits, 8)


def test_records_are_frozen():
    tensor = graph.Tensor(0, "x", "float32", (1,), (1,))
    with pytest.raises(records.FrozenError):
        tensor.name = "y"
    assert not hasattr(tensor, "__dict__")


def test_model_defaults():
    model = graph.Model(())
    assert model.metadata == {} and model.version == 3
    q = graph.Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    assert q.axis == 0 and q.block_size == 0
