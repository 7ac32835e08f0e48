"""Every micro-kernel of every ISA level against plain C: random shapes and values, guard bytes, and timing.

A check is a generator function that yields calls of the slots it is registered for:

    @check("copy_runs")
    def copy_runs(draw):
        yield Call(rows, size, In(x), xrow, Out(y), yrow)

Numbers are passed as they are, arrays between guard bytes: In is only read, Out only written, InOut both.  A call is
made with the function in plain C and with the ISA level's, each on its own copies; the outputs must agree.  Where
the level's own layout of data is part of the arguments, the check gives the results instead: Call(..., expect=[...]).
With `draw.bench` it yields one call of a size suitable for timing, with its amount of work (`work`, in `unit`).
"""
from tests.checkasm import depthwise, elementwise, gemm, half, hybrid, moving, recurring, reducing  # noqa: F401
from tests.checkasm.core import CHECKS, distinct, examine, measure
from tests.checkasm.slots import ISA_LEVELS, SLOTS

__all__ = ["CHECKS", "ISA_LEVELS", "SLOTS", "distinct", "examine", "measure"]
