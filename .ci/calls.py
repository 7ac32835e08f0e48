"""Refuses Calls that pass more than six positional values, the kernel's name included: python .ci/calls.py

Arrays that a kernel takes any number of, *arrays, count as one.
"""
import ast
import sys
from pathlib import Path

MOST = 6


def long_calls(source):
    """(line, number of positional values) of each Call in `source` that has too many."""
    return [(node.lineno, len(node.args)) for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Call" and len(node.args) > MOST]


if __name__ == "__main__":
    found = [f"{path}:{line}: a Call with {count} positional values; pass those beyond {MOST} by name"
             for path in sorted(Path("pylite").rglob("*.py")) for line, count in long_calls(path.read_text())]
    sys.exit("\n".join(found) or None)
