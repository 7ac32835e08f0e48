"""List or clear the plan cache.

A plan is what pylite prepares when it loads a model; with a plan in the cache, the next process starts faster.  `clear`
removes all plans and leaves other files in the folder alone.
"""
import os
import sys
import time

from pylite.cli import _common, _format
from pylite.cli._parser import explained

EPILOG = explained(__doc__) + """
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
    _common.add_verbose(parser)


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
        plans = [_row(store, *file) for file in reversed(files) if file[2].endswith(".plan")]
        sys.stdout.write("\n".join(_listed(plans, args.verbose)) + f", {total}\n")
    return 0


def _listed(plans, verbose):
    """The lines about the plans, to which the size of all is added."""
    shown = [cells for cells, foreign, _ in plans if verbose or not foreign]
    headers = ("model", "inputs", "ISA level", "pylite", "size", "last used")
    lines = _format.table(headers, shown, ("size", "last used"), ("pylite", "ISA level", "inputs"),
                          verbose) if shown else []
    if len(shown) < len(plans):
        lines.append(f"{_format.counted(len(plans) - len(shown), 'plan')} of other builds of pylite (--verbose lists "
                     "them)")
    count = sum(complete for _, _, complete in plans)
    none = f" and {_format.counted(len(plans) - count, 'file')} without a plan" if count < len(plans) else ""
    return [*lines, f"{_format.counted(count, 'plan')}{none}"]


def _row(store, used, size, name):
    """(cells, is it of another build of pylite, which alone can use it?, is it a plan?) of a file."""
    from pylite.runtime import plan_cache
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(used))
    stored = store.read(name, use=False)
    if stored is None:
        return (name, "of another pylite, damaged or not trusted", "", "", _format.nbytes(size), when), False, False
    (build, isa, digest, preserve, precision, shapes), _, _, plan, label = stored[0]
    complete, foreign = plan is not None, build != plan_cache.build()
    inputs = "as in the file" if shapes is None else ", ".join(str(list(shape)) for shape in shapes)
    kinds = (("preserve", preserve), (precision, precision), ("no plan", not complete))
    described = " ".join([inputs, *(f"({kind})" for kind, applies in kinds if applies)])
    version = build.split(" ", 1)[0] + (", another build" if foreign else "")
    cells = label or f"model {digest.hex()[:8]}", described, isa, version, _format.nbytes(size), when
    return cells, foreign, complete
