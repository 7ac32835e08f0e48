"""`pylite inspect` and the command line's manners."""
import subprocess
import sys

from pylite import cli
from pylite.cli import _format


def test_a_missing_file_is_one_line_and_code_2(capsys):
    assert cli.main(["inspect", "/no/such.tflite"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("pylite inspect: ") and error.count("\n") == 1 and "/no/such.tflite" in error


def test_a_damaged_file_is_one_line_and_code_2(tmp_path, capsys):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"TFL3" * 5)
    assert cli.main(["inspect", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_command_imports_no_other():
    code = "import sys; from pylite.cli import main; main(['inspect', '/no/such.tflite']); " \
           "sys.exit('pylite.cli.run' in sys.modules or 'PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_tables_align():
    assert _format.table(("op", "n"), [("ADD", 1), ("X", 100)], ("n",)) == ["op     n", "ADD    1", "X    100"]


def test_sizes():
    assert [_format.nbytes(n) for n in (0, 999, 1500, 12_345, 999_999, 2_500_000)] == [
        "0 B", "999 B", "1.50 kB", "12.3 kB", "1000 kB", "2.50 MB"]
    assert _format.seconds(0.00123) == "1.23 ms" and _format.seconds(2.5e-6) == "2.5 us"
