"""Settles the calls of a subgraph that is lowered for many shapes; for their arguments: _core/graph/settling.pyx."""
from pylite._core.graph.dimensions import UnrecordableError
from pylite._core.graph.settling import settle_arguments
from pylite.ir.values import runs_python


def settle(call):
    """Replace Dims in the arguments of `call` by numbers, with guards, unless other shapes can replace them.

    Raises UnrecordableError for a call that may hide Dims.
    """
    if runs_python(call.kernel):
        raise UnrecordableError(f"{call.kernel} keeps the objects that it was made from")
    settle_arguments(call.args)
