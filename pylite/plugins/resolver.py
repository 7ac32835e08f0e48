"""Op resolvers: which ops an interpreter has, by name and version."""
from pylite.ir import registry


class OpResolver:
    """Finds the op for a name and version.  Empty; MutableOpResolver can be filled, BuiltinOpResolver has all.

    A resolver is read when an Interpreter is created, which refuses models that need other ops, naming them all.
    """

    def __init__(self):
        self._entries = {}      # name -> list of ops, the latest last

    def find_op(self, name, version=1):
        """The op registered for `name` and `version`, or None."""
        for op in reversed(self._entries.get(name, ())):
            if op.versions[0] <= version <= op.versions[1]:
                return op
        return None

    def find(self, operator):
        """The op for an Operator of a graph; one of another version, which an error can name, failing that; or None."""
        entries = self._entries.get(operator.name)
        return entries and (self.find_op(operator.name, operator.version) or entries[-1])

    def names(self):
        """The names that are registered, sorted."""
        return sorted(self._entries)

    def plugs(self):
        """Is any op hosted, so that it has a state of its own for each node?"""
        return any(op.attach for entries in self._entries.values() for op in entries)


class MutableOpResolver(OpResolver):
    """An OpResolver to fill with the ops that models need; what is added later goes before what was there."""

    def add_builtin(self, name, registration=None, min_version=None, max_version=None, *, shapes=None):
        """Add the builtin op `name` ("CONV_2D") in all its versions, or the one, or the range given.

        registration: what runs it instead of pylite's own, as for add_custom().
        """
        self._add(name, registration, min_version, max_version, shapes)

    def add_custom(self, name, registration=None, min_version=None, max_version=None, *, shapes=None):
        """Add the custom op `name` in version 1, or the one, or the range given.

        registration: a CustomOp class, a function, or whatever else runs it; None for what is registered already, be
        it in pylite or by `custom_op`.  shapes: as for `custom_op`.
        """
        self._add(name, registration, min_version, max_version, shapes)

    def add_all(self, other):
        """Add everything that another resolver has."""
        for name, entries in other._entries.items():
            self._entries.setdefault(name, []).extend(entries)

    def remove(self, name):
        """Take out every version of `name`; KeyError when there is none."""
        del self._entries[name]

    def _add(self, name, registration, low, high, shapes):
        if registration is None:
            op = registered.find_op(name, low or 1) or registry.find(name)
            if op is None:
                raise ValueError(f"no op {name!r} is registered; pass what shall run it as `registration`")
        elif hasattr(registration, "attach"):
            op = registration
        else:
            from pylite.plugins.python_ops import Registration
            op = Registration(name, registration, shapes=shapes)
        if low is not None or high is not None:
            import copy  # costs more than the rest of this module, and is seldom wanted
            op = copy.copy(op)
            low = 1 if low is None else low
            op.versions = (low, low if high is None else high)
        self._entries.setdefault(name, []).append(op)


class BuiltinOpResolver(MutableOpResolver):
    """A MutableOpResolver that has every op of pylite and every one registered by `custom_op` so far."""

    def __init__(self):
        super().__init__()
        for name in registry.names():
            self._entries[name] = [registry.find(name)]
        self.add_all(registered)


registered = registry.default.entered = MutableOpResolver()     # by custom_op
