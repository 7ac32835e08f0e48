"""MyDelegate: a delegate in Python that runs CONV_2D and MEAN with numpy.

    python my_delegate.py
"""
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

import pylite
from pylite.typing import DelegatePart, NodeInfo

MODEL = Path(__file__).with_name("two_convolutions.tflite")
Array = NDArray[Any]


class MyDelegate(pylite.PythonDelegate):
    """Takes float convolutions with VALID padding and stride 1, and means over constant axes."""

    def supports(self, node: NodeInfo) -> bool:
        if any(v.dtype != "float32" for v in node.outputs):
            return False
        if node.name == "CONV_2D":
            o = node.options
            steps = o.stride_w, o.stride_h, o.dilation_w_factor, o.dilation_h_factor
            return o.padding == "VALID" and steps == (1, 1, 1, 1)
        return node.name == "MEAN" and node.inputs[1].data is not None

    def compile(self, part: DelegatePart) -> "Kernel":
        return Kernel(part)


class Kernel:
    """Runs the nodes of one partition in sequence."""

    def __init__(self, part: DelegatePart) -> None:
        self.nodes = part.nodes
        self.inputs = [value.index for value in part.inputs]
        self.outputs = [value.index for value in part.outputs]

    def invoke(self, *arrays: Array) -> None:
        tensors = dict(zip(self.inputs, arrays, strict=False))
        for node in self.nodes:
            operands = [tensors[value.index] for value in node.inputs]
            tensors[node.outputs[0].index] = RUN[node.name](node.options, *operands)
        for index, array in zip(self.outputs, arrays[len(self.inputs):], strict=True):
            array[...] = tensors[index]


def conv_2d(options: Any, x: Array, weights: Array, bias: Array) -> Any:
    """x: (n, h, w, c), weights: (m, kh, kw, c), bias: (m,)."""
    windows = sliding_window_view(x, weights.shape[1:3], (1, 2))        # (n, h', w', c, kh, kw)
    y = np.einsum("nhwcij,mijc->nhwm", windows, weights) + bias
    return np.maximum(y, 0) if options.fused_activation_function == "RELU" else y


def mean(options: Any, x: Array, axes: Array) -> Any:
    return x.mean(tuple(axes.tolist()), keepdims=options.keep_dims)


RUN: dict[str, Callable[..., Any]] = {"CONV_2D": conv_2d, "MEAN": mean}


def run(x: Array, delegates: Sequence[pylite.PythonDelegate] = ()) -> tuple[Array, list[str]]:
    """(the model's output for x, the names of its nodes, those of the delegate last)"""
    interpreter = pylite.Interpreter(MODEL, experimental_delegates=list(delegates))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    names = [node["op_name"] for node in interpreter._get_ops_details()]
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), names


if __name__ == "__main__":
    picture = np.random.default_rng(0).normal(size=(1, 8, 8, 3)).astype(np.float32)
    for chosen in ([], [MyDelegate()]):
        result, nodes = run(picture, chosen)
        sys.stdout.write(f"{' '.join(nodes)}: {np.round(result, 4)}\n")
