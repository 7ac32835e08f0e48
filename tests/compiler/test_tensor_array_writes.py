"""Writes of one TensorArray element are recognized in the converter's form; other graphs are left unchanged."""
import numpy as np
import pytest

import pylite
from pylite.compiler.passes import tensor_array_writes
from pylite.schema import load
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import peer


def writer(rank, step=1, width=2, whole=True, swap=False, flag="NONE", keep=False):
    """(x, i, item) -> the concatenation of x[:i], item and x[i + step:], called by the main graph."""
    m = ModelBuilder()
    shape, row = (5, width, 3)[:rank], (1, width, 3)[:rank]

    def operands():
        inputs = [m.tensor("x", shape), m.tensor("i", (), "int32"), m.tensor("item", row)]
        m.inputs(inputs)
        return inputs

    def ints(*values):
        return m.constant("c", np.array(values, np.int32))

    def indices(i, rest):
        vector = m.tensor("vector", (1,), "int32")
        m.operator("RESHAPE", [i, ints(1)], [vector], new_shape=[1])
        if rank == 1:
            return vector
        joined = m.tensor("joined", (rank,), "int32")
        m.operator("CONCATENATION", [vector, ints(*rest)], [joined], axis=0)
        return joined
    inputs, y = operands(), m.tensor("y", (None, *shape[1:]))
    m.operator("STABLEHLO_COMPOSITE", inputs, [y], name="write", decomposition_subgraph_index=1,
               composite_attributes=np.array([0, 0, 1, 0, 0, 36, 1], np.uint8))
    m.outputs([y])
    m.subgraph("write")
    x, i, item = operands()
    y, after = m.tensor("y", (None, *shape[1:])), m.tensor("after", (), "int32")
    head, tail = m.tensor("head", (None, *shape[1:])), m.tensor("tail", (None, *shape[1:]))
    m.operator("ADD", [i, m.constant("step", np.array(step, np.int32))][::-1 if swap else 1], [after])
    rest = shape[1:] if whole else [-1] * (rank - 1)
    m.operator("SLICE", [x, ints(*[0] * rank), indices(i, rest)], [head])
    m.operator("SLICE", [x, indices(after, [0] * (rank - 1)), ints(*[-1] * rank)], [tail])
    m.operator("CONCATENATION", [head, item, tail], [y], axis=0, fused_activation_function=flag)
    m.outputs([y, head] if keep else [y])
    return m.build()


def names(model):
    return [operator.name for operator in tensor_array_writes.run(load(model).subgraphs[1]).operators]


@pytest.mark.parametrize("options", [{}, {"whole": False}, {"swap": True}])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_writes(rank, options):
    model = writer(rank, **options)
    assert "DYNAMIC_UPDATE_SLICE" in names(model)
    assert not {"SLICE", "CONCATENATION"} & set(names(model)) or rank > 1
    litert, rng = peer(), np.random.default_rng(rank)
    theirs = litert.Interpreter(model_content=model, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    ours = pylite.Interpreter(model_content=model)
    assert ours.allocate_tensors() is None
    for i in (0, 2, 4):
        values = [rng.standard_normal((n, 2, 3)[:rank]).astype(np.float32) for n in (5, 1)]
        results = []
        for interpreter in (ours, theirs):
            interpreter.allocate_tensors()
            for detail, value in zip(interpreter.get_input_details(), (values[0], np.int32(i), values[1]), strict=True):
                interpreter.set_tensor(detail["index"], np.asarray(value))
            interpreter.invoke()
            results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        np.testing.assert_array_equal(*results)
    assert ours._executors[1].current.boundary is None


@pytest.mark.parametrize("i", [-1, 5, 6])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_an_index_outside_the_array_is_refused(rank, i):
    interpreter = pylite.Interpreter(model_content=writer(rank))
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], np.full(detail["shape"], i, detail["dtype"]))
    with pytest.raises(RuntimeError, match="an index lies outside the tensor"):
        interpreter.invoke()


@pytest.mark.parametrize("options", [{"step": 2}, {"flag": "RELU"}])
def test_other_concatenations_are_not_replaced(options):
    assert "DYNAMIC_UPDATE_SLICE" not in names(writer(2, **options))


def test_slices_with_other_readers_are_not_replaced():
    assert names(writer(2, keep=True)).count("SLICE") == 1
