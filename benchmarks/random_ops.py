"""Models of one random op beside the peer, on one thread: shapes, axes, types and broadcasts that no other list has.

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
import _spots
import one_op


def race(case, litert, above):
    """(microseconds of pylite, of the peer), measured again where pylite is slow; None where the peer refuses."""
    from pylite.interpreter import Interpreter
    model, arrays = _spots.build(case)
    try:
        peer = one_op.fed(litert.Interpreter(model_content=model, num_threads=1), arrays)
    except (RuntimeError, ValueError):
        return None
    pair = [(runner.invoke, lambda: None) for runner in (one_op.fed(Interpreter(model_content=model), arrays), peer)]
    times = one_op.measure(pair, 5, 1e-3)
    return times if times[0] <= above * times[1] else one_op.measure(pair, 11)


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
    if (litert := _common.peer()) is None:
        raise SystemExit("there is no peer: pip install ai-edge-litert")
    draw, slow, ratios = _random_cases.Draw(args.seed), collections.defaultdict(list), []
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        op = draw.choice(*(args.ops or _random_cases.CASES))
        case = _random_cases.CASES[op](draw)
        times = race(case, litert, args.above) if case else None
        if times is None:
            continue
        ratios.append(times[0] / times[1])
        if ratios[-1] > args.above:
            slow[f"{op} {case.note.split()[0]}"].append((ratios[-1], *times, case.note))
    print_slow(slow, ratios, args.above)


if __name__ == "__main__":
    main()
