"""Startup: time and memory of `import pylite` excluding numpy's, and of import + load + first invoke of a model.

    python benchmarks/start.py [MODEL.tflite ...] [--runs N]

Every figure is the median of N new processes, pylite's, pylite's with a plan cache and the peer's in turn.  Wall time
runs from the end of `import numpy` to the end of the import, or to the first result, and its least is given, too; CPU
time is that of all threads meanwhile; memory is the peak resident size.  For several models: the least CPU time to the
first result, and the ratios to the peer's.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import _common

DEFAULT = "test_data/mobilenet_v2_1.0_224_quant.tflite"

ALONE = {"OPENBLAS_NUM_THREADS": "1"}       # numpy's threads spin for 30 ms after its import
IMPORT = "import {}"
NUMPY = """
import time as _time
import numpy
_cpu, _start = _time.process_time(), _time.perf_counter()
"""
REPORT = """
_seconds, _cpu = _time.perf_counter() - _start, _time.process_time() - _cpu
import json as _json
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(_json.dumps([_seconds, _cpu, *(int(status[k].split()[0]) for k in ("VmRSS", "VmHWM"))]))
"""


def measure(code):
    """(seconds, of the CPU, resident kB, peak kB) of a new process that runs `code`."""
    done = subprocess.run([sys.executable, "-c", NUMPY + code + REPORT], capture_output=True, text=True, check=True,
                          env=os.environ | ALONE)
    return json.loads(done.stdout.splitlines()[-1])


def medians(codes, runs):
    """{name: medians of measure(code), and the least seconds}; in turn, so that disturbances affect all of them."""
    found = {name: [] for name in codes}
    for code in codes.values():
        measure(code)           # warm the file cache, and fill the plan cache
    for _ in range(runs):
        for name, code in codes.items():
            found[name].append(measure(code))
    return {name: [*(statistics.median(column) for column in zip(*rows, strict=True)), min(rows)[0]]
            for name, rows in found.items()}


def invocations(path, folder):
    """{name: code} that runs a model for the first time; folder: for plans."""
    codes = {"pylite invoke": _common.first_run("pylite.interpreter", path, ", cache_dir=''"),
             "cached invoke": _common.first_run("pylite.interpreter", path, f", cache_dir={folder!r}")}
    peer = _common.peer()
    if peer:
        codes["peer invoke"] = _common.first_run(peer.__name__, path)
    return codes


def compare(paths, runs):
    """Print the least CPU time of each model."""
    rows, ratios = [], {"pylite invoke": [], "cached invoke": []}
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            codes = invocations(path, folder)
            for code in codes.values():
                measure(code)
            rounds = [{name: measure(code)[1] for name, code in codes.items()} for _ in range(runs)]
        least = {name: min(found[name] for found in rounds) for name in codes}
        peer = least.get("peer invoke", float("nan"))
        for name, found in ratios.items():
            found.append(least[name] / peer)
        rows.append((_common.short(path), *(f"{least[name] * 1e3:.1f} ({least[name] / peer:.2f})" for name in ratios),
                     f"{peer * 1e3:.1f}"))
    rows.append(("geometric mean", *(f"({statistics.geometric_mean(found):.2f})" for found in ratios.values()), ""))
    _common.print_table(("ms of CPU time", "pylite", "with a plan", "peer"), rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--runs", type=int, default=11)
    args = parser.parse_args()
    if len(args.models) > 1:
        compare(args.models, args.runs)
        return
    peer = _common.peer()
    path = args.models[0] if args.models else str(_common.models(DEFAULT)[0])
    with tempfile.TemporaryDirectory() as folder:
        codes = {"numpy": "", "pylite": IMPORT.format("pylite.interpreter"), **invocations(path, folder)}
        if peer:
            codes["peer"] = IMPORT.format(peer.__name__)
        found = medians(codes, args.runs)
    base = found.pop("numpy")
    _common.say(f"beyond numpy ({base[2] / 1e3:.1f} MB), medians of {args.runs} processes; "
                f"the model is {_common.short(path)}\n")
    rows = []
    for label, names in (("import", ("pylite", None, "peer")),
                         ("first invoke", ("pylite invoke", "cached invoke", "peer invoke"))):
        for column, unit, factor in ((0, "ms", 1e3), (4, "ms at least", 1e3), (1, "ms of CPU time", 1e3),
                                     (3, "MB peak", 1e-3)):
            cells = [f"{(found[name][column] - base[column]) * factor:.1f}" if name in found else "" for name in names]
            rows.append((f"{label}, {unit}", *cells))
    _common.print_table(("", "pylite", "with a plan", "peer"), rows)


if __name__ == "__main__":
    main()
