"""Options that would do nothing, or ask for different things, are refused; options before the command."""
import os
import re
import subprocess
import sys

import pytest

from pylite import cli
from pylite.cli._common import UsageError
from tests.cli.running import run


@pytest.mark.parametrize(("options", "words"), [
    ("-i seven --rate 16000", "--rate is for sound, and no input got sound; leave it out"),
    ("--zeros --mean 1 --std 2", "--mean and --std are for pictures, and no input got pictures; leave them out"),
    ("-i image=seven -i input=zero", "the input 'image' or 'input' is given twice; give one file for each input")])
def test_options_that_would_do_nothing(capsys, options, words):
    assert words in run(capsys, "digits", *options.split(), code=2).err


def test_inputs_are_blank_in_one_way(capsys):
    with pytest.raises(SystemExit):
        cli.main(["run", "digits", "--zeros", "--random", "1"])
    assert "--random and --zeros exclude each other" in capsys.readouterr().err


@pytest.mark.parametrize("options", [
    "run digits -i seven --labels=", "run digits -i seven --save=", "report digits --html=", "bench digits --trace=",
    "compile digits --cache-dir=", "inspect digits --diff=", "validate digits --reference=", "validate digits --data="])
def test_names_of_files_are_not_empty(capsys, options):
    """An unset variable of the shell makes them so: --html "$PAGE" wrote no page, without a word."""
    with pytest.raises(SystemExit):
        cli.main(options.split())
    assert f"{options.split()[-1][:-1]}: the name is empty" in capsys.readouterr().err


def test_warnings_name_no_line_of_code(tmp_path):
    (tmp_path / "file").touch()
    done = subprocess.run([sys.executable, "-m", "pylite", "run", "digits", "--input", "seven"], capture_output=True,
                          text=True, env=os.environ | {"PYLITE_CACHE_DIR": str(tmp_path / "file")})
    assert re.fullmatch("warning: PYLITE_CACHE_DIR=.*/file' keeps no plans: [^\n]*\n", done.stderr)


def test_options_before_the_command(model, capsys):
    with pytest.raises(UsageError):
        cli.main(["--debug", "run", model((1, 4)), "--frames", "1"])
    run(capsys, model((1, 4)), "--frames", "1", code=2)
    for first in "-h", "--help", "help":
        with pytest.raises(SystemExit):
            cli.main([first, "run"])
        assert "pylite run MODEL --input FILE" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "words"), [
    ("--compat --node 1", "--compat and --node exclude each other"),
    ("--node 0 --graph g.svg", "--node and --graph exclude each other"),
    ("--diff digits --compat", "--compat and --diff exclude each other"),
    ("--node 1 --json", "--node and --json exclude each other; --json alone prints every node"),
    ("--graph g.svg --json", "--graph and --json exclude each other"),
    ("--graph g.svg --tensors", "--tensors and --graph exclude each other")])
def test_options_that_ask_for_different_things(capsys, options, words):
    assert cli.main(["inspect", "digits", *options.split()]) == 2
    assert words in capsys.readouterr().err


def test_python_without_docstrings():
    """The help of commands is their docstrings, which `python -OO` leaves out."""
    for arguments in ["run", "digits", "--input", "seven"], ["help"]:
        done = subprocess.run([sys.executable, "-OO", "-m", "pylite", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("words", "says"), [
    (["benchmark_model", "--graph=digits"], "no command 'benchmark_model'; did you mean bench?"),
    (["bench", "--graph=digits", "--num_threads=2"], "no option --graph; give the model without an option"),
    (["analyzer"], "no command 'analyzer'; did you mean inspect?"),
    (["bench", "digits", "--num_threads=2"], "no option --num_threads=2; did you mean --threads?"),
    (["bench", "digits", "--num_runs=10"], "no option --num_runs=10; did you mean --seconds?"),
    (["bench", "digits", "--enable_op_profiling=true"], "leave it out: pylite bench always"),
    (["run", "-m", "digits"], "no option -m; give the model without an option"),
    (["run", "digits", "--num_runs=9"], "no option --num_runs=9\n")])
def test_words_of_other_tools(words, says, capsys):
    with pytest.raises(SystemExit) as code:
        cli.main(words)
    assert code.value.code == 2 and says in capsys.readouterr().err
