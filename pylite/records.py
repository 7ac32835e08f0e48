"""Frozen records: tuples whose elements have names and that are equal only to themselves.

They are made in one step, from values by position, and need no generated code: dataclasses took half of the time to
import, and setting slots one by one a third of the time to load.
"""
from operator import itemgetter

_REQUIRED = object()


class FrozenError(AttributeError):
    """A record cannot be changed; `replace` makes a changed copy."""


class Frozen(tuple):
    """The base of a record: its annotated names are what its constructor takes, in their order.

    Values given in the class body are defaults, shared by all instances.  It needs `__slots__ = ()`.
    """
    __slots__ = ()
    _FIELDS = ()        # (name, default)

    def __init_subclass__(cls):
        names = cls.__annotations__
        cls._FIELDS = tuple([(name, vars(cls).get(name, _REQUIRED)) for name in names])
        for i, name in enumerate(names):
            setattr(cls, name, property(itemgetter(i)))

    def __new__(cls, *values, **named):
        if named or len(values) != len(cls._FIELDS):
            values = cls._completed(list(values), named)
        return tuple.__new__(cls, values)

    @classmethod
    def _completed(cls, values, named):
        """All values in order: after those given by position, those given by name and the defaults."""
        if len(values) > len(cls._FIELDS):
            raise TypeError(f"{cls.__name__} takes {len(cls._FIELDS)} values, and {len(values)} were given")
        for name, default in cls._FIELDS[len(values):]:
            value = named.pop(name, default)
            if value is _REQUIRED:
                raise TypeError(f"{cls.__name__} needs a value for {name}")
            values.append(value)
        if named:
            raise TypeError(f"{cls.__name__} takes {', '.join(named)} twice or never")
        return values

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n, _ in self._FIELDS)})"

    def __setattr__(self, name, value):
        raise FrozenError(f"cannot change {name} of a {type(self).__name__}, which is frozen")

    def __delattr__(self, name):
        raise FrozenError(f"cannot delete {name} of a {type(self).__name__}, which is frozen")

    def __reduce__(self):
        return type(self), tuple(self)


def replace(frozen, **changes):
    """A copy of a record with other values for the fields named."""
    return type(frozen)(**dict(zip(dict(frozen._FIELDS), frozen, strict=True)) | changes)
