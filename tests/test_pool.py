"""The worker pool, tested by the C program tests/pool.c."""
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SIMD = HERE.parent / "pylite" / "_core" / "simd"


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("pool") / "pool"
    subprocess.run([compiler, "-O2", f"-I{SIMD}", HERE / "pool.c", SIMD / "threads.c", "-pthread", "-o", program],
                   check=True)
    return program


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("callers", [1, 3])
def test_each_task_runs_exactly_once(pool, threads, callers):
    done = subprocess.run([pool, str(threads), str(8000 // callers), str(callers)], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
