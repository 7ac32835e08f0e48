#!/usr/bin/env python3
"""Print the version, which pylite/__init__.py states, for meson.build."""
import re
import sys
from pathlib import Path

INIT = Path(__file__).resolve().parents[1] / "pylite" / "__init__.py"
sys.stdout.write(re.search(r'^__version__ = "(.+?)"', INIT.read_text(), re.M)[1])
