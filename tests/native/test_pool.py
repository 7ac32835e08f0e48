"""The worker pool, the packing tasks and the table of mapped files, tested by pool.c, packing.c and watching.c."""
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools import programs

HERE = Path(__file__).parent
SIMD = HERE.parents[1] / "pylite" / "_core" / "simd"
THREADS = [SIMD / "threads" / "threads.c", SIMD / "threads" / "platform_posix.c", "-pthread"]


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path_factory.mktemp("pool") / "pool"
    subprocess.run([compiler, "-O2", f"-I{SIMD}", HERE / "pool.c", *THREADS, "-o", program], check=True)
    return program


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("callers", [1, 3])
def test_each_task_runs_exactly_once(pool, threads, callers):
    done = programs.run([pool, str(threads), str(8000 // callers), str(callers)])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [1, 4])
def test_each_packing_task_runs_exactly_once(threads, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "packing"
    subprocess.run([compiler, "-O2", f"-I{SIMD}", HERE / "packing.c", SIMD / "threads" / "packing_jobs.c", *THREADS,
                    "-o", program], check=True)
    done = programs.run([program, str(threads), "500"])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [1, 8])
def test_each_mapped_file_has_a_place_of_its_own(threads, tmp_path):
    """Also without the GIL, under which only one thread at a time opens a file."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "watching"
    subprocess.run([compiler, "-O2", f"-I{SIMD}", HERE / "watching.c", *THREADS, "-o", program], check=True)
    done = programs.run([program, str(threads), "20000"])
    assert done.returncode == 0, done.stderr
