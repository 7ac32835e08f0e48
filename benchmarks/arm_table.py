"""Models on Arm, by arm_race.py: docs/measurements/arm.md, its means in docs/arm.md, continuous integration's check.

    ARM_CACHE=FOLDER python benchmarks/arm_table.py --write         the tables, some 30 minutes
    ARM_CACHE=FOLDER python benchmarks/arm_table.py --write --only kws_ref_model,ad01_int8      these rows alone
    ARM_CACHE=FOLDER python benchmarks/arm_table.py --check      small models, beside benchmarks/arm_figures.json
    ARM_CACHE=FOLDER python benchmarks/arm_table.py --renew         and writes that file

FOLDER is what arm_race.py needs.  Figures are kept there for each model, core and state of a runtime, so that a second
run counts what changed.  --only counts pylite for the named models, and takes all else from the page: other rows, how
a start went (unless "start" is among the names), and LiteRT's side of rows that were there before.  --check fails where
pylite executes 5 % more instructions than the file says, which are those of the last release.
"""
import argparse
import functools
import hashlib
import json
import math
import os
import re
import subprocess
import tempfile
from pathlib import Path

import _layers
import _models
import arm_race
from _common import MODELS, say

PAGE = arm_race.HERE.parent / "docs" / "arm.md"
TABLES = PAGE.parent / "measurements" / "arm.md"
FIGURES = arm_race.HERE / "arm_figures.json"
BEGIN, END = "<!-- race: begin -->\n", "<!-- race: end -->\n"
MEANS = "<!-- means: begin -->\n", "<!-- means: end -->\n"
CORES = {"cortex-a53": "A53", "cortex-a72": "A72", "cortex-a76": "A76"}
LEVELS = {"cortex-a53": "neon", "cortex-a72": "neon", "cortex-a76": "dotprod"}
CLASSES = {
    "int8": ["tiny/**/kws_ref_model.tflite", "tiny/**/vww_96_int8.tflite", "tiny/**/pretrainedResnet_quant.tflite",
             "keras/mobilenet_v1_050_160_int8.tflite", "keras/conv1d_har_128_int8.tflite",
             "keras/lstm_tfk_28_int8.tflite", "keras/transformer_block_64_int8.tflite", "**/okay_nabu.tflite",
             "tiny/**/ad01_int8.tflite"],
    "uint8": ["test_data/mobilenet_v1_0.25_128_quant.tflite", "test_data/mobilenet_v1_0.5_160_quant.tflite",
              "test_data/mobilenet_v2_1.0_224_quant.tflite",
              "test_data/tools/mobilenet_quant_v1_224_head_layers.tflite"],
    "float32": ["keras/mobilenet_v1_050_160_float32.tflite", "tiny/**/pretrainedResnet.tflite",
                "tiny/**/vww_96_float.tflite", "go-tflite/_example/blazeface/face_detection_front.tflite",
                "keras/conv1d_har_128_float32.tflite", "keras/gru_k3_28_float32.tflite",
                "keras/lstm_tfk_28_float32.tflite", "keras/transformer_block_64_float32.tflite"],
    "dynamic-range": ["keras/mobilenet_v1_050_160_dynint8.tflite", "tiny/**/kws_ref_model_float32.tflite",
                      "keras/conv1d_har_128_dynint8.tflite", "keras/gru_k3_28_dynint8.tflite",
                      "keras/lstm_unrolled_k3_10_dynint8.tflite", "keras/transformer_block_64_dynint8.tflite",
                      "keras/stft_vad_dynint8.tflite"],
    "int16": ["keras/mobilenet_v1_050_160_int16x8.tflite", "keras/lstm_unrolled_k3_10_int16x8.tflite",
              "keras/stft_vad_aeq_static_wi8_ai16.tflite", "**/static_w8_a16_quantized_k_einsum.tflite"],
}
SMALL = ["tiny/**/kws_ref_model.tflite", "keras/conv1d_har_128_float32.tflite", "keras/conv1d_har_128_dynint8.tflite",
         "keras/lstm_unrolled_k3_10_int16x8.tflite"]
SMALL_LAYERS = ["depthwise 5x5 7x7x576", "first layer 3x3, 96x96x3 to 8, stride 2", "HARD_SWISH 14x14x240"]
SMALL_CORES = ["cortex-a72", "cortex-a76"]
STARTS = ["tiny/**/kws_ref_model.tflite", "keras/mobilenet_v1_050_160_int8.tflite",
          "keras/mobilenet_v1_050_160_float32.tflite", "keras/lstm_unrolled_k3_10_int8.tflite",
          "keras/transformer_block_64_float32.tflite"]
PARTS = {"import": arm_race.IMPORT, "load": arm_race.LOAD, "first": arm_race.FIRST, "invoke": arm_race.ALL,
         "call": arm_race.CALL}
COLD = ("import", "load", "first")
LIMIT = 1.05
TOGETHER = 32           # models in a process
START = "Start"         # how the text behind the tables of classes begins
CELL = re.compile(r"([\d.]+) / ([\d.]+) \([\d.]+\)")


def path_of(pattern):
    return min(MODELS.glob(pattern))


def made(cache, name, model):
    """The path of a model that benchmarks/ makes."""
    path = cache / "made" / f"{name}.tflite".replace(" ", "_").replace(",", "")
    if not path.exists() or path.read_bytes() != model:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(model)
    return path


def small_models(cache):
    """The paths of the models that --check counts: SMALL, a network of 5x5 depthwise layers and SMALL_LAYERS."""
    layers = {f"{group} {name}": model for group, name, model in _layers.layers("int8")}
    network = made(cache, "mobilenet_v3_small_96_int8", _models.mobilenet_v3_small(96))
    return [*map(path_of, SMALL), network, *(made(cache, name, layers[name]) for name in SMALL_LAYERS)]


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def state(folder):
    """The digest of an installed runtime."""
    files = sorted(path for path in Path(folder).rglob("*") if path.suffix in (".py", ".so"))
    return digest(*(hashlib.sha256(path.read_bytes()).hexdigest() for path in files))


class Race:
    """Instructions and modelled cycles of the files of models, as far as they are not known from earlier runs.

    guest: what the emulated Python runs; parts: {name: tag} of the regions in it, of which "invoke" gets cycles, too,
    from so many samples.
    """

    def __init__(self, cache, guest=arm_race.GUEST, parts=PARTS, samples=arm_race.SAMPLES):
        self.cache, self.file, self.kept, self.rows = cache, cache / "race.json", {}, {}
        self.guest, self.parts, self.samples, self.known = guest, parts, samples, self.read()
        arm_race.build(cache)
        self.folders = {"pylite": cache / "lib-aarch64", "litert": arm_race.install_peer(cache)}
        for folder in self.folders.values():        # so that no import compiles
            subprocess.run([cache / "aarch64/usr/bin/python-emulated", "-m", "compileall", "-q", folder], check=False)

    def read(self):
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def key(self, core, which, path):
        return digest(core, *arm_race.CORES[core], which, state(self.folders[which]), self.guest, str(self.samples),
                      hashlib.sha256(path.read_bytes()).hexdigest())

    def keep(self, page, only):
        """Take from the page what --only does not count again; returns the lines behind the tables of classes."""
        for line in page[:page.index(START)].splitlines():
            name, *cells = line.strip("| ").split(" | ")
            if len(cells) == 2 * len(CORES) and "**" not in name and CELL.fullmatch(cells[0]):
                if name not in only:
                    self.rows[name] = line      # whose ratios are of figures before they were rounded
                for which, group in (("pylite", 1), ("litert", 2)):
                    for i, core in enumerate(CORES):
                        both = [float(CELL.fullmatch(cell)[group]) * 1e6 for cell in cells[2 * i:2 * i + 2]]
                        if which == "litert" or name not in only:
                            self.kept[core, which, name] = dict(zip(("invoke", "cycles"), both, strict=True))
        return page[page.index(START):]

    def missing(self, core, which, path):
        return (core, which, path.stem) not in self.kept and self.key(core, which, path) not in self.known

    def run(self, cores, paths):
        """Count the models that have not been counted yet."""
        for which in self.folders:
            # Cores of one ISA level execute the same instructions of pylite.
            levels = [(core,) for core in cores]
            if which == "pylite":
                levels = [tuple(c for c in cores if LEVELS[c] == level) for level in sorted(set(LEVELS.values()))]
            for alike in filter(None, levels):
                new = [path for path in paths if any(self.missing(core, which, path) for core in alike)]
                for i in range(0, len(new), TOGETHER):
                    self.count(alike, which, new[i:i + TOGETHER])

    def count(self, cores, which, paths):
        regions, _ = arm_race.execute(self.cache, cores[0], which, paths, guest=self.guest)
        for i, path in enumerate(paths):
            tags = {name: tag + i * arm_race.MODEL * (name != "import") for name, tag in self.parts.items()}
            found = {name: regions[tag].instructions for name, tag in tags.items()}
            for core in cores:
                cycles = regions[tags["invoke"]].cycles(arm_race.Core(core), self.samples)
                self.known[self.key(core, which, path)] = found | {"cycles": cycles}
        self.save()

    def save(self):
        self.known = self.read() | self.known       # another run may have written
        self.file.with_suffix(".new").write_text(json.dumps(self.known))
        self.file.with_suffix(".new").replace(self.file)

    def start(self, which, path, plans=False):
        """Instructions of a process that runs this model alone, by names of PARTS; plans: it finds a plan of pylite."""
        key = digest("start", self.key("cortex-a72", which, path), str(plans))
        if key not in self.known:
            with tempfile.TemporaryDirectory() as folder:
                more = f", cache_dir={folder!r}" if plans else ""
                guest = arm_race.GUEST.replace("num_threads=1", "num_threads=1" + more)
                for _ in range(1 + plans):      # the first one leaves the plan
                    found, _ = arm_race.execute(self.cache, "cortex-a72", which, [path], guest=guest)
            self.known[key] = {name: found[tag].instructions for name, tag in PARTS.items()}
            self.save()
        return self.known[key]

    def figures(self, core, which, path):
        """{"cycles": of an invoke(), a name of PARTS: instructions}"""
        return self.known.get(self.key(core, which, path)) or self.kept[core, which, path.stem]


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def millions(ours, theirs):
    digits = 3 if min(ours, theirs) < 1e6 else 2 if min(ours, theirs) < 1e7 else 1
    return f"{ours / 1e6:.{digits}f} / {theirs / 1e6:.{digits}f} ({ours / theirs:.2f})"


def class_rows(race, paths):
    """A line of a table for each model, and one of geometric means."""
    race.run(CORES, paths)
    columns = [(core, what) for core in CORES for what in ("invoke", "cycles")]
    ratios = {column: [] for column in columns}
    for path in paths:
        cells = []
        for core, what in columns:
            ours, theirs = (race.figures(core, which, path)[what] for which in ("pylite", "litert"))
            ratios[core, what].append(ours / theirs)
            cells.append(millions(ours, theirs))
        name = path.stem
        yield race.rows.get(name, f"| {name} | {' | '.join(cells)} |")
    yield "| **geometric mean** | " + " | ".join(f"**{mean(ratios[column]):.2f}**" for column in columns) + " |"


def table(race, classes, rest=None):
    """The lines of the tables; rest: those behind the tables of classes, counted if it is None."""
    yield "pylite / LiteRT, millions (ratio), one `invoke()` on one thread.\n"
    for name in classes:
        yield f"| {name} | " + " | ".join(f"{core} instructions | {core} cycles" for core in CORES.values()) + " |"
        yield "| --- |" + " ---: |" * (2 * len(CORES))
        yield from class_rows(race, list(map(path_of, CLASSES[name])))
        yield ""
    if rest is not None:
        yield rest.rstrip("\n")
        return
    yield from start_rows(race)


def start_rows(race):
    yield (f"{START}, in millions of instructions on a Cortex-A72, each model in a process of its own: `import`\n"
           "beyond numpy; construct and allocate; the first `invoke()`; all three; the same where `cache_dir=` has a\n"
           "plan; and `set_tensor` and `get_tensor` beside a later `invoke()`, in thousands.\n")
    yield "| model | import | load | first invoke | cold start | cold start with a plan | calls, thousands |"
    yield "| --- |" + " ---: |" * 6
    for path in map(path_of, STARTS):
        both = [race.start(which, path) for which in ("pylite", "litert")]
        cold = [sum(f[name] for name in COLD) for f in both]
        planned = race.start("pylite", path, plans=True)
        cells = [millions(*(f[name] for f in both)) for name in COLD] + [millions(*cold)]
        cells.append(millions(sum(planned[name] for name in COLD), cold[1]))
        calls = [(f["call"] - f["invoke"]) / 1e3 for f in both]
        cells.append(f"{calls[0]:.1f} / {calls[1]:.1f} ({calls[0] / calls[1]:.2f})")
        yield f"| {path.stem} | {' | '.join(cells)} |"


def between(page, begin, end):
    """The text between two comments of a page."""
    return page.read_text().split(begin)[1].split(end)[0]


def replace_table(page, begin, end, text):
    """Replace the text between two comments of a page."""
    head, behind = page.read_text().split(begin)
    page.write_text(head + begin + text + "\n" + end + behind.split(end)[1])


def means(tables):
    """A table with a line for each class of models: how many there are, and the geometric means of their cycles."""
    yield "| cycles, pylite / LiteRT | models | " + " | ".join(CORES.values()) + " |"
    yield "| --- | ---: |" + " ---: |" * len(CORES)
    for part in tables[:tables.index(START)].split("\n\n"):
        rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
        if rows:        # headers, dashes, models, means
            yield f"| {rows[0][0]} | {len(rows) - 3} | {' | '.join(cell.strip('*') for cell in rows[-1][2::2])} |"


def write(race, only):
    rest = race.keep(between(TABLES, BEGIN, END), only) if only else None
    if "start" in only:
        rest = None
    replace_table(TABLES, BEGIN, END, "\n".join(table(race, CLASSES, rest)))
    replace_table(PAGE, *MEANS, "\n".join(means(between(TABLES, BEGIN, END))))


def check(race, renew):
    released = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    paths = small_models(race.cache)
    race.run(SMALL_CORES, paths)
    found, worse = {}, []
    for path in paths:
        for core in SMALL_CORES:
            name = f"{path.stem}, {core}"
            ours, theirs = (race.figures(core, which, path) for which in ("pylite", "litert"))
            found[name] = {"instructions": ours["invoke"], "cycles": round(ours["cycles"])}
            before = released.get(name, found[name])
            say(f"{name}: instructions {millions(ours['invoke'], theirs['invoke'])}, released "
                f"{before['instructions'] / 1e6:.3f}; cycles {millions(ours['cycles'], theirs['cycles'])}, released "
                f"{before['cycles'] / 1e6:.3f}")
            if ours["invoke"] > LIMIT * before["instructions"]:
                worse.append(name)
    if renew:
        FIGURES.write_text(json.dumps(found, indent=1) + "\n")
    elif worse:
        raise SystemExit(f"more than {LIMIT} times the instructions of the last release: {'; '.join(worse)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    action = parser.add_mutually_exclusive_group()
    for name in ("--write", "--check", "--renew"):
        action.add_argument(name, action="store_true")
    parser.add_argument("--classes", default=",".join(CLASSES), help="to print instead of all: " + ", ".join(CLASSES))
    parser.add_argument("--only", metavar="MODEL,...", help="with --write: the rows to renew")
    options = parser.parse_args()
    if "ARM_CACHE" not in os.environ:
        parser.error("ARM_CACHE is not set")
    race = Race(Path(os.environ["ARM_CACHE"]).resolve())
    if options.check or options.renew:
        check(race, options.renew)
    elif options.write:
        write(race, options.only.split(",") if options.only else [])
    else:
        for line in table(race, options.classes.split(",")):
            say(line)


if __name__ == "__main__":
    main()
