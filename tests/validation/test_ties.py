"""Which tensors share a grid is asked of the nodes themselves."""
import numpy as np
import pytest

from pylite import Model
from pylite.schema.builder import ModelBuilder
from pylite.validation.ties import tied


def groups(name, inputs, outputs, options=None, constants=()):
    """{frozenset of names: fixed} of a node whose operands, (name, shape, scale), nodes of their own compute."""
    m = ModelBuilder()
    sources = [m.tensor(f"source{i}", shape, "int8", scale=0.03) for i, (_, shape, _) in enumerate(inputs)]
    read = [m.tensor(n, shape, "int8", scale=scale) for n, shape, scale in inputs]
    for source, tensor in zip(sources, read, strict=True):
        m.operator("QUANTIZE", [source], [tensor])
    read += [m.constant(f"constant{i}", np.asarray(value)) for i, value in enumerate(constants)]
    written = [m.tensor(n, shape, "int8", scale=scale, zero_point=zero) for n, shape, scale, zero in outputs]
    m.operator(name, read, written, **(options or {}))
    m.inputs(sources)
    m.outputs(written)
    model = Model(m.build())
    tensors = model.graph.subgraphs[0].tensors
    return {frozenset(tensors[i].name for i in group.tensors): group.fixed for group in tied(model)}


A, B = ("a", (2, 4), 0.1), ("b", (2, 4), 0.1)


@pytest.mark.parametrize(("name", "inputs", "outputs", "options", "constants"), [
    ("RESHAPE", [A], [("y", (4, 2), 0.1, 0)], {"new_shape": (4, 2)}, [np.array([4, 2], np.int32)]),
    ("CONCATENATION", [A, B], [("y", (4, 4), 0.1, 0)], {"axis": 0}, []),
    ("MAX_POOL_2D", [("a", (1, 4, 4, 2), 0.1)], [("y", (1, 2, 2, 2), 0.1, 0)],
     {"filter_height": 2, "filter_width": 2, "stride_h": 2, "stride_w": 2, "padding": "VALID"}, []),
    ("TRANSPOSE", [A], [("y", (4, 2), 0.1, 0)], {}, [np.array([1, 0], np.int32)])])
def test_nodes_that_move_integers_tie_their_operands(name, inputs, outputs, options, constants):
    found = groups(name, inputs, outputs, options, constants)
    assert found[frozenset([n for n, *_ in inputs] + ["y"])] is False


@pytest.mark.parametrize(("name", "inputs", "options"), [
    ("ADD", [A, B], {}), ("MUL", [A, B], {}), ("RELU", [A], {}), ("QUANTIZE", [A], {})])
def test_nodes_that_rescale_tie_nothing(name, inputs, options):
    found = groups(name, inputs, [("y", (2, 4), 0.1, 0)], options)
    assert all(len(tensors) == 1 for tensors in found)
    assert found[frozenset(["y"])] is False and found[frozenset(["a"])] is False


def test_a_softmax_fixes_its_result_alone():
    found = groups("SOFTMAX", [A], [("y", (2, 4), 1 / 256, -128)], {"beta": 1.0})
    assert found == {frozenset(["source0"]): True, frozenset(["a"]): False, frozenset(["y"]): True}
