"""Real models: reading, writing and reading again, and tensor details equal to the peer's."""
import contextlib
import os

import numpy as np
import pytest

from pylite.ir.graph import NUMPY_DTYPES
from pylite.schema import load, read, write
from tests.tools.resources import MODELS, lack, peer

PATHS = sorted(MODELS.rglob("*.tflite"))
IDS = [str(path.relative_to(MODELS)) for path in PATHS]
every_model = pytest.mark.parametrize("path", PATHS or [None], ids=IDS or None)


@pytest.fixture(autouse=True)
def _need_models():
    if not PATHS:
        lack("../shared/models is not beside the checkout")


@every_model
def test_round_trip(path):
    record = read(path.read_bytes())
    assert read(write(record)) == record
    if record.buffers and path.stat().st_size < 1e6:
        assert read(write(record, outside=True)) == record


@every_model
def test_the_repr_of_a_model_is_short(path):
    if path.stat().st_size < 1e6:
        record = read(path.read_bytes())
        assert len(repr(record)) < 20000 and len(repr(record.subgraphs[0])) < 10000


@every_model
def test_details_equal_the_peers(path):
    litert = peer()
    with _quiet():
        try:
            interpreter = litert.Interpreter(
                str(path), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        except (ValueError, RuntimeError) as error:
            pytest.skip(f"the peer does not open it: {error}")
    model = load(path)
    assert interpreter.num_subgraphs() == len(model.subgraphs)
    for subgraph in model.subgraphs:
        with _quiet():
            details = {d["index"]: d for d in interpreter.get_tensor_details(subgraph.index)}
        for tensor in subgraph.tensors:
            if tensor.index in details:
                _compare(tensor, details[tensor.index])
    first = model.subgraphs[0]
    assert [d["index"] for d in interpreter.get_input_details()] == list(first.inputs)
    assert [d["index"] for d in interpreter.get_output_details()] == list(first.outputs)
    theirs = interpreter._get_full_signature_list()
    assert {s.key: {"inputs": s.inputs, "outputs": s.outputs} for s in model.signatures} == theirs
    ops = [op for op in interpreter._get_ops_details() if op["op_name"] != "DELEGATE"]
    assert len(ops) == len(first.operators)
    for op, want in zip(first.operators, ops, strict=True):
        assert op.name == want["op_name"] or op.custom
        assert op.inputs == tuple(want["inputs"]) and op.outputs == tuple(want["outputs"])


def _compare(tensor, detail):
    where = f"tensor {tensor.index} {tensor.name!r}"
    assert tensor.name == detail["name"], where
    assert tensor.shape == tuple(detail["shape"]), where
    assert tensor.shape_signature == tuple(detail["shape_signature"]) or not len(detail["shape_signature"]), where
    if tensor.dtype in np.sctypeDict:
        assert NUMPY_DTYPES[tensor.dtype] == np.dtype(detail["dtype"]), where
    theirs, q = detail["quantization_parameters"], tensor.quantization
    if q is None:
        assert not len(theirs["scales"]), where
    else:
        np.testing.assert_array_equal(q.scale, theirs["scales"], err_msg=where)
        np.testing.assert_array_equal(q.zero_point, theirs["zero_points"], err_msg=where)
        assert q.axis == theirs["quantized_dimension"] and q.block_size == theirs["block_size"], where


@contextlib.contextmanager
def _quiet():
    """The peer prints warnings about models on the standard error stream."""
    kept = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
