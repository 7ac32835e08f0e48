"""Helpers of custom ops: their options, which the file holds as a FlexBuffer."""
from pylite.schema import flex


def decoded(node):
    """The options as a dict."""
    return flex.decode(node.operator.custom_options, node.name)


def integer_option(node, name, least):
    """The option `name` as an int of at least `least`; 0 where it is absent."""
    value = decoded(node).get(name, 0)
    if not isinstance(value, (int, float)) or not least <= int(value) < 2**31:
        raise node.error(f"its option {name} is {value!r}, not a number of at least {least}")
    return int(value)
