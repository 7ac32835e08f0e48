"""A fully annotated program that uses pylite; test_stubs.py checks it with `mypy --strict`, and runs it.

Each error that a comment ignores must be found by mypy.
"""
import contextlib
import mmap
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import pylite
from pylite.interpreter import Interpreter, OpResolverType, load_delegate
from pylite.media import models
from pylite.schema.builder import ModelBuilder
from pylite.tasks import ImageClassifier
from pylite.typing import (
    CustomNode,
    DelegateGraph,
    DelegatePart,
    NodeInfo,
    OpDetails,
    OpNode,
    OutputShapes,
    QuantizationParameters,
    Shape,
    SignatureList,
    TensorDetails,
    TensorInfo,
)

Array = NDArray[np.float32]


# ---- running a model: the README's program -----------------------------------------------------------------------
def run(path: str) -> NDArray[np.int8]:
    interpreter = Interpreter(path, num_threads=4)
    interpreter.allocate_tensors()
    x, y = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    interpreter.set_tensor(x["index"], np.zeros(x["shape"], x["dtype"]))
    interpreter.invoke()
    return interpreter.get_tensor(y["index"])


def scale_of(details: TensorDetails) -> float:
    parameters: QuantizationParameters = details["quantization_parameters"]
    scales: NDArray[np.float32] = parameters["scales"]
    return float(scales[0]) if len(scales) else details["quantization"][0]


def examine(interpreter: Interpreter) -> list[str]:
    for details in interpreter.get_tensor_details():
        scale_of(details)
        details["scale"]  # type: ignore[typeddict-item]
    nodes: list[OpDetails] = interpreter._get_ops_details()
    signatures: SignatureList = interpreter.get_signature_list()
    plain: dict[str, dict[str, list[str]]] = interpreter.get_signature_list()
    assert plain == signatures
    for key, names in signatures.items():
        runner = interpreter.get_signature_runner(key)
        by_name: dict[str, TensorDetails] = runner.get_input_details()
        assert sorted(by_name) == sorted(names["inputs"])
    interpreter.alocate_tensors()  # type: ignore[attr-defined]
    return [node["op_name"] for node in nodes]


def options(model: pylite.Model) -> Interpreter:
    Interpreter(nun_threads=1)  # type: ignore[call-arg]
    pylite.Interpreter("model.tflite", precision="foo")  # type: ignore[arg-type]
    return pylite.Interpreter(model=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, max_memory=1 << 20,
                              op_resolver=pylite.BuiltinOpResolver())


def contents(path: str) -> None:
    """A model from any buffer of bytes; lists as inputs of signatures."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        buffers = bytes(pages), bytearray(pages), memoryview(bytes(pages)), np.frombuffer(bytes(pages), np.uint8)
        for buffer in (*buffers, pages):
            pylite.Interpreter(model_content=buffer, precision="prefer_float16").close()
    pylite.CompiledModel.from_buffer(buffers[3])
    ImageClassifier(buffers[3])
    with contextlib.suppress(ValueError):       # it takes int8
        pylite.Interpreter(path).get_signature_runner()(input=[1.0])


# ---- custom ops --------------------------------------------------------------------------------------------------
def described(tensor: TensorInfo) -> str:
    return f"{tensor.name} {tensor.dtype} {list(tensor.shape)} {tensor.scale} {tensor.zero_point}"


@pylite.custom_op("Scale", version=(1, 2))
class Scale(pylite.CustomOp):
    """y = x * factor"""

    def prepare(self, node: OpNode) -> Shape:
        x = node.inputs[0]
        if x.dtype != "float32":
            raise node.error(f"takes float32 only, not {described(x)}", x)
        node.temporary(x.shape, "float32")
        node.temporery(x.shape)  # type: ignore[attr-defined]
        return x.shape

    def invoke(self, x: Array, y: Array, scratch: Array) -> None:
        np.multiply(x, self.options["factor"], out=scratch)
        y[...] = scratch


class Positive(pylite.CustomOp):
    raw_options = True

    def prepare(self, node: CustomNode) -> OutputShapes:
        node.outputs[0].dtype = node.inputs[0].dtype
        return None

    def evaluate(self, x: Array) -> Array:
        return x[x > 0]


@pylite.custom_op("Half", shapes=lambda x, *, rows=1: [x])
def half(x: Array, y: Array, *, rows: int = 1) -> None:
    np.divide(x, 2, out=y)


def register(resolver: pylite.MutableOpResolver) -> None:
    resolver.add_custom("Positive", Positive)
    resolver.add_custom("Exp", np.exp)


# ---- a delegate --------------------------------------------------------------------------------------------------
class Doubler(pylite.PythonDelegate):
    flags = pylite.DelegateFlags.ALLOW_DYNAMIC_TENSORS

    def prepare(self, graph: DelegateGraph) -> None:
        wanted = [node.index for node in graph.nodes if self.supports(node)]
        if len(graph.preview(wanted)) <= 2:
            graph.replace(wanted)

    def supports(self, node: NodeInfo) -> bool:
        return node.name == "ADD" and node.inputs[0].index == node.inputs[1].index and node.input(2) is None

    def compile(self, part: DelegatePart) -> "Double":
        return Double(part.inputs, [node.outputs[0] for node in part.nodes])


class Double:
    def __init__(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        self.names = [value.name for value in (*inputs, *outputs)]

    def prepare(self, node: OpNode) -> list[Shape]:
        return [node.inputs[0].shape]

    def invoke(self, x: Array, y: Array) -> None:
        np.multiply(x, 2, out=y)


class Nothing(pylite.PythonDelegate):
    def compile(self, part: DelegatePart) -> str:  # type: ignore[override]
        return part.nodes[0].name


# ---- all of it ---------------------------------------------------------------------------------------------------
def model() -> bytes:
    m = ModelBuilder("y = positive(exp(x / 2) + exp(x / 2))")
    x, a, b, c = (m.tensor(name, (None,)) for name in "xabc")
    y = m.tensor("y", (None,))
    m.operator("Half", [x], [a], custom_options=b"")
    m.operator("Exp", [a], [b], custom_options=b"")
    m.operator("ADD", [b, b], [c])
    m.operator("Positive", [c], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    return m.build()


def main() -> None:
    run(str(models.path("digits")))
    contents(str(models.path("digits")))
    interpreter = pylite.InterpreterWithCustomOps([register], model_content=model(), experimental_delegates=[Doubler()])
    interpreter.resize_tensor_input(0, [3])
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, np.array([0, 1, 2], np.float32))
    interpreter.invoke()
    sys.stdout.write(f"{interpreter.get_tensor(4).astype(float).round(2).tolist()}\n")
    with contextlib.suppress(OSError, pylite.DelegateError):
        load_delegate("/nowhere.so", {"option": 1})


if __name__ == "__main__":
    main()
