"""`pylite config`: the options of compilers."""
import os
import sys
from pathlib import Path

import pytest

from pylite.cli import main

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the library needs ELF or Mach-O")


def shown(capsys, *arguments):
    assert main(["config", *arguments]) == 0
    return capsys.readouterr().out.split()


def test_the_options_name_what_there_is(capsys):
    (include,) = shown(capsys, "--cflags")
    assert Path(include.removeprefix("-I"), "tensorflow/lite/c/c_api.h").exists()
    folder, path, name = shown(capsys, "--libs")
    (library,) = shown(capsys, "--library")
    assert os.path.samefile(Path(folder.removeprefix("-L"), f"lib{name.removeprefix('-l')}.so"), library)
    assert path == f"-Wl,-rpath,{folder.removeprefix('-L')}"
    assert shown(capsys) == [include, folder, path, name]
