"""Settling: replaces Dims by numbers in those arguments of calls that cannot be computed again for other shapes.

While a subgraph is lowered for many shapes (dimensions.pyx), the arguments of its Calls contain Dims.  For the next
shapes, run/rebinding.pyx computes an argument again if it is a Value, a View, a Scratch, a Dim, a Computed, or a tuple
or list of these and of plain constants.  Such arguments keep their Dims.  Elsewhere a Dim is replaced by its number,
and the recording gets a guard, so that the calls are used only for shapes that give the same number:

  Packed              the arguments of its function, and the contents of its Value, because weights are packed once
  FilterLayout        its fields, because a layout is a part of a Packed
  contents of a Value see give_numbers(), which constant folding calls

An argument of any other type may contain a Dim that no code would replace.  It causes UnrecordableError, and the
subgraph is lowered for each set of shapes.  settle_arguments() and give_numbers() may be called twice with the same
argument; the second call finds nothing to replace.
"""
import numpy as np

from pylite._core.graph.calls cimport PLAIN, Packed, Scratch, ValueBase, View
from pylite._core.graph.dimensions cimport Computed, Dim, has_dims

from pylite._core.graph.dimensions import UnrecordableError, with_guards

# Types without Dims, or which keep them.  Most arguments have one of these, so they are tested first.
cdef frozenset UNCHANGED = PLAIN | {Dim, Computed, View, Scratch}
cdef object array_type = np.ndarray, number_type = np.generic


def settle_arguments(args):
    """Replace Dims by numbers in the Packed and FilterLayouts among `args`, a tuple or list, and in nested ones.

    Raises UnrecordableError for an argument that may hide Dims.
    """
    settle_items(args)


cdef int settle_items(items) except -1:
    for item in items:
        if type(item) not in UNCHANGED:
            settle(item)
    return 0


cdef int settle(thing) except -1:
    """settle_arguments() of one argument whose type is not in UNCHANGED."""
    kind = type(thing)
    if kind is Packed:
        settle_packed(thing)
    elif isinstance(thing, (tuple, list)):
        settle_items(thing)
    elif getattr(kind, "ONLY_SLOTS", False):
        settle_layout(thing)
    elif kind is array_type:
        if thing.dtype.hasobject:
            raise UnrecordableError("an array of objects")
    elif not (isinstance(thing, (ValueBase, number_type)) or is_callee(thing)):
        raise UnrecordableError(f"a {kind.__name__} may depend on a dimension")
    return 0


cdef bint is_callee(thing):
    """Is it a CalledProgram (run/reshaping.pyx)?  Its renew() prepares the called subgraph for other shapes."""
    return hasattr(thing, "renew")


cdef int settle_packed(Packed packed) except -1:
    give_numbers(packed.value)
    packed.args = with_guards(packed.args)
    return settle_items(packed.args)


cdef int settle_layout(layout) except -1:
    """Settle a FilterLayout (product/layouts.py), which refers to nothing but its __slots__."""
    for name in type(layout).__slots__:
        item = getattr(layout, name)
        if type(item) not in UNCHANGED:
            settle(item)
        if has_dims(item):
            setattr(layout, name, with_guards(item))
    return 0


def has_sizes(ValueBase value not None):
    """Are the contents of a Value known, with Dims among them: a Computed, or an array of objects?"""
    data = value.data
    return type(data) is Computed or (data is not None and value.dtype != "string" and data.dtype.hasobject)


def give_numbers(ValueBase value not None):
    """Replace the Dims in the contents of a Value by numbers, with guards.

    `data` is then an array of the Value's dtype, and `shape` is its shape.
    """
    if type(value.data) is Computed:
        value.data = value.data.settled()
        value.shape = value.data.shape
    elif has_sizes(value):
        value.data = np.array([int(n) for n in value.data.reshape(-1)], value.dtype).reshape(value.data.shape)
