"""Every micro-kernel of every rung against plain C: see tests/checkasm."""
import pytest

from tests.checkasm import CHECKS, RUNGS, SLOTS, examine, measure


def test_every_slot_has_a_check():
    assert set(CHECKS) == set(SLOTS)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("slot", SLOTS)
def test_slot(slot, rung):
    examine(slot, rung)


def test_timing():
    nanoseconds, work, unit = measure("gemm_q8", "base")
    assert nanoseconds > 0 and work > 0 and unit == "MAC"
