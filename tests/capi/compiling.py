"""Compiles plug-ins for tests with the flags in CFLAGS; skips tests if there is no compiler."""
import os
import shutil
import subprocess

import pytest

import pylite

FLAGS = os.environ.get("CFLAGS", "").split()
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}  # without a sanitizer
COMPILERS = {".c": ("gcc", "cc", "clang"), ".cc": ("g++", "c++", "clang++")}


def compiler(suffix=".c"):
    """The compiler for C (".c") or C++ (".cc"); skips the test without one."""
    for name in COMPILERS[suffix]:
        if shutil.which(name):
            return name
    pytest.skip(f"no compiler for {suffix} files")
    return None


def compile_check(source, *flags):
    """Raises AssertionError with the compiler's output unless `source` (a path) compiles."""
    done = subprocess.run([compiler(source.suffix), "-fsyntax-only", "-I", pylite.get_include(), *flags, str(source)],
                          capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr


def build(source, library, *flags):
    """Compiles the file `source` to the shared library `library` and returns its path as a string."""
    done = subprocess.run([compiler(source.suffix), "-O1", "-g", "-shared", "-fPIC", "-I", pylite.get_include(), *FLAGS,
                           *flags, str(source), "-o", str(library)], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return str(library)
