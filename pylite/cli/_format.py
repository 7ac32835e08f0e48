"""Numbers and tables as text."""
import itertools
import math
import os
import re
import sys
import textwrap

from pylite.cli import _terminal
from pylite.display import text_table
from pylite.errors import counted as counted

LEAST = 3       # least number of characters in a column that is made narrower
BETWEEN = 3     # spaces between cells below a row
WORD = re.compile(r"\[[^]]*\]|\S+")      # a shape such as [1, 8] is one word
NAMELESS = "(no name)"          # instead of the name of a tensor that has none
NAME = 50       # most characters of a file's name in a heading


def table(headers, rows, right=(), optional=(), verbose=False):
    """The lines of a table; right: headers of the columns that are aligned to the right.

    If there is too little room, columns of `optional` are dropped, the first ones first.  With `verbose` their cells
    follow below each row, with their headers; otherwise a note names the columns.  Cells that are still too long take
    several lines.
    """
    headers, rows = list(headers), [[str(cell) for cell in row] for row in rows]
    space = _terminal.table_width()
    taken = sorted(_left_out(headers, rows, optional, space))
    heads, *groups = _row_lines(_without(headers, taken), [_without(row, taken) for row in rows], right, space)
    if not taken:
        return [*heads, *itertools.chain(*groups)]
    if verbose:
        indent = min(text_table.GAP + max(len(_without(row, taken)[0]) for row in (headers, *rows)), space // 4)
        below = [_below([(headers[place], row[place]) for place in taken if row[place]], indent, space) for row in rows]
        return [*heads, *itertools.chain(*map(itertools.chain, groups, below))]
    note = f"(--verbose shows {', '.join(dict.fromkeys(headers[place] for place in taken))})"
    return [*heads, *itertools.chain(*groups), *textwrap.wrap(note, max(space, LEAST))]


def _without(row, places):
    return [cell for place, cell in enumerate(row) if place not in places]


def _left_out(headers, rows, optional, space):
    """The places of the columns of `optional` for which there is no room."""
    sizes, left_out = text_table.widths(headers, rows), []

    def total():
        return text_table.total([size for place, size in enumerate(sizes) if place not in left_out])

    for name in optional:
        for place in [place for place, header in enumerate(headers) if header == name and place not in left_out][:1]:
            if total() > space:
                left_out.append(place)
    for place in reversed(left_out.copy()):     # a wide column may have made room for columns dropped before
        left_out.remove(place)
        if total() > space:
            left_out.append(place)
    return left_out


def _row_lines(headers, rows, right, space):
    """The lines of the headers, then those of each row, in columns for which `space` suffices."""
    widths = text_table.widths(headers, rows)
    unbroken = [width if header in right else max(len(word) for cell in column for word in WORD.findall(cell) or [""])
                for header, width, column in zip(headers, widths, zip(headers, *rows, strict=True), strict=True)]
    for least in unbroken, [LEAST] * len(headers):      # break between words, if that suffices
        _narrow(widths, least, space)
    bold, *groups = text_table.lines(headers, rows, right, widths)
    yield [_terminal.styled(line, "bold", sys.stdout) for line in bold]
    for group, row in zip(groups, rows, strict=True):
        yield [_terminal.coloured_end(line, row[-1]) for line in group]


def _below(cells, indent, space):
    """Lines of "header: cell", as many in each as there is room for."""
    lines = []
    for header, cell in cells:
        text = f"{header}: {cell}"
        if lines and indent + len(lines[-1]) + BETWEEN + len(text) <= space:
            lines[-1] += " " * BETWEEN + text
        else:
            lines.append(text)
    for text in lines:
        yield from textwrap.wrap(text, max(space, indent + LEAST), initial_indent=" " * indent,
                                 subsequent_indent=" " * (indent + text_table.GAP), break_on_hyphens=False)


def _narrow(widths, least, space):
    """Make a table's columns narrower, the widest first, until `space` suffices or all have their width in `least`."""
    while text_table.total(widths) > space:
        width, place = max((width, place) if width > least[place] else (0, place) for place, width in enumerate(widths))
        if not width:
            return
        widths[place] -= 1


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
    return f"{rounded(duration * factor)} {unit}"


def rounded(value):
    """A positive number with three significant digits, and all of them before the point: 0.123, 12.3, 1230."""
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if value >= 1 and "e" in text else text


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


def file_name(path, verbose=False):
    """A file's name for a heading: without the folder, and shortened in its middle; verbose: the whole path."""
    name = os.path.basename(os.path.normpath(path))
    if verbose or len(name) <= NAME:
        return path if verbose else name
    return f"{name[:NAME // 2 - 3]}...{name[-NAME // 2:]}"


def few(values, count=None):
    """The first eight of `values`, and how many more there are of `count`, by default their number."""
    shown = values[:8]
    more = (len(values) if count is None else count) - len(shown)
    return ", ".join(map(str, shown)) + (f" and {more} more" if more > 0 else "")


def replacement(index, delegate, nodes):
    """The nodes that a delegate's node replaces, as a sentence."""
    return f"node {index} of {delegate} replaces {len(nodes)}: {few(nodes)}"
