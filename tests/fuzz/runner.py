"""Runs cases in worker processes, which may crash, hang or take too much memory."""
import collections
import faulthandler
import importlib
import multiprocessing
import os
import pkgutil
import resource
import signal
import sys
import time
import traceback
import warnings

import pylite
from tests.fuzz import case
from tests.fuzz.seeds import seeds

ADDRESSES = 4 << 30         # bytes of address space for a worker
BATCH = 20_000              # cases for a worker


def prepare():
    """Make the seeds and import pylite, once for all workers."""
    seeds()
    for module in pkgutil.walk_packages(pylite.__path__, "pylite."):
        if not module.name.endswith(("__main__", "_library")) and "libpylite" not in module.name:
            importlib.import_module(module.name)


def limit():
    """Limit the memory of a worker process, and switch off its warnings and core dumps."""
    warnings.simplefilter("ignore")
    faulthandler.disable()
    if "asan" not in os.environ.get("LD_PRELOAD", ""):     # whose shadow memory takes all addresses
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def interrupt(number, frame):
    raise case.Interrupted


def limit_time():
    """Kill this process in SECONDS."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + case.SECONDS + 1, resource.RLIM_INFINITY))


def work(seed, numbers, model, receiver, pipe):
    """Run cases, and send (number, outcome, description of an unexpected one or None) after each."""
    receiver.close()        # so that this process ends with its parent
    limit()
    signal.signal(signal.SIGPROF, interrupt)
    for number in numbers:
        pipe.send((number, "begun", None))
        limit_time()
        signal.setitimer(signal.ITIMER_PROF, case.PATIENCE, case.PATIENCE / 4)     # Python drops what __del__ raises
        try:
            ended = case.run(seed, number, None if model is None else model(number))
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.send((number, ended, None))
        except case.Unexpected as error:
            signal.setitimer(signal.ITIMER_PROF, 0)
            cause = error.__cause__
            where = "".join(traceback.format_tb(cause.__traceback__)[-2:]) if cause else ""
            pipe.send((number, "unexpected", f"{error}\n{where}"))


class Run:
    """Runs cases of a seed.

    model(number) -> bytes, in place of the models of the seed; found: [(number, description)]; ended: {outcome: number
    of cases}.
    """

    def __init__(self, seed, model=None, report=sys.stdout.write):
        self.seed = seed
        self.model = model
        self.report = report
        self.ended = collections.Counter()
        self.found = []

    def until(self, deadline, first=0, most=2**62):
        """Run cases from `first` on; the number after that of the last one."""
        number, last = first, first + most
        while time.monotonic() < deadline and number < last:
            number = self._worker(range(number, min(number + BATCH, last)), deadline) + 1
        return number

    def _worker(self, numbers, deadline):
        """Run cases in one process, until one kills it; returns the number of the last case started."""
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(self.seed, numbers, self.model, receiver, sender))
        process.start()
        sender.close()
        begun, number = None, numbers[0]
        while True:
            try:
                number, how, what = receiver.recv()
            except EOFError:
                break
            begun = None if how != "begun" else number
            if how != "begun":
                self.ended[how] += 1
            if how == "interrupted":
                self.report(f"case {number} of seed {self.seed} was interrupted after {case.PATIENCE} s\n")
            if what:
                self._report(number, what)
            if how != "begun" and time.monotonic() > deadline:
                process.kill()
                break
        process.join()
        if begun is not None and process.exitcode:
            name = signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"exit {process.exitcode}"
            what = f"{case.SECONDS} s of CPU time" if name == "SIGXCPU" else f"crash: {name}"
            self.ended["crash" if name != "SIGXCPU" else "hang"] += 1
            self._report(begun, what)
        return number

    def _report(self, number, what):
        self.found.append((number, what))
        self.report(f"case {number} of seed {self.seed}: {what}\n")
        sys.stdout.flush()


def fault(seed, number, model):
    """What is wrong with a case on `model`, bytes: the first line of its description, without numbers; or None."""
    run = Run(seed, lambda number: model, lambda text: None)
    run.until(float("inf"), number, 1)
    if not run.found:
        return None
    (_, what), = run.found
    return "".join(c for c in what.splitlines()[0] if not c.isdigit())
