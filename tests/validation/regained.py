"""What `pylite validate --repair` regains of the SQNR that planted faults cost.

    python -m tests.validation.regained [--cases N] [PAIR ...]      prints each case, and rates
    python -m tests.validation.regained --few N [PAIR ...]          of ranges by the min and max of N samples instead
"""
import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from pylite import Model
from pylite.validation.judging import Judge, judged
from pylite.validation.repair import repair
from pylite.validation.ties import tied
from tests.validation.planted import MODELS, PAIRS, Pair, samples

SEEN = 64               # samples for a repair
UNSEEN = 32             # others that measure it, in tests
MANY = 256              # and for the rates: of 32 samples, chance alone moves 48 dB by 1
LEAST_LOSS = 1.0        # dB: with less there is nothing to regain
REGAINED = 0.95         # of the loss: then a repair counts as one


class Unseen:
    """Measures models on samples that no repair has seen: `count` of them."""

    def __init__(self, pair, count=UNSEEN):
        model = Model(pair.contents)
        matches = {i: m.reference for i, m in pair.comparison.matching.matches.items()}
        self._judge = Judge(pair.reference, judged(model, pair.reference, matches, tied(model)),
                            samples(model, count, seed=3), 1)
        self.whole = self.measure(pair.contents)

    def measure(self, contents):
        """The SQNR of a model, in decibels; `whole`: of the pair's own."""
        return self._judge.measure(Model(contents))

    def costly(self, pair, count):
        """(Case, decibels lost) of `count` cases that lose LEAST_LOSS; the others are left out."""
        for case, _ in pair.cases(count):
            lost = self.whole - self.measure(case.contents)
            if lost >= LEAST_LOSS:
                yield case, lost


def repaired(pair, contents, folder):
    """The contents of a repaired model.  folder: for its file."""
    (folder / "case.tflite").write_bytes(contents)
    return repair(folder / "case.tflite", MODELS / f"{PAIRS[pair.name][1]}.tflite",
                  samples(Model(pair.contents), SEEN, seed=2)).contents


def regained(pair, count, folder, unseen=UNSEEN):
    """(Case, decibels lost, share of these that a repair regains) of cases that lose LEAST_LOSS.

    The repair sees SEEN samples, and the loss is measured on `unseen` others, beside the model without a fault.  count:
    of cases, of which some lose less; folder: for files.
    """
    measurer = Unseen(pair, unseen)
    for case, lost in measurer.costly(pair, count):
        found = measurer.measure(repaired(pair, case.contents, folder))
        yield case, lost, 1 - (measurer.whole - found) / lost


def scarce(name, count, folder, unseen=UNSEEN):
    """Decibels with ranges by min / max of `count` samples, after a repair of that, with ranges of enough samples."""
    pair, contents = Pair(name), Pair(name, calibration=count).contents
    measurer = Unseen(pair, unseen)
    return measurer.measure(contents), measurer.measure(repaired(pair, contents, folder)), measurer.whole


def print_scarce(names, count):
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            before, after, good = scarce(name, count, Path(folder), MANY)
        sys.stdout.write(f"{name}: {before:.1f} dB, repaired {after:.1f}, with enough samples {good:.1f}\n")
        sys.stdout.flush()


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", default=list(PAIRS))
    parser.add_argument("--cases", type=int, default=16)
    parser.add_argument("--few", type=int, help="samples of a poor calibration, in place of faults")
    args = parser.parse_args(arguments)
    if args.few:
        print_scarce(args.pairs, args.few)
        return
    every = []
    for name in args.pairs:
        found = []
        with tempfile.TemporaryDirectory() as folder:
            for case, lost, share in regained(Pair(name), args.cases, Path(folder), MANY):
                sys.stdout.write(f"  {name} node {case.node} {case.op}: {case.fault} x{case.factor:.2f}: "
                                 f"lost {lost:.1f} dB, regained {share:.0%}\n")
                found.append((lost, share))
        every += found
        sys.stdout.write(f"{name}: {rates(found)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"all: {rates(every)}\n")


def rates(found):
    """[(decibels lost, share regained)] as text."""
    losses, shares = np.array(found).reshape(-1, 2).T
    good = np.count_nonzero(shares >= REGAINED)
    return f"{good} of {len(found)} cases regain {REGAINED:.0%}" + (
        f"; lost {np.median(losses):.1f} dB, regained {np.median(shares):.0%} (medians)" if found else "")


if __name__ == "__main__":
    main(sys.argv[1:])
