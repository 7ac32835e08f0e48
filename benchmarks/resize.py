"""Overheads of a model: construction, allocation, resizing, and the overhead of a node.

    python benchmarks/resize.py
    python benchmarks/resize.py --models [GLOB ...]     allocation for new shapes, of the shared models

Medians of repeated calls of pylite and of the peer (default resolver, one thread) in one process.  With --models: the
least CPU time of allocate_tensors() for new shapes of the first input, after two others, by turns with the peer; of all
models whose first input can change.
"""
import itertools
import statistics
import sys
import time

import _common
import _models


def resizing(make):
    """Seconds of resize + allocate of a 65-operator model: (to a shape it had before, to a new shape)"""
    interpreter = make(_models.embedding())
    index = interpreter.get_input_details()[0]["index"]

    def to(batches):
        interpreter.resize_tensor_input(index, (next(batches), 76, 32, 1))
        interpreter.allocate_tensors()
    seen, new = itertools.cycle((1, 2)), itertools.count(3)
    return _common.median_seconds(lambda: to(seen)), _common.median_seconds(lambda: to(new))


def starting(make):
    """Seconds to construct and allocate a 2,000-operator graph."""
    model = _models.chain(2000)
    return _common.median_seconds(lambda: make(model).allocate_tensors(), least=7)


def node_overhead(make):
    """Seconds that one more small operator adds to invoke()."""
    times = []
    for count in (4, 2004):
        interpreter = make(_models.chain(count))
        interpreter.allocate_tensors()
        times.append(_common.median_seconds(interpreter.invoke))
    return (times[1] - times[0]) / 2000


NEW_SHAPES = 12


def new_shape_seconds(interpreters, shapes):
    """The least CPU seconds of allocate_tensors() of each interpreter for the `shapes` after the first two."""
    least = [float("inf")] * len(interpreters)
    for count, shape in enumerate(shapes):
        for i, interpreter in enumerate(interpreters):
            interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
            begin = time.process_time()
            interpreter.allocate_tensors()
            passed = time.process_time() - begin
            if count >= 2:
                least[i] = min(least[i], passed)
    return least


def shapes_to_try(detail):
    """A list of shapes for each axis of an input; axes that its signature leaves open come first."""
    base, signature = detail["shape"].tolist(), detail["shape_signature"].tolist()
    for axis in sorted(range(len(base)), key=lambda axis: (signature[axis] != -1, axis)):
        step = 32 if base[axis] >= 128 else 1
        yield [[*base[:axis], base[axis] + step * (1 + k * 5 % NEW_SHAPES), *base[axis + 1:]]
               for k in range(NEW_SHAPES)]


def resized(path):
    """(seconds of pylite, of the peer) for new shapes of the first input; None if it cannot change."""
    from pylite.interpreter import Interpreter
    try:
        details = _common.peer_interpreter(path).get_input_details()
        for shapes in shapes_to_try(details[0]):
            try:
                return new_shape_seconds([Interpreter(str(path)), _common.peer_interpreter(path)], shapes)
            except (RuntimeError, ValueError):
                continue
    except (RuntimeError, ValueError, IndexError):      # models that one of both refuses, or without inputs
        pass
    return None


def table_of_models(patterns):
    """Print the seconds and ratios of the shared models."""
    rows, ratios = [], []
    for path in _common.models(*patterns):
        found = resized(path)
        if found is not None:
            ratios.append(found[0] / found[1])
            rows.append((_common.short(path), f"{found[0] * 1e3:.3f}", f"{found[1] * 1e3:.3f}", f"{ratios[-1]:.1f}"))
    _common.print_table(("a new shape", "pylite, ms", "peer, ms", "ratio"), rows)
    mean = statistics.geometric_mean(ratios)
    _common.say(f"{len(ratios)} models: {mean:.2f} times the peer's, at most {max(ratios):.1f}")


def main():
    if "--models" in sys.argv:
        table_of_models(sys.argv[sys.argv.index("--models") + 1:])
        return
    from pylite.interpreter import Interpreter
    makers = [lambda model: Interpreter(model_content=model)]
    peer = _common.peer()
    if peer:
        makers.append(lambda model: peer.Interpreter(model_content=model, num_threads=1))
    columns = [(*resizing(make), starting(make), node_overhead(make)) for make in makers]
    rows = [("resize to an earlier shape, 65 operators", "ms", 1e3, 0.1),
            ("resize to a new shape, 65 operators", "ms", 1e3, 5),
            ("construct and allocate, 2,000 operators", "ms", 1e3, 400),
            ("one more operator on 4 numbers, invoke", "ns", 1e9, 150)]
    table = [(what, unit, *(f"{column[i] * factor:.3g}" for column in columns), f"{goal:g}")
             for i, (what, unit, factor, goal) in enumerate(rows)]
    _common.print_table(("", "", *("pylite", "peer")[:len(columns)], "goal"), table,
                        right=("pylite", "peer", "goal"))


if __name__ == "__main__":
    main()
