"""Custom ops in native code: the registration that a resolver holds, and loading registrations from libraries."""
import ctypes
import functools
import os

from pylite._core.capi.plugin_structs import registration_facts
from pylite.errors import OpError, PluginError
from pylite.plugins.host import libraries, symbols
from pylite.plugins.host.nodes import NativeNodeOp
from pylite.plugins.host.plugin_structs import structs_of
from pylite.plugins.resolver import MutableOpResolver, OpResolver
from pylite.schema.tables import enum

KINDS = ("classic", "value", "opaque", "registerer")
STRUCTS = {"registration": "TfLiteRegistration", "operator": "TfLiteOperator"}
RETURNED = {"classic": ("registration",), "value": ("registration",), "opaque": ("operator",),
            None: ("operator", "registration")}     # kind -> what its functions return, of STRUCTS
LEAST_ADDRESS = 65536           # systems map no memory below it, so a function that returns less returns a number
RESOLVER = "PN6tflite17MutableOpResolverE"          # tflite::MutableOpResolver * in mangled names of C++


class NativeRegistration:
    """A custom op in native code as a resolver holds it, with its name and version.

    registration: address of a TfLiteRegistration, or operator: address of a TfLiteOperator; references: objects to
    keep alive; library: whether the functions come from a shared library, and not from Python.
    """
    stateful = True

    def __init__(self, name, version=1, *, registration=0, operator=0, references=None, library=True):
        self.name = name
        self.versions = (version, version)
        self.registration = registration
        self.operator = operator
        self.references = references
        self.library = library
        self.builtin = False        # does it replace a builtin op?

    def __repr__(self):
        return f"<op {self.name!r} in native code>"

    def accepts(self, inputs, outputs):
        return True

    def attach(self, executor, operator):
        """The Op of one node: calls init()."""
        libraries.activate_guards()
        structs = structs_of(executor)
        structs.host.set_kernel(operator.index, self.registration, self.operator, self.library)
        if structs.host.init(operator.index):
            why = structs.host.errors()
            raise OpError(f"node {operator.index} {operator.name} failed to initialize{': ' if why else ''}{why}")
        structs.host.log(f"init() of node {operator.index} {operator.name}")
        return NativeNodeOp(structs, operator.index, operator.name)


def load(path, functions=None, kind=None):
    """The NativeRegistrations of a shared library; see pylite.load_custom_ops."""
    if kind not in (None, *KINDS):
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    path = os.fspath(path)
    if not functions:
        if not os.path.exists(path):
            libraries.load(path)        # raises OSError unless it is in a folder of the system
        functions, kind = symbols.registerers(path), "registerer"
    if isinstance(functions, str):
        functions = [functions]
    if kind == "registerer" or (kind is None and _are_registerers(path, functions)):
        return _from_registerers(path, functions)
    if kind == "opaque":
        libraries.support("opaque")
    library = libraries.load(path)
    pairs = functions.items() if isinstance(functions, dict) else [(None, name) for name in functions]
    return [_from_function(library, path, name, symbol, kind) for name, symbol in pairs]


def _are_registerers(path, functions):
    """True if these functions take a tflite::MutableOpResolver *; PluginError if their names do not show it."""
    if not symbols.mentions(path, b"6tflite17MutableOpResolver"):
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
    """The registration that the function `symbol` returns; name: of the op, None for the registration's own."""
    function, struct = _function(library, symbol, "v", path), _RegistrationValue()
    if kind == "value":
        function.restype = _RegistrationValue
        struct = function()
        address = ctypes.addressof(struct)
    else:
        address = libraries.call(function, ctypes.addressof(struct))    # a function of kind "value" writes it there
    if not address:
        raise PluginError(f"{symbol} of {path} returned null")
    if address < LEAST_ADDRESS:
        raise PluginError(f"{symbol} of {path} returned {address}, which is no address; name a function that returns "
                          "the op's registration")
    for parameter in RETURNED[kind]:
        facts = registration_facts(*(address if each == parameter else 0 for each in STRUCTS))
        if facts is not None:
            break
    else:
        expected = " or ".join(STRUCTS[each] for each in RETURNED[kind])
        raise PluginError(f"{symbol} of {path} did not return a {expected}; is the function of another kind"
                          f"{'' if kind is None else f' than {kind!r}'}?")
    own_name, version = facts
    if not (name or own_name):
        raise PluginError(f"the registration that {symbol} of {path} returned has no name; name the op: "
                          f"functions={{\"NAME\": {symbol!r}}}")
    return NativeRegistration(name or own_name, version, references=(library, struct), **{parameter: address})


class _RegistrationValue(ctypes.Structure):
    """A TfLiteRegistration as a function returns it by value: 88 bytes, of which older binaries fill 64."""
    _fields_ = (("words", ctypes.c_uint64 * 11),)


_add_t = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
                          ctypes.c_int)
_find_t = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
WORD = ctypes.sizeof(ctypes.c_void_p)


class _Resolver(ctypes.Structure):
    """The resolver that C++ functions add ops to; see resolver.c."""
    _fields_ = (("methods", ctypes.c_void_p), ("magic", ctypes.c_uint64), ("add", _add_t),
                ("entries", ctypes.c_void_p), ("find", _find_t))


def _from_registerers(path, functions):
    """The ops that C++ functions add to a tflite::MutableOpResolver."""
    if not libraries.support_is_loaded("resolver") and libraries.is_loaded(path):
        raise PluginError(f"{os.fspath(path)} was loaded before, and its functions may be bound to another runtime's "
                          "resolver; call load_custom_ops() first")
    libraries.support("resolver")
    library = libraries.load(path)
    ops = {}      # by name and versions: a later op replaces an earlier one

    def add(op):
        ops[op.name, *op.versions] = op

    resolver = _resolver(add, library)
    for symbol in functions:
        libraries.call(_function(library, symbol, RESOLVER, path), ctypes.addressof(resolver))
    if not ops:
        raise PluginError(f"{', '.join(functions)} of {os.fspath(path)} added no ops; is the function of another kind "
                          "than 'registerer'?")
    return list(ops.values())


def _resolver(add, library):
    """A _Resolver that calls add(NativeRegistration); library: kept alive by the ops."""
    known = OpResolver()

    def name_of(name, number):
        return enum("BuiltinOperator")[number] if name is None else name.decode()

    def copied(_, name, number, registration, low, high):
        # A copy, since the caller may free the registration.  It has eight words or more, and at least nine if its
        # first four pointers, the functions, are null: then the ninth is its TfLiteOperator.
        content = ctypes.string_at(registration, 8 * WORD)
        if not any(content[:4 * WORD]):
            content = ctypes.string_at(registration, 9 * WORD)
        copy = ctypes.create_string_buffer(content, 11 * WORD)
        op = NativeRegistration(name_of(name, number), low, registration=ctypes.addressof(copy),
                                references=(library, copy))
        op.versions, op.builtin = (low, high), name is None
        known._entries.setdefault(op.name, []).append(op)
        add(op)

    def find(name, number, version):
        op = known.find_op(name_of(name, number), version)
        return op and op.registration

    resolver = _Resolver(add=_add_t(copied), find=_find_t(find))
    begin = getattr(libraries.support("resolver"), "pl_resolver_begin", None)
    if begin is not None:
        begin(ctypes.byref(resolver))
    return resolver


class RegistererResolver(MutableOpResolver, int):
    """What custom_op_registerers get: a MutableOpResolver, and the address of a tflite::MutableOpResolver for C++."""

    def __new__(cls):
        library = libraries.support("resolver")
        if library is not None:
            library.pl_resolver_bind()      # the functions may be of libraries that were loaded before
        added = []
        resolver = _resolver(added.append, None)
        self = super().__new__(cls, ctypes.addressof(resolver))
        self._added, self._references = added, resolver
        return self

    def call(self, registerer):
        """Call a function that takes a resolver, and add the ops that it registers to this one."""
        registerer(self)
        for op in self._added:
            self.add_custom(op.name, op)
        self._added.clear()

    _added: list[NativeRegistration]
    _references: object


def global_function(name):
    """The C function `name` of any library that is loaded globally; AttributeError if there is none."""
    return functools.partial(libraries.call, getattr(ctypes.CDLL(None), name))


def _function(library, name, parameters, path):
    """The function `name` of C, or of C++ with these mangled parameter types."""
    for symbol in (name, mangled(name, parameters)):
        if hasattr(library, symbol):
            return getattr(library, symbol)
    return libraries.function(library, name, path)


def mangled(name, parameters):
    """The mangled C++ name of the function "f" or "space::f" with these parameter types; mangled names are kept."""
    if name.startswith("_Z"):
        return name
    parts = name.split("::")
    inner = "".join(f"{len(part)}{part}" for part in parts)
    return f"_Z{inner if len(parts) == 1 else f'N{inner}E'}{parameters}"
