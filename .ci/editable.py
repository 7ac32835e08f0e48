#!/usr/bin/env python3
"""Check that edits are live in an editable install: python .ci/editable.py

Each edit is undone.  Rebuilding after one of a small Cython or C source may take 10 s of CPU time.
"""
import contextlib
import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 10

# (what it shows, file, text to append, Python that must print "live")
EDITS = [
    ("a module in Python", "pylite/errors.py", 'EDIT = "live"\n',
     "from pylite import errors; print(errors.EDIT)"),
    ("a module in Cython", "pylite/_core/kernels/argmax.pyx", '\nEDIT = "live"\n',
     "from pylite._core.kernels import argmax; print(argmax.EDIT)"),
    ("a source in C", "pylite/_core/simd/threads/threads.c",
     '\n__attribute__((visibility("default"))) const char pl_edit[] = "live";\n',
     "import ctypes; from pylite._core.run import arena; "
     "print((ctypes.c_char * 5).in_dll(ctypes.CDLL(arena.__file__), 'pl_edit').value.decode())"),
    ("a new module of ops", "pylite/ops/brand_new.py",
     'from pylite.ir.registry import register\n\n'
     'register("BrandNew", types=["float32 -> float32"], infer=lambda node: [node.inputs[0].shape])\n',
     "import pylite.ops; from pylite.ir import registry; print('live' if registry.find('BrandNew') else 'not found')"),
]


@contextlib.contextmanager
def appended(path, text):
    """The file with more text, or a new file, for a while."""
    before = path.read_bytes() if path.exists() else None
    try:
        with path.open("a") as file:
            file.write(text)
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)


def run(code):
    """What fresh Python prints, or its last line of error; and the CPU time of it and of what it builds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd="/",
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ((done.stdout if done.returncode == 0 else done.stderr).strip(),
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    where = "import pylite.interpreter; print(pylite.__file__)"
    printed, _ = run(where)     # and builds what was edited before
    if printed != str(ROOT / "pylite" / "__init__.py"):
        sys.exit(f"this Python has no editable install of {ROOT}:\n{printed}")
    failures = 0
    for name, file, text, code in EDITS:
        with appended(ROOT / file, text):
            printed, seconds = run(code)
        good = printed == "live" and seconds <= LIMIT
        failures += not good
        sys.stdout.write(f"{name} ({file}): {printed}, {seconds:.1f} s of CPU{'' if good else ' FAILED'}\n")
        printed, _ = run(where)
        if printed != str(ROOT / "pylite" / "__init__.py"):
            sys.exit(f"after {file} was restored:\n{printed}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
