"""Types for annotations in programs that use pylite.

The dictionaries of an Interpreter: TensorDetails, QuantizationParameters, SparsityParameters, DimensionMetadata,
OpDetails, SignatureList, SignatureNames; its argument Precision.  What custom ops and delegates in Python see and give:
CustomNode, DelegateGraph, DelegatePart, TensorInfo, NodeInfo, OpNode, OutputShapes, Shape, Runnable.
"""
from pylite.plugins.protocols import NodeInfo, OpNode, OutputShapes, Runnable, Shape, TensorInfo
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

__all__ = ["CustomNode", "DelegateGraph", "DelegatePart", "DimensionMetadata", "NodeInfo", "OpDetails", "OpNode",
           "OutputShapes", "Precision", "QuantizationParameters", "Runnable", "Shape", "SignatureList",
           "SignatureNames", "SparsityParameters", "TensorDetails", "TensorInfo"]
