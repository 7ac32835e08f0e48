"""python -m tests.fuzz.soak --seconds 600: many models in turn, with all that happens to a long-lived process.

Interpreters are opened, resized, run from several threads, closed or dropped, models are loaded again from bytes and
files, while signals arrive, processes are forked, and memory and disk are refused.  At the end the memory in use must
be what it was after the first tenth.
"""
import argparse
import contextlib
import gc
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

from pylite import cli
from pylite.errors import PyliteError
from pylite.interpreter import Interpreter
from pylite.runtime.model import Model
from tests.fuzz.case import value
from tests.fuzz.seeds import CONVERTED, sparse, variables
from tests.tools import small_models

ENDLESS = {"collatz", "counted", "counter"}     # loops that some inputs keep running
GROWTH = 24 << 20       # bytes by which a process may differ from itself


class Soak:
    """Runs models by turns.  invokes: how often a model ran; events: what else happened, by name."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.contents = [small_models.reshape(), small_models.variable(), small_models.two_signatures(), variables(),
                         sparse(), *[path.read_bytes() for path in CONVERTED if path.stem not in ENDLESS]]
        self.models = [Model(content) for content in self.contents]
        self.invokes = 0
        self.events = dict.fromkeys(("opened", "loaded", "resized", "threads", "forks", "signals", "refused",
                                     "full"), 0)
        signal.signal(signal.SIGALRM, self._on_signal)
        with tempfile.TemporaryDirectory() as folder:   # imports what a cache needs: in an editable install an import
            Interpreter(model_content=self.contents[0], cache_dir=folder).allocate_tensors()     # builds, and writes

    def _on_signal(self, *_):
        self.events["signals"] += 1

    def step(self):
        """One interpreter, from its opening to its end."""
        rng = self.rng
        number = int(rng.integers(len(self.models)))
        if rng.random() < 0.05:
            self._load(number)
        model = self.models[number]
        interpreter = Interpreter(model=model, num_threads=int(rng.integers(1, 4)))
        self.events["opened"] += 1
        if rng.random() < 0.2:
            self._resize(interpreter)
        with contextlib.suppress(PyliteError):
            self._run(interpreter, int(rng.integers(1, 60)))
        event = rng.random()
        if event < 0.02:
            self._fork(interpreter)
        elif event < 0.04:
            self._refuse()
        elif event < 0.08:
            self._share(model)
        elif event < 0.084:
            self._fill(number)
        if rng.random() < 0.5:
            interpreter.close()

    def _run(self, interpreter, times):
        interpreter.allocate_tensors()
        for detail in interpreter.get_input_details():
            interpreter.set_tensor(detail["index"], value(self.rng, detail["shape"], detail["dtype"]))
        if self.rng.random() < 0.3:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
        for _ in range(times):
            self.invokes += 1
            interpreter.invoke()

    def _load(self, number):
        """A newly loaded model, from bytes or from a file, which goes while it is mapped."""
        if self.rng.random() < 0.5:
            self.models[number] = Model(self.contents[number])
        else:
            with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
                file.write(self.contents[number])
                file.flush()
                self.models[number] = Model(file.name)
        self.events["loaded"] += 1

    def _resize(self, interpreter):
        for detail in interpreter.get_input_details():
            shape = [int(n) if self.rng.random() < 0.5 else int(self.rng.integers(0, 6)) for n in detail["shape"]]
            interpreter.resize_tensor_input(detail["index"], shape)
            self.events["resized"] += 1

    def _fork(self, interpreter):
        """A child runs the interpreter of its parent."""
        child = os.fork()
        if child == 0:
            with contextlib.suppress(PyliteError):
                interpreter.invoke()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        self.events["forks"] += 1

    def _refuse(self):
        """The system has no more memory: an error, and things go on."""
        limits = resource.getrlimit(resource.RLIMIT_AS)
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + (8 << 20), limits[1]))
        try:
            interpreter = Interpreter(model_content=small_models.reshape(shape=(1 << 22, 3), to=(3, 1 << 22)))
            interpreter.allocate_tensors()
        except MemoryError:
            self.events["refused"] += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)

    def _fill(self, number):
        """A child whose disk is full: a command line ends with one line and exit code 2, a cache stores nothing."""
        with tempfile.TemporaryDirectory() as folder:
            path, errors = Path(folder, "model.tflite"), Path(folder, "errors")
            path.write_bytes(self.contents[number])
            with errors.open("wb") as stderr:
                child = os.fork()
                if child == 0:
                    try:
                        os.dup2(stderr.fileno(), 2)
                        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
                        code = cli.main(["inspect", str(path)])
                        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
                        Interpreter(str(path), cache_dir=folder).allocate_tensors()
                        os._exit(code)
                    finally:
                        os._exit(99)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            assert status == 2 and errors.read_bytes().count(b"\n") == 1, (status, errors.read_bytes())
            assert sorted(os.listdir(folder)) == ["errors", "model.tflite"]
        self.events["full"] += 1

    def _share(self, model):
        """Several threads, each with an interpreter of the same model."""
        def run():
            interpreter = Interpreter(model=model)
            with contextlib.suppress(PyliteError):
                interpreter.allocate_tensors()
                for _ in range(20):
                    interpreter.invoke()
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.events["threads"] += len(threads)
        self.invokes += 20 * len(threads)


def used():
    """Bytes of memory that this process has now."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--invokes", type=int, default=10**12, help="end after as many, too")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    soak, start = Soak(options.seed), time.monotonic()
    early, done = None, 0.0
    while done < 1:
        soak.step()
        passed = time.monotonic() - start
        done = max(passed / options.seconds, soak.invokes / options.invokes)
        if early is None and done > 0.1:
            early = used()
    late = used()
    sys.stdout.write(f"{soak.invokes} invokes in {passed:.0f} s; {soak.events}; {early >> 20} MB early, "
                     f"{late >> 20} MB at the end\n")
    return int(late - early > GROWTH)


if __name__ == "__main__":
    sys.exit(main())
