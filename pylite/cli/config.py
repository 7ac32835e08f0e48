"""Print the options that compile and link C programs with pylite."""
import os
import shlex
import sys

import pylite

EPILOG = """Without an option it prints what --cflags and --libs print.

examples:
  cc program.c $(pylite config --cflags --libs) -o program
  pylite config --library
"""
USAGE = "pylite config [options]"


def configure(parser):
    parser.add_argument("--cflags", action="store_true",
                        help="print the compiler's options, with the folder of the headers")
    parser.add_argument("--libs", action="store_true", help="print the linker's options for libtensorflowlite_c.so")
    parser.add_argument("--library", action="store_true", help="print the path of libtensorflowlite_c.so")


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
