"""tests/tools/programs.py: results, limits, and what a program that does not end leaves behind."""
import os
import subprocess
import sys

import pytest

from tests.tools import programs


def test_a_program_that_ends():
    done = programs.run([sys.executable, "-c", "import sys; print(1); sys.exit('two')"])
    assert (done.returncode, done.stdout, done.stderr) == (1, "1\n", "two\n")


def test_output_of_several_waits_is_whole():
    code = "import time\nfor i in range(3): print(i, flush=True); time.sleep(0.7)"
    assert programs.run([sys.executable, "-c", code]).stdout == "0\n1\n2\n"


def test_a_program_that_does_not_end_says_where_it_stood():
    code = "def wait_for_ever():\n    import time\n    print('here', flush=True)\n    time.sleep(600)\nwait_for_ever()"
    with pytest.raises(AssertionError, match=r"(?s)did not end in 2 s.*here.*in wait_for_ever"):
        programs.run([sys.executable, "-c", code], seconds=2, env={**os.environ, "PYTHONFAULTHANDLER": "1"})


def test_a_pause_of_the_machine_counts_as_a_second(monkeypatch):
    """Each wait but the last ends late, as after a pause; the program is not blamed."""
    waits, communicate = [], subprocess.Popen.communicate

    def late(self, input=None, timeout=None):
        waits.append(timeout)
        if len(waits) < 3:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return communicate(self, input)

    monkeypatch.setattr(subprocess.Popen, "communicate", late)
    assert programs.run([sys.executable, "-c", "print(1)"], seconds=3).stdout == "1\n"
    assert waits == [1, 1, 1]
