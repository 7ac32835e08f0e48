"""What `pylite validate --repair` regains of the SQNR that planted faults cost.

    python -m tests.validation.regained [--cases N] [PAIR ...]      prints each case, and rates
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

SEEN, UNSEEN = 64, 32   # samples for a repair, and others that measure it
LEAST_LOSS = 1.0        # dB: with less there is nothing to regain
REGAINED = 0.95         # of the loss: then a repair counts as one


def regained(pair, count, folder):
    """(Case, decibels lost, share of these that a repair regains) of cases that lose LEAST_LOSS.

    The repair sees SEEN samples, and the loss is measured on others, beside the model without a fault.  count: of
    cases, of which some lose less; folder: for files.
    """
    model, file = Model(pair.contents), folder / "case.tflite"
    matches = {i: m.reference for i, m in pair.comparison.matching.matches.items()}
    tensors = judged(model, pair.reference, matches, tied(model))
    judge = Judge(pair.reference, tensors, samples(model, UNSEEN, seed=3), 1)
    seen, whole = samples(model, SEEN, seed=2), judge.measure(model)
    for case, _ in pair.cases(count):
        lost = whole - judge.measure(Model(case.contents))
        if lost >= LEAST_LOSS:
            file.write_bytes(case.contents)
            found = repair(file, MODELS / f"{PAIRS[pair.name][1]}.tflite", seen)
            yield case, lost, 1 - (whole - judge.measure(Model(found.contents))) / lost


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", default=list(PAIRS))
    parser.add_argument("--cases", type=int, default=16)
    args = parser.parse_args(arguments)
    every = []
    for name in args.pairs:
        found = []
        with tempfile.TemporaryDirectory() as folder:
            for case, lost, share in regained(Pair(name), args.cases, Path(folder)):
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
