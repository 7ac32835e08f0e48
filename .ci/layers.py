#!/usr/bin/env python3
"""Check that imports and cimports of the Cython files point down the layers: python .ci/layers.py

lint-imports checks the modules in Python.  This reads the `.pyx`, `.pxd` and `.pxi` files, too: for the layers of
pyproject.toml, and in all files of `_core/` for the layers within it.  A module may use its own layer.
"""
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = ROOT / "pylite" / "_core"
CORE = "capi", "kernels", "product", "run", "graph", "simd"     # folders and modules of _core/, from top to bottom
_IMPORT = re.compile(r"^\s*(?:from\s+(pylite[\w.]*)\s+c?import\s+(\([^)]*\)|[^\n#]*)|c?import\s+(pylite[\w.]*))", re.M)


def layers():
    """{first name below pylite: its layer}, 0 at the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    names = next(c for c in contracts if c["type"] == "layers")["layers"]
    return {name.strip(): i for i, layer in enumerate(names) for name in layer.split("|")}


def imported(text):
    """The modules that a Cython file names, each as a tuple of names below pylite."""
    for module, names, whole in _IMPORT.findall(text):
        base = tuple((module or whole).split(".")[1:])
        if whole or base not in ((), ("_core",)):
            yield base
        else:       # from pylite import errors; from pylite._core import simd
            yield from ((*base, name.split()[0]) for name in re.sub(r"[()\s]+", " ", names).split(",") if name.strip())


def faults(path, text, order=None):
    """What is wrong with the imports of a file, a path relative to the root."""
    order = order or layers()
    inner = {name: i for i, name in enumerate(CORE)}
    here = path.with_suffix("").parts[1:]
    found = []
    for there in imported(text):
        if there[0] in order and here[0] in order and order[there[0]] < order[here[0]]:
            found.append(f"{path}: imports pylite.{'.'.join(there)}, which is above {here[0]}")
        if (here[0] == there[0] == "_core" and len(there) > 1
                and inner.get(there[1], len(CORE)) < inner.get(here[1], len(CORE))):
            found.append(f"{path}: imports pylite.{'.'.join(there)}, which is above _core/{here[1]}")
    return found


def main():
    order, found = layers(), []
    files = sorted(file for pattern in ("*.py", "*.pyx", "*.pxd", "*.pxi") for file in CODE.rglob(pattern))
    for file in files:
        found += faults(file.relative_to(ROOT), file.read_text(), order)
    sys.stdout.write("\n".join(found or [f"The imports of {len(files)} files of _core point down."]) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
