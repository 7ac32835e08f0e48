"""Op resolvers, and interpreters restricted to their ops."""
import subprocess
import sys

import numpy as np
import pytest

import pylite
from pylite.ir import registry
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder


def model(*names, version=1):
    m = ModelBuilder()
    x = m.tensor("x", (2,))
    last = x
    for name in names:
        y = m.tensor(name, (2,))
        custom = {} if registry.find(name) else {"custom_options": b""}
        m.operator(name, [last], [y], version=version, **custom)
        last = y
    m.inputs([x])
    m.outputs([last])
    return m.build()


def test_unknown_ops_are_not_found():
    assert registry.find("NO_SUCH_OP") is None


def result(resolver, *names, **options):
    i = pylite.Interpreter(model_content=model(*names, **options), op_resolver=resolver)
    i.allocate_tensors()
    i.set_tensor(0, np.array([-1, 4], np.float32))
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"]).tolist()


@pytest.mark.parametrize("code", [
    "import pylite; assert 'CONV_2D' in pylite.BuiltinOpResolver().names()",
    "import pylite; r = pylite.MutableOpResolver(); r.add_builtin('CONV_2D'); assert r.find_op('CONV_2D', 3)",
    "from pylite.cli import ops; assert ops.rows()['CONV_2D'].ours"])
def test_builtin_ops_are_loaded_before_the_first_interpreter(code):
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_all_builtin_ops():
    known = pylite.BuiltinOpResolver()
    assert set(registry.names()) <= set(known.names())
    assert result(known, "ABS", "NEG") == [-1, -4]


def test_a_mutable_resolver_has_only_the_added_ops():
    known = pylite.MutableOpResolver()
    known.add_builtin("ABS")
    assert known.names() == ["ABS"]
    assert result(known, "ABS") == [1, 4]
    with pytest.raises(ValueError) as caught:
        result(known, "ABS", "NEG", "SQRT")
    assert "'NEG'" in str(caught.value) and "'SQRT'" in str(caught.value) and "'ABS'" not in str(caught.value)
    with pytest.raises(ValueError, match="'ABS'"):
        result(pylite.OpResolver(), "ABS")


def test_an_unresolved_op_is_reported_with_those_that_are_registered(monkeypatch):
    monkeypatch.setattr(resolver.registered, "_entries", {})
    pylite.custom_op("Mini")(np.arctan)
    with pytest.raises(RuntimeError, match=r"unresolved custom op: Mine \(node 0\)\..*; registered custom ops: 'Mini'"):
        pylite.Interpreter(model_content=model("Mine")).allocate_tensors()


def test_unresolved_custom_ops_are_refused_at_allocation():
    i = pylite.Interpreter(model_content=model("Mine"), op_resolver=pylite.BuiltinOpResolver())
    with pytest.raises(RuntimeError, match="unresolved custom op: Mine"):
        i.allocate_tensors()


def test_versions_of_a_builtin_op():
    known = pylite.MutableOpResolver()
    known.add_builtin("ABS", None, 1, 1)
    low, high = registry.find("ABS").versions
    assert high > 1 and known.find_op("ABS", 1) and known.find_op("ABS", high) is None
    assert registry.find("ABS").versions == (low, high)
    with pytest.raises(ValueError, match=r"'ABS' version '2' \(versions 1 to 1"):
        result(known, "ABS", version=2)


def test_later_additions_take_precedence():
    known, more = pylite.BuiltinOpResolver(), pylite.MutableOpResolver()
    more.add_builtin("ABS", np.negative)
    more.add_custom("Twice", lambda x, y: np.multiply(x, 2, out=y))
    known.add_all(more)
    assert result(known, "ABS", "Twice") == [2, -8]
    known.add_builtin("ABS")
    assert result(known, "ABS", "Twice") == [2, 8]
    assert result(None, "ABS") == [1, 4]


def test_custom_ops_implemented_by_pylite():
    known = pylite.MutableOpResolver()
    known.add_custom("TFLite_Detection_PostProcess")
    assert known.find_op("TFLite_Detection_PostProcess") is registry.find("TFLite_Detection_PostProcess")


def test_invalid_arguments_are_refused():
    with pytest.raises(ValueError, match="no op 'Mine' is registered"):
        pylite.MutableOpResolver().add_custom("Mine")
    with pytest.raises(TypeError, match="must be an OpResolver"):
        pylite.Interpreter(model_content=model("ABS"), op_resolver={})


@pytest.mark.parametrize("versions", [(3, 2), (0, 2), (0, None), (None, 0), (-1, -1)])
def test_versions_that_are_none(versions):
    with pytest.raises(ValueError, match=r"versions .* are impossible"):
        pylite.MutableOpResolver().add_builtin("RELU", None, *versions)
    with pytest.raises(ValueError, match=r"versions .* are impossible"):
        pylite.MutableOpResolver().add_custom("TFLite_Detection_PostProcess", None, *versions)


def test_a_decorator_without_its_parentheses():
    with pytest.raises(TypeError, match=r'write @custom_op\("Name"\)'):
        @pylite.custom_op
        def double(x, y):
            y[...] = 2 * x
