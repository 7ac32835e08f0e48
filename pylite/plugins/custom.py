"""Registering ops in Python: the decorator `custom_op`."""
from pylite.plugins.resolver import registered


def custom_op(name, version=None, *, shapes=None):
    """Decorator: register a CustomOp class, or a function, to run the op `name` in interpreters created from now on.

    name: a custom op's code, or a builtin op's name ("RELU") to replace it; version: a number or (lowest, highest),
    by default 1, or those of the op that is replaced.

    A function is an invoke(): it takes the inputs and the outputs to write into.  Keyword-only parameters get the
    custom options of their names.  shapes(*shapes of the inputs, **options) -> shapes of the outputs, by default the
    shape that the inputs have in common.
    """
    def register(implementation):
        low, high = (version, version) if isinstance(version, int) else version or (None, None)
        registered.add_custom(name, implementation, low, high, shapes=shapes)
        return implementation
    return register


def unregister(name):
    """Forget what custom_op registered under `name`; KeyError when there is nothing."""
    registered.remove(name)
