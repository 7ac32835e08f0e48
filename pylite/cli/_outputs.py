"""The files that `pylite report` and `pylite validate` write: pages, and node data for Model Explorer."""
import errno
import functools
import json
import os
import shlex
import sys

from pylite.cli import _format, _terminal

GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#ff9d5c"}]       # from the least to the most

# Options that name files.
FILES = "html", "explorer", "junit", "save", "record", "record_values", "mixed", "recipe", "denylist", "repair"


def add(parser, what):
    """Options for files; what: the overlay's values."""
    parser.add_argument("--html", metavar="FILE", help="write a page with charts; needs pylite-runtime[validate]")
    parser.add_argument("--explorer", metavar="FILE", help=f"write {what} as node data (JSON) for Model Explorer")


def check(args):
    """Check the output files before a long run: OSError if one cannot be written, as check_writable()."""
    if args.html:
        from pylite.validation import page
        page.library()
    for option in FILES:
        if getattr(args, option, None):
            check_writable(getattr(args, option))


def check_writable(path):
    """OSError if this file cannot be written; it is neither made nor changed."""
    folder = os.path.dirname(path) or "."
    code = None
    if os.path.isdir(path):
        code = errno.EISDIR
    elif not os.path.isdir(folder):
        code = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
    elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
        code = errno.EACCES
    if code is not None:
        raise OSError(code, os.strerror(code), path)


def write(path, contents):
    """Write text or bytes to a file, which is replaced at once or stays as it was, and say so; OSError names it."""
    from pylite.validation.files import replacing
    with replacing(path) as file:
        file.write(contents.encode() if isinstance(contents, str) else contents)
    wrote(path)


def wrote(path):
    """Say on the standard error stream that a file is written."""
    _terminal.say(f"wrote {path}")


def wrote_if(path):
    """The same for a file that an option may have named."""
    if path:
        wrote(path)


class Attempts:
    """Calls functions that write, each even if an earlier one failed; the end raises the first OSError.

    It is no failure if the reader of the output, such as `head`, has ended: files and exit code still count.
    """

    def __init__(self):
        self._error = None

    def __call__(self, function, *arguments):
        try:
            return function(*arguments)
        except BrokenPipeError:
            _terminal.discard_output()
        except OSError as error:
            self._error = self._error or error

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None and self._error is not None:
            raise self._error


def show_result(result, args, *top, more=()):
    """Write the result of a validation: as JSON, or as lines, and then the lines of `more`.

    top: how many rows each table has, if the result takes that.
    """
    table = functools.partial(_format.table, verbose=args.verbose)
    lines = _terminal.shown([*result.lines(*top, table), *more])
    show(result.to_json() if args.json else "\n".join(lines) + "\n")


def show(text):
    """Write text to standard output, all of it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def write_page(args, data, facts=None):
    """Write the page of `data`; `made` is added, and with it {name: text} of `facts`."""
    from pylite.cli import _board
    from pylite.validation import page
    made = page.made("pylite " + shlex.join(args.argv))
    machine = _board.machine()
    made["machine"] += f", {_format.counted(machine['cores'], 'core')}, {machine['cpu']}"
    write(args.html, page.page({**data, "made": made | (facts or {})}))


def write_overlay(path, model, name, values, **colours):
    """Node data for Model Explorer on the main graph of the model (a path).

    values: {node: number}; colours: Model Explorer's `thresholds` or `gradient`.
    """
    from pylite.runtime.model import Model
    graph = Model(model).graph
    keys = [signature.key for signature in graph.signatures if signature.subgraph == 0]
    shown_as = graph.subgraphs[0].name or (keys or ["main"])[0]     # in Model Explorer
    results = {str(node): {"value": value} for node, value in values.items()}
    write(path, json.dumps({shown_as: {"name": name, "results": results, **colours}}, indent=2))
