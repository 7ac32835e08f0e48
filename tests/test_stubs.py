"""The type stubs say what the modules do."""
import os
import subprocess
import sys
from pathlib import Path

import pylite
from tests import resources

PUBLIC = "interpreter|capi|custom|delegation|pointers|resolver|signature|delegates|model|shim|errors"
ALLOWED = rf"""
pylite\.(?!({PUBLIC})\b)[a-z]\w*\..*
pylite\._core.*
pylite\.__main__
"""


def test_stubs_agree(tmp_path):
    resources.tool("mypy")
    home = Path(pylite.__file__).parents[1]     # the checkout, where the install is editable
    (tmp_path / "allowed").write_text(ALLOWED)
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n[mypy-pylite.*]\nignore_errors = True\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-unused-allowlist", "--allowlist", "allowed",
         "--mypy-config-file", "mypy.ini", "pylite"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "MYPYPATH": "" if home.name == "site-packages" else str(home)})
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_is_marked_as_typed():
    assert (Path(pylite.__file__).parent / "py.typed").exists()
