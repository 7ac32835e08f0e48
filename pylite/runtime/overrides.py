"""Copies of a model with some constants replaced."""
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite.ir.dtypes import NARROW, NUMPY_DTYPES
from pylite.ir.graph import replace
from pylite.runtime.model import Model

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pylite.ir.graph import Subgraph, Tensor


def overridden(model: Model, overrides: "Mapping[int | str, Any]") -> Model:
    """A copy of `model` with some constants of its first subgraph replaced.

    overrides: {index or name of the tensor: an array of its shape and type, or numbers that its type can hold}.
    Raises TensorError for a tensor that is not a constant, and for an array that does not fit.
    """
    if not hasattr(overrides, "items"):
        raise TypeError(f"overrides is a dictionary, {{index or name of a constant: array}}, not "
                        f"{type(overrides).__name__}")
    graph = model.graph
    first = graph.subgraphs[0]
    tensors = list(first.tensors)
    for key, value in overrides.items():
        tensor = tensors[_index(first, key)]
        tensors[tensor.index] = replace(tensor, data=_contents(tensor, value), buffer=0, external=None, sparsity=None)
    subgraphs = (replace(first, tensors=tuple(tensors)), *graph.subgraphs[1:])
    return Model(model._source, replace(graph, subgraphs=subgraphs))


def _index(subgraph: "Subgraph", key: "Any") -> int:
    """The index of the constant that `key` names."""
    key = key.item() if isinstance(key, np.generic) else key
    matches = [t.index for t in subgraph.tensors if key in (t.index, t.name) and not isinstance(key, bool)]
    constants = [i for i in matches if subgraph.tensors[i].data is not None]
    if len(constants) == 1:
        return constants[0]
    if matches and matches[0] in subgraph.inputs:
        raise errors.TensorError(f"overrides: tensor {key!r} is an input, not a constant; set_tensor() fills it")
    if matches and not constants:
        raise errors.TensorError(f"overrides: tensor {key!r} is computed, not a constant; set_tensor() and "
                                 "invoke_nodes() run the graph from other values of it")
    raise errors.TensorError(f"overrides: {len(constants) or 'no'} constants are called {key!r}; get_tensor_details() "
                             "lists names and indices")


def _contents(tensor: "Tensor", value: "Any") -> "Any":
    """The bytes of a constant that holds `value`."""
    dtype = np.dtype(NUMPY_DTYPES[tensor.dtype])
    array = np.asarray(value)
    if dtype.hasobject or tensor.dtype in NARROW:
        raise errors.TensorError(f"overrides: tensor {tensor.index} {tensor.name!r} is {tensor.dtype}, which cannot be "
                                 "replaced")
    if array.shape != tensor.shape or not np.can_cast(array.dtype, dtype, "same_kind"):
        raise errors.TensorError(f"overrides: tensor {tensor.index} {tensor.name!r} takes {tensor.dtype} "
                                 f"{list(tensor.shape)}, not {array.dtype} {list(array.shape)}")
    with np.errstate(over="ignore"):
        fitted = array.astype(dtype)
    if not np.array_equal(fitted, array) and (dtype.kind in "iu" or (np.isinf(fitted) & np.isfinite(array)).any()):
        raise errors.TensorError(f"overrides: tensor {tensor.index} {tensor.name!r} is {tensor.dtype}, which does not "
                                 f"hold all numbers from {array.min()} to {array.max()}")
    data = np.ascontiguousarray(fitted).reshape(-1).view(np.uint8)
    data.flags.writeable = False
    return data
