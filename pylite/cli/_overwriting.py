"""Refuses options that would write over a file that the same command reads, or over each other's file."""
import os

from pylite.cli._common import UsageError

# Options that name a file to write.  `validate --output` names a tensor, and --save there is read first (--resume).
WRITTEN = ("html", "explorer", "junit", "record", "record_values", "mixed", "recipe", "denylist", "repair", "graph",
           "trace", "output", "save")
# Arguments that name files to read, alone or in a list, with what stands before or after the name.
READ = ("model", "models", "files", "input", "labels", "diff", "reference", "data", "golden", "check", "merge",
        "against", "ops", "delegate")


def check(args):
    """UsageError if an option would overwrite an existing file that another argument names."""
    written = _written(args)
    if not any(os.path.isfile(path) for path in written.values()):
        return
    for argument in READ:
        given = getattr(args, argument, None) or []
        for text in [given] if isinstance(given, str) else given:
            read = [path for path in _files(text) if os.path.isfile(path)]
            for name, path in written.items():
                if any(_are_one(path, other) for other in read):
                    raise UsageError(f"{name} {path} would overwrite a file that the command reads; give another name")


def _written(args):
    """{option: the file that it names to write}; UsageError if two options name the same."""
    written = {}
    for option in WRITTEN:
        path = getattr(args, option, None)
        if not path or (args.command == "validate" and option in ("output", "save")):
            continue
        name = f"--{option.replace('_', '-')}"
        same = next((other for other in written if _are_one(path, written[other])), None)
        if same:
            raise UsageError(f"{same} and {name} would write the same file, {path}; give one of them another name")
        written[name] = path
    return written


def _files(text):
    """The files that an argument may name: FILE, NAME=FILE, FILE:FUNCTION, LIBRARY?OPTIONS, BUNDLE/MEMBER."""
    return {text, text.partition("=")[2], text.rpartition(":")[0], text.partition("?")[0], os.path.dirname(text)}


def _are_one(path, other):
    """Are these two names of one file, which may not exist?  Devices, such as /dev/null, may be named twice."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.isfile(path) and os.path.samefile(path, other)
    return os.path.realpath(path) == os.path.realpath(other)
