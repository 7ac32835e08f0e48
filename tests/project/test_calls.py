"""The check of Calls finds those with too many positional values."""
import runpy
from pathlib import Path

long_calls = runpy.run_path(str(Path(__file__).resolve().parents[2] / ".ci" / "calls.py"))["long_calls"]


def test_calls_with_more_than_six_positional_values_are_found():
    source = 'x = 1\nCall("a.B", 1, 2, 3, 4, 5, named=6)\nCall("a.B", 1, 2,\n     3, 4, 5, 6)\n'
    assert long_calls(source) == [(3, 7)]


def test_arrays_of_any_number_count_as_one():
    assert long_calls('Call("a.B", 1, 2, 3, 4, *arrays)\n') == []
    assert long_calls('Call("a.B", 1, 2, 3, 4, *arrays, 5)\n') == [(1, 7)]
