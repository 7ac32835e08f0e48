"""The examples in C and C++ build and run."""
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capi.compiling import compiler

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(("example", "suffix", "words"), [("custom_op_c", ".c", "atan(x + 1): [-1.428899"),
                                                          ("delegate_c", ".cc", "DELEGATE, DELEGATE")])
def test_example(tmp_path, example, suffix, words):
    compiler(suffix)
    done = subprocess.run([sys.executable, "-P", EXAMPLES / example / "run.py", tmp_path], capture_output=True,
                          text=True)
    assert done.returncode == 0 and words in done.stdout, done.stdout + done.stderr
