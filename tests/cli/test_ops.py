"""`pylite ops`: the table of ops; no entry is supported by the peer alone."""
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pylite import cli
from pylite.cli import ops
from pylite.interpreter import Interpreter
from pylite.ir import registry
from tests.tools import op_models


def test_no_op_is_supported_by_the_peer_alone():
    missing = {name: row.missing for name, row in ops.rows().items() if row.missing}
    assert missing == {}


def test_every_op_has_a_row():
    assert set(registry.names()) <= set(ops.rows())


table = cache(ops.rows)


def lines():
    for line in op_models.lines():
        yield pytest.param(line, id=f"{line.op} {line.signature}")


@pytest.mark.parametrize("line", list(lines()))
def test_types_in_the_table_run(line):
    """Each combination of types that both runtimes support runs the model that was run on the peer."""
    row = table()[line.op]
    for case, ours, theirs in row.signatures.get(line.signature, ()):
        if not (ours and theirs):
            continue
        choice = dict(zip(line.letters, case.split("/"), strict=False))
        problems = []
        for quantized in (True, False):
            try:
                run(line.model(choice, quantized))
                break
            except RuntimeError as error:
                problems.append(str(error))
        else:
            pytest.fail(f"{case}: {problems}")


def run(model):
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        if detail["dtype"] is np.bytes_ or detail["dtype"] is np.object_:
            interpreter.set_tensor(detail["index"], np.full(detail["shape"], b"", object))
    interpreter.invoke()


def test_ops_of_several_nodes_have_types():
    rows = table()
    assert all(row.signatures or row.uncompared for row in rows.values())
    assert rows["IF"].uncompared == [("bool any* -> any*", "")]
    assert rows["DENSIFY"].uncompared == [("T -> T", "float32 float16 int8")]
    assert rows["TRANSPOSE"].uncompared == []


def test_ops_are_in_the_order_of_the_alphabet(capsys):
    assert list(table()) == sorted(table())
    assert cli.main(["ops"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "  versions " in line]
    assert shown == sorted(shown)


def test_text(capsys):
    assert cli.main(["ops", "ADD", "CAST"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("ADD  versions 1-6, LiteRT 1-6\n    T T -> T:  float32 float16 ")
    assert cli.main(["ops", "NONE_SUCH"]) == 2
    assert "NONE_SUCH" in capsys.readouterr().err


def test_flex_ops_come_last(capsys):
    assert cli.main(["ops", "flexerf", "ADD", "FlexTensorListStack"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("ADD  versions") and text.endswith(
        "FlexErf  by pylite.flex.register(), or --ops flex\n    T -> T:  float32 float64 float16\n"
        "FlexTensorListStack  by pylite.flex.register(), or --ops flex\n    variant int32|int64 -> "
        "float32|float64|float16|int32|int64|int16|int8|uint64|uint32|uint16|uint8|bool|complex64|complex128\n")
    assert cli.main(["ops", "FlexNone"]) == 2
    assert "there is no op FlexNone" in capsys.readouterr().err


def test_the_documented_table_is_current(capsys):
    assert cli.main(["ops", "--markdown"]) == 0
    page = Path(__file__).resolve().parents[2] / "docs" / "ops.md"
    assert page.read_text() == capsys.readouterr().out, "run: pylite ops --markdown > docs/ops.md"
