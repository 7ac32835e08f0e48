"""Types for annotations in programs that use pylite.

The dictionaries of an Interpreter: TensorDetails, QuantizationParameters, SparsityParameters, DimensionMetadata,
OpDetails, SignatureList, SignatureNames.  What custom ops and delegates in Python see and give: TensorInfo, NodeInfo,
OpNode, OutputShapes, Shape, Runnable.
"""
from pylite.plugins.protocols import NodeInfo, OpNode, OutputShapes, Runnable, Shape, TensorInfo
from pylite.tflite.types import (
    DimensionMetadata,
    OpDetails,
    QuantizationParameters,
    SignatureList,
    SignatureNames,
    SparsityParameters,
    TensorDetails,
)

__all__ = ["DimensionMetadata", "NodeInfo", "OpDetails", "OpNode", "OutputShapes", "QuantizationParameters", "Runnable",
           "Shape", "SignatureList", "SignatureNames", "SparsityParameters", "TensorDetails", "TensorInfo"]
