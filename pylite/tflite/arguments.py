"""Checks the arguments of Interpreter, and converts them to the objects that it works with."""
import io
import operator
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pylite import errors
from pylite._core import simd
from pylite.runtime.model import Model
from pylite.tflite import MOST_THREADS

if TYPE_CHECKING:
    from typing import Any

    from pylite.plugins.resolver import OpResolver
    from pylite.runtime.executor import Executor
    from pylite.runtime.plan_cache import PlanCache


PRECISIONS = ("float32", "float16", "prefer_float16", "emulate_float16")


def thread_count(num_threads: "Any") -> int:
    if num_threads is None:
        return 1
    try:
        count = operator.index(num_threads)
    except TypeError:
        raise ValueError(f"type of num_threads should be int, not {type(num_threads).__name__}") from None
    if count < 1:
        raise ValueError(f"num_threads should >= 1, not {count}")
    if count > MOST_THREADS:
        raise ValueError(f"num_threads should be {MOST_THREADS} or less, not {count}")
    return count


def resolver_type(resolver: "Any") -> str:
    """The name of a member of OpResolverType.  The default is the string "AUTO", which needs no import."""
    if resolver == "AUTO":
        return resolver
    from pylite.tflite.resolver_type import OpResolverType
    if not isinstance(resolver, OpResolverType):
        raise ValueError(f"Unrecognized passed in op resolver type: {resolver}. Pass a member of OpResolverType")
    return resolver.name


def whole(name: "str", number: "Any") -> int:
    """The argument `name` as an int."""
    try:
        return operator.index(number)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {errors.shortened(repr(number))}") from None


def flag(name: "str", value: "Any") -> bool:
    """The argument `name` as a bool: of a bool, a number or None; a text such as "false" would count as True."""
    if value is not True and value is not False and not hasattr(type(value), "__bool__"):
        raise TypeError(f"{name} must be True or False, not {errors.shortened(repr(value))}")
    return bool(value)


def memory_limit(number: "Any") -> "int | None":
    """The argument max_memory, checked."""
    if number is None:
        return None
    limit = whole("max_memory", number)
    if limit < 0:
        raise ValueError(f"max_memory is a number of bytes, at least 0, not {limit}")
    return min(limit, sys.maxsize)


def shape_count(number: "Any") -> int:
    """The argument cached_shapes, checked."""
    count = whole("cached_shapes", number)
    if count < 1:
        raise ValueError(f"cached_shapes must be at least 1, not {count}")
    return min(count, sys.maxsize)


def precision(value: "Any") -> "str | None":
    """The argument precision, checked."""
    if value is None or value in PRECISIONS:
        if value == "float16" and not simd.has_float16():
            raise ValueError(f"precision='float16': this CPU ({simd.current}) does not compute in float16; CPUs with "
                             "Armv8.2's half precision do, such as a Raspberry Pi 5's. Pass 'prefer_float16' for "
                             "float32 on other CPUs, or 'emulate_float16' for the same results in more time")
        return value
    raise ValueError(f"precision must be one of {', '.join(map(repr, PRECISIONS))}, or None for what the model allows, "
                     f"not {errors.shortened(repr(value))}")


def plans(cache_dir: "Any", options: "dict[str, Any]") -> "PlanCache | None":
    """The plan cache in `cache_dir` or in PYLITE_CACHE_DIR; None if neither is set or `options` rule a cache out."""
    folder = os.environ.get("PYLITE_CACHE_DIR") if cache_dir is None else cache_dir
    if (not folder or not hasattr(os, "geteuid") or options["experimental_delegates"] or options["op_resolver"]
            or options["guard_bands"] or options["max_memory"] is not None or options["overrides"]):
        return None
    is_path = isinstance(folder, (str, bytes, os.PathLike))
    if not is_path or "\0" in os.fsdecode(folder):
        raise (ValueError if is_path else TypeError)(f"cache_dir must be the path of a folder, or \"\" for none, not "
                                                     f"{folder!r}")
    from pylite.runtime.plan_cache import PlanCache  # lazy: few programs use a cache
    return PlanCache(os.fsdecode(folder), bool(options["experimental_preserve_all_tensors"]), options["precision"])


def is_plain(options: "dict[str, Any]") -> bool:
    """Are all ops pylite's own, and is nothing delegated?"""
    from pylite.ir.registry import default  # lazy, here and below: a start from the plan cache does not need it
    return options["op_resolver"] is None and default.is_plain() and not options["experimental_delegates"]


def model_from(path: "Any", content: "Any", model: "Model | None", options: "dict[str, Any]",
               cache: "PlanCache | None") -> Model:
    """The Model for an Interpreter's arguments: from `cache`, or shared with other interpreters, or new."""
    if isinstance(path, Model):
        raise TypeError("model_path is the path of a file, not a pylite.Model; pass model=")
    sources = [name for name, value in (("model_path", path), ("model_content", content))
               if value is not None and (_size_of(value) if hasattr(value, "__len__") else value)]
    if model is not None:
        if sources:
            raise ValueError(f"Can't both provide `model` and `{sources[0]}`")
        if not isinstance(model, Model):
            what = errors.shortened(repr(model)) if isinstance(model, (str, os.PathLike)) else type(model).__name__
            raise TypeError(f"`model` must be a pylite.Model, not {what}; pass model_path=, or pylite.Model(PATH)")
        return _overridden(model, options)
    if not sources:
        empty = "; model_content is empty" * (content is not None) or "; model_path is empty" * (path is not None)
        raise ValueError(f"`model_path` or `model_content` must be specified.{empty}")
    if len(sources) > 1:
        raise ValueError("Can't both provide `model_path` and `model_content`")
    source = _source_of(path, content, options["member"])
    return (cache and cache.model(source)) or _loaded(source, options, cache)


def _source_of(path: "Any", content: "Any", member: "str | None") -> "Any":
    """The path or the bytes of the model, which may be the member of a bundle."""
    file = next((given for given in (path, content) if isinstance(given, io.IOBase)), None)
    if file is not None:
        raise TypeError(f"a model is opened by its path or its bytes, not from a {type(file).__name__}; pass "
                        "model_content=file.read()")
    if path is not None and not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"model_path is the path of a file, not {type(path).__name__}; pass the bytes of a model as "
                        "model_content=")
    if isinstance(content, (str, os.PathLike)) and content:
        raise TypeError(f"model_content must be the bytes of a model, not {type(content).__name__}; pass a path as "
                        "model_path")
    if content is not None:
        content = _bytes_of(content)
    if isinstance(path, bytes) and path[4:8] == b"TFL3":
        raise errors.ModelError(f"Could not open the model: model_path is the contents of a model ({len(path)} bytes), "
                                "not a path. Pass them as model_content=, or to CompiledModel.from_buffer()")
    if not isinstance(member, str | None):
        raise TypeError(f"member is the name of a model in the bundle, not {member!r}")
    if member is None:
        return os.fsdecode(path) if path else content
    if path:
        return os.path.join(os.fsdecode(path), member)
    from pylite.schema import bundle
    return bundle.read(bytes(content), member)


def _size_of(content: "Any") -> int:
    """len(), or 1 for an array without dimensions, which has no length."""
    return len(content) if getattr(content, "shape", None) != () else 1


def _bytes_of(content: "Any") -> "Any":
    """`content` as loaders take it: bytes and mapped files unchanged, any other buffer as a copy."""
    if isinstance(content, (bytes, bytearray, memoryview)) or type(content).__module__ == "mmap":
        return content
    try:
        return memoryview(content).tobytes()
    except TypeError:
        raise TypeError(f"model_content must be the bytes of a model, not {type(content).__name__}") from None


def _loaded(source: "Any", options: "dict[str, Any]", cache: "PlanCache | None") -> Model:
    """The Model of a path or of bytes, shared with other interpreters if all ops are pylite's own."""
    from pylite.runtime.model_cache import model_of
    model = (model_of if is_plain(options) and not options["overrides"] else Model)(source)
    if options["overrides"]:
        return _overridden(model, options)
    if cache is not None:
        cache.adopt(model)
    return model


def _overridden(model: Model, options: "dict[str, Any]") -> Model:
    if not options["overrides"]:
        return model
    from pylite.runtime.overrides import overridden
    return overridden(model, options["overrides"])


def resolver(op_resolver: "OpResolver | None") -> "Any":
    if op_resolver is None:
        from pylite.ir.registry import default
        return default
    from pylite.plugins.resolver import OpResolver
    if not isinstance(op_resolver, OpResolver):
        raise TypeError(f"op_resolver must be an OpResolver, not {op_resolver!r}")
    return op_resolver


def checked_index(executor: "Executor", tensor_index: "Any", error: str = "TensorError") -> int:
    """`tensor_index` as an int; raises unless the executor's subgraph has this tensor."""
    try:
        index = operator.index(tensor_index)
    except TypeError:
        raise TypeError(f"a tensor index must be an int, not {type(tensor_index).__name__}. {_index_of(tensor_index)}"
                        ) from None
    count = len(executor.subgraph.tensors)
    if not 0 <= index < count:
        problem = "is negative" if index < 0 else f"exceeds max tensor index {count}"
        raise getattr(errors, error)(f"Invalid tensor index {index} {problem}: the model has tensors 0 to {count - 1}; "
                                     "get_input_details() and get_tensor_details() list them")
    return index


def _index_of(value: "Any") -> str:
    """The remedy for a `value` that is not an index."""
    if isinstance(value, dict):
        return "Pass the details' 'index', as in details['index']"
    if isinstance(value, (list, tuple)):
        return "Pass the 'index' of one element, as in get_input_details()[0]['index']"
    if isinstance(value, str):
        return "Pass the 'index' from get_tensor_details(), or run by names with get_signature_runner()"
    return "Pass the 'index' from get_input_details(), get_output_details() or get_tensor_details()"


def delegates(value: "Any") -> "list[Any]":
    """`experimental_delegates` as a list."""
    if value is None or (not hasattr(value, "modify") and not value):
        return []
    if isinstance(value, (str, bytes, os.PathLike)):
        raise errors.NoDelegateError("experimental_delegates must be a list of delegates from load_delegate(), not the "
                                   "name of a library: pass "
                                   f"[load_delegate({errors.shortened(os.fsdecode(value))!r})]")
    if hasattr(value, "modify") and not isinstance(value, type):
        raise TypeError("experimental_delegates must be a list: pass [delegate] instead of the delegate")
    if not isinstance(value, Iterable):
        raise TypeError("experimental_delegates must be a list of delegates from load_delegate(), not "
                        f"{type(value).__name__}")
    return list(value)


def registerers(value: "Any") -> "list[Any]":
    """`custom_op_registerers` as a list."""
    if not value:
        return []
    if callable(value) or isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable):
        shown = errors.shortened(repr(value))
        raise ValueError("custom_op_registerers must be a list of functions or of their names: pass "
                         f"[{shown}] if it is one, and the path of a model as model_path=")
    return list(value)
