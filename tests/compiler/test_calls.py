"""Calls: arguments by position and by name."""
import ast
from pathlib import Path

import pytest

import pylite
from pylite._core.run.kernel import construct
from pylite.ir.values import Call, Scratch

SOURCES = sorted(Path(pylite.__file__).parent.rglob("*.py"))
MOST = 6            # values that a Call may take by position


def calls_of(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            and node.func.id == "Call"]


@pytest.mark.parametrize("path", [path for path in SOURCES if "Call(" in path.read_text()], ids=lambda path: path.stem)
def test_few_positional_arguments(path):
    """Readers cannot tell the meaning of a long row of values: beyond six, arguments have names."""
    long = [f"{path.name}:{call.lineno}" for call in calls_of(ast.parse(path.read_text())) if len(call.args) - 1 > MOST]
    assert not long


def test_named_arguments():
    scratch = Scratch((4,), "int8")
    call = Call("family.Kernel", 1, 2, low=-3, memory=scratch, note="why", strided=(0,))
    assert call.args == (1, 2, -3, scratch)
    assert call.names == ("low", "memory")
    assert (call.note, call.strided, call.inplace) == ("why", (0,), None)
    assert Call("family.Kernel", 1).names is None


def test_construction():
    def kernel(*args, **named):
        return args, named

    assert construct(kernel, [1, 2, 3], ("low", "high")) == ((1,), {"low": 2, "high": 3})
    assert construct(kernel, (1, 2), None) == ((1, 2), {})
