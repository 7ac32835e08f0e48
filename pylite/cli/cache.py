"""List or clear the plan cache.

A plan is what pylite prepares when it loads a model; with a plan in the cache, the next process starts faster.  `clear`
removes all plans and leaves other files in the folder alone.
"""
import os
import sys
import time

from pylite.cli import _common, _format

EPILOG = __doc__.split("\n\n", 1)[1] + """
examples:
  pylite cache list
  pylite cache clear --cache-dir plans
"""
USAGE = "pylite cache [list|clear] [options]"
_SUFFIXES = (".plan", ".digest", ".tmp")


def configure(parser):
    parser.add_argument("action", nargs="?", choices=["list", "clear"], default="list",
                        metavar="list|clear", help="list the plans (the default), or remove them")
    _common.add_cache(parser)


def run(args):
    from pylite.runtime.cache_files import Store
    folder = _common.cache_folder(args)
    if not args.cache_dir and not os.path.lexists(folder):
        sys.stdout.write(f"0 plans: there is no folder {folder} yet\n")
        return 0
    with Store(folder) as store:
        files = [file for file in store.files() if file[2].endswith(_SUFFIXES)]
        total = _format.nbytes(sum(size for _, size, _ in files))
        if args.action == "clear":
            removed = [store.remove(name) for _, _, name in files]
            sys.stdout.write(f"removed {_format.counted(sum(removed), 'file')}, {total}\n")
            return 0 if all(removed) else 1
        rows = [_row(store, *file) for file in reversed(files) if file[2].endswith(".plan")]
        headers = ("model", "inputs", "ISA level", "pylite", "size", "last used")
        lines = _format.table(headers, rows, ("size", "last used"), ("pylite", "ISA level", "inputs")) if rows else []
        sys.stdout.write("\n".join([*lines, f"{_format.counted(len(rows), 'plan')}, {total}"]) + "\n")
    return 0


def _version(build):
    """The version of pylite that a plan is for; a plan of another build of it is of no use."""
    from pylite.runtime import plan_cache
    return build.split(" ", 1)[0] + ("" if build == plan_cache.build() else ", another build")


def _row(store, used, size, name):
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
    found = store.read(name, use=False)
    if found is None:
        return name, "damaged or not trusted", "", "", _format.nbytes(size), when
    (build, isa, digest, preserve, precision, shapes), _, _, plan, label = found[0]
    inputs = "as in the file" if shapes is None else ", ".join(str(list(shape)) for shape in shapes)
    kinds = (("preserve", preserve), (precision, precision), ("no plan", plan is None))
    described = " ".join([inputs, *(f"({kind})" for kind, applies in kinds if applies)])
    return label or f"model {digest.hex()[:8]}", described, isa, _version(build), _format.nbytes(size), when
