"""Op resolvers: the ops of an interpreter, by name and version."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.ir import registry
from pylite.schema.tables import enum_numbers

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pylite.ir.graph import Operator
    from pylite.plugins.protocols import OutputShapes


def is_builtin(name: str) -> bool:
    """Is this the name of a builtin op of the model format?"""
    return name in enum_numbers("BuiltinOperator")


class OpResolver:
    """Finds the op for a name and version.  This base class is empty: fill a MutableOpResolver or a BuiltinOpResolver.

    An Interpreter reads its resolver when it is created, and raises an error that names all ops that are missing.
    """

    def __init__(self) -> None:
        self._entries: dict[str, list[Any]] = {}    # name -> list of ops, the latest last

    def __repr__(self) -> str:
        count = len(self._entries)
        return f"<{type(self).__name__} of {count} op{'s' * (count != 1)}>"

    def find_op(self, name: str, version: int = 1) -> Any:
        """The op registered for `name` and `version`, or None."""
        for op in reversed(self._entries.get(name, ())):
            if op.versions[0] <= version <= op.versions[1]:
                return op
        return None

    def find(self, operator: Operator) -> Any:
        """The op for an Operator of a graph, if need be of another version, which errors then name; or None."""
        entries = self._entries.get(operator.name)
        return entries and (self.find_op(operator.name, operator.version) or entries[-1])

    def names(self) -> list[str]:
        """All registered names, sorted."""
        return sorted(self._entries)

    def plugs(self) -> bool:
        """True if any op is a plug-in, which has an Op of its own for each node."""
        return any(op.attach for entries in self._entries.values() for op in entries)


class MutableOpResolver(OpResolver):
    """An OpResolver to fill with the ops that models need.  An op that is added later takes precedence."""

    def add_builtin(self, name: str, registration: Any = None, min_version: int | None = None,
                    max_version: int | None = None, *, shapes: Callable[..., OutputShapes] | None = None) -> None:
        """Add the builtin op `name` ("CONV_2D"): all its versions, or one, or a range of them.

        registration: an implementation that replaces pylite's, as for add_custom().

        Raises ValueError for a name that no builtin op has.
        """
        if not is_builtin(name):
            import difflib  # takes longer than the rest
            close = difflib.get_close_matches(str(name).upper(), enum_numbers("BuiltinOperator"), 1)
            raise ValueError(f"there is no builtin op {name!r}; "
                             + (f"did you mean {close[0]!r}?" if close else "add_custom() adds ops of other names"))
        self._add(name, registration, min_version, max_version, shapes)

    def add_custom(self, name: str, registration: Any = None, min_version: int | None = None,
                   max_version: int | None = None, *, shapes: Callable[..., OutputShapes] | None = None) -> None:
        """Add the custom op `name`: version 1, or another one, or a range of them.

        registration: a CustomOp class, a function, or the result of from_pointers() or load_custom_ops(); None for the
        op that pylite has or that `custom_op` registered.  shapes: as for `custom_op`.

        Raises ValueError for the name of a builtin op, which a model's custom op cannot have.
        """
        if is_builtin(name) and not getattr(registration, "builtin", False):
            raise ValueError(f"{name!r} is the name of a builtin op: give the custom op another name, or call "
                             f"add_builtin({name!r}, ...) to replace the builtin op")
        self._add(name, registration, min_version, max_version, shapes)

    def add_all(self, other: OpResolver) -> None:
        """Add all ops of another resolver."""
        for name, entries in other._entries.items():
            self._entries.setdefault(name, []).extend(entries)

    def remove(self, name: str) -> None:
        """Remove all versions of `name`; KeyError if there is none."""
        if name not in self._entries:
            raise KeyError(f"no op {name!r} is registered")
        del self._entries[name]

    def _add(self, name: str, registration: Any, low: int | None, high: int | None,
             shapes: Callable[..., OutputShapes] | None) -> None:
        if registration is None:
            op: Any = registered.find_op(name, low or 1) or registry.find(name)
            if op is None:
                raise ValueError(f"no op {name!r} is registered; pass its implementation as `registration`")
        elif hasattr(registration, "attach"):
            op = registration
        else:
            from pylite.plugins.python_ops import PythonRegistration
            op = PythonRegistration(name, registration, shapes=shapes)
        if low is not None or high is not None:
            import copy  # imported on demand: it takes longer than the rest of this module
            op = copy.copy(op)
            low = 1 if low is None else low
            high = low if high is None else high
            if not 1 <= low <= high:
                raise ValueError(f"op {name!r}: versions {low} to {high} are impossible; versions begin with 1")
            op.versions = (low, high)
        self._entries.setdefault(name, []).append(op)


class BuiltinOpResolver(MutableOpResolver):
    """A MutableOpResolver with every op of pylite and every op that `custom_op` has registered so far."""

    def __init__(self) -> None:
        super().__init__()
        for name in registry.names():
            self._entries[name] = [registry.find(name)]
        self.add_all(registered)


registered = registry.default.entered = MutableOpResolver()     # the ops of custom_op()
