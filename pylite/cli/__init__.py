"""The command line, `pylite COMMAND ...`, or `pylite` alone for help.

Each module of this package without a leading underscore is a command, with `configure(parser)` and `run(args)`; its
docstring's first line is its help.
"""
import argparse
import errno
import importlib
import os
import pkgutil
import sys
import warnings

import pylite
from pylite import _core as _core  # finds the other modules, and refuses those of a foreign package
from pylite.cli import _overwriting
from pylite.cli._common import UsageError
from pylite.cli._parser import HelpFormatter, Parser, corrected, sentence
from pylite.cli._terminal import discard_output
from pylite.errors import ComparisonError, FileFormatError, ModelError, PyliteError

PYTHON_FORMAT = warnings.formatwarning
FIRST = ["run", "inspect", "bench", "report", "validate"]       # the commands that the help lists first


def main(argv=None):
    """Run the command line; returns the exit code: 0, 1 when the run failed, 2 for a wrong argument or file."""
    before = sys.stdout, warnings.formatwarning
    warnings.formatwarning = _warning
    try:
        return _main(sys.argv[1:] if argv is None else list(argv))
    finally:
        sys.stdout, warnings.formatwarning = before


def _warning(message, category, filename, lineno, line=None):
    """The text of a warning; pylite's without the line of code, the call of main()."""
    if category is UserWarning:
        return f"warning: {message}\n"
    return PYTHON_FORMAT(message, category, filename, lineno, line)


def _main(argv):
    if sys.stdout is None:      # closed by the caller, as by `>&-`
        if sys.stderr is not None:
            sys.stderr.write("pylite: the standard output is closed\n")
        return 2
    _prepare_streams()
    if argv[:1] in (["help"], ["-h"], ["--help"]):
        argv = [*argv[1:2], "--help"]
    parser = parser_of(argv)
    args = parser.parse_args(_with_merge(argv))
    args.argv = argv
    if args.version or args.command is None:
        args.command = None
        args.run = _version if args.version else lambda _: parser.print_help()
    try:
        if args.command:
            _check_level()
            _overwriting.check(args)
        code = args.run(args) or 0
        sys.stdout.flush()          # a failure is reported here
        return code
    except BrokenPipeError:         # the reader of the pipe, such as `head`, has ended: not an error
        discard_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except (UsageError, ComparisonError, FileFormatError, ModelError, OSError) as error:
        if getattr(error, "errno", None) == errno.ENOSPC and error.filename is None:    # else it was a file's
            discard_output()
        return _failed(args, error, 2)
    except (PyliteError, MemoryError) as error:
        return _failed(args, error, 1)


def _check_level():
    """UsageError if PYLITE_ISA names no level of this CPU; otherwise importing the kernels would fail."""
    if os.environ.get("PYLITE_ISA"):
        try:
            from pylite._core import simd as simd  # takes time, and few set the variable
        except ValueError as error:
            raise UsageError(str(error)) from None


def _prepare_streams():
    """Make the streams accept every text: if the error stream is closed, in any encoding, on any terminal."""
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")      # for the rest of the process
    if getattr(sys.stdout, "errors", None) == "strict":         # names of files and tensors may have any character
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stdout.isatty():
        from pylite.cli._terminal import Guarded
        sys.stdout = Guarded(sys.stdout)


def _with_merge(argv):
    """`validate merge MODEL FILE ...` as `validate MODEL --merge FILE ...`; all else as it is."""
    if argv[:2] != ["validate", "merge"]:
        return argv
    end = next((i for i, text in enumerate(argv) if text.startswith("-")), len(argv))
    model, files = argv[2:3], argv[3:end]
    return ["validate", *model, *(["--merge", *files] if files else []), *argv[end:]]


def _failed(args, error, code):
    if args.debug:
        raise error
    from pylite.cli._terminal import failed
    text = sentence(error, [getattr(args, name, None) for name in ("model", "reference", "data")])
    if hasattr(args, "ops"):
        from pylite.cli._plugins import in_command
        text = in_command(text)
    failed(f"pylite {args.command}" if args.command else "pylite", text)
    return code


def parser_of(argv):
    """The parser of all commands, or only of the command that `argv` names, because the others take time to import."""
    parser = Parser(prog="pylite", usage="pylite COMMAND ...", description="Run and inspect TensorFlow Lite models.",
                    epilog="`pylite help COMMAND` explains a command.", formatter_class=HelpFormatter)
    parser._positionals.title = "commands"
    parser.add_argument("--version", action="store_true", help="show the version")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", prog="pylite")
    names = sorted((module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")),
                   key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    chosen = next((a for a in argv if not a.startswith("-")), None)
    if chosen is not None and chosen not in names:
        hint = corrected(chosen, names) or f"; the commands are {', '.join(names)}"
        parser.error(f"there is no command {chosen!r}{hint}")
    for name in [chosen] if chosen in names else names:
        module = importlib.import_module(f"{__name__}.{name}")
        summary = (module.__doc__ or "\n").splitlines()[0]         # python -OO leaves none
        command = commands.add_parser(name, help=summary, description=summary, usage=getattr(module, "USAGE", None),
                                      formatter_class=HelpFormatter,
                                      epilog=getattr(module, "EPILOG", None))
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS,
                             help="show the traceback of an error")
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def _version(_):
    """Print the version, and a warning if another distribution shares the folder."""
    from importlib.metadata import PackageNotFoundError, distribution
    text = f"pylite {pylite.__version__}\n"
    try:
        other = distribution("pylite")
        own, folder = pylite.__distribution__, other.locate_file("")
        text += (f"warning: the distribution pylite {other.version} is installed in {folder}: another "
                 f"project, or {own} under its former name. They share a folder, so that removing one breaks the "
                 f"other: pip uninstall pylite {own} && pip install {own}\n")
    except PackageNotFoundError:
        pass
    sys.stdout.write(text)
