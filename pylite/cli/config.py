"""Show the options to compile and link programs in C against pylite."""
import os
import shlex
import sys

import pylite

EPILOG = """examples:
  cc program.c $(pylite config --cflags --libs) -o program
  pylite config --library
"""


def configure(parser):
    parser.add_argument("--cflags", action="store_true", help="options of the compiler: where the headers are")
    parser.add_argument("--libs", action="store_true", help="options of the linker: libtensorflowlite_c.so")
    parser.add_argument("--library", action="store_true", help="the path of libtensorflowlite_c.so")


def run(args):
    from pylite.clib import library_path
    everything = not (args.cflags or args.libs or args.library)
    shown = []
    if args.cflags or everything:
        shown.append(f"-I{pylite.get_include()}")
    if args.libs or everything:
        folder = os.path.dirname(library_path())
        shown += [f"-L{folder}", f"-Wl,-rpath,{folder}", "-ltensorflowlite_c"]
    if args.library:
        shown.append(library_path())
    sys.stdout.write(shlex.join(shown) + "\n")
