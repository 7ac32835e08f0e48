"""Types for annotations in programs that use pylite.

The dictionaries of an Interpreter: TensorDetails, QuantizationParameters, SparsityParameters, DimensionMetadata,
OpDetails, SignatureList, SignatureNames; its argument Precision.  What custom ops and delegates in Python see and give:
CustomNode, DelegateGraph, DelegatePart, TensorInfo, NodeInfo, OpNode, OutputShapes, Shape, DelegateKernel.
"""
from pylite.plugins.protocols import DelegateKernel, NodeInfo, OpNode, OutputShapes, Shape, TensorInfo
from pylite.plugins.python_delegates import DelegateGraph, DelegatePart
from pylite.plugins.python_ops import CustomNode
from pylite.tflite.types import (
    DimensionMetadata,
    OpDetails,
    Precision,
    QuantizationParameters,
    SignatureList,
    SignatureNames,
    SparsityParameters,
    TensorDetails,
)

__all__ = [
    "CustomNode",
    "DelegateGraph",
    "DelegateKernel",
    "DelegatePart",
    "DimensionMetadata",
    "NodeInfo",
    "OpDetails",
    "OpNode",
    "OutputShapes",
    "Precision",
    "QuantizationParameters",
    "Shape",
    "SignatureList",
    "SignatureNames",
    "SparsityParameters",
    "TensorDetails",
    "TensorInfo",
]
