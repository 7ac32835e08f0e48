"""Draw docs/layers.svg: the layers of pyproject.toml, each with the first line of its docstring.

    python docs/draw_layers.py
"""
import ast
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "layers.svg"
WIDTH, MARGIN, LINE, PADDING, GAP = 1000, 12, 20, 9, 6
TEXT_AT = 180           # where the docstrings begin
BASELINE = 14           # from the top of a line
# The picture has a background of its own, so it can be read on pages of any colour.
STYLE = """
  .page { fill: #ffffff } .layer { fill: #eaf1fb; stroke: #9db7dc }
  text { fill: #1f2328; font: 13px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif }
  .name { font: bold 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
  .arrow { stroke: #57606a; fill: none }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .layer { fill: #1c2a3f; stroke: #3c5a85 } text { fill: #e6edf3 } .arrow { stroke: #9198a1 }
  }
"""


def layers():
    """The layers from top to bottom, each a list of names of modules and packages."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    contract = next(contract for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def source(name):
    """The file that holds the docstring of a module or package of pylite."""
    package = ROOT / "pylite" / name / "__init__.py"
    return package if package.exists() else ROOT / "pylite" / f"{name}.py"


def summary(name):
    """The first line of the docstring, without the marks of code."""
    return ast.get_docstring(ast.parse(source(name).read_text())).splitlines()[0].replace("`", "")


def draw():
    """The picture, as text."""
    found, y = [], MARGIN
    for names in layers():
        height = len(names) * LINE + 2 * PADDING
        found.append(f'<rect class="layer" x="{MARGIN + 24}" y="{y}" width="{WIDTH - 2 * MARGIN - 24}" '
                     f'height="{height}" rx="6"/>')
        for i, name in enumerate(names):
            at = y + PADDING + i * LINE + BASELINE
            shown = name + "/" if source(name).name == "__init__.py" else name
            found.append(f'<text class="name" x="{MARGIN + 36}" y="{at}">{escape(shown)}</text>')
            found.append(f'<text x="{TEXT_AT}" y="{at}">{escape(summary(name))}</text>')
        y += height + GAP
    end = y - GAP
    arrow = f"M{MARGIN + 8} {MARGIN} V{end} M{MARGIN + 3} {end - 8} L{MARGIN + 8} {end} L{MARGIN + 13} {end - 8}"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {end + MARGIN}" role="img">',
        "<title>The layers of pylite: every import points down</title>", f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{end + MARGIN}" rx="8"/>', f'<path class="arrow" d="{arrow}"/>',
        *found, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw())
