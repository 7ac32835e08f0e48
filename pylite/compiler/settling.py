"""Restricts where calls may keep Dims, while a subgraph is lowered for many shapes: see _core/graph/dimensions.pyx."""
from pylite._core.graph.dimensions import UnrecordableError
from pylite._core.graph.settling import settle_arguments
from pylite.ir.values import runs_python


def settle(call):
    """Replace the Dims in `call` by numbers, with guards, except where its kernel can be made again for others.

    Raises UnrecordableError for a call that may hide Dims.
    """
    if runs_python(call.kernel):
        raise UnrecordableError(f"{call.kernel} keeps the objects that it was made from")
    settle_arguments(call.args)
