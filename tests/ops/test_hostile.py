"""Damaged operators: wrong shapes, types, operands and scales raise the documented exceptions."""
import random

import numpy as np
import pytest

from pylite.errors import OpError, PyliteError, TensorError
from pylite.interpreter import Interpreter
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from tests.tools.oneop import STORED, stored_file

MODULES = sorted(path.stem for path in STORED.glob("*.npz"))
CASES = 60          # per module
TYPES = ("float32", "int8", "int16", "int32", "uint8", "int4")


def damage(model, rng):
    """Change one thing about the first operator or a tensor."""
    subgraph = model.subgraphs[0]
    operator, tensor = subgraph.operators[0], rng.choice(subgraph.tensors)
    inputs, shape = list(operator.inputs), list(tensor.shape)
    kind = rng.randrange(8)
    if kind == 0 and shape:
        at = rng.randrange(len(shape))
        shape[at] = rng.choice([0, 1, 2, 3, shape[at] + 1, max(0, shape[at] - 1), 2 * shape[at]])
        tensor.shape = tuple(shape)
    elif kind == 1:
        tensor.shape = tuple(shape[:-1] if rng.random() < 0.5 else [*shape, rng.choice([1, 2])])
    elif kind == 2:
        inputs[rng.randrange(len(inputs))] = rng.choice([-1, *range(len(subgraph.tensors))])
        operator.inputs = tuple(inputs)
    elif kind == 3:
        operator.inputs = tuple(inputs[:rng.randrange(1, len(inputs) + 1)])
    elif kind == 4:
        tensor.is_variable = not tensor.is_variable
    elif kind == 5:
        tensor.quantization = None
    elif kind == 6:
        tensor.type = rng.choice(TYPES)
    elif tensor.quantization is not None and tensor.quantization.scale is not None:
        tensor.quantization.scale = np.array([rng.choice([0.0, 1e-30, 1e30, -1.0, 2.0**-12])], np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("module", MODULES)
def test_damaged_operators(module):
    stored = stored_file(STORED / f"{module}.npz")
    models = [data.tobytes() for key, data in stored.items() if key.endswith("/model")]
    for case in range(CASES):
        rng = random.Random(case)
        model = read(rng.choice(models))
        for _ in range(rng.choice([1, 1, 2, 3])):
            damage(model, rng)
        try:
            interpreter = Interpreter(model_content=write(model))
            interpreter.allocate_tensors()
            for detail in interpreter.get_input_details():
                interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
            interpreter.invoke()
        except PyliteError:
            continue
        except Exception as error:
            raise AssertionError(f"{module}, case {case}") from error


def test_a_result_with_more_dimensions_than_numpy_has():
    m = ModelBuilder()
    x, value = m.tensor("x", (2,), "int32"), m.tensor("value", (), "int32")
    y = m.tensor("y", (), "int32", variable=True)
    m.operator("FILL", [x, value], [y])
    m.inputs([x, value])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.resize_tensor_input(x, [510])
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.ones(510, np.int32))
    with pytest.raises(OpError, match=r"node 0 FILL: .*'y'.* has 510 dimensions; numpy's arrays have"):
        interpreter.invoke()


def test_a_variable_with_more_dimensions_than_numpy_has():
    m = ModelBuilder()
    x, y = m.tensor("x", (1,) * 70, variable=True), m.tensor("y", ())
    m.operator("RESHAPE", [x], [y], new_shape=[1])
    m.inputs([])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    with pytest.raises(TensorError, match=r"'x' .*has a shape that numpy cannot represent"):
        interpreter.allocate_tensors()


@pytest.mark.parametrize("dtype", ["int32", "string"])
def test_one_value_for_no_indices(dtype):
    """A walk over no indices divided by their number."""
    m = ModelBuilder()
    x, value = m.tensor("x", (2,), "int32"), m.tensor("value", (), dtype)
    default, y = m.tensor("default", (), dtype), m.tensor("y", (3,), dtype)
    m.operator("SPARSE_TO_DENSE", [x, m.constant("size", np.array([3], np.int32)), value, default], [y])
    m.inputs([x, value, default])
    m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    interpreter.resize_tensor_input(x, [0])
    interpreter.allocate_tensors()
    interpreter.set_tensor(default, np.array(b"7" if dtype == "string" else 7, object if dtype == "string" else dtype))
    interpreter.invoke()
    assert interpreter.get_tensor(y).tolist() == [b"7" if dtype == "string" else 7] * 3
