"""Numbers and tables as text."""
import math
import sys

from pylite.cli import _terminal


def table(headers, rows, right=()):
    """The lines of a table; right: headers of the columns that are aligned to the right."""
    rows = [[str(cell) for cell in row] for row in rows]
    rich = _terminal.rich_table(headers, rows, right)
    if rich is not None:
        return rich
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    sides = [str.rjust if header in right else str.ljust for header in headers]
    lines = ["  ".join(side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)).rstrip()
             for row in (headers, *rows)]
    return [_terminal.styled(lines[0], "bold", sys.stdout), *lines[1:]]


def nbytes(count):
    """12 B, 3.40 kB, 1.25 MB: a kB has 1000 bytes."""
    return scaled(count, "B")


def scaled(count, unit=""):
    """1234567 -> "1.23 M" + unit."""
    for factor, prefix in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= factor:
            digits = 2 if count < 10 * factor else 1 if count < 100 * factor else 0
            return f"{count / factor:.{digits}f} {prefix}{unit}"
    return f"{count} {unit}".rstrip()


def seconds(duration):
    """0.0123 -> "12.3 ms"."""
    factor, unit = next((f, u) for f, u in ((1, "s"), (1e3, "ms"), (1e6, "us")) if duration * f >= 1 or u == "us")
    return f"{duration * factor:.3g} {unit}"


def counted(count, noun):
    """1 -> "1 thread", 2 -> "2 threads"; a noun in -s has its plural."""
    return f"{count} {noun}{'s' * (count != 1)}"


def shape(dims):
    return "[" + ", ".join(map(str, dims)) + "]"


def number(value):
    """A value with up to six significant digits."""
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    return str(value)


def shortened(text, width):
    """`text` with "..." in place of its beginning if it is longer than `width`: the ends of tensors' names differ."""
    return text if len(text) <= width else "..." + text[len(text) - width + 3:]


def few(indices):
    """The first eight of `indices`, and how many more there are."""
    shown = ", ".join(map(str, indices[:8]))
    return shown if len(indices) <= 8 else f"{shown} and {len(indices) - 8} more"


def replacement(index, delegate, nodes):
    """The nodes that a delegate's node replaces, as a sentence."""
    return f"node {index} of {delegate} replaces {len(nodes)}: {few(nodes)}"
