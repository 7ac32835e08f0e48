"""Draw docs/validation.png: the top of the page that the command of docs/validation.md writes with --html.

    python -m docs.draw_report          in the repository's root; needs chromium and `pip install '.[test]'`
"""
import contextlib
import io
import re
import tempfile
from pathlib import Path

from PIL import Image

from pylite import cli
from tests.tools import browser

ROOT = Path(__file__).resolve().parent.parent
PAGE, PICTURE = ROOT / "docs" / "validation.md", ROOT / "docs" / "validation.png"
SIZE = 860, 1440
COLOURS = 128


def draw(running):
    """The picture, as the bytes of a PNG file: what the page's own program and command lead to in a running browser."""
    text = PAGE.read_text(encoding="utf-8")
    program = re.search(r"^```python\n(.*?)^```", text, re.S | re.M)[1]
    command = re.search(r"^```console\n\$ pylite (?!.* --repair )(.*)$", text, re.M)[1].split()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        exec(compile(program, str(PAGE), "exec"), {"__name__": "page"})
        with contextlib.redirect_stdout(io.StringIO()):
            cli.main([*command, "--html", "report.html"])
        with browser.opened(running, Path(folder, "report.html"), SIZE) as shown:
            picture = Image.open(io.BytesIO(shown.screenshot()))
    file = io.BytesIO()
    picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    with browser.browser() as chromium:
        PICTURE.write_bytes(draw(chromium))
