"""Moves each read of a variable to just before its value is first needed.

Converters place all reads at the beginning, so the values would live through the whole graph.
"""
from pylite.ir.lowered import ASSIGN, READ
from pylite.ir.values import is_owned, roots


def run(lowered):
    """The Lowered with late reads.  A read never moves past a call that may change the variable."""
    calls = lowered.calls
    for step in range(len(calls) - 1, -1, -1):
        call = calls[step]
        if call.kernel == READ:
            end, (variable, y) = step + 1, call.args
            while end < len(calls) and y.root not in roots(calls[end]) and _keeps(calls[end], variable):
                end += 1
            calls.insert(end - 1, calls.pop(step))
    return lowered


def _keeps(call, variable):
    """Does `call` leave the variable unchanged?"""
    kernel = call.kernel
    return kernel == READ or not is_owned(kernel) or (kernel == ASSIGN and call.args[0] is not variable)
