"""The examples of docs/adding-an-op.md as printed: builds a copy of the sources with them, and runs their commands.

The build takes minutes, so the test runs only with PYLITE_BUILD_EXAMPLES=1, as in continuous integration.  It needs
meson, ninja, Cython and a C compiler.
"""
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "adding-an-op.md"
COPIED = ".ci", "meson.build", "meson.options", "pyproject.toml", "pylite", "tests", "docs"


def steps():
    """([(file, "python" or "diff", code)], commands) of the page."""
    text = PAGE.read_text()
    return (re.findall(r"^`([\w/.]+)`[^`]*:\n\n```(python|diff)\n(.*?)^```", text, re.S | re.M),
            [line for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M) for line in block.splitlines()])


def apply(file, kind, code):
    """Write a new file, or apply a diff whose unmarked lines occur once in the file."""
    if kind == "python":
        assert not file.exists(), f"{file} is not new"
        file.write_text(code)
        return
    before = "".join(line[1:] for line in code.splitlines(True) if line[0] in " -")
    after = "".join(line[1:] for line in code.splitlines(True) if line[0] in " +")
    text = file.read_text()
    assert text.count(before) == 1, f"{file} does not have these lines once:\n{before}"
    file.write_text(text.replace(before, after))


def test_the_steps_are_found():
    files, commands = steps()
    assert [kind for _, kind, _ in files] == ["python", "python", "diff", "diff", "python", "python"]
    assert len(commands) == 6
    assert sum(file.startswith("pylite/") for file, _, _ in files[:2]) == 1      # one file and its test
    assert len({file for file, _, _ in files[2:]}) == 4                          # at most four


@pytest.mark.skipif(not os.environ.get("PYLITE_BUILD_EXAMPLES"), reason="PYLITE_BUILD_EXAMPLES is not set")
def test_the_examples_as_printed(tmp_path):
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    for tool in ("meson", "ninja", "cython", "cc"):
        if not shutil.which(tool, path=path):
            pytest.fail(f"{tool}, which builds pylite, is not installed")
    source, installed = tmp_path / "source", tmp_path / "installed"
    source.mkdir()
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, source / name)
    files, commands = steps()
    for name, kind, code in files:
        apply(source / name, kind, code)
    (tmp_path / "bin").mkdir()
    # -S: an editable install of pylite would come first
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    environment = {**os.environ, "PATH": os.pathsep.join([str(tmp_path / "bin"), path]), "PYTHONSAFEPATH": "1",
                   "PYTHONPATH": os.pathsep.join([str(installed), str(source), sysconfig.get_path("purelib")])}

    def run(*command, **options):
        done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False,
                              **options)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    run("meson", "setup", "build", "-Dhighest_isa_level=base", f"-Dpython.purelibdir={installed}",
        f"-Dpython.platlibdir={installed}")
    run("meson", "install", "-C", "build", "--quiet")
    for command in commands:
        output = run("sh", "-c", command)
        assert "pytest" not in command or (" passed" in output and "skipped" not in output), output
    entered = (source / "docs" / "ops.md").read_text()
    assert "| Cube | 1 | - |" in entered and "| Softsign | 1 | - |" in entered
