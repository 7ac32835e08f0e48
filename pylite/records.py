"""Frozen records with slots: what dataclasses make, without generating code, which took half of the time to import."""

_REQUIRED = object()


class FrozenError(AttributeError):
    """A record cannot be changed; `replace` makes a changed copy."""


class _Record:
    __slots__ = ()
    _FIELDS = ()

    def __init__(self, *values, **named):
        fields = self._FIELDS
        if len(values) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} values, and {len(values)} were given")
        for (_, put, _), value in zip(fields, values, strict=False):
            put(self, value)
        for name, put, default in fields[len(values):]:
            value = named.get(name, default)
            if value is _REQUIRED:
                raise TypeError(f"{type(self).__name__} needs a value for {name}")
            put(self, value)
        if named and not named.keys() <= {name for name, _, _ in fields[len(values):]}:
            raise TypeError(f"{type(self).__name__} takes {', '.join(named)}, some of them twice or never")

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n, _, _ in self._FIELDS)})"

    def __setattr__(self, name, value):
        raise FrozenError(f"cannot change {name} of a {type(self).__name__}, which is frozen")

    def __delattr__(self, name):
        raise FrozenError(f"cannot delete {name} of a {type(self).__name__}, which is frozen")

    def __reduce__(self):
        return type(self), tuple(getattr(self, name) for name, _, _ in self._FIELDS)


def record(cls):
    """Make `cls` a frozen class with slots for its annotated names, which its constructor takes in their order.

    Values given in the class body are defaults, shared by all instances.
    """
    names = tuple(cls.__annotations__)
    body = {name: value for name, value in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")}
    made = type(cls.__name__, (_Record,), body | {"__slots__": names})
    made._FIELDS = tuple((name, vars(made)[name].__set__, vars(cls).get(name, _REQUIRED)) for name in names)
    return made


def replace(frozen, **changes):
    """A copy of a record with other values for the fields named."""
    return type(frozen)(**{name: getattr(frozen, name) for name, _, _ in frozen._FIELDS} | changes)
