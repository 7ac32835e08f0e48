"""Overheads of a model: construction, allocation, resizing, and the overhead of a node.

    python benchmarks/resize.py

Medians of repeated calls of pylite and of the peer (default resolver, one thread) in one process.
"""
import itertools

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


def main():
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
