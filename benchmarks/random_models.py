"""Random small networks beside the peer, on one thread: architectures that nobody tuned for.

    python benchmarks/random_models.py [--kinds int8,float32] [--seed N] [--models N] [--above RATIO] [--save FOLDER]

Prints the models that took more than RATIO times the peer's time, also when measured again: the ratio, the
microseconds of both, and the blocks with their channels; then, for each kind, the geometric mean and the largest ratio.
FOLDER receives the models, for example for arm_race.py.
"""
import argparse
import collections
import statistics
from pathlib import Path

import _common
import _random_models
import numpy as np
import random_ops


def accepted(kinds, seed, litert):
    """Yields (kind, note, model, inputs, the peer's interpreter) of random models that the peer takes."""
    for number in range(seed, 1 << 62):
        kind = kinds[number % len(kinds)]
        draw = _random_models.Draw(kind, number)
        model = draw.model()
        try:
            peer = litert.Interpreter(model_content=model, num_threads=1)
            peer.allocate_tensors()
        except RuntimeError:        # XNNPACK refuses some pools and concatenations
            continue
        detail = peer.get_input_details()[0]
        values = np.random.default_rng(number).integers(-128, 128, detail["shape"])
        inputs = values.astype(np.int8) if detail["dtype"] == np.int8 else (values / 64).astype(np.float32)
        yield kind, f"{kind} {number}: {', '.join(draw.notes)}", model, [inputs], peer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", default=",".join(_random_models.KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--above", type=float, default=1.0)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    if not set(kinds) <= set(_random_models.KINDS):
        parser.error(f"--kinds: a list of {', '.join(_random_models.KINDS)}")
    slow, ratios = [], collections.defaultdict(list)
    drawn = accepted(kinds, args.seed, random_ops.required_peer())
    for _, (kind, note, model, inputs, peer) in zip(range(args.models), drawn, strict=False):
        if args.save:
            args.save.mkdir(exist_ok=True)
            (args.save / f"{note.partition(':')[0].replace(' ', '_')}.tflite").write_bytes(model)
        ours, theirs = random_ops.race(model, inputs, peer, args.above)
        ratios[kind].append(ours / theirs)
        if ours > args.above * theirs:
            slow.append((f"{ours / theirs:.2f}", f"{ours:.1f}", f"{theirs:.1f}", note))
    _common.print_table(("ratio", "pylite", "peer", "model"), sorted(slow, reverse=True),
                        right=("ratio", "pylite", "peer"))
    for kind, found in ratios.items():
        _common.say(f"{kind}: {len(found)} models, geometric mean {statistics.geometric_mean(found):.2f}, "
                    f"largest {max(found):.2f}")


if __name__ == "__main__":
    main()
