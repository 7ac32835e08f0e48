"""Replaces, on request, the packages that clients import the interpreter from: tflite_runtime and the like.

In code, before the client is imported:              pylite.install_as("tflite_runtime")
From the shell, for a client and its subprocesses:   python -m pylite.shim CLIENT.py ARG ...
By environment alone:                                PYTHONPATH=$(python -m pylite.shim --path) python CLIENT.py
"""
from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("tflite_runtime", "ai_edge_litert", "tensorflow", "tflite_support")
DEFAULT = NAMES[:2]     # not the others: a program may need more of them than the stand-ins have

_HOME = Path(__file__).parent / "shims"


def paths(*names: str) -> list[str]:
    """The folders that make pylite stand in for the packages `names` when they are on the module search path."""
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"pylite stands in for a package by its name, such as {NAMES[0]!r}, not {name!r}")
    packages = [name.partition(".")[0] for name in names or DEFAULT]
    for name, package in zip(names, packages, strict=False):
        if package not in NAMES:
            raise ValueError(f"pylite cannot stand in for {name!r}; it can for {', '.join(NAMES)}")
    return [str(_HOME / package) for package in dict.fromkeys(packages)]


def install_as(*names: str) -> None:
    """Make `import NAME` and `import NAME.interpreter` give pylite in this process.

    names: "tflite_runtime" and "ai_edge_litert" by default; also "tensorflow" or "tensorflow.lite", of which only
    `lite` exists then, and "tflite_support", of which only `task` does.  Modules of these names that were already
    imported are removed from sys.modules.  Raises ValueError for other names.
    """
    folders = paths(*names)
    for module in list(sys.modules):
        if any(module.partition(".")[0] == Path(folder).name for folder in folders):
            del sys.modules[module]
    sys.path[:] = folders + [p for p in sys.path if p not in folders]


def _run(program: str) -> None:
    """Run the file as the main module; a pipe, too, which runpy would read twice, and find empty."""
    if os.path.isfile(program) or os.path.isdir(program):
        runpy.run_path(program, run_name="__main__")
        return
    with open(program, "rb") as file:
        code = compile(file.read(), program, "exec")
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    vars(module)["__file__"] = program
    exec(code, vars(module))


def _is_program(name: str) -> bool:
    """Is there a module of this name, or a package with __main__?  The packages above are imported, as by runpy."""
    try:
        spec = importlib.util.find_spec(name)
        return spec is not None and (spec.submodule_search_locations is None or _is_program(f"{name}.__main__"))
    except ModuleNotFoundError as error:        # of a package above, or of what that package imports
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return False
        raise


def main(argv: Sequence[str] | None = None) -> None:
    """Run an unchanged Python program with pylite as its TensorFlow Lite interpreter."""
    parser = argparse.ArgumentParser(prog="python -m pylite.shim", description=main.__doc__)
    parser.add_argument("--as", dest="names", action="append", choices=NAMES, metavar="NAME", default=[],
                        help=f"package to stand in for, may be repeated: {', '.join(NAMES)} (default: "
                             f"{' and '.join(DEFAULT)})")
    parser.add_argument("--path", action="store_true", help="print the folders for PYTHONPATH and exit")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is the name of a module")
    parser.add_argument("program", nargs="?", help="the client's script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    args = parser.parse_args(argv)
    folders = paths(*args.names)
    if args.path:
        sys.stdout.write(os.pathsep.join(folders) + "\n")
        return
    if args.program is None:
        parser.error("name the program to run")
    if not args.module and not os.path.exists(args.program):
        parser.error(f"there is no program {args.program!r}")
    install_as(*args.names)
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(folders + ([inherited] if inherited else []))
    sys.argv = [args.program, *args.arguments]
    try:
        if args.module:
            sys.path.insert(0, os.getcwd())
            if not _is_program(args.program):
                parser.error(f"there is no module {args.program!r} that can be run")
            runpy.run_module(args.program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(args.program).resolve().parent))
            _run(args.program)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in NAMES[2:] and package not in args.names:
            others = "".join(f"--as {name} " for name in args.names or DEFAULT)
            error.add_note(f"pylite stands in for {package} only if it is asked to: python -m pylite.shim {others}"
                           f"--as {package} {args.program}")
        raise


if __name__ == "__main__":
    main()
