"""The arguments of Interpreter: checked, and converted to the objects that it works with."""
import operator
import os
from typing import TYPE_CHECKING

from pylite import errors
from pylite.ir.registry import default
from pylite.runtime.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from pylite.plugins.resolver import MutableOpResolver, OpResolver
    from pylite.runtime.executor import Executor


def thread_count(num_threads: "Any") -> int:
    if num_threads is None:
        return 1
    try:
        count = operator.index(num_threads)
    except TypeError:
        raise ValueError(f"type of num_threads should be int, not {type(num_threads).__name__}") from None
    if count < 1:
        raise ValueError(f"num_threads should >= 1, not {count}")
    return count


def resolver_type(given: "Any") -> str:
    """The name of a member of OpResolverType.  The default "AUTO" is a string, so that it needs no import."""
    if given == "AUTO":
        return given
    from pylite.tflite.resolver_type import OpResolverType
    if not isinstance(given, OpResolverType):
        raise ValueError(f"Unrecognized passed in op resolver type: {given}. Pass a member of OpResolverType")
    return given.name


def model_from(path: "Any", content: "Any", model: "Model | None") -> Model:
    given = [name for name, value in (("model_path", path), ("model_content", content))
             if value is not None and (len(value) if hasattr(value, "__len__") else value)]
    if model is not None:
        if given:
            raise ValueError(f"Can't both provide `model` and `{given[0]}`")
        if not isinstance(model, Model):
            raise TypeError(f"`model` must be a pylite.Model, not {model!r}")
        return model
    if not given:
        raise ValueError("`model_path` or `model_content` must be specified.")
    if len(given) > 1:
        raise ValueError("Can't both provide `model_path` and `model_content`")
    if content and isinstance(content, (str, os.PathLike)):
        raise TypeError(f"model_content must be the bytes of a model, not {type(content).__name__}; a path goes into "
                        "model_path")
    return Model(os.fsdecode(path) if path else content)


def resolver(op_resolver: "OpResolver | None") -> "Any":
    if op_resolver is None:
        return default
    from pylite.plugins.resolver import OpResolver
    if not isinstance(op_resolver, OpResolver):
        raise TypeError(f"op_resolver must be an OpResolver, not {op_resolver!r}")
    return op_resolver


def checked_index(executor: "Executor", tensor_index: "Any", error: str = "TensorError") -> int:
    """`tensor_index` as an int that is a tensor of the executor's subgraph."""
    index = operator.index(tensor_index)
    if not 0 <= index < len(executor.subgraph.tensors):
        raise getattr(errors, error)(f"Invalid tensor index {index} exceeds max tensor index "
                                     f"{len(executor.subgraph.tensors)}")
    return index


def filled_by(registerers: "Iterable[Any]", op_resolver: "OpResolver | None") -> "MutableOpResolver":
    """A copy of `op_resolver`, or a BuiltinOpResolver, to which the functions `registerers` have added their ops."""
    from pylite.plugins.host.custom_ops import RegistererResolver, global_function
    from pylite.plugins.resolver import BuiltinOpResolver, MutableOpResolver
    filled = RegistererResolver()
    filled.add_all(BuiltinOpResolver() if op_resolver is None else resolver(op_resolver))
    for registerer in registerers:
        if isinstance(registerer, str):
            try:
                registerer = global_function(registerer)
            except AttributeError as error:
                raise ValueError(f"custom_op_registerers: no library that is loaded with RTLD_GLOBAL has a function "
                                 f"{registerer!r} ({error}). {_IN_A_LIBRARY}") from None
        if not callable(registerer):
            raise ValueError(f"custom_op_registerers holds {registerer!r}, which is no function. {_IN_A_LIBRARY}")
        filled.call(registerer)
    plain = MutableOpResolver()
    plain.add_all(filled)
    return plain


_IN_A_LIBRARY = "pylite.load_custom_ops(LIBRARY, [NAME, ...], 'registerer') loads the ops of a library"
