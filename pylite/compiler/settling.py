"""Restricts where calls may keep Dims, while a subgraph is lowered for many shapes: see _core/graph/dimensions.pyx."""
import numpy as np

from pylite._core.graph.dimensions import Computed, Dim, UnrecordableError, slots_in, with_guards
from pylite._core.product.layouts import FilterLayout
from pylite.ir.values import Packed, Scratch, Value, View, runs_python

_PLAIN = frozenset((int, float, bool, str, bytes, type(None), np.ndarray, Computed, Dim, View, Scratch))


def settle(call):
    """Replace the Dims in `call` by numbers, with guards, except in Values, Views, Scratches and tuples.

    Raises UnrecordableError for an argument that may hide Dims.
    """
    if runs_python(call.kernel):
        raise UnrecordableError(f"{call.kernel} keeps the objects that it was made from")
    for argument in call.args:
        _settle(argument)


def has_sizes(value):
    """Are the contents of a Value known, with Dims among them?"""
    data = value.data
    return type(data) is Computed or (data is not None and value.dtype != "string" and data.dtype.hasobject)


def give_numbers(value):
    """Replace the Dims in the contents of a Value by numbers, with guards."""
    if type(value.data) is Computed:
        value.data = value.data.settled()
        value.shape = value.data.shape
    elif has_sizes(value):
        value.data = np.array([int(n) for n in value.data.reshape(-1)], value.dtype).reshape(value.data.shape)


def _settle(argument):
    kind = type(argument)
    if kind is Packed:
        _settle_packed(argument)
    elif isinstance(argument, (tuple, list)):
        for item in argument:
            _settle(item)
    elif kind is np.ndarray and argument.dtype.hasobject:
        raise UnrecordableError("an array of objects")
    elif isinstance(argument, FilterLayout):
        _settle_attributes(argument)
    elif not (kind in _PLAIN or isinstance(argument, (Value, np.generic)) or hasattr(argument, "renew")):
        raise UnrecordableError(f"a {kind.__name__} may depend on a dimension")     # renew: of a CalledProgram


def _settle_packed(packed):
    give_numbers(packed.value)
    packed.args = with_guards(packed.args)
    for item in packed.args:
        _settle(item)


def _settle_attributes(thing):
    for name in type(thing).__slots__:
        _settle(getattr(thing, name))
        if slots_in(getattr(thing, name)):
            setattr(thing, name, with_guards(getattr(thing, name)))
