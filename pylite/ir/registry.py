"""The registry of ops: each module of pylite.ops registers its own; there is no other list of them."""
import importlib
from functools import cache
from typing import TYPE_CHECKING

import pylite
from pylite.ir.dtypes import DTYPE_BITS

if TYPE_CHECKING:
    from typing import Any

    from pylite.ir.graph import Operator


class Op:
    """One registered op: plain functions and the types that it takes.

    versions: (lowest, highest); types: signatures such as "int8 int8 int32? -> int8" (see `register`).
    """
    attach: "Any" = None    # creates an Op for each node, for plug-ins with state per node; see plugins/resolver.py
    __slots__ = ("name", "versions", "types", "infer", "lower", "reference", "stateful", "blockwise",
                 "evaluate", "aliasing", "fuses_activation", "opaque", "conditions", "packs", "_matches")

    def __init__(self, name, versions, types, infer, lower, reference, stateful, blockwise=False, evaluate=None,
                 aliasing=None, fuses_activation=False, opaque=(), conditions=(), packs=None):
        self.name = name
        self.versions = versions
        self.types = types
        self.infer = infer
        self.lower = lower
        self.reference = reference
        self.stateful = stateful
        self.blockwise = blockwise
        self.evaluate = evaluate
        self.aliasing = aliasing
        self.fuses_activation = fuses_activation
        self.opaque = opaque
        self.conditions = conditions
        self.packs = packs
        self._matches: dict[tuple[Any, Any], bool] = {}

    def __copy__(self):
        other = object.__new__(Op)
        for slot in self.__slots__:
            setattr(other, slot, getattr(self, slot))
        return other

    def __repr__(self) -> str:
        return f"<op {self.name!r}, versions {self.versions[0]} to {self.versions[1]}>"

    def __reduce__(self):
        return _restore, (self.name, self.versions)

    def accepts(self, inputs: "tuple[str | None, ...]", outputs: "tuple[str | None, ...]") -> bool:
        """Do these data types (names, None for an absent input) fit one of the op's signatures?"""
        key = (inputs, outputs)
        known = self._matches.get(key)
        if known is None:
            known = self._matches[key] = any(matches(signature, inputs, outputs) for signature in self.types)
        return known

    def mismatch(self, inputs: "tuple[str | None, ...]",
                 outputs: "tuple[str | None, ...]") -> "tuple[int, set[str]] | None":
        """(operand, types that would fit with the other operands) if exactly one operand does not fit; else None.

        Operands are numbered: inputs first, then outputs.
        """
        dtypes, expected = (*inputs, *outputs), {}     # {operand: types}
        for signature in self.types:
            takes, gives = _parse(signature)
            patterns = [*_patterns(takes, len(inputs)), *_patterns(gives, len(outputs))]
            wrong = [i for i, (allowed, dtype) in enumerate(zip(patterns, dtypes, strict=True))
                     if dtype is not None and allowed is not None and dtype not in allowed]
            if len(wrong) == 1:
                expected.setdefault(wrong[0], set()).update(patterns[wrong[0]])
        return min(expected.items(), key=lambda item: item[0]) if expected else None


packages: "list[str]" = pylite.OP_PACKAGES      # packages whose modules register ops
_ops: "dict[str, Op]" = {}
_missing: "set[str]" = set()        # names that no module registers


def register(name, *, types, infer, lower=None, versions=(1, 1), reference=None, stateful=False, blockwise=False,
             evaluate=None, aliasing=None, fuses_activation=False, opaque=(), conditions=(), packs=None):
    """Register an op under its builtin or custom name.

    types: list of signatures "a b c? -> y": one word per operand, alternatives with `|`, `?` for an operand that may
    be absent, `*` after the last for any number, `any` for every type.
    infer(node) -> list of the outputs' shapes, or None if they depend on data.
    lower(node) -> Call, Alias, Constant or a list of them.
    evaluate(node, *arrays of the inputs, None if absent) -> list of the outputs' arrays: replaces lower if infer
    returned None.
    reference(*real arrays, options) -> the op's result on real numbers.
    stateful: the op has side effects or state, so it is never folded into constants.
    blockwise: the op supports operands with one scale per block; for other ops such operands are refused.
    fuses_activation: float32 results are clamped to the options' fused_activation_function, so a following RELU can be
    fused into the op.
    aliasing: "concat" if every input is a slice of the output, "split" if every output is a slice of the input, and all
    calls copy each element once: slice and full tensor may then share memory, see copy_elision.
    opaque: the inputs whose constant contents infer and lower never inspect, but only pass to the kernels.  Nodes that
    differ only in these are lowered once, see _core/graph/repeats.pyx.
    conditions: requirements on scales and zero points, as lines such as "int16: x y zero_point = 0"; conditions.py
    checks them before `lower`.
    packs: the input whose constant contents `lower` only wraps in Packed.  Weights that a DEQUANTIZE computes then need
    no memory as float32.
    """
    _ops[name] = Op(name, versions, types, infer, lower, reference, stateful, blockwise=blockwise, evaluate=evaluate,
                    aliasing=aliasing, fuses_activation=fuses_activation, opaque=opaque, conditions=conditions,
                    packs=packs)


def matches(signature: str, inputs: "tuple[str | None, ...]", outputs: "tuple[str | None, ...]") -> bool:
    """Do these data types fit the signature?"""
    takes, gives = _parse(signature)
    return _fits(takes, inputs) and _fits(gives, outputs)


def same(dtypes: str, inputs: int = 1, outputs: int = 1) -> "list[str]":
    """Signatures whose operands all have one type: same("int8 uint8", 2) -> ["int8 int8 -> int8", ...]."""
    return [" ".join([t] * inputs) + " -> " + " ".join([t] * outputs) for t in dtypes.split()]


def find(name: str) -> "Op | None":
    """The Op registered under `name`, or None."""
    op = _ops.get(name)
    if op is None and name not in _missing:
        for package in packages:
            module = _indexed(package).get(name)
            if module is not None:
                pylite._promote()       # the modules that were imported until now
                importlib.import_module(f"{package}.{module}")
                if name in _ops:
                    return _ops[name]
        names()
        op = _ops.get(name)
        if op is None:
            _missing.add(name)
    return op


class _Default:
    """The default resolver of interpreters: all ops registered so far."""
    entered: "Any" = None   # the OpResolver of ops that `custom_op` registers, set by pylite.plugins.resolver

    def find(self, operator: "Operator") -> "Any":
        """The Op for an Operator of a graph, or None.

        If only another version is registered, returns that: the caller checks versions, and its error can name this
        one.
        """
        entered = self.entered
        if entered is None:
            return find(operator.name)
        return entered.find_op(operator.name, operator.version) or find(operator.name) or entered.find(operator)

    def is_plain(self) -> bool:
        """Has `custom_op` registered nothing?"""
        return self.entered is None or not self.entered.names()

    def plugs(self) -> bool:
        return self.entered is not None and self.entered.plugs()


default: "_Default" = _Default()


def _restore(name, versions):
    op: Any = find(name)
    if op.versions != versions:
        op = op.__copy__()
        op.versions = versions
    return op


def names() -> "list[str]":
    """Every registered name, sorted."""
    import pkgutil  # on demand: it takes a millisecond, and running a model does not need it
    for package in packages:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            if not module.name.startswith("_"):
                importlib.import_module(f"{package}.{module.name}")
    return sorted(_ops)


@cache
def _indexed(package):
    """{op: module of the package that registers it}, written by ir/index_ops.py when pylite is built."""
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
    if names == "any":
        return None, optional, repeats
    types = frozenset(names.split("|"))
    if not types <= DTYPE_BITS.keys():
        import difflib  # for this message
        wrong = min(types - DTYPE_BITS.keys())
        close = difflib.get_close_matches(wrong, DTYPE_BITS, 1)
        raise ValueError(f"{wrong!r} is not a type; " + (f"did you mean {close[0]!r}?" if close else
                                                         f"the types are {', '.join(DTYPE_BITS)}"))
    return types, optional, repeats


def _patterns(pattern, count):
    """The types that each of `count` operands may have, None for any; nothing for operands beyond the pattern."""
    allowed = [names for names, _, _ in pattern[:count]]
    rest = pattern[-1][0] if pattern and pattern[-1][2] else frozenset()
    return allowed + [rest] * (count - len(allowed))


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
