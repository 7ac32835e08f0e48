"""The custom op Atan in Python: a model that needs it, run on a few numbers.

    python atan.py [NUMBER ...]
"""
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pylite
from pylite.typing import OpNode, Shape

MODEL = Path(__file__).with_name("atan.tflite")


@pylite.custom_op("Atan")
class Atan(pylite.CustomOp):
    """y = atan(x) of any shape."""

    def prepare(self, node: OpNode) -> Shape:
        x, y = node.inputs[0], node.outputs[0]
        if x.dtype != "float32" or y.dtype != "float32":
            raise node.error("takes float32 only", x)
        return x.shape

    def invoke(self, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        np.arctan(x, out=y)


def atan(numbers: Sequence[float]) -> NDArray[np.float32]:
    """atan(number + 1) of each number, computed by the model."""
    interpreter = pylite.Interpreter(MODEL)
    x, y = interpreter.get_input_details()[0]["index"], interpreter.get_output_details()[0]["index"]
    interpreter.resize_tensor_input(x, [len(numbers)])
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array(numbers, np.float32))
    interpreter.invoke()
    return interpreter.get_tensor(y)


if __name__ == "__main__":
    numbers = [float(text) for text in sys.argv[1:]] or [-8, 0.5, 2, 2.2, 201]
    for number, result in zip(numbers, atan(numbers), strict=True):
        sys.stdout.write(f"atan({number} + 1) = {result:.6f}\n")
