"""The decorator `custom_op`, which registers ops in Python."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.plugins.resolver import is_builtin, registered

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from pylite.plugins.protocols import OutputShapes

    _Implementation = TypeVar("_Implementation", bound=Callable[..., Any])


def custom_op(name: str, version: int | tuple[int, int] | None = None, *,
              shapes: Callable[..., OutputShapes] | None = None) -> Callable[[_Implementation], _Implementation]:
    """Decorator: register a CustomOp class, or a function, to run the op `name` in interpreters created from now on.

    name: a custom op's code, or the name of a builtin op to replace ("RELU"); version: a number or (lowest, highest),
    by default 1, or the versions of the op that is replaced.

    A function is an invoke(): it takes the inputs and the outputs to write.  Keyword-only parameters get the custom
    options of their names.  shapes(*shapes of the inputs, **options) -> shapes of the outputs, by default the
    broadcast shape of the inputs.
    """
    if not isinstance(name, str):
        raise TypeError(f"custom_op needs the name of the op, not {name!r}: write @custom_op(\"Name\")")
    pair = (version, version) if isinstance(version, int) else (None, None) if version is None else version
    if not (isinstance(pair, tuple) and len(pair) == 2 and (version is None or all(isinstance(n, int) for n in pair))):
        raise TypeError(f"version is a whole number, or a tuple of the lowest and the highest, not {version!r}")
    if shapes is not None and not callable(shapes):
        raise TypeError(f"shapes is a function of the inputs' shapes, not {shapes!r}")

    def register(implementation: _Implementation) -> _Implementation:
        low, high = pair
        add = registered.add_builtin if is_builtin(name) else registered.add_custom
        add(name, implementation, low, high, shapes=shapes)
        return implementation
    return register


def unregister(name: str) -> None:
    """Remove the ops that custom_op registered under `name`; KeyError if there are none."""
    registered.remove(name)
