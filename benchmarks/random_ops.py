"""Random single-op models beside the peer, on one thread: shapes, axes, types and broadcasts that no list contains.

    python benchmarks/random_ops.py [OP ...] [--seed N] [--seconds S] [--above RATIO]

Prints, for each op and type, the cases that took more than RATIO times the peer's time, also when measured again: how
many, their median and largest ratio, and the slowest one; then how many cases ran and the geometric mean of all.  OP:
names of ops (default: all).
"""
import argparse
import collections
import statistics
import time

import _common
import _random_cases
import one_op


def race(model, arrays, peer, above):
    """(microseconds of pylite, of the peer), measured again if pylite is slow."""
    from pylite.interpreter import Interpreter
    pair = [(one_op.fed(runner, arrays).invoke, lambda: None) for runner in (Interpreter(model_content=model), peer)]
    times = one_op.measure(pair, 5, 1e-3)
    return times if times[0] <= above * times[1] else one_op.measure(pair, 11)


def required_peer():
    """LiteRT's module; ends the program without it."""
    if (litert := _common.peer()) is None:
        raise SystemExit("there is no peer: pip install ai-edge-litert")
    return litert


def print_slow(slow, ratios, above):
    """slow: {kind: [(ratio, pylite, peer, note)]} of the cases above a ratio; ratios: of all cases."""
    lines = []
    for name, cases in sorted(slow.items(), key=lambda item: -max(item[1])[0]):
        *worst, note = max(cases)
        lines.append((name, len(cases), f"{statistics.median(ratio for ratio, *_ in cases):.2f}",
                      *(f"{figure:.2f}" for figure in worst), note))
    numbers = "cases", "median", "largest", "pylite", "peer"
    _common.print_table(("op", *numbers, "the slowest"), lines, right=numbers)
    _common.say(f"\n{sum(map(len, slow.values()))} of {len(ratios)} cases above {above}; geometric mean "
                f"{statistics.geometric_mean(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--above", type=float, default=1.2)
    args = parser.parse_args()
    _random_cases.checked(parser, args.ops)
    slow, ratios, end = collections.defaultdict(list), [], time.monotonic() + args.seconds
    for case, *runners in _random_cases.accepted(_random_cases.Draw(args.seed), args.ops, required_peer()):
        times = race(*runners, args.above)
        ratios.append(times[0] / times[1])
        if ratios[-1] > args.above:
            slow[_random_cases.kind(case)].append((ratios[-1], *times, case.note))
        if time.monotonic() > end:
            break
    print_slow(slow, ratios, args.above)


if __name__ == "__main__":
    main()
