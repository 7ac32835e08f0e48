"""Standing in, on request, for the packages that clients import the interpreter from.

In code, before the client is imported:      pylite.install_as("tflite_runtime")
From the shell, client and children alike:   python -m pylite.shim CLIENT.py ARG ...
By environment alone:                        PYTHONPATH=$(python -m pylite.shim --path) python CLIENT.py
"""
import argparse
import os
import runpy
import sys
from pathlib import Path

NAMES = ("tflite_runtime", "ai_edge_litert", "tensorflow")
DEFAULT = NAMES[:2]     # a program that imports tensorflow may need the rest of it: only on request

_HOME = Path(__file__).parent / "shims"


def paths(*names):
    """The folders to put on the module search path so that the packages `names` are pylite."""
    packages = [name.partition(".")[0] for name in names or DEFAULT]
    for name, package in zip(names, packages, strict=False):
        if package not in NAMES:
            raise ValueError(f"pylite cannot stand in for {name!r}; it can for {', '.join(NAMES)}")
    return [str(_HOME / package) for package in dict.fromkeys(packages)]


def install_as(*names):
    """From now on `import NAME` and `import NAME.interpreter` in this process give pylite.

    names: "tflite_runtime", "ai_edge_litert" (both by default), "tensorflow" (or "tensorflow.lite": its `lite` alone
    exists then).  Modules of those names that were imported before are forgotten.  Raises ValueError for other names.
    """
    folders = paths(*names)
    for module in list(sys.modules):
        if any(module.partition(".")[0] == Path(folder).name for folder in folders):
            del sys.modules[module]
    sys.path[:] = folders + [p for p in sys.path if p not in folders]


def main(argv=None):
    """Run a Python program, unchanged, with pylite as its interpreter of models."""
    parser = argparse.ArgumentParser(prog="python -m pylite.shim", description=main.__doc__)
    parser.add_argument("--as", dest="names", action="append", choices=NAMES, metavar="NAME", default=[],
                        help=f"package to stand in for, may be repeated: {', '.join(NAMES)} (default: "
                             f"{' and '.join(DEFAULT)})")
    parser.add_argument("--path", action="store_true", help="only print the folders for PYTHONPATH")
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
    install_as(*args.names)
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(folders + ([inherited] if inherited else []))
    sys.argv = [args.program, *args.arguments]
    if args.module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(args.program, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(args.program).resolve().parent))
        runpy.run_path(args.program, run_name="__main__")


if __name__ == "__main__":
    main()
