"""Models on boards with Arm cores: modelled milliseconds of pylite and LiteRT, with caches, memory and threads.

    ARM_CACHE=FOLDER python benchmarks/arm_board.py [--boards zero2,pi4] [--types int8] [MODEL...]
    ARM_CACHE=FOLDER python benchmarks/arm_board.py --write [--types int8]     tables of docs/measurements/arm.md

Without MODEL a second table compares published figures of other runtimes with what the model says of LiteRT; --types
is that of the first table.  FOLDER is what arm_race.py needs; counts are kept in its board.json.  QEMU counts
instructions (armcount.c) and what they find in which cache (armcache.c), in windows of 50,000 instructions.  A window
takes

    max((core + stalls) / threads, bytes of DRAM / bandwidth)

core: llvm-mca's cycles, where all loads hit.  stalls: for each line that a load, a store or a fetch misses and no
prefetcher brings, the latency of where it is, less what the core hides by computing ahead: its reorder buffer divided
by its width, nothing on an in-order core.  Lines that a prefetcher brings cost bandwidth only.  Threads divide each
window evenly, without waiting for each other; so four threads are an upper limit of what boards do, and the caches
of one core hold what four would.
"""
import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
from pathlib import Path

import _models
import arm_race
import arm_shapes
import arm_table
import numpy as np
from _common import say

BEGIN, END = "<!-- boards: begin -->\n", "<!-- boards: end -->\n"
SAMPLES, LINE = 10, 64
# armcache.c's counters
INSTRUCTIONS, DATA, CODE, AHEAD, WRITTEN, COUNTERS = 0, slice(1, 4), slice(4, 7), slice(7, 10), 10, 11
# Sizes: threedots.ovh/blog/2023/09/gathering-some-raspberry-pi-5-details (Pi 5), Wikipedia's ARM Cortex-A72 (Pi 4),
# AMD's UG1085 (16 ways of an A53's L2).  No page was read for the A53's first level and the size of its L2, the ways
# of an A76's caches and the prefetchers: they are assumed.
CACHES = {
    "cortex-a53": "l1i=32768:2,l1d=32768:4,l2=524288:16,streams=2,ahead=5",
    "cortex-a72": "l1i=49152:3,l1d=32768:2,l2=1048576:16,streams=8,ahead=8",
    "cortex-a76": "l1i=65536:4,l1d=65536:4,l2=524288:8,l3=2097152:16,streams=16,ahead=8",
}
# The last three lines of that guest, a marked run, twice: the second run finds in the caches what the first left, and
# its counts replace the first one's.
GUEST = arm_shapes.GUEST + "".join(arm_shapes.GUEST.splitlines(keepends=True)[-3:])
HIDDEN = {"cortex-a53": 0, "cortex-a72": 128 // 3, "cortex-a76": 128 // 4}      # reorder buffer / width, cycles


@dataclasses.dataclass(frozen=True)
class Board:
    """peak: of DRAM in GB/s, by its clock and 32 bits; share: of it that STREAM's copy reaches; latencies are assumed:
    cycles of L2 and L3, ns of DRAM.
    """
    name: str
    core: str
    ghz: float
    peak: float
    share: float
    second: float
    third: float
    dram: float

    @property
    def bandwidth(self):
        """GB/s"""
        return self.peak * self.share


# STREAM's copy: LPDDR4 with two Cortex-A53 (TI's SPRACV1B; no page was found for the Pi 3), and a Pi 4 (5.53 of 12.8
# GB/s, sci-pi.org.uk), whose share the Pi 5 is assumed to have.
IN_ORDER, PI4 = 0.69, 5.53 / 12.8
BOARDS = {
    "zero2": Board("Pi Zero 2", "cortex-a53", 1.0, 3.6, IN_ORDER, 15, 0, 150),
    "pi3": Board("Pi 3B+", "cortex-a53", 1.4, 3.6, IN_ORDER, 15, 0, 150),
    "pi4": Board("Pi 4", "cortex-a72", 1.8, 12.8, PI4, 20, 0, 130),
    "pi5": Board("Pi 5", "cortex-a76", 2.4, 17.1, PI4, 11, 35, 120),
}
MODELS = {f"mobilenet_{version}_{dtype}": (getattr(_models, f"mobilenet_{version}"), net)
          for version in ("v1", "v2") for dtype, net in (("int8", _models.QuantizedNet), ("float32", _models.Net))}
# What others measured with other runtimes on networks of these shapes: model, board, GHz, threads, milliseconds, who.
# ncnn's of one thread are 569 million products by a figure of products a cycle.
PUBLISHED = [
    ("mobilenet_v1_int8", "zero2", 1.0, 1, 569 / 2.0, "ncnn, as products a cycle"),
    ("mobilenet_v1_int8", "pi3", 1.4, 1, 569 / 2.2 / 1.4, "ncnn, as products a cycle"),
    ("mobilenet_v1_int8", "pi4", 1.8, 1, 569 / 3.7 / 1.8, "ncnn, as products a cycle"),
    ("mobilenet_v1_int8", "pi5", 2.4, 1, 569 / 16.5 / 2.4, "ncnn, as products a cycle"),
    ("mobilenet_v1_int8", "pi3", 1.4, 4, 67.2, "ncnn, its issue 3451"),
    ("mobilenet_v1_float32", "pi3", 1.4, 4, 113.2, "ncnn, its issue 3451"),
    ("mobilenet_v1_float32", "pi3", 1.4, 4, 115, "XNNPACK's README, 32 bit"),
    ("mobilenet_v2_float32", "pi3", 1.4, 4, 79, "XNNPACK's README, 32 bit"),
    ("mobilenet_v1_int8", "pi4", 1.5, 4, 40.2, "ncnn, its issue 3485"),
    ("mobilenet_v1_float32", "pi4", 1.5, 4, 71.6, "ncnn, its issue 3485"),
    ("mobilenet_v1_float32", "pi4", 1.5, 4, 75, "XNNPACK's README, 32 bit"),
    ("mobilenet_v2_float32", "pi4", 1.5, 4, 44, "XNNPACK's README, 32 bit"),
    ("mobilenet_v2_int8", "pi5", 2.4, 4, 4.01, "ExecuTorch, learn.arm.com"),
    ("mobilenet_v2_float32", "pi5", 2.4, 4, 10.89, "ExecuTorch, learn.arm.com"),
]


class Counts:
    """Windows of armcache.c and modelled cycles of models, kept in a file."""

    def __init__(self, cache):
        self.cache, self.file = cache, cache / "board.json"
        self.known = json.loads(self.file.read_text()) if self.file.exists() else {}
        arm_race.build(cache)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", cache / "armcache.so",
                        arm_race.HERE / "armcache.c"], check=True)
        self.folders = {"pylite": cache / "lib-aarch64", "litert": arm_race.install_peer(cache)}

    def key(self, core, which, path):
        model = hashlib.sha256(path.read_bytes()).hexdigest()
        return arm_table.digest(core, *arm_race.CORES[core], which, arm_table.state(self.folders[which]), CACHES[core],
                                model, GUEST, (arm_race.HERE / "armcache.c").read_text())

    def run(self, core, which, paths):
        """Count those of these models that are not known."""
        new = [path for path in paths if self.key(core, which, path) not in self.known]
        if not new:
            return
        trace = self.cache / f"caches-{os.getpid()}"
        try:
            regions, _ = arm_race.execute(self.cache, core, which, new, guest=GUEST, plugins=[
                "-plugin", f"{self.cache}/armcache.so,out={trace},{CACHES[core]}"])
            found = read(trace)
        finally:
            trace.unlink(missing_ok=True)
        for i, path in enumerate(new):
            tag = i * arm_race.MODEL + arm_race.ALL
            self.known[self.key(core, which, path)] = {"cycles": regions[tag].cycles(arm_race.Core(core), SAMPLES),
                                                       "windows": found[tag].tolist()}
        self.file.write_text(json.dumps(self.known))

    def of(self, core, which, path):
        """(modelled cycles of the core, windows)"""
        found = self.known[self.key(core, which, path)]
        return found["cycles"], np.array(found["windows"], np.float64)


def read(path):
    """{tag: windows} of armcache.c's file"""
    found = {}
    with open(path, "rb") as file:
        for line in iter(file.readline, b""):
            _, tag, count = line.split()
            windows = np.frombuffer(file.read(4 * COUNTERS * int(count)), np.uint32)
            found[int(tag)] = windows.reshape(-1, COUNTERS)
    return found


def parts(board, cycles, windows):
    """Seconds of each window: what the core computes, its stalls by level (a column each), and DRAM's transfers."""
    core = cycles / windows[:, INSTRUCTIONS].sum() * windows[:, INSTRUCTIONS] / board.ghz / 1e9
    latencies = np.array([board.second, board.third, board.dram * board.ghz])
    exposed = np.maximum(0, latencies - HIDDEN[board.core]) / board.ghz / 1e9
    stalls = (windows[:, DATA] + windows[:, CODE]) * exposed
    lines = windows[:, DATA.stop - 1] + windows[:, CODE.stop - 1] + windows[:, AHEAD.stop - 1] + windows[:, WRITTEN]
    return core, stalls, lines * LINE / board.bandwidth / 1e9


def predict(board, cycles, windows, threads=1):
    """(milliseconds, {what takes them: share})"""
    core, stalls, transfers = parts(board, cycles, windows)
    computed = (core + stalls.sum(1)) / threads
    bound = transfers > computed
    total = np.maximum(computed, transfers).sum()
    shares = {"core": core[~bound].sum() / threads, "L2": stalls[~bound, 0].sum() / threads,
              "L3": stalls[~bound, 1].sum() / threads, "DRAM latency": stalls[~bound, 2].sum() / threads,
              "DRAM bandwidth": transfers[bound].sum()}
    return 1e3 * total, {name: share / total for name, share in shares.items()}


def beside_core(shares):
    """What takes 5 % or more of the time beside the core."""
    return ", ".join(f"{what} {100 * share:.0f} %" for what, share in shares.items() if what != "core" and share >= .05)


def rows(counts, boards, paths):
    """A line for each model and board: milliseconds of both runtimes by threads, and what takes most of pylite's."""
    yield "| model | board | 1 thread | 2 threads | 4 threads | 1 to 4, pylite | beside the core: 1 | 4 |"
    yield "| --- | --- |" + " ---: |" * 4 + " --- |" * 2
    for name, path in paths.items():
        for board in boards:
            for which in counts.folders:
                counts.run(board.core, which, list(paths.values()))
            cells, ours, shares = [], [], []
            for threads in (1, 2, 4):
                both = [predict(board, *counts.of(board.core, which, path), threads) for which in counts.folders]
                ours.append(both[0][0])
                shares.append(both[0][1])
                cells.append(f"{both[0][0]:.3g} / {both[1][0]:.3g} ({both[0][0] / both[1][0]:.2f})")
            yield (f"| {name} | {board.name} | {' | '.join(cells)} | {ours[0] / ours[2]:.1f} | "
                   f"{beside_core(shares[0])} | {beside_core(shares[2])} |")


def calibration(counts, paths):
    """A line for each published figure beside what the model says of LiteRT, and the mean errors."""
    yield "| model | board | threads | published ms | by | LiteRT, ms | modelled / published | beside the core |"
    yield "| --- | --- | ---: | ---: | --- | ---: | ---: | --- |"
    ratios = {}
    for name, key, ghz, threads, published, who in PUBLISHED:
        board = dataclasses.replace(BOARDS[key], ghz=ghz)
        counts.run(board.core, "litert", [paths[name]])
        milliseconds, shares = predict(board, *counts.of(board.core, "litert", paths[name]), threads)
        ratio = milliseconds / published
        ratios.setdefault(name.rpartition("_")[2], []).append(ratio)
        yield (f"| {name} | {board.name}, {ghz} GHz | {threads} | {published:.3g} | {who} | {milliseconds:.3g} | "
               f"{ratio:.2f} | {beside_core(shares)} |")
    ratios["all"] = [ratio for some in ratios.values() for ratio in some]
    yield ""
    yield "| figures | number | mean error | largest | geometric mean of modelled / published |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for dtype, some in ratios.items():
        errors = np.abs(np.array(some) - 1)
        yield (f"| {dtype} | {len(some)} | {100 * errors.mean():.0f} % | {100 * errors.max():.0f} % | "
               f"{np.exp(np.log(some).mean()):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="files; default: the models with published figures")
    parser.add_argument("--boards", default=",".join(BOARDS))
    parser.add_argument("--types", default="int8,float32")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if "ARM_CACHE" not in os.environ:
        parser.error("ARM_CACHE is not set")
    counts = Counts(Path(os.environ["ARM_CACHE"]).resolve())
    if options.models:
        paths = {Path(model).stem: Path(model).resolve() for model in options.models}
    else:
        made = {name: arm_table.made(counts.cache, name, build(net((1, 224, 224, 3))))
                for name, (build, net) in MODELS.items()}
        paths = {name: path for name, path in made.items() if name.split("_")[-1] in options.types.split(",")}
    lines = [*rows(counts, [BOARDS[name] for name in options.boards.split(",")], paths)]
    if not options.models and options.boards == ",".join(BOARDS):
        lines += ["", *calibration(counts, made)]
    if options.write:
        arm_table.replace_table(arm_table.TABLES, BEGIN, END, "\n".join(lines))
    else:
        say("\n".join(lines))


if __name__ == "__main__":
    main()
