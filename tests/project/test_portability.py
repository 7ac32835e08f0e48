"""Functions of Python that Windows or macOS lack are not needed; big-endian machines are refused."""
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LACKING = """
import os, sys
for name in "register_at_fork", "fork", "sched_getaffinity", "getloadavg", "sysconf":
    delattr(os, name)
sys.modules["resource"] = None
"""


def run(code):
    return subprocess.run([sys.executable, "-P", "-c", LACKING + code], capture_output=True, text=True, check=False)


def test_a_model_runs_without_functions_of_posix():
    done = run("from pylite.cli import main\nmain(['run', 'digits', '--input', 'seven'])")
    assert done.returncode == 0 and "7" in done.stdout, done.stderr


def test_bench_runs_without_functions_of_posix():
    done = run("from pylite.cli import main\nmain(['bench', 'digits', '--seconds', '0.1'])")
    assert done.returncode == 0 and "peak memory" not in done.stdout, done.stderr


def test_plugins_in_c_are_refused_on_windows():
    done = run("import pylite\nsys.platform = 'win32'\npylite.load_custom_ops('ops.dll')")
    assert "ImportError: custom ops and delegates in C and C++ run on Linux and macOS only" in done.stderr


@pytest.mark.skipif(not ((ROOT / "meson.build").exists() and shutil.which("meson")), reason="no meson or no sources")
def test_big_endian_machines_are_refused_by_the_build(tmp_path):
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    machine = tmp_path / "machine.ini"
    machine.write_text(f"[binaries]\nc = '{compiler}'\nar = 'ar'\n[host_machine]\nsystem = 'linux'\n"
                       "cpu_family = 's390x'\ncpu = 's390x'\nendian = 'big'\n")
    done = subprocess.run(["meson", "setup", tmp_path / "build", ROOT, "--cross-file", machine], capture_output=True,
                          text=True, check=False)
    assert done.returncode != 0 and "pylite supports little-endian machines only" in done.stdout
