"""Restricts where the arguments of calls may keep Dims, while a subgraph is lowered for many shapes."""
import numpy as np

from pylite._core.graph.calls cimport PLAIN, Packed, Scratch, ValueBase, View
from pylite._core.graph.dimensions cimport Computed, Dim, has_dims

from pylite._core.graph.dimensions import UnrecordableError, with_guards

cdef frozenset SETTLED = PLAIN | {Dim, Computed, View, Scratch}
cdef object array_type = np.ndarray, number_type = np.generic


def settle_arguments(args):
    """Replace the Dims in a Call's `args` by numbers, with guards, except in Values, Views, Scratches and tuples.

    Raises UnrecordableError for an argument that may hide Dims.
    """
    settle_items(args)


cdef int settle_items(items) except -1:
    for item in items:
        if type(item) not in SETTLED:
            settle(item)
    return 0


cdef int settle(thing) except -1:
    kind = type(thing)
    if kind is Packed:
        settle_packed(thing)
    elif isinstance(thing, ValueBase):
        pass
    elif isinstance(thing, (tuple, list)):
        settle_items(thing)
    elif kind is array_type:
        if thing.dtype.hasobject:
            raise UnrecordableError("an array of objects")
    elif getattr(kind, "ONLY_SLOTS", False):        # a FilterLayout
        for name in kind.__slots__:
            item = getattr(thing, name)
            if type(item) not in SETTLED:
                settle(item)
            if has_dims(item):
                setattr(thing, name, with_guards(item))
    elif not (isinstance(thing, number_type) or hasattr(thing, "renew")):       # renew: of a CalledProgram
        raise UnrecordableError(f"a {kind.__name__} may depend on a dimension")
    return 0


cdef int settle_packed(Packed packed) except -1:
    give_numbers(packed.value)
    packed.args = with_guards(packed.args)
    return settle_items(packed.args)


def has_sizes(ValueBase value not None):
    """Are the contents of a Value known, with Dims among them?"""
    data = value.data
    return type(data) is Computed or (data is not None and value.dtype != "string" and data.dtype.hasobject)


def give_numbers(ValueBase value not None):
    """Replace the Dims in the contents of a Value by numbers, with guards."""
    if type(value.data) is Computed:
        value.data = value.data.settled()
        value.shape = value.data.shape
    elif has_sizes(value):
        value.data = np.array([int(n) for n in value.data.reshape(-1)], value.dtype).reshape(value.data.shape)
