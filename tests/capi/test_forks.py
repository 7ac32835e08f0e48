"""Processes that are forked while another thread runs plug-ins."""
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import pylite
from tests.capi.chains import interpreter, model
from tests.capi.compiling import build


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork()")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_can_call_plug_ins(tmp_path):
    """Whatever the other thread was doing: it takes and releases the lock of the trap all the time."""
    library = build(Path(__file__).parent / "plugins" / "external.c", tmp_path / "external.so")
    ops = pylite.load_custom_ops(library, ["Shares"], register=False)
    here, there = (interpreter(model(*["Shares"] * count), ops) for count in (1, 300))
    for each in (here, there):
        each._interpreter.SetNumThreads(2)      # which imports a module: the child of an import cannot import
        each.allocate_tensors()
    ended = threading.Event()

    def prepare():
        for threads in range(1, 10**9):
            there._interpreter.SetNumThreads(1 + threads % 2)
            there.allocate_tensors()
            there.invoke()
            if ended.is_set():
                return
    thread = threading.Thread(target=prepare)
    thread.start()
    try:
        for _ in range(150):
            child = os.fork()
            if child == 0:
                try:
                    here._interpreter.SetNumThreads(1)
                    here.allocate_tensors()
                    os._exit(0)
                finally:
                    os._exit(1)
            assert status_of(child) == 0
    finally:
        ended.set()
        thread.join()


def status_of(child):
    """The exit status of a process, which is killed if it hangs."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]
