"""python -m tests.fuzz --seconds 60 --seed 1: run mutated models, each in a process that may crash.

A case is determined by the seed and its number, so it can be repeated.  Crashes, hangs, foreign exceptions and
excessive memory are reported with the number of the case; --keep stores their models, --minimise a small one.
"""
import argparse
import os
import sys
import time
from pathlib import Path

from tests.fuzz import case, minimise
from tests.fuzz.runner import Run, prepare


def keep(seed, number, folder):
    """Store the model of a case."""
    path = Path(folder) / f"{seed}-{number}.tflite"
    path.parent.mkdir(parents=True, exist_ok=True)
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
    parser.add_argument("--minimise", type=int, metavar="NUMBER",
                        help="make the model of this case smaller while it fails in the same way, and store it for the "
                             "tests, in tests/fuzz/found")
    parser.add_argument("--coverage", action="store_true",
                        help="let atheris choose the mutations, by the lines of Python that they reach")
    options = parser.parse_args()
    if options.one is not None:
        sys.stdout.write(f"{case.run(options.seed, options.one)}\n")
        return 0
    if options.coverage:
        from tests.fuzz import coverage  # atheris is optional
        return coverage.run(options.seed, int(options.seconds), options.keep or ".")
    prepare()
    if options.minimise is not None:
        path = minimise.store(options.seed, options.minimise)
        sys.stdout.write(f"{path or 'the case does not fail'}\n")
        return path is None
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
