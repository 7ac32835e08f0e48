"""The registry of ops: each module of ops enters its own, nothing else lists them."""
import importlib
from functools import cache


class Op:
    """One registered op: plain functions and the types that it takes.

    versions: (lowest, highest); types: signatures such as "int8 int8 int32? -> int8" (see `register`).
    """
    attach = None       # makes the Op of one node, where ops have a state; see PythonRegistration in plugins
    __slots__ = ("name", "versions", "types", "infer", "lower", "reference", "stateful", "blockwise",
                 "evaluate", "parts", "clamps", "_matches")

    def __init__(self, name, versions, types, infer, lower, reference, stateful, blockwise=False, evaluate=None,
                 parts=None, clamps=False):
        self.name = name
        self.versions = versions
        self.types = types
        self.infer = infer
        self.lower = lower
        self.reference = reference
        self.stateful = stateful
        self.blockwise = blockwise
        self.evaluate = evaluate
        self.parts = parts
        self.clamps = clamps
        self._matches = {}

    def __copy__(self):
        other = object.__new__(Op)
        for slot in self.__slots__:
            setattr(other, slot, getattr(self, slot))
        return other

    def __reduce__(self):
        return _restored, (self.name, self.versions)

    def accepts(self, inputs, outputs):
        """Do these data types (names, None for an absent input) fit one of the op's signatures?"""
        key = (inputs, outputs)
        known = self._matches.get(key)
        if known is None:
            known = self._matches[key] = any(matches(signature, inputs, outputs) for signature in self.types)
        return known


packages = []           # names of the packages whose modules register ops; each enters itself
_ops = {}
_missing = set()        # names that were looked for in every module


def register(name, *, types, infer, lower=None, versions=(1, 1), reference=None, stateful=False, blockwise=False,
             evaluate=None, parts=None, clamps=False):
    """Enter an op under its builtin or custom name.

    types: list of signatures "a b c? -> y": one word per operand, alternatives with `|`, `?` for an operand that may
    be absent, `*` after the last for any number, `any` for every type.
    infer(node) -> list of the outputs' shapes, or None where only their contents tell them.
    lower(node) -> Call, Alias, Constant or a list of them.
    evaluate(node, *arrays of the inputs, None where absent) -> list of the outputs' arrays: instead of lower where
    infer gave None.
    reference(*real arrays, options) -> what the op means, on real numbers.
    stateful: has an effect or memory of its own, so it is never folded.
    blockwise: looks at the blocks of operands whose scales are given block by block; other ops never see such operands.
    clamps: float32 results end within the options' fused_activation_function, which a RELU behind the op then becomes.
    parts: "joined" or "cut" where its calls do nothing but copy each element of an output once, and its inputs are
    parts of its output, or the other way round: they may then lie in one memory, see copy_elision.
    """
    _ops[name] = Op(name, versions, types, infer, lower, reference, stateful, blockwise, evaluate, parts, clamps)


def matches(signature, inputs, outputs):
    """Do these data types fit the signature?"""
    takes, gives = _parse(signature)
    return _fits(takes, inputs) and _fits(gives, outputs)


def same(dtypes, inputs=1, outputs=1):
    """Signatures whose operands all have one type: same("int8 uint8", 2) -> ["int8 int8 -> int8", ...]."""
    return [" ".join([t] * inputs) + " -> " + " ".join([t] * outputs) for t in dtypes.split()]


def find(name):
    """The Op registered under `name`, or None."""
    found = _ops.get(name)
    if found is None and name not in _missing:
        for package in packages:
            module = _indexed(package).get(name)
            if module is not None:
                importlib.import_module(f"{package}.{module}")
                if name in _ops:
                    return _ops[name]
        names()
        found = _ops.get(name)
        if found is None:
            _missing.add(name)
    return found


class _Default:
    """The resolver of interpreters that are given none: what is registered at the time."""
    entered = None      # the OpResolver of what `custom_op` registers, once anybody has imported it

    def find(self, operator):
        """The Op for an Operator of a graph; one of another version, which an error can name, failing that; or None."""
        entered = self.entered
        if entered is None:
            return find(operator.name)
        return entered.find_op(operator.name, operator.version) or find(operator.name) or entered.find(operator)

    def plugs(self):
        return self.entered is not None and self.entered.plugs()


default = _Default()


def _restored(name, versions):
    op = find(name)
    if op.versions != versions:
        op = op.__copy__()
        op.versions = versions
    return op


def names():
    """Every registered name, sorted."""
    import pkgutil  # takes a millisecond, which running a model need not pay
    for package in packages:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{package}.{module.name}")
    return sorted(_ops)


@cache
def _indexed(package):
    """{op: module of the package that registers it}, as noted when pylite was built (ir/index_ops.py)."""
    return importlib.import_module(package + "._index").MODULES


@cache
def _parse(signature):
    sides = signature.split("->")
    return tuple(tuple(_operand(word) for word in side.split()) for side in sides)


@cache
def _operand(word):
    repeats = word.endswith("*")
    optional = word.endswith("?")
    names = word.rstrip("*?")
    return (None if names == "any" else frozenset(names.split("|"))), optional, repeats


def _fits(pattern, dtypes):
    position = 0
    for allowed, optional, repeats in pattern:
        if repeats:
            return all(d is None or allowed is None or d in allowed for d in dtypes[position:])
        dtype = dtypes[position] if position < len(dtypes) else None
        position += 1
        if dtype is None:
            if not optional:
                return False
        elif allowed is not None and dtype not in allowed:
            return False
    return all(d is None for d in dtypes[position:])
