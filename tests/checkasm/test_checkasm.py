"""Every micro-kernel of every ISA level against plain C: see tests/checkasm."""
import pytest

from pylite.ops.products import PANEL_MULTIPLE
from tests.checkasm import CHECKS, ISA_LEVELS, SLOTS, distinct, examine, measure


def test_every_slot_has_a_check():
    assert set(CHECKS) == set(SLOTS)


@pytest.mark.parametrize(("slot", "isa_level"), distinct())
def test_slot(slot, isa_level):
    examine(slot, isa_level)


@pytest.mark.parametrize("tile", ["q8", "f32", "f16"])
@pytest.mark.parametrize("isa_level", ISA_LEVELS)
def test_panels_are_padded_to_a_divisor_of_what_lowering_reserves(isa_level, tile):
    numbers = getattr(ISA_LEVELS[isa_level].table, tile)
    assert PANEL_MULTIPLE % numbers.nv == PANEL_MULTIPLE % numbers.ka == 0


def test_timing():
    nanoseconds, work, unit = measure("gemm_q8", "base")
    assert nanoseconds > 0 and work > 0 and unit == "MAC"
