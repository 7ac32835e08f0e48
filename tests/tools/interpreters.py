"""Interpreters of small models, for tests of the public API."""
import numpy as np

import pylite
from tests.tools import small_models

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def ready(model=None, **options):
    interpreter = pylite.Interpreter(model_content=model or small_models.reshape(), **options)
    interpreter.allocate_tensors()
    return interpreter


def run(interpreter, value=X):
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
