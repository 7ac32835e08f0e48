"""What a registered op says about types that fit none of its signatures."""
import pytest

from pylite.ir import registry


@pytest.mark.parametrize("name", registry.names())
def test_any_number_of_operands_has_an_answer(name):
    """Models with too few or too many operands get an error of pylite's own."""
    op = registry.find(name)
    for inputs in range(6):
        for outputs in range(3):
            found = op.mismatch(("complex64",) * inputs, ("complex64",) * outputs)
            assert found is None or found[0] < inputs + outputs
