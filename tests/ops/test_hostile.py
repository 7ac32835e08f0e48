"""Damaged operators: wrong shapes, types, operands and scales raise the documented exceptions."""
import random

import numpy as np
import pytest

from pylite.errors import PyliteError
from pylite.interpreter import Interpreter
from pylite.schema import read, write
from tests.oneop import STORED, stored_file

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
