"""Startup: time and memory of `import pylite` beyond numpy's, and of import + load + first invoke of a model.

    python benchmarks/start.py [MODEL.tflite] [--runs N]

Every figure is the median of N new processes, pylite's and the peer's in turn.  Wall time runs from the end of
`import numpy` to the end of the import, or to the first result; memory is the peak resident size.
"""
import argparse
import json
import statistics
import subprocess
import sys

import _common

DEFAULT = "test_data/mobilenet_v2_1.0_224_quant.tflite"

IMPORT = "import {}"
INVOKE = """
from {module} import Interpreter
interpreter = Interpreter({path!r})
interpreter.allocate_tensors()
detail = interpreter.get_input_details()[0]
interpreter.set_tensor(detail["index"], numpy.zeros(detail["shape"], detail["dtype"]))
interpreter.invoke()
interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
"""
NUMPY = """
import time as _time
import numpy
_start = _time.perf_counter()
"""
REPORT = """
_seconds = _time.perf_counter() - _start
import json as _json
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(_json.dumps([_seconds, *(int(status[k].split()[0]) for k in ("VmRSS", "VmHWM"))]))
"""


def measure(code):
    """(seconds, resident kB, peak kB) of a new process that runs `code`."""
    done = subprocess.run([sys.executable, "-c", NUMPY + code + REPORT], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def medians(codes, runs):
    """{name: medians of measure(code)}; in turn, so that disturbances affect all of them."""
    found = {name: [] for name in codes}
    for code in codes.values():
        measure(code)           # warm the file cache
    for _ in range(runs):
        for name, code in codes.items():
            found[name].append(measure(code))
    return {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--runs", type=int, default=11)
    args = parser.parse_args()
    peer = _common.peer()
    codes = {"numpy": "", "pylite": IMPORT.format("pylite.interpreter")}
    if peer:
        codes["peer"] = IMPORT.format(peer.__name__)
    path = args.model or str(_common.models(DEFAULT)[0])
    codes["pylite invoke"] = INVOKE.format(module="pylite.interpreter", path=path)
    if peer:
        codes["peer invoke"] = INVOKE.format(module=peer.__name__, path=path)
    found = medians(codes, args.runs)
    base = found.pop("numpy")
    _common.say(f"beyond numpy ({base[1] / 1e3:.1f} MB), medians of {args.runs} processes; "
                f"the model is {_common.short(path)}\n")
    names = {"pylite": "import", "pylite invoke": "first invoke"}
    rows = []
    for ours, label in names.items():
        theirs = ours.replace("pylite", "peer")
        for column, unit, factor in ((0, "ms", 1e3), (2, "MB peak", 1e-3)):
            mine = (found[ours][column] - base[column]) * factor
            other = (found[theirs][column] - base[column]) * factor if theirs in found else None
            rows.append((f"{label}, {unit}", f"{mine:.1f}", "" if other is None else f"{other:.1f}"))
    _common.print_table(("", "pylite", "peer"), rows)


if __name__ == "__main__":
    main()
