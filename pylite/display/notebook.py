"""HTML for models and their details in notebooks.  All text from files is escaped."""
from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Any

    from pylite.ir.graph import Model, Tensor

ROWS = 100      # most rows of a table
NAME = 60       # most characters of a text


def table(headers: "Iterable[str]", rows: "Sequence[Sequence[Any]]") -> str:
    """An HTML table of the first ROWS rows."""
    lines = "".join("<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows[:ROWS])
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    more = f"<p>and {len(rows) - ROWS} more</p>" if len(rows) > ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>{more}"


class Markup(str):
    """HTML among lines of text."""


def rows(headers: "Iterable[str]", cells: "Sequence[Sequence[Any]]", right: "Collection[str]" = (),
         optional: "Sequence[str]" = ()) -> "list[str]":
    """As `table` of text_table.py; the only line is HTML, for text()."""
    return [Markup(table(headers, cells))]


def text(lines: "Iterable[str]") -> str:
    """Lines as HTML: a paragraph for each, in which every character stands for itself; Markup as it is."""
    return "".join(line if isinstance(line, Markup) else f"<p>{escape(line.strip())}</p>" for line in lines if line)


def _cell(value: "Any") -> str:
    if value is None:
        return ""
    if isinstance(value, (list, tuple, np.ndarray)):
        return "[" + ", ".join(map(_cell, value)) + "]"
    text = value.__name__ if isinstance(value, type) else f"{value:.6g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= NAME else "..." + text[3 - NAME:])


def details(rows: "Sequence[Any]") -> str:
    """A table of the dictionaries of tensors or nodes, without nested dictionaries."""
    headers = [key for key, value in rows[0].items() if not isinstance(value, dict)] if rows else []
    return table(headers, [[row[header] for header in headers] for row in rows])


def model(graph: "Model", **more: "Any") -> str:
    """A model: inputs, outputs and counts of ops.  more: other facts by name."""
    main = graph.subgraphs[0]
    counts: dict[str, int] = {}
    for operator in main.operators:
        counts[operator.name] = counts.get(operator.name, 0) + 1
    facts = {"ops": ", ".join(f"{count} {name}" for name, count in counts.items()),
             "weights": f"{sum(t.data.nbytes for t in main.tensors if t.data is not None):,} bytes", **more}
    if len(graph.subgraphs) > 1:
        facts["subgraphs"] = len(graph.subgraphs)
    ends = [(word, i, *_described(main.tensors[i])) for word, indices in (
        ("input", main.inputs), ("output", main.outputs)) for i in indices if i >= 0]
    lines = "".join(f"<br>{escape(name)}: {escape(str(value))}" for name, value in facts.items())
    return (f"<p><b>{escape(graph.description or 'TensorFlow Lite model')}</b>{lines}</p>"
            + table(("", "tensor", "name", "type", "shape"), ends))


def _described(tensor: "Tensor") -> "tuple[Any, ...]":
    return tensor.name, tensor.dtype, tensor.shape_signature
