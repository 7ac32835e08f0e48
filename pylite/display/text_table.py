"""Formats tables as text: one line per row, or several if a column is narrower than its cells."""
from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any

    Table = Callable[..., list[str]]        # table() below, or one that knows the width of a terminal

GAP = 2         # spaces between columns


def table(headers: Sequence[str], rows: Sequence[Sequence[Any]], right: Collection[str] = (),
          optional: Sequence[str] = ()) -> list[str]:
    """The lines of a table, its headers first, with columns as wide as their longest cells.

    right: headers of the right-aligned columns; optional: headers of the columns that a narrow terminal would omit
    (this function shows them).
    """
    cells = [[str(cell) for cell in row] for row in rows]
    return [line for group in lines(headers, cells, right, widths(headers, cells)) for line in group]


def widths(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """The length of the longest cell of each column."""
    return [max(map(len, column)) for column in zip(headers, *rows, strict=True)]


def total(sizes: Sequence[int]) -> int:
    """The width of a table with columns of these widths."""
    return sum(sizes) + GAP * (len(sizes) - 1)


def lines(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str],
          sizes: Sequence[int]) -> Iterator[list[str]]:
    """The lines of the headers, then of each row; cells wider than their column are folded."""
    sides = [str.rjust if header in right else str.ljust for header in headers]
    for row in (headers, *rows):
        yield [(" " * GAP).join(side(cell, size) for side, cell, size in zip(sides, part, sizes, strict=True)).rstrip()
               for part in _parts(row, sizes)]


def _parts(row: Sequence[str], sizes: Sequence[int]) -> Iterator[tuple[str, ...]]:
    cut = [textwrap.wrap(cell, size) if len(cell) > size else [cell] for cell, size in zip(row, sizes, strict=True)]
    return itertools.zip_longest(*cut, fillvalue="")
