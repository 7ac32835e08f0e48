"""python tests/checkasm [--bench] [--rungs NAME...] [SLOT...]: check micro-kernels, or time them."""
import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))     # behind the installed pylite

from tests.checkasm import CHECKS, RUNGS, examine, measure


def say(line):
    sys.stdout.write(line + "\n")


def main():
    parser = argparse.ArgumentParser(prog="checkasm", description=__doc__)
    parser.add_argument("slots", nargs="*", metavar="SLOT", help="all, unless given")
    parser.add_argument("--bench", action="store_true", help="time them: ns of a call, and work per ns")
    parser.add_argument("--rungs", nargs="*", choices=list(RUNGS), default=list(RUNGS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    slots = options.slots or list(CHECKS)
    bad = 0
    if options.bench:
        say(f"{'slot':24} {'unit':9}" + "".join(f"{rung:>24}" for rung in options.rungs))
    for slot in slots:
        if options.bench:
            results = [measure(slot, rung) for rung in options.rungs]
            say(f"{slot:24} {results[0][2]:9}" + "".join(f"{t:12.0f} ns {work / t:7.2f}/ns" for t, work, _ in results))
            continue
        for rung in options.rungs:
            try:
                examine(slot, rung, options.seed)
            except AssertionError as error:
                bad += 1
                say(f"{slot} on {rung}: {error}")
    if not options.bench:
        say(f"{len(slots) * len(options.rungs) - bad} of {len(slots) * len(options.rungs)} checks passed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
