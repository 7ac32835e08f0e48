"""Models whose shapes or state depend on data, beside the peer: control flow, strings, tables, counting, resizing.

    python benchmarks/dynamic.py [NAME ...]

The models of tests/models/converted, from the public converter.  Microseconds of invoke() on one thread, in turn with
the peer's: "same" for the same inputs each time (the minimum), "varied" for forty random inputs in turn (the mean of
their minima), "first" for the first run on each of them (the median), when pylite lowers another segment.
"""
import statistics
import sys
import time
from pathlib import Path

import _common
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))
from tests.models import test_converted

COUNT, ROUNDS = 40, 5


def run(interpreter, values):
    """Seconds of one invoke() on `values`."""
    test_converted.feed(interpreter, values)
    start = time.perf_counter()
    interpreter.invoke()
    return time.perf_counter() - start


def measure(makers, inputs):
    """[(same, varied, first)] in microseconds, for each of the interpreters that `makers` make."""
    interpreters, rng = [make() for make in makers], np.random.default_rng(0)
    drawn = [test_converted.draw(inputs, interpreters[0], rng) for _ in range(COUNT)]
    times = [[[run(i, values) for values in drawn] for i in interpreters] for _ in range(ROUNDS)]
    again = [[run(i, drawn[0]) for _ in range(10 * ROUNDS)] for _ in range(ROUNDS) for i in interpreters]
    found = []
    for index in range(len(makers)):
        rounds = np.array([one_round[index] for one_round in times])
        found.append((min(map(min, again[index::len(makers)])) * 1e6, rounds[1:].min(0).mean() * 1e6,
                      statistics.median(rounds[0]) * 1e6))
    return found


def main():
    from pylite.interpreter import Interpreter
    litert, rows, ratios = _common.peer(), [], []
    for name in sys.argv[1:] or test_converted.INPUTS:
        path = str(test_converted.FOLDER / f"{name}.tflite")
        makers = [lambda path=path: Interpreter(path)]
        if litert:
            makers.append(lambda path=path: litert.Interpreter(path, num_threads=1))
        ours, *theirs = measure(makers, test_converted.INPUTS[name])
        row = [name]
        for i, mine in enumerate(ours):
            row += [f"{mine:.1f}", *[f"{other[i]:.1f}" for other in theirs]]
            if theirs and i < 2:
                ratios.append(mine / theirs[0][i])
                row.append(f"{ratios[-1]:.2f}")
        rows.append(row)
    columns = ["same", "peer", "ratio", "varied", "peer", "ratio", "first", "peer"] if litert else [
        "same", "varied", "first"]
    _common.print_table(("model", *columns), rows)
    if ratios:
        _common.say(f"\nlargest ratio {max(ratios):.2f}, geometric mean {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
