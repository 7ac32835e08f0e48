"""What callers hand to the interpreter: checked, and turned into what its inside works with."""
import operator
import os

import pylite
from pylite.model import Model
from pylite.registry import default


def thread_count(num_threads):
    if num_threads is None:
        return 1
    try:
        count = operator.index(num_threads)
    except TypeError:
        raise ValueError(f"type of num_threads should be int, not {type(num_threads).__name__}") from None
    if count < 1:
        raise ValueError(f"num_threads should >= 1, not {count}")
    return count


def resolver_type(given):
    """The name of a member of OpResolverType; "AUTO" stands for that one, so that by default it is not imported."""
    if given == "AUTO":
        return given
    from pylite.resolver_type import OpResolverType
    if not isinstance(given, OpResolverType):
        raise ValueError(f"Unrecognized passed in op resolver type: {given}. Pass a member of OpResolverType")
    return given.name


def model_from(path, content, model):
    given = [name for name, value in (("model_path", path), ("model_content", content))
             if value is not None and (len(value) if hasattr(value, "__len__") else value)]
    if model is not None:
        if given:
            raise ValueError(f"Can't both provide `model` and `{given[0]}`")
        return model
    if not given:
        raise ValueError("`model_path` or `model_content` must be specified.")
    if len(given) > 1:
        raise ValueError("Can't both provide `model_path` and `model_content`")
    if content and isinstance(content, (str, os.PathLike)):
        raise TypeError(f"model_content must be the bytes of a model, not {type(content).__name__}; a path goes into "
                        "model_path")
    return Model(os.fsdecode(path) if path else content)


def resolver(op_resolver):
    if op_resolver is None:
        return default
    from pylite.resolver import OpResolver  # seldom wanted
    if not isinstance(op_resolver, OpResolver):
        raise TypeError(f"op_resolver must be an OpResolver, not {op_resolver!r}")
    return op_resolver


def checked_index(executor, tensor_index, error="TensorError"):
    """`tensor_index` as an int that is a tensor of the executor's subgraph."""
    index = operator.index(tensor_index)
    if not 0 <= index < len(executor.subgraph.tensors):
        raise getattr(pylite, error)(f"Invalid tensor index {index} exceeds max tensor index "
                                     f"{len(executor.subgraph.tensors)}")
    return index
