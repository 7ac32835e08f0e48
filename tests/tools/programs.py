"""Programs that tests run, with a limit for each that a machine's pause cannot exceed."""
import signal
import subprocess


def run(command, *, seconds=120, **options):
    """subprocess.run() with captured text; a program that runs longer than `seconds` fails the test.

    The wait is counted a second at a time, so that the pause of a virtual machine counts as one.  A program that does
    not end gets SIGABRT: with PYTHONFAULTHANDLER=1 in its environment, the failure shows where Python stood.
    """
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace", **options}
    with subprocess.Popen(command, **options) as program:
        try:
            out, err = _wait(program, seconds)
        except BaseException:
            program.kill()
            raise
        return subprocess.CompletedProcess(command, program.returncode, out, err)


def _wait(program, seconds):
    for _ in range(seconds):
        try:
            return program.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            pass
    program.send_signal(signal.SIGABRT)
    try:
        out, err = program.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        program.kill()
        out, err = program.communicate()
    raise AssertionError(f"{program.args} did not end in {seconds} s; it printed\n{out}\n{err}")
