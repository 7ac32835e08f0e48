from typing import Final

from pylite.custom import CustomOp as CustomOp
from pylite.errors import DataDependentError as DataDependentError
from pylite.errors import DelegateError as DelegateError
from pylite.errors import DelegateLibraryError as DelegateLibraryError
from pylite.errors import DelegationError as DelegationError
from pylite.errors import ExecutionError as ExecutionError
from pylite.errors import FileFormatError as FileFormatError
from pylite.errors import MemoryLimitError as MemoryLimitError
from pylite.errors import ModelError as ModelError
from pylite.errors import NotAllocatedError as NotAllocatedError
from pylite.errors import OpError as OpError
from pylite.errors import PluginError as PluginError
from pylite.errors import PyliteError as PyliteError
from pylite.errors import ResizeError as ResizeError
from pylite.errors import TensorError as TensorError
from pylite.errors import UnsupportedOpError as UnsupportedOpError
from pylite.errors import ViewError as ViewError
from pylite.interpreter import Interpreter as Interpreter
from pylite.interpreter import InterpreterWithCustomOps as InterpreterWithCustomOps
from pylite.interpreter import OpResolverType as OpResolverType
from pylite.plugins.capi import get_include as get_include
from pylite.plugins.capi import load_custom_ops as load_custom_ops
from pylite.plugins.custom import custom_op as custom_op
from pylite.plugins.delegates import Delegate as Delegate
from pylite.plugins.delegates import load_delegate as load_delegate
from pylite.plugins.delegation import DelegateFlags as DelegateFlags
from pylite.plugins.pointers import from_pointers as from_pointers
from pylite.plugins.python_delegates import PythonDelegate as PythonDelegate
from pylite.plugins.resolver import BuiltinOpResolver as BuiltinOpResolver
from pylite.plugins.resolver import MutableOpResolver as MutableOpResolver
from pylite.plugins.resolver import OpResolver as OpResolver
from pylite.runtime.model import Model as Model
from pylite.shim import install_as as install_as
from pylite.tflite.signature import SignatureRunner as SignatureRunner

__version__: Final[str]
__all__ = [
    "BuiltinOpResolver",
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
    "NotAllocatedError",
    "OpError",
    "OpResolver",
    "OpResolverType",
    "PluginError",
    "PyliteError",
    "PythonDelegate",
    "ResizeError",
    "SignatureRunner",
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
]

def get_version() -> str: ...
