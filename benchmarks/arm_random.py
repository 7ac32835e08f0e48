"""The models of random_ops.py on an emulated Arm core, pylite against LiteRT.

    ARM_CACHE=FOLDER python benchmarks/arm_random.py [OP ...] [--seed N] [--models N] [--core CORE] [--above RATIO]

Prints, for each op and type, the models that take more than RATIO times LiteRT's modelled cycles, as random_ops.py
does.  FOLDER is what arm_race.py needs; it also says what is counted and what is modelled.  OP: names of ops (default:
all).
"""
import argparse
import collections
import itertools
import os
from pathlib import Path

import _random_cases
import arm_race
import arm_table
import numpy as np
import random_ops

SAMPLES = 3             # of a model, whose only loop is uniform
GUEST = arm_race.second_invoke("""
    with np.load(model + ".npz") as arrays:
        for tensor, name in zip(interpreter.get_input_details(), sorted(arrays)):
            interpreter.set_tensor(tensor["index"], arrays[name])
    """)


def models(cache, ops, seed, count):
    """Yields (case, path of its model) of `count` random cases that the peer takes; their inputs are beside them."""
    cases = _random_cases.accepted(_random_cases.Draw(seed), ops, random_ops.required_peer())
    for case, model, arrays, _ in itertools.islice(cases, count):
        path = arm_table.made(cache, f"random {arm_table.digest(str(seed), case.op, case.note)[:16]}", model)
        np.savez(f"{path}.npz", **{f"{i:02}": array for i, array in enumerate(arrays)})
        yield case, path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--core", choices=arm_table.CORES, default="cortex-a72")
    parser.add_argument("--above", type=float, default=1.2)
    args = parser.parse_args()
    _random_cases.checked(parser, args.ops)
    if "ARM_CACHE" not in os.environ:
        parser.error("ARM_CACHE is not set")
    cache = Path(os.environ["ARM_CACHE"]).resolve()
    race = arm_table.Race(cache, GUEST, {"invoke": arm_race.ALL}, SAMPLES)
    drawn = list(models(cache, args.ops, args.seed, args.models))
    race.run([args.core], [path for _, path in drawn])
    slow, ratios = collections.defaultdict(list), []
    for case, path in drawn:
        ours, theirs = (race.figures(args.core, which, path)["cycles"] for which in ("pylite", "litert"))
        ratios.append(ours / theirs)
        if ratios[-1] > args.above:
            slow[_random_cases.kind(case)].append((ratios[-1], ours / 1e6, theirs / 1e6, case.note))
    random_ops.print_slow(slow, ratios, args.above)


if __name__ == "__main__":
    main()
