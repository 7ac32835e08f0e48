"""Every op over the grid of quantizations (grid.py), against what the reference kernels accept and compute.

By default a part of the grid; PYLITE_GRID=1 runs all of it.  Known differences are listed here, and in
docs/numerics.md.
"""
import collections
import os

import numpy as np
import pytest

import pylite
from tests.ops import grid
from tests.tools.resources import peer

PARTS = 1 if os.environ.get("PYLITE_GRID") else 23


def is_equal(mine, theirs):
    """Are the outputs of all runs equal?  Runs that one side ends with an error count as different."""
    for ours, peers in zip(mine, theirs, strict=True):
        if (ours is None) != (peers is None):
            return False
        for a, b in zip(ours or (), peers or (), strict=True):
            same = np.allclose(a, b, 1e-5, 1e-5, equal_nan=True) if a.dtype.kind in "fc" else np.array_equal(a, b)
            if not same:
                return False
    return True


def compared(case, theirs):
    """How pylite's outcome relates to the reference's."""
    mine = grid.outcome(pylite, case)       # an exception that is none of pylite's fails the test
    if mine[0] == "ran" and theirs[0] == "ran":
        return "equal" if is_equal(mine[1], theirs[1]) else "different"
    if mine[0] != "ran" and theirs[0] != "ran":
        return "both refuse"
    return "pylite refuses" if theirs[0] == "ran" else "pylite runs"


def is_decided(case, relation):
    """Is the difference one that docs/numerics.md (section 11) decides?"""
    op, change, dtypes = case.op, case.change, case.dtypes()
    if relation == "different":
        return op in UNEQUAL or change in ("huge", "denormal", "tiny", "none", *grid.CHANNELS) \
            or (op == "DEPTHWISE_CONV_2D" and dtypes[:2] == ("float32", "int8")) or {"int4", "uint4"} & {*dtypes}
    if relation == "pylite runs":
        return True                         # where the reference refuses and a meaning exists
    if change in ("3", "low", "high"):
        symmetric = op in ("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV") and case.operand == 1
        return symmetric or op in UNEQUAL or (change == "3" and dtypes[case.operand] == "int2")
    return change in ("beyond", "below", "zero", "negative", "none", "huge", "denormal", "tiny", *grid.CHANNELS)


# Wrong or undefined in the reference (SUM, RSQRT of negative numbers, zero points of FULLY_CONNECTED's int16 weights,
# one scale for the channels of a hybrid DEPTHWISE_CONV_2D), or set with numbers that its Python interface refuses or
# leaves unset (4 bits): sections 5, 8 and 11 of docs/numerics.md.
UNEQUAL = {"SUM", "RSQRT", "FULLY_CONNECTED", "BITCAST"}


def test_the_grid_of_quantizations():
    peer()
    chosen = grid.cases()[::PARTS]
    counts = collections.Counter()
    open_ends = []
    for case, theirs in zip(chosen, grid.peers_outcomes(chosen), strict=True):
        relation = compared(case, theirs)
        counts[relation] += 1
        if relation not in ("equal", "both refuse") and not is_decided(case, relation):
            open_ends.append(f"{case}: {relation}")
    assert not open_ends, f"{len(open_ends)} of {counts}: " + "\n".join(open_ends[:40])
    assert counts["equal"] > len(chosen) // 3, counts


@pytest.mark.parametrize("change", ["off 1e-6", "off 2%", "2^-3"])
def test_the_grid_has_cases_of_each_kind(change):
    assert any(case.change == change for case in grid.cases())
