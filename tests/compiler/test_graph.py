"""The graph's records and data types."""
import pickle
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pylite.compiler import constant_folding
from pylite.ir import graph
from pylite.ir.values import Value


def test_dtypes_are_in_the_order_of_the_formats_enumeration():
    assert len(graph.DTYPES) == 23
    assert graph.DTYPES.index("int8") == 9 and graph.DTYPES.index("float8_e5m2") == 22


def test_numpy_dtypes_are_large_enough():
    for name, bits in graph.DTYPE_BITS.items():
        dtype = graph.NUMPY_DTYPES[name]
        assert dtype.hasobject if bits is None else dtype.itemsize * 8 == max(bits, 8)


@pytest.mark.parametrize("record", [graph.Tensor, graph.Operator, graph.Quantization])
def test_cython_knows_the_positions_of_fields(record):
    text = (Path(__file__).parents[2] / "pylite" / "_core" / "graph" / "calls.pxd").read_text()
    known = {name.lower(): int(place) for name, place in re.findall(rf"{record.__name__.upper()}_(\w+) = (\d+)", text)}
    assert known and known == {name: record._PLACES[name] for name in known}


def test_records_are_frozen():
    tensor = graph.Tensor(0, "x", "float32", (1,), (1,))
    with pytest.raises(AttributeError):
        tensor.name = "y"
    assert not hasattr(tensor, "__dict__")


def test_model_defaults():
    model = graph.Model(())
    assert model.metadata == {} and model.version == 3
    q = graph.Quantization(np.ones(1, np.float32), np.zeros(1, np.int64))
    assert q.axis == 0 and q.block_size == 0


def test_records_take_positional_or_named_fields_and_compare_by_identity():
    one = graph.Signature("k", 0, {}, outputs={})
    assert one == one and one != graph.Signature("k", 0, {}, {}) and len({one, graph.Signature(*one)}) == 2
    other = graph.replace(one, key="l")
    assert (other.key, other.subgraph, type(other)) == ("l", 0, graph.Signature)
    assert pickle.loads(pickle.dumps(other)).key == "l"
    for values, named in [((1, 2, 3, 4, 5), {}), ((1, 2), {}), ((1, 2, 3, 4), {"key": 5}), ((1, 2, 3, 4), {"x": 5})]:
        with pytest.raises(TypeError, match="Signature"):
            graph.Signature(*values, **named)


def test_folded_constants_have_the_type_of_their_tensor():
    """numpy returns indices in 32 bits on 32-bit machines, where the model may have 64."""
    value = Value(graph.Tensor(0, "y", "int64", (3,), (3,)))
    op = SimpleNamespace(evaluate=lambda node: [np.array([1, -2, 3], np.int32)])
    constant_folding.evaluate(op, SimpleNamespace(inputs=[], outputs=[value]))
    assert value.data.dtype == np.int64 and value.data.tolist() == [1, -2, 3]
