"""Random small networks beside the peer, on one thread: architectures that nobody tuned for.

    python benchmarks/random_models.py [--rare] [--kinds int8,float32] [--seed N] [--models N] [--above RATIO]
                                       [--save FOLDER]

--rare: attention, recurrent cells, dilated series, branches, heads (_random_blocks.py) instead of usual image networks.
Prints the models that took more than RATIO times the peer's time, also when measured again: the ratio, the
microseconds of both, and the blocks with their channels; then, for each kind, the geometric mean and the largest ratio.
FOLDER receives the models, for example for arm_race.py.
"""
import argparse
import collections
import statistics
from pathlib import Path

import _common
import _random_blocks
import _random_models
import numpy as np
import random_ops


def values(detail, rng):
    """Random values for an input: indices of rows if the type is int32."""
    if detail["dtype"] == np.float32:
        return (rng.integers(-128, 128, detail["shape"]) / 64).astype(np.float32)
    info = np.iinfo(detail["dtype"])
    low, high = (0, _random_blocks.VOCABULARY) if info.bits == 32 else (info.min, info.max + 1)
    return rng.integers(low, high, detail["shape"]).astype(detail["dtype"])


def accepted(draws, kinds, seed, litert):
    """Yields (kind, note, model, inputs, the peer's interpreter) of random models that the peer takes."""
    for number in range(seed, 1 << 62):
        kind = kinds[number % len(kinds)]
        draw = draws(kind, number)
        model = draw.model()
        try:
            peer = litert.Interpreter(model_content=model, num_threads=1)
            peer.allocate_tensors()
        except RuntimeError:        # XNNPACK refuses some pools and concatenations
            continue
        inputs = [values(peer.get_input_details()[0], np.random.default_rng(number))]
        yield kind, f"{kind} {number}: {', '.join(draw.notes)}", model, inputs, peer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rare", action="store_true")
    parser.add_argument("--kinds", help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--above", type=float, default=1.0)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    draws = _random_blocks.Draw if args.rare else _random_models.Draw
    kinds = args.kinds.split(",") if args.kinds else list(draws.NETS)
    if not set(kinds) <= set(draws.NETS):
        parser.error(f"--kinds: a list of {', '.join(draws.NETS)}")
    slow, ratios = [], collections.defaultdict(list)
    drawn = accepted(draws, kinds, args.seed, random_ops.required_peer())
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
