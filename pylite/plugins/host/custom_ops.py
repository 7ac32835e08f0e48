"""Custom ops in shared libraries: registrations that resolvers hold, and the ways to get them out of a library."""
import ctypes
import os

from pylite._core.capi.kernels import install_guards
from pylite._core.capi.plugin_structs import registration_facts
from pylite.errors import OpError, PluginError
from pylite.plugins.host import libraries, symbols
from pylite.plugins.host.nodes import NativeNode
from pylite.plugins.host.tables import tables_of

KINDS = ("classic", "value", "opaque", "registerer")
TYPES = {"registration": "TfLiteRegistration", "operator": "TfLiteOperator"}
WHERE = {"classic": ("registration",), "value": ("registration",), "opaque": ("operator",),
         None: ("operator", "registration")}        # what functions of each kind give
RESOLVER = "PN6tflite17MutableOpResolverE"          # tflite::MutableOpResolver *, as C++ writes it into names
MAGIC = 0x70796c697465          # tells pylite's resolvers from other runtimes' in resolver.c


class NativeOp:
    """A custom op in native code under its name and version: what a resolver holds.

    registration: address of a TfLiteRegistration, or operator: that of a TfLiteOperator; kept: what must stay alive;
    library: do its functions come from a shared library, so that none of them is Python in disguise?
    """
    stateful = True

    def __init__(self, name, version=1, *, registration=0, operator=0, kept=None, library=True):
        self.name = name
        self.versions = (version, version)
        self.registration = registration
        self.operator = operator
        self.kept = kept
        self.library = library

    def __repr__(self):
        return f"<op {self.name!r} in native code>"

    def accepts(self, inputs, outputs):
        return True

    def attach(self, executor, operator):
        """The Op of one node: calls init()."""
        guard()
        tables = tables_of(executor)
        tables.host.set_kernel(operator.index, self.registration, self.operator, self.library)
        if tables.host.init(operator.index):
            why = tables.host.errors()
            raise OpError(f"node {operator.index} {operator.name} failed to initialise{': ' if why else ''}{why}")
        return NativeNode(tables, operator.index, operator.name)


def guard():
    """Stop C++ exceptions at the border, where pylite was built with a C++ compiler, and faults, if these shall be."""
    library = libraries.support("guard")
    address = 0 if library is None else ctypes.addressof(ctypes.c_char.in_dll(library, "pl_cxx_guards"))
    install_guards(address, os.environ.get("PYLITE_TRAP") != "0")


def load(path, functions=None, kind=None):
    """The NativeOps of a shared library; see pylite.load_custom_ops."""
    if kind not in (None, *KINDS):
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if not functions:
        if not os.path.exists(path):
            libraries.load(path)        # OSError, unless it is one of the system's
        functions, kind = symbols.registerers(path), "registerer"
    if isinstance(functions, str):
        functions = [functions]
    if kind == "registerer" or (kind is None and _take_a_resolver(path, functions)):
        return _registered(path, functions)
    if kind == "opaque":
        libraries.support("opaque")
    library = libraries.load(path)
    pairs = functions.items() if isinstance(functions, dict) else [(None, name) for name in functions]
    return [_from_function(library, path, name, symbol, kind) for name, symbol in pairs]


def _take_a_resolver(path, functions):
    """Do these functions take a tflite::MutableOpResolver *?  PluginError where their names leave it open."""
    if not symbols.mentions(path, b"_ZN6tflite17MutableOpResolver9AddCustom"):
        return False
    exported = symbols.exported(path)
    for name in functions.values() if isinstance(functions, dict) else functions:
        if mangled(name, "v") in exported and not name.startswith("_Z"):
            return False
        symbol = mangled(name, RESOLVER)
        if symbol not in exported or not symbol.endswith(RESOLVER):
            raise PluginError(f"{name} of {os.fspath(path)} may take a tflite::MutableOpResolver, or return a "
                              f"registration: pass its kind, one of {', '.join(KINDS)}")
    return True


def _from_function(library, path, name, symbol, kind):
    function, room = _function(library, symbol, "v", path), _Value()
    if kind == "value":
        function.restype = _Value
        room = function()
        address = ctypes.addressof(room)
    else:
        address = libraries.call(function, ctypes.addressof(room))      # some return the struct itself there
    if not address:
        raise PluginError(f"{symbol} of {path} returned null")
    for where in WHERE[kind]:
        facts = registration_facts(*(address if what == where else 0 for what in ("registration", "operator")))
        if facts is not None:
            break
    else:
        raise PluginError(f"what {symbol} of {path} returned is no {' or '.join(map(TYPES.get, WHERE[kind]))}; is the "
                          f"function of another kind{'' if kind is None else f' than {kind!r}'}?")
    own_name, version = facts
    if not (name or own_name):
        raise PluginError(f"the registration that {symbol} of {path} returned has no name; pass {{name: {symbol!r}}}")
    return NativeOp(name or own_name, version, kept=(library, room), **{where: address})


class _Value(ctypes.Structure):
    """A TfLiteRegistration as a function returns it: 88 bytes, of which older binaries fill 64."""
    _fields_ = (("words", ctypes.c_uint64 * 11),)


_add_t = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)


class _Resolver(ctypes.Structure):
    """What C++ functions that register ops get for a resolver."""
    _fields_ = (("magic", ctypes.c_uint64), ("add", _add_t))


def _registered(path, functions):
    """The ops that C++ functions add to a tflite::MutableOpResolver."""
    if not libraries.support_is_loaded("resolver") and libraries.is_loaded(path):
        raise PluginError(f"{os.fspath(path)} was loaded before, and its functions may be bound to another runtime's "
                          "resolver; call load_custom_ops() first")
    libraries.support("resolver")
    library = libraries.load(path)
    found = {}      # by name and versions: what is added again replaces it

    def add(name, registration, low, high):
        # It may be gone when its caller returns.  The whole of it is read only where there are no functions.
        content = ctypes.string_at(registration, 64)
        if not any(content[:32]):
            content = ctypes.string_at(registration, 72)
        copy = ctypes.create_string_buffer(content, 88)
        op = NativeOp(name.decode(), low, registration=ctypes.addressof(copy), kept=(library, copy))
        op.versions = low, high
        found[op.name, low, high] = op

    ours = _Resolver(MAGIC, _add_t(add))
    for symbol in functions:
        libraries.call(_function(library, symbol, RESOLVER, path), ctypes.addressof(ours))
    return list(found.values())


def _function(library, name, parameters, path):
    """The function `name` of C, or of C++ with these parameters."""
    for symbol in (name, mangled(name, parameters)):
        if hasattr(library, symbol):
            return getattr(library, symbol)
    return libraries.function(library, name, path)


def mangled(name, parameters):
    """What C++ compilers make of "f" or "space::f" with such parameters; a name that is mangled stays."""
    if name.startswith("_Z"):
        return name
    parts = name.split("::")
    inner = "".join(f"{len(part)}{part}" for part in parts)
    return f"_Z{inner if len(parts) == 1 else f'N{inner}E'}{parameters}"
