"""Custom ops in shared libraries: registrations that resolvers hold, and the ways to get them out of a library."""
import ctypes

from pylite._core.capi import libraries
from pylite._core.capi.host import install_guards, registration_facts
from pylite._core.capi.nodes import NativeNode
from pylite._core.capi.tables import tables_of
from pylite.errors import OpError, PluginError

KINDS = ("classic",)


class NativeOp:
    """A custom op in native code under its name and version: what a resolver holds.

    registration: address of a TfLiteRegistration, or operator: that of a TfLiteOperator; kept: what must stay alive.
    """
    stateful = True

    def __init__(self, name, version=1, *, registration=0, operator=0, kept=None):
        self.name = name
        self.versions = (version, version)
        self.registration = registration
        self.operator = operator
        self.kept = kept

    def __repr__(self):
        return f"<op {self.name!r} in native code>"

    def accepts(self, inputs, outputs):
        return True

    def attach(self, executor, operator):
        """The Op of one node: calls init()."""
        guard_exceptions()
        tables = tables_of(executor)
        tables.host.plug(operator.index, self.registration, self.operator)
        if tables.host.init(operator.index):
            why = tables.host.errors()
            raise OpError(f"node {operator.index} {operator.name} failed to initialise{': ' if why else ''}{why}")
        return NativeNode(tables, operator.index, operator.name)


def guard_exceptions():
    """Stop C++ exceptions at the border, where pylite was built with a C++ compiler."""
    library = libraries.support("guard")
    if library is not None:
        install_guards(ctypes.addressof(ctypes.c_char.in_dll(library, "pl_cxx_guards")))


def load(path, functions=None, kind="classic"):
    """The NativeOps of a shared library; see pylite.load_custom_ops."""
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if not functions:
        raise ValueError("name the functions of the library that give the registrations")
    library = libraries.load(path)
    if isinstance(functions, str):
        functions = [functions]
    named = functions if isinstance(functions, dict) else dict.fromkeys(functions)
    pairs = named.items() if isinstance(functions, dict) else [(None, name) for name in named]
    return [_from_function(library, path, name, symbol, kind) for name, symbol in pairs]


def _from_function(library, path, name, symbol, kind):
    function = libraries.function(library, symbol, path)
    function.restype = ctypes.c_void_p
    function.argtypes = ()
    address = function()
    if not address:
        raise PluginError(f"{symbol} of {path} returned null")
    where = {"registration": address} if kind == "classic" else {"operator": address}
    own_name, version = registration_facts(where.get("registration", 0), where.get("operator", 0))
    if not (name or own_name):
        raise PluginError(f"the registration that {symbol} of {path} returned has no name; pass {{name: {symbol!r}}}")
    return NativeOp(name or own_name, version, kept=library, **where)
