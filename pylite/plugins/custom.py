"""The decorator `custom_op`, which registers ops in Python."""
from pylite.plugins.resolver import registered


def custom_op(name, version=None, *, shapes=None):
    """Decorator: register a CustomOp class, or a function, to run the op `name` in interpreters created from now on.

    name: a custom op's code, or the name of a builtin op to replace ("RELU"); version: a number or (lowest, highest),
    by default 1, or the versions of the op that is replaced.

    A function is an invoke(): it takes the inputs and the outputs to write.  Keyword-only parameters get the custom
    options of their names.  shapes(*shapes of the inputs, **options) -> shapes of the outputs, by default the
    broadcast shape of the inputs.
    """
    def register(implementation):
        low, high = (version, version) if isinstance(version, int) else version or (None, None)
        registered.add_custom(name, implementation, low, high, shapes=shapes)
        return implementation
    return register


def unregister(name):
    """Remove the ops that custom_op registered under `name`; KeyError if there are none."""
    registered.remove(name)
