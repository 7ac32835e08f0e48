"""A report as one HTML page, which needs no network: data, a script that draws them, the plotting library uPlot."""
from __future__ import annotations

import base64
import json
import math
import platform
import re
import struct
import time
import zlib
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import pylite
from pylite._core import simd
from pylite.errors import FileFormatError
from pylite.media import images
from pylite.validation.verdict import LIMITS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

DIGITS = 5      # significant ones of numbers on the page
SIDE = 96       # pixels of a thumbnail, at most
CARDS = 24      # samples of each kind on the page, which has the number, too


def made(command: str | None = None) -> dict[str, str]:
    """How and where a report is made now, in words; command: the command line, if it was one."""
    facts = {"command": command, "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
             "pylite": pylite.__version__, "Python": platform.python_version(), "numpy": np.__version__,
             "machine": f"{platform.system()} {platform.machine()}", "ISA level": simd.current}
    return {name: value for name, value in facts.items() if value is not None}


def page(data: Mapping[str, Any]) -> str:
    """The HTML page of `data`: "report": Report.to_dict(), "sensitivity": Sensitivity.to_dict(), "graph": of `pylite
    report`, or several; "made": made(); "pictures": {number of a sample: data URL}.

    Raises FileFormatError (a ValueError) without the extra `validate`, which has uPlot.
    """
    folder = library()
    parts = {"style": (folder / "uPlot.min.css").read_text("utf-8"),
             "library": (folder / "uPlot.iife.js").read_text("utf-8"), "script": _file("page.js"),
             "model": _file("page_model.js"),
             "data": json.dumps(_short({**data, "limits": LIMITS}), separators=(",", ":")).replace("<", "\\u003c")}
    return re.sub(r"{{(\w+)}}", lambda match: parts[match[1]], _file("page.html"))


def picture(pixels: NDArray[np.uint8]) -> str:
    """A data URL of uint8 `pixels`, (height, width, 1 or 3), made as small as a thumbnail."""
    shrink = SIDE / max(SIDE, *pixels.shape[:2])
    pixels = images.resize(pixels, *(max(1, round(size * shrink)) for size in pixels.shape[:2]))
    height, width, channels = pixels.shape
    rows = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0))).tobytes()       # 0 before each row: no PNG filter
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = [struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
             for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))]
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def _file(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def library() -> Path:
    """The folder with uPlot's script and style; FileFormatError if it is not installed."""
    spec = find_spec("uplot")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "static"
        if (folder / "uPlot.iife.js").exists():
            return folder
    raise FileFormatError("an HTML report needs the plotting library uPlot: pip install 'pylite-runtime[validate]' "
                          "(the package uplot-python); text and JSON work without it")


def _short(value: Any) -> Any:
    """The same with few digits for each number, and None for NaN and infinities."""
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    return value
