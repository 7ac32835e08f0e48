"""Renders the page of docs/measurements from a JSON file for each table.

    python benchmarks/measurements.py

renders the page again.  A benchmark that is called with --write replaces its file and renders the page.
"""
import json
import math
import os
import platform
import statistics
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "measurements"
PAGE = FOLDER / "README.md"
HEAD = """# Measurements

The tables behind [performance](../performance.md) and [on Arm](../arm.md), drawn from the JSON files in this folder by
`python benchmarks/measurements.py`. Each table names the command that measures it again; with `--write`, the command
replaces the file. The peer is LiteRT (`ai-edge-litert` 2.3.0) with XNNPACK, as it is installed. A *ratio* is the peer's
time over pylite's: above 1 if pylite is faster.
"""


def write(name, title, command, headers, rows, note=""):
    """Replace the measurement `name` by a table that was measured on this machine now; rows: lists of text."""
    table = {"title": title, "command": command, "machine": machine(), "date": time.strftime("%Y-%m-%d"),
             "note": note, "headers": list(headers), "rows": [list(row) for row in rows]}
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in table.pop("rows"))
    head = json.dumps(table, ensure_ascii=False, indent=1)
    (FOLDER / f"{name}.json").write_text(f'{head[:-2]},\n "rows": [\n{rows}\n]}}\n')
    PAGE.write_text(page())


def machine():
    """This machine in one line: CPU, cores, load."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
                 platform.machine())
    load = os.getloadavg()[0]
    return (f"{os.cpu_count()} cores of {model} ({_level()}), Python {platform.python_version()}, "
            f"load average {load:.1f}")


def _level():
    from pylite._core import simd
    return simd.current


def page():
    """The text of the page."""
    tables = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    return HEAD + "".join(map(section, tables))


def section(table):
    """One table in Markdown, with geometric means of its columns of ratios."""
    headers, rows = table["headers"], table["rows"]
    right = [all(number(row[i]) is not None or not row[i] for row in rows) for i in range(len(headers))]
    lines = [headers, ["---:" if r else "---" for r in right], *rows, *means(headers, rows)]
    note = f"\n{table['note']}\n" if table["note"] else ""
    return (f"\n## {table['title']}\n\n`{table['command']}`\n\n{table['machine']}; {table['date']}.\n{note}\n"
            + "".join(f"| {' | '.join(cells)} |\n" for cells in lines))


def means(headers, rows):
    """The rows of geometric means, one for each class of models, of the columns of ratios."""
    ratios = [i for i, header in enumerate(headers) if "ratio" in header]
    if "class" not in headers or not ratios:
        return
    place = headers.index("class")
    for kind in dict.fromkeys(row[place] for row in rows):
        cells = [""] * len(headers)
        cells[0], cells[place] = "**geometric mean**", kind
        for i in ratios:
            found = [number(row[i]) for row in rows if row[place] == kind and number(row[i])]
            cells[i] = f"**{statistics.geometric_mean(found):.2f}**" if found else ""
        yield cells


def number(text):
    """The number that a cell begins with, or None."""
    try:
        value = float(text.split(" ")[0].rstrip("%"))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


if __name__ == "__main__":
    PAGE.write_text(page())
