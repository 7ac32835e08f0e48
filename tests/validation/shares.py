"""Whether the noise of a planted fault is said to come from where it was planted: the weights, or activations.

    python -m tests.validation.shares [--cases N] [PAIR ...]      prints rates, and the weights' share without a fault
"""
import argparse
import sys

import numpy as np

from pylite import Model
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from tests.validation.planted import PAIRS, Pair

OF_WEIGHTS = ("weight scale", "channel scale", "bias")
SAMPLES = 4


def measured(pair, contents):
    """The Report of a model beside the pair's reference, with the sources of the noise."""
    comparison = Comparison(Model(contents), pair.reference, origins=True)
    for arrays in pair.samples:
        comparison.add(arrays, True, True)
    return analyse(comparison)


def found(pair, count):
    """(Case, what the report says of the spoiled node) of as many cases."""
    for case, _ in pair.cases(count):
        yield case, measured(pair, case.contents).by_node(case.node)


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", default=list(PAIRS))
    parser.add_argument("--cases", type=int, default=12)
    args = parser.parse_args(arguments)
    for name in args.pairs:
        pair = Pair(name, SAMPLES)
        shares = [t.from_weights for t in measured(pair, pair.contents).tensors if t.from_weights is not None]
        right = [(t.from_weights > 0.5) == (case.fault in OF_WEIGHTS) for case, t in found(pair, args.cases)
                 if t.from_weights is not None]
        sys.stdout.write(f"{name}: {sum(right)} of {len(right)} right; without a fault {np.median(shares):.0%} from "
                         "weights (median of the nodes)\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
