"""`pylite` alone, and `pylite completion`: what a shell completes."""
import shutil
import subprocess

import pytest

from pylite import cli

COMMANDS = ["bench", "cache", "compile", "completion", "config", "inspect", "ops", "report", "resolver", "run",
            "validate"]


def script(capsys, shell):
    assert cli.main(["completion", shell]) == 0
    return capsys.readouterr().out


def test_pylite_alone_prints_the_help(capsys):
    assert cli.main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(("line", "completed"), [
    (["pylite", ""], [*COMMANDS, "--help", "--version"]), (["pylite", "be"], ["bench"]),
    (["pylite", "run", "m.tflite", "--js"], ["--json", "--jsonl"]), (["pylite", "bench", "m.tf"], [])])
def test_bash_completes(capsys, line, completed):
    words = " ".join(f"'{word}'" for word in line)
    done = subprocess.run(["bash", "-c", f"{script(capsys, 'bash')}\nCOMP_WORDS=({words}); COMP_CWORD={len(line) - 1}\n"
                           "_pylite; printf '%s\\n' \"${COMPREPLY[@]}\""], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == sorted(completed)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_have_every_command_and_the_shell_takes_them(capsys, shell):
    text = script(capsys, shell)
    assert all(name in text for name in COMMANDS)
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, text=True, check=True)
