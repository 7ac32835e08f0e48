"""python -m tests.fuzz --seconds 60 --seed 1: run mutated models, each in a process that may crash.

A case is determined by the seed and its number, so it can be repeated.  Crashes, hangs, foreign exceptions and
excessive memory are reported with the number of the case; --keep stores their models.
"""
import argparse
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
from pathlib import Path

import pylite
from tests.fuzz import case
from tests.fuzz.seeds import seeds

ADDRESSES = 4 << 30         # bytes of address space for a worker


def work(seed, first, count, step, pipe):
    """Run cases, and send (number, outcome, description of an unexpected one or None) after each."""
    limit()
    for number in range(first, first + count * step, step):
        pipe.send((number, "begun", None))
        signal.setitimer(signal.ITIMER_PROF, case.SECONDS)
        try:
            pipe.send((number, case.run(seed, number), None))
        except case.Unexpected as error:
            cause = error.__cause__
            where = "".join(traceback.format_tb(cause.__traceback__)[-2:]) if cause else ""
            pipe.send((number, "unexpected", f"{error}\n{where}"))
    signal.setitimer(signal.ITIMER_PROF, 0)


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
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    if "asan" not in os.environ.get("LD_PRELOAD", ""):     # whose shadow memory takes all addresses
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Run:
    """Runs cases in worker processes.  found: [(number, description)]; ended: {outcome: number of cases}."""

    def __init__(self, seed):
        self.seed = seed
        self.ended = collections.Counter()
        self.found = []

    def until(self, deadline, first=0, most=2**62, step=1):
        number, last = first, first + most
        while time.monotonic() < deadline and number < last:
            number = self._worker(number, deadline, last, step)
        return number

    def _worker(self, first, deadline, last, step):
        """Run cases in one process; returns the number after that of the last case started."""
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        count = min(20_000, last - first)
        process = context.Process(target=work, args=(self.seed, first, count, step, sender))
        process.start()
        sender.close()
        begun, number = None, first
        while True:
            try:
                number, how, what = receiver.recv()
            except EOFError:
                break
            begun = None if how != "begun" else number
            if how != "begun":
                self.ended[how] += 1
            if what:
                self._report(number, what)
            if how != "begun" and time.monotonic() > deadline:
                process.kill()
                break
        process.join()
        if begun is not None and process.exitcode:
            name = signal.Signals(-process.exitcode).name if process.exitcode < 0 else f"exit {process.exitcode}"
            what = f"{case.SECONDS} s of CPU time" if name == "SIGPROF" else f"crash: {name}"
            self.ended["crash" if name != "SIGPROF" else "hang"] += 1
            self._report(begun, what)
        return number + step

    def _report(self, number, what):
        self.found.append((number, what))
        sys.stdout.write(f"case {number} of seed {self.seed}: {what}\n")
        sys.stdout.flush()


def keep(seed, number, folder):
    """Store the model of a case."""
    path = Path(folder) / f"{seed}-{number}.tflite"
    path.write_bytes(case.content(seed, number))
    return path


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=2**62, help="cases to run at most")
    parser.add_argument("--keep", metavar="FOLDER", help="store the models of reported cases here")
    parser.add_argument("--one", type=int, metavar="NUMBER", help="run this case alone, in this process")
    options = parser.parse_args()
    if options.one is not None:
        sys.stdout.write(f"{case.run(options.seed, options.one)}\n")
        return 0
    prepare()
    start, run = time.monotonic(), Run(options.seed)
    after = run.until(start + options.seconds, options.first, options.count)
    total = sum(run.ended.values())
    sys.stdout.write(f"{total} models in {time.monotonic() - start:.0f} s, cases {options.first} to {after - 1} of "
                     f"seed {options.seed}: {', '.join(f'{n} {how}' for how, n in run.ended.most_common())}\n")
    if options.keep:
        for number, _ in run.found:
            keep(options.seed, number, options.keep)
    return bool(run.found)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
