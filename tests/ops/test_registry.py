"""What a registered op says about types that fit none of its signatures."""
import pytest

import pylite
from pylite.ir import registry
from pylite.schema.builder import ModelBuilder


@pytest.mark.parametrize("name", registry.names())
def test_any_number_of_operands_has_an_answer(name):
    """Models with too few or too many operands get an error of pylite's own."""
    op = registry.find(name)
    for inputs in range(6):
        for outputs in range(3):
            found = op.mismatch(("complex64",) * inputs, ("complex64",) * outputs)
            assert found is None or found[0] < inputs + outputs


def test_a_word_that_is_no_type_is_named():
    """When the op is first asked for, as importing checks nothing."""
    op = registry.Op("X", (1, 1), registry.same("float32 int9"), None, None, None, False)
    with pytest.raises(ValueError, match=r"^'int9' is not a type; did you mean 'int.*'\?$"):
        op.accepts(("int8",), ("int8",))
    with pytest.raises(ValueError, match=r"^'zzz' is not a type; the types are float32, "):
        registry.matches("zzz -> int8", ("int8",), ("int8",))


def test_shapes_that_are_no_list_are_refused(monkeypatch):
    op = registry.find("ABS").__copy__()
    op.infer = lambda node: (3,)
    monkeypatch.setitem(registry._ops, "ABS", op)
    interpreter = pylite.Interpreter(model_content=op_model("ABS"))
    with pytest.raises(RuntimeError, match=r"\(3,\), from infer\(\), are not the shapes of 1 output; a shape is a"):
        interpreter.allocate_tensors()


def op_model(name):
    m = ModelBuilder()
    x, y = m.tensor("x", (3,)), m.tensor("y", (3,))
    m.operator(name, [x], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()
