"""Layers of image, speech and detection networks, one by one, against LiteRT on this CPU.

    python benchmarks/layers.py [--types int8 float32 dynamic-range] [--threads N] [--above RATIO] [WORD ...]

The layers are those of arm_shapes.py, which counts them on emulated Arm.  Prints pylite's time divided by LiteRT's for
each layer (medians of the least times of intervals, in turn), or with --above only the larger ones, and the geometric
means.  WORD: only layers whose names contain one of them.
"""
import argparse
import collections
import statistics

import _common
import _layers
import numpy as np
import one_op


def random_inputs(interpreter):
    rng = np.random.default_rng(0)
    for tensor in interpreter.get_input_details():
        value = rng.integers(-128, 128, tensor["shape"])
        dtype = np.dtype(tensor["dtype"])
        yield value.astype(dtype) if dtype == np.int8 else (value / 127).astype(dtype)


def raced(model, threads):
    """(pylite's, LiteRT's) microseconds"""
    from ai_edge_litert.interpreter import Interpreter as Peer

    from pylite.interpreter import Interpreter
    runners = []
    for kind in Interpreter, Peer:
        interpreter = kind(model_content=model, num_threads=threads)
        interpreter.allocate_tensors()
        runners.append((one_op.fed(interpreter, list(random_inputs(interpreter))).invoke, lambda: None))
    return one_op.measure(runners, 9, 2e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--types", nargs="+", default=["int8", "float32"], choices=list(_layers.NETS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--above", type=float, default=0.0)
    args = parser.parse_args()
    if _common.peer() is None:
        raise SystemExit("there is no peer: pip install ai-edge-litert")
    for dtype in args.types:
        rows, ratios = [], collections.defaultdict(list)
        for group, name, model in _layers.layers(dtype):
            if args.words and not any(word in f"{group} {name}" for word in args.words):
                continue
            ours, theirs = raced(model, args.threads)
            ratios[group].append(ours / theirs)
            if ours / theirs >= args.above:
                rows.append((f"{group} {name}", f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}"))
        _common.print_table((dtype, "pylite us", "LiteRT us", "ratio"), rows, right=("pylite us", "LiteRT us", "ratio"))
        for group, some in [*ratios.items(), ("all", [ratio for each in ratios.values() for ratio in each])]:
            _common.say(f"{group:25s} {len(some):4d} layers, geometric mean {statistics.geometric_mean(some):.2f}, "
                        f"{sum(ratio > 1 for ratio in some)} above 1")


if __name__ == "__main__":
    main()
