"""Every op over extreme operands (extremes.py), against the reference.  docs/numerics.md decides the differences."""
import collections

import numpy as np

import pylite
from tests.ops import extremes, grid
from tests.tools.resources import peer

# Ops whose outputs may differ: docs/numerics.md, "Extreme operands", says how, or the section named here.  Those in
# FLOAT32 may only for operands of this type.
FLOAT32 = {"DIV", "MUL", "STABLEHLO_MULTIPLY", "PRELU", "BATCH_MATMUL", "FULLY_CONNECTED", "CONV_2D",
           "DEPTHWISE_CONV_2D", "HARD_SWISH", "RESIZE_BILINEAR", "RFFT2D", "UNSORTED_SEGMENT_MAX",
           "UNSORTED_SEGMENT_MIN", "UNIQUE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5",
           "LOCAL_RESPONSE_NORMALIZATION"}     # section 8
DECIDED = {
    "GELU", "TRANSPOSE_CONV", "ONE_HOT", "MATRIX_DIAG", "MATRIX_SET_DIAG", "FILL",
    "SUM",                                      # section 8
    "RSQRT",                                    # section 5
    "VAR_HANDLE",                               # a number of the runtime's own
}
FOUR_BITS = {"int4", "uint4"}       # the reference's Python interface sets them a byte each


def is_same(mine, theirs):
    """Equal values: of floats within a few roundings, with the same NaNs, infinities and signs of zeros.

    float32 results below the normal range count as 0: see 'Floats'.
    """
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return False
    if mine.dtype.kind != "f":
        return np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "c")
    zeros = (mine == 0) & (theirs == 0)
    if (np.signbit(mine) != np.signbit(theirs))[zeros].any():
        return False
    info = np.finfo(mine.dtype)
    least = info.tiny if mine.dtype == np.float32 else info.smallest_subnormal
    return np.allclose(mine.astype(np.float64), theirs.astype(np.float64), max(1e-5, 2 * float(info.eps)),
                       float(least), equal_nan=True)


def are_same(mine, theirs):
    """The outputs of all runs; in a run that either ends with an error, so does the other."""
    for ours, peers in zip(mine, theirs, strict=True):
        if (ours is None) != (peers is None):
            return False
        if not all(is_same(a, b) for a, b in zip(ours or (), peers or (), strict=True)):
            return False
    return True


def test_extreme_operands():
    peer()
    chosen = extremes.cases()
    counts, open_ends = collections.Counter(), []
    for case, theirs in zip(chosen, grid.peers_outcomes(chosen), strict=True):
        mine = grid.outcome(pylite, case)       # an exception that is none of pylite's fails the test
        if mine[0] != "ran" or theirs[0] != "ran":
            counts[f"{mine[0]}, {theirs[0]}"] += 1
            if theirs[0] == "ran":
                open_ends.append(f"{case}: {mine}")
        elif are_same(mine[1], theirs[1]):
            counts["equal"] += 1
        elif case.op in DECIDED or FOUR_BITS & {*case.dtypes()} or (
                case.op in FLOAT32 and case.dtypes()[0] == "float32"):
            counts["decided"] += 1
        else:
            open_ends.append(f"{case}: different")
    assert not open_ends, f"{len(open_ends)} beside {counts}: " + "\n".join(open_ends[:40])
    assert counts["equal"] > len(chosen) // 2, counts
