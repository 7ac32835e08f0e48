"""Layers of image, speech and detection networks, one by one, against LiteRT on emulated Arm cores.

    ARM_CACHE=FOLDER python benchmarks/arm_shapes.py [--types int8,float32,dynamic-range] [--cores A,B] [WORD...]
    ARM_CACHE=FOLDER python benchmarks/arm_shapes.py --write        the table of docs/arm.md

Each layer is a model of one operator, with the shape that it has in some network: MobileNet v1 to v3,
EfficientNet-Lite, MCUNet, DS-CNN, ResNet, SSD, U-Net, MoveNet, BlazeFace.  Networks combine such layers, so the figures
also estimate networks that have not been counted.  FOLDER is what arm_race.py needs; figures are kept in its race.json,
so that a second run counts what changed.  With words, only layers whose names contain one of them.  Instructions are
counted, cycles are modelled: see arm_race.py.
"""
import argparse
import os
from pathlib import Path

import _layers
import arm_race
import arm_table
from _common import say

BEGIN, END = "<!-- shapes: begin -->\n", "<!-- shapes: end -->\n"
SAMPLES = 5             # of a layer, whose loops are uniform
GUEST = arm_race.second_invoke("""
    rng = np.random.default_rng(0)
    for tensor in interpreter.get_input_details():
        shape, dtype = tuple(tensor["shape"]), np.dtype(tensor["dtype"])
        value = np.frombuffer(rng.bytes(int(np.prod(shape))), np.int8).reshape(shape)
        interpreter.set_tensor(tensor["index"], value if dtype == np.int8 else (value / 127).astype(dtype))
    """)


def files(cache, dtype, words):
    """{(group, name): path of the model}"""
    return {(group, name): arm_table.made(cache, f"{dtype} {group} {name}", model)
            for group, name, model in _layers.layers(dtype)
            if not words or any(word in f"{group} {name}" for word in words)}


def ratios(race, core, path):
    """pylite's instructions and cycles as parts of LiteRT's"""
    ours, theirs = (race.figures(core, which, path) for which in ("pylite", "litert"))
    return [ours[what] / theirs[what] for what in ("invoke", "cycles")]


def print_layers(race, cores, found):
    """All layers, then the geometric means of the groups and of all."""
    rows = {key: [ratios(race, core, path) for core in cores] for key, path in found.items()}
    say(f"{'layer':45s}" + "".join(f"{arm_table.CORES[core] + ' instr, cycles':>20s}" for core in cores))
    for (group, name), row in rows.items():
        ours = race.figures(cores[0], "pylite", found[group, name])["invoke"]
        say(f"{group + ' ' + name:45s}" + "".join(f"{i:12.2f}{c:8.2f}" for i, c in row) + f"{ours / 1e6:9.3f} M")
    for group in [*dict.fromkeys(group for group, _ in rows), ""]:
        some = [row for key, row in rows.items() if group in ("", key[0])]
        means = [[arm_table.mean([row[i][k] for row in some]) for k in (0, 1)] for i in range(len(cores))]
        say(f"mean of {len(some):3d} {group:33s}" + "".join(f"{i:12.3f}{c:8.3f}" for i, c in means))


def table(race, types):
    """The lines for docs/arm.md: of each group the mean, and the layer with most of LiteRT's cycles on each core."""
    for dtype in types:
        found = files(race.cache, dtype, [])
        race.run(arm_table.CORES, list(found.values()))
        rows = {key: [ratios(race, core, path)[1] for core in arm_table.CORES] for key, path in found.items()}
        yield f"| {dtype} | layers | " + " | ".join(f"{core} | worst" for core in arm_table.CORES.values()) + " |"
        yield "| --- | ---: |" + " ---: | --- |" * len(arm_table.CORES)
        for group in [*dict.fromkeys(group for group, _ in rows), "all"]:
            some = {key: row for key, row in rows.items() if group in ("all", key[0])}
            cells = []
            for i in range(len(arm_table.CORES)):
                worst = max(some, key=lambda key, i=i, some=some: some[key][i])
                cells.append(f"{arm_table.mean([row[i] for row in some.values()]):.2f} | "
                             + (f"{some[worst][i]:.2f} {worst[1]}" if group != "all" else
                                f"{sum(row[i] > 1 for row in some.values())} above 1"))
            yield f"| {group} | {len(some)} | {' | '.join(cells)} |"
        yield ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--types", default=",".join(_layers.NETS))
    parser.add_argument("--cores", default=",".join(arm_table.CORES))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if "ARM_CACHE" not in os.environ:
        parser.error("ARM_CACHE is not set")
    race = arm_table.Race(Path(os.environ["ARM_CACHE"]).resolve(), GUEST, {"invoke": arm_race.ALL},
                          SAMPLES)
    types, cores = options.types.split(","), options.cores.split(",")
    if options.write:
        arm_table.replace_table(arm_table.PAGE, BEGIN, END, "\n".join(table(race, types)))
        return
    for dtype in types:
        found = files(race.cache, dtype, options.words)
        race.run(cores, list(found.values()))
        say(f"\n{dtype}: pylite / LiteRT, and pylite's instructions on {arm_table.CORES[cores[0]]}")
        print_layers(race, cores, found)


if __name__ == "__main__":
    main()
