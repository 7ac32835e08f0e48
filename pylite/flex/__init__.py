"""TensorFlow's own ops, which a converted model contains under the prefix Flex (SELECT_TF_OPS), in numpy.

    from pylite import flex
    flex.register()                     # for every interpreter that is created from now on

pylite has the ops that audio models and detectors use; `names()` lists them.  They are not registered by default: a
model that needs one raises an error that says so.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pylite.ir.flex_ops import HOMES, PREFIX
from pylite.plugins.resolver import MutableOpResolver, registered

if TYPE_CHECKING:
    from pylite.flex.op import FlexOp

__all__ = ["add_to", "names", "ops", "register"]


def __dir__() -> list[str]:
    """The public names, for completion in a shell."""
    return [*__all__]


def names() -> list[str]:
    """The custom codes of the available ops, sorted: "FlexErf", "FlexRFFT", ..."""
    return sorted(PREFIX + name for ops in HOMES.values() for name in ops)


def register(*chosen: str) -> None:
    """Register these ops, by default all, for every interpreter that is created from now on.

    chosen: custom codes such as "FlexErf"; ValueError if pylite.flex lacks one.  An op that the program has registered
    under the same name stays.
    """
    for name, op in ops(*chosen).items():
        if registered.find_op(name) is None:
            registered.add_custom(name, op)


def add_to(resolver: MutableOpResolver, *chosen: str) -> None:
    """Add these ops, by default all, to a resolver, for interpreters that are created with it."""
    for name, op in ops(*chosen).items():
        resolver.add_custom(name, op)


def ops(*chosen: str) -> dict[str, type[FlexOp]]:
    """{custom code: class, a pylite.CustomOp} of these ops, by default of all."""
    from pylite.flex.op import OPS
    for module in HOMES:
        importlib.import_module(f"pylite.flex.{module}")
    lacking = [name for name in chosen if name not in OPS]
    if lacking:
        import difflib  # only for the error
        meant = {each for name in lacking for each in
                 difflib.get_close_matches(f"Flex{name.removeprefix('Flex')}", OPS, cutoff=0.8)}
        known = f"did you mean {' or '.join(sorted(meant))}?" if meant else f"it has {', '.join(names())}"
        raise ValueError(f"pylite.flex has no {' or '.join(lacking)}; {known}")
    return {name: OPS[name] for name in chosen or OPS}
