from typing import Final

from pylite import compiled_model as compiled_model
from pylite import errors as errors
from pylite import flex as flex
from pylite import interpreter as interpreter
from pylite import media as media
from pylite import schema as schema
from pylite import tasks as tasks
from pylite import typing as typing
from pylite import validation as validation
from pylite.compiled_model import CompiledModel
from pylite.errors import (
    AcceleratorError,
    BufferTypeError,
    ComparisonError,
    CompiledModelError,
    DataDependentError,
    DelegateError,
    DelegateLibraryError,
    DelegationError,
    ExecutionError,
    FileFormatError,
    MemoryLimitError,
    ModelError,
    NoDelegateError,
    NotAllocatedError,
    OpError,
    PluginError,
    PyliteError,
    ResizeError,
    SignatureError,
    TensorBufferError,
    TensorError,
    UnsupportedOpError,
    ViewError,
)
from pylite.interpreter import Interpreter, InterpreterWithCustomOps
from pylite.plugins.capi import get_include, load_custom_ops
from pylite.plugins.custom import custom_op, unregister
from pylite.plugins.delegates import Delegate, load_delegate
from pylite.plugins.delegation import DelegateFlags
from pylite.plugins.pointers import from_pointers
from pylite.plugins.python_delegates import PythonDelegate
from pylite.plugins.python_ops import CustomOp
from pylite.plugins.resolver import BuiltinOpResolver, MutableOpResolver, OpResolver
from pylite.runtime.model import Model
from pylite.shim import install_as
from pylite.tflite.resolver_type import OpResolverType
from pylite.tflite.signature import SignatureRunner

OP_PACKAGES: list[str]
__distribution__: Final[str]

def _promote(before: str = "") -> None: ...
__version__: Final[str]
__all__ = [
    "AcceleratorError",
    "BufferTypeError",
    "BuiltinOpResolver",
    "ComparisonError",
    "CompiledModel",
    "CompiledModelError",
    "CustomOp",
    "DataDependentError",
    "Delegate",
    "DelegateError",
    "DelegateFlags",
    "DelegateLibraryError",
    "DelegationError",
    "ExecutionError",
    "FileFormatError",
    "Interpreter",
    "InterpreterWithCustomOps",
    "MemoryLimitError",
    "Model",
    "ModelError",
    "MutableOpResolver",
    "NoDelegateError",
    "NotAllocatedError",
    "OpError",
    "OpResolver",
    "OpResolverType",
    "PluginError",
    "PyliteError",
    "PythonDelegate",
    "ResizeError",
    "SignatureError",
    "SignatureRunner",
    "TensorBufferError",
    "TensorError",
    "UnsupportedOpError",
    "ViewError",
    "__version__",
    "custom_op",
    "from_pointers",
    "get_include",
    "get_version",
    "install_as",
    "load_custom_ops",
    "load_delegate",
    "unregister",
]

def get_version() -> str: ...
