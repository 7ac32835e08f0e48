"""Checks that an op's Python function or class takes what its node passes, before the first run."""
from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pylite.ir.values import Node


def check(node: Node, call: Callable[..., Any], temporaries: int | None, options: Any = None) -> None:
    """Raise the OpError that says what `call` must take, unless it takes the arrays of `node`.

    temporaries: how many arrays it gets after the inputs and outputs; None: it gets the inputs alone, as evaluate().
    options: the node's, if they are known.
    """
    count = len(node.inputs) if temporaries is None else len(node.inputs) + len(node.outputs) + temporaries
    signature = _signature(call)
    if signature is None or _binds(signature, count):
        return
    options = options if isinstance(options, dict) else {}
    missing = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if missing and _binds(signature, count, dict.fromkeys(missing)):
        raise node.error(f"it has no option {', '.join(map(repr, missing))} (its options: "
                         f"{', '.join(map(repr, options)) or 'none'}), and {_name(call)}{signature} needs it; give the "
                         f"parameter a default, such as {missing[0]}=1")
    parts = [(len(node.inputs), "input", "x"), *([] if temporaries is None else [
        (len(node.outputs), "output", "y"), (temporaries, "temporary", "t")])]
    gets = [f"{n} {word if n == 1 else word.replace('ary', 'arie') + 's'}" for n, word, _ in parts if n]
    names = [letter if n == 1 else f"{letter}{i}" for n, _, letter in parts for i in range(n)]
    self = ["self"] if inspect.ismethod(call) else []
    body = "..." if temporaries is not None else f"return {names[0] if names else 'y'}"
    raise node.error(f"{_name(call)}{signature} does not take the arrays of the node, "
                     f"{' and '.join(filter(None, [', '.join(gets[:-1]), *gets[-1:]])) or 'none'}; write it as "
                     f"def {getattr(call, '__name__', 'f')}({', '.join([*self, *names])}): {body}")


def takes_options(make: Callable[..., Any]) -> bool:
    """May `make` be called with the options of a node?"""
    signature = _signature(make)
    return signature is None or _binds(signature, 1)


def _signature(call: Callable[..., Any]) -> inspect.Signature | None:
    """What a callable takes; None where Python cannot tell, as of many functions in C."""
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):
        return None


def _binds(signature: inspect.Signature, count: int, names: dict[str, Any] | None = None) -> bool:
    try:
        signature.bind(*[None] * count, **(names or {}))
    except TypeError:
        return False
    return True


def _name(call: Any) -> str:
    """A function's or method's name with that of its class; of a partial, that of its function."""
    call = getattr(call, "func", call)
    return str(getattr(call, "__qualname__", type(call).__name__)).rpartition("<locals>.")[2]
