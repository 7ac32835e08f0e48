"""python tests/checkasm [--bench] [--isa-levels NAME...] [SLOT...]: check micro-kernels, or time them."""
import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent.parent))     # behind the installed pylite

from tests.checkasm import CHECKS, ISA_LEVELS, examine, measure


def say(line):
    sys.stdout.write(line + "\n")


def main():
    parser = argparse.ArgumentParser(prog="checkasm", description=__doc__)
    parser.add_argument("slots", nargs="*", metavar="SLOT", help="all, unless given")
    parser.add_argument("--bench", action="store_true", help="time them: ns of a call, and work per ns")
    parser.add_argument("--isa-levels", nargs="*", choices=list(ISA_LEVELS), default=list(ISA_LEVELS))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    slots = options.slots or list(CHECKS)
    bad = 0
    if options.bench:
        say(f"{'slot':24} {'unit':9}" + "".join(f"{isa_level:>24}" for isa_level in options.isa_levels))
    for slot in slots:
        if options.bench:
            results = [measure(slot, isa_level) for isa_level in options.isa_levels]
            say(f"{slot:24} {results[0][2]:9}" + "".join(f"{t:12.0f} ns {work / t:7.2f}/ns" for t, work, _ in results))
            continue
        for isa_level in options.isa_levels:
            try:
                examine(slot, isa_level, options.seed)
            except AssertionError as error:
                bad += 1
                say(f"{slot} on {isa_level}: {error}")
    if not options.bench:
        say(f"{len(slots) * len(options.isa_levels) - bad} of {len(slots) * len(options.isa_levels)} checks passed")
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
