"""The first node that makes NaN or infinity is named, with the sample."""
import json

import numpy as np
import pytest

from pylite import Model, cli, validation
from pylite.schema.builder import ModelBuilder
from pylite.validation.nonfinite import search


def network(mask=(9, 9, 9, 9), then="MINIMUM"):
    """log(x), the least of it and a mask, times 2: of a negative number NaN, of 0 infinity.

    then: a node that reads the logarithm instead of the mask.
    """
    m = ModelBuilder()
    x, log, masked, y = (m.tensor(name, (1, 4)) for name in ("x", "log", "masked", "y"))
    m.operator("LOG", [x], [log])
    operands = [m.constant("mask", np.array([mask], np.float32))] if then == "MINIMUM" else []
    m.operator(then, [log, *operands], [masked])
    m.operator("MUL", [masked, m.constant("two", np.float32([2]))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


def numbers(*last):
    """A sample for each number, which is its last element."""
    return [[np.float32([[1, 2, 3, value]])] for value in last]


def test_the_first_node_and_sample_are_named():
    found = search(Model(network()), numbers(1, 2, -1, 3, 0, -2))
    assert [(f.kind, f.sample, f.node, f.op, f.name, f.count, f.size, f.samples) for f in found] == [
        ("NaN", 2, 0, "LOG", "log", 1, 4, 2), ("infinity", 4, 0, "LOG", "log", 1, 4, 1)]
    assert found[0].line() == "NaN in sample 2 and 1 more: node 0 (LOG, 'log') is the first, with 1 of 4 values"
    assert search(Model(network()), numbers(1, 2)) == []


def test_a_constant_that_holds_infinity_is_named():
    found, = search(Model(network((9, -np.inf, 9, 9))), numbers(1))
    assert (found.kind, found.node, found.constants) == ("infinity", 1, ["mask"])
    assert "constant 'mask'" in found.line("a.npy")


def test_infinity_may_become_nan_later():
    both = search(Model(network(then="SQRT")), numbers(0))
    assert [(f.kind, f.node) for f in both] == [("infinity", 0), ("NaN", 1)]


@pytest.mark.parametrize("stored", [False, True])
def test_a_comparison_notes_it(tmp_path, stored):
    (tmp_path / "m.tflite").write_bytes(network())
    data = numbers(1, 2, -1)
    if stored:
        np.save(tmp_path / "d.npy", np.concatenate([array for array, in data]))
        data = tmp_path / "d.npy"
    report = validation.compare(tmp_path / "m.tflite", tmp_path / "m.tflite", data)
    notes = [note for note in report.notes if "NaN" in note]
    assert [note.split(" makes ")[0] for note in notes] == ["the model", "the reference"]
    assert all("node 0 (LOG, 'log')" in note and "2" in note for note in notes)
    good = validation.compare(tmp_path / "m.tflite", tmp_path / "m.tflite", numbers(1, 2))
    assert not any("NaN" in note for note in good.notes)


def test_samples_that_cannot_be_read_again_are_compared_without_a_note(tmp_path):
    (tmp_path / "m.tflite").write_bytes(network())
    report = validation.compare(tmp_path / "m.tflite", tmp_path / "m.tflite", iter(numbers(1, -1)))
    assert report.samples == 2 and not any("NaN" in note for note in report.notes)


def test_the_command_names_it(tmp_path, capsys):
    (tmp_path / "m.tflite").write_bytes(network())
    np.save(tmp_path / "d.npy", np.concatenate([array for array, in numbers(1, -1)]))
    command = ["validate", str(tmp_path / "m.tflite"), "--data", str(tmp_path / "d.npy"), "--nan"]
    assert cli.main(command) == 1
    captured = capsys.readouterr()
    assert "node 0 (LOG, 'log')" in captured.out and "node 0 (LOG, 'log')" in captured.err
    assert cli.main([*command, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)[0]["sample"] == 1
    assert cli.main([*command, "--samples", "1"]) == 0
    assert "no NaN and no infinity" in capsys.readouterr().out
