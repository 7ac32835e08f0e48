"""The options --ops and --delegate: loading custom ops and delegates for a command."""
import importlib.util
import os

from pylite.cli._common import UsageError
from pylite.cli._parser import meant
from pylite.errors import counted

DELEGATE = "FILE.py:NAME for a class or function in Python, or LIBRARY.so[?KEY=VALUE&...]"


def add_ops(parser):
    parser.add_argument("--ops", action="append", default=[], metavar="WHAT",
                        help="load custom ops: from FILE.py, from LIBRARY.so:FUNCTION[?kind=KIND] (KIND: classic, "
                             "value, opaque or registerer), from all registerers of LIBRARY.so, or `flex` for "
                             "TensorFlow's own ops")


def add(parser):
    add_ops(parser)
    parser.add_argument("--delegate", action="append", default=[], metavar="WHAT", help=f"apply a delegate: {DELEGATE}")


def register(names):
    """Register the ops that --ops names."""
    from pylite.plugins.resolver import registered
    for text in names:
        if text == "flex":
            from pylite import flex
            flex.register()
        elif text.endswith(".py"):
            _module(text)
            if not registered.names():
                raise UsageError(f'{text}: registered no op; write @pylite.custom_op("NAME") before its function or '
                                 "class")
        else:
            library, _, function = text.partition(":")
            if library.endswith(".py"):
                raise UsageError(f"--ops {text}: give {library} alone, which registers its ops by @pylite.custom_op")
            if ".so" not in library and not os.path.exists(library):
                raise UsageError(f"--ops {text}: expected FILE.py, LIBRARY.so:FUNCTION or flex{meant(text, ['flex'])}")
            _library(library, *_kind(text, function))


def in_command(text):
    """An error about an op that is missing, with the option of a command that loads it."""
    return text.replace("Register it with pylite.custom_op(", "Load it with --ops FILE.py or --ops LIBRARY.so:"
                        "FUNCTION; in Python, register it with pylite.custom_op(")


def load(args):
    """Register the ops that the command line names, and return its delegates."""
    register(args.ops)
    return delegates(args.delegate)


def delegates(names):
    """The delegates that --delegate names."""
    return [_delegate(text) for text in names]


def unclaimed(executor, delegates):
    """A sentence for each delegate that takes no node of the Executor's subgraph."""
    partitions = {} if executor.delegation is None else executor.delegation.partitions
    taking, count = {owner.name for owner, _ in partitions.values()}, len(executor.subgraph.operators)
    names = [getattr(delegate, "name", type(delegate).__name__) for delegate in delegates]
    return [f"{name} claims none of the {counted(count, 'node')}" for name in names if name not in taking]


def _module(path):
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file")
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise UsageError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"{path}: {type(error).__name__}: {error}") from error
    return module


def _kind(text, function):
    """(function, kind) of FUNCTION?kind=KIND; the kind is None if it is left out."""
    function, _, option = function.partition("?")
    key, _, kind = option.partition("=")
    if option and key != "kind":
        raise UsageError(f"--ops {text}: {option!r} is not an option of a function; write ?kind=KIND")
    return function, kind or None


def _library(path, function, kind):
    from pylite.plugins.capi import load_custom_ops
    from pylite.plugins.host import symbols
    try:
        load_custom_ops(path, function or None, kind)
    except (OSError, ValueError) as error:
        form = f"; write --ops {path}:FUNCTION" if not function and symbols.machine(path) else ""
        raise UsageError(f"{error}{form}") from error


def _delegate(text):
    path, _, name = (text, "", "") if text.endswith(".py") else text.rpartition(":")
    if path.endswith(".py"):
        module = _module(path)
        make = getattr(module, name, None) if name else None
        if make is None:
            own = ", ".join(key for key, value in _defined(module) if hasattr(value, "modify")
                            or (callable(value) and not isinstance(value, type)))
            raise UsageError(f"{path}: {f'has no {name}' if name else f'write {path}:NAME'}; it defines "
                             f"{own or 'no delegate and no function'}")
        return _made(path, name, make, module)
    from pylite.plugins.delegates import load_delegate
    library, _, options = text.partition("?")
    pairs = [option.partition("=") for option in options.split("&") if option]
    return load_delegate(library, {key: value for key, _, value in pairs})


def _made(path, name, make, module):
    """The delegate that the class or function `make` of a Python file gives."""
    delegate = None
    if hasattr(make, "modify") if isinstance(make, type) else callable(make):
        try:
            delegate = make()
        except Exception as error:
            raise UsageError(f"{path}: {name}() failed: {type(error).__name__}: {error}") from error
    if not hasattr(delegate, "modify"):
        others = [key for key, value in _defined(module) if hasattr(value, "modify")]
        raise UsageError(f"{path}: {name} is not a delegate; " + (
            f"it defines the delegate{'s' * (len(others) > 1)} {', '.join(others)}" if others else
            "a delegate is a class derived from pylite.PythonDelegate"))
    return delegate


def _defined(module):
    """(name, value) of all public classes and functions that a module itself defines."""
    return [(key, value) for key, value in vars(module).items()
            if key[:1] != "_" and getattr(value, "__module__", None) == module.__name__]
