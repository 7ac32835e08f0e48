"""Every micro-kernel of every ISA level against plain C: see tests/checkasm."""
import pytest

from tests.checkasm import CHECKS, ISA_LEVELS, SLOTS, examine, measure


def test_every_slot_has_a_check():
    assert set(CHECKS) == set(SLOTS)


@pytest.mark.parametrize("isa_level", ISA_LEVELS)
@pytest.mark.parametrize("slot", SLOTS)
def test_slot(slot, isa_level):
    examine(slot, isa_level)


def test_timing():
    nanoseconds, work, unit = measure("gemm_q8", "base")
    assert nanoseconds > 0 and work > 0 and unit == "MAC"
