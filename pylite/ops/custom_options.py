"""Helpers of custom ops: their options, which the file holds as a FlexBuffer."""
from pylite.schema import flex


def decoded(node):
    """The options as a dict; other FlexBuffers have none."""
    options = flex.decode(node.operator.custom_options, node.name)
    return options if isinstance(options, dict) else {}


def number_option(node, options, name, default=0.0):
    """The option `name` of the dict `options` as it is there: a number, which may be infinite."""
    value = options.get(name, default)
    if not isinstance(value, (int, float)) or value != value:
        raise node.error(f"its option {name} is {value!r}, not a number")
    return value


def integer_option(node, options, name, least, default=0):
    """The option `name` of the dict `options` as an int of at least `least`."""
    value = number_option(node, options, name, default)
    if not least <= value < 2**31:
        raise node.error(f"its option {name} is {value!r}, not a number of at least {least} and below 2^31")
    return int(value)
