"""Preparing: time to construct an interpreter and allocate its tensors: the first time, again, for a new shape.

    python benchmarks/prepare.py [MODEL.tflite ...] [--runs N] [--write]

Milliseconds of CPU time, medians of N runs of pylite and of the peer alternately in one process, whose code is warm.
`first` loads a new copy of the file each time; `again` the same file while an interpreter of it exists; `after` the
same file when no interpreter of it exists any more; `shape` resizes the first input to a batch it never had.
--write keeps the table in docs/measurements.
"""
import argparse
import itertools
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import _common
import _models
import measurements

PATTERNS = ("**/kws_ref_model.tflite", "**/vww_96_int8.tflite", "**/mobilenet_v2_1.0_224_quant.tflite",
            "keras/mobilenet_v1_050_160_int8.tflite", "keras/mobilenet_v1_050_160_float32.tflite",
            "keras/lstm_unrolled_k3_10_int8.tflite", "keras/transformer_block_64_float32.tflite",
            "keras/transformer_block_64_int8.tflite", "**/movenet_single_pose_lightning_ptq.tflite")
MADE = {"MobileNetV2 0.35 int8, per channel": lambda: _models.inverted_residuals(),
        "transformer, 32 blocks": lambda: _models.encoder(32),
        "transformer, 94 blocks": lambda: _models.encoder(94),
        "transformer, 244 blocks": lambda: _models.encoder(244)}
COLUMNS = ("first", "again", "after", "shape")
SETTLED = 2.1       # seconds after which pylite knows a file again
NOTE = ("Milliseconds of CPU time, pylite / LiteRT (quotient), in a process whose code is warm. *first* loads a file "
        "for the first time, *again* a file that another interpreter uses, *after* a file whose interpreters are "
        "freed; *shape* resizes to a second batch size: pylite then lowers the graph for all sizes at once.")


class Side:
    """One of the two runtimes: make(path) -> its interpreter."""

    def __init__(self, make):
        self.make = make
        self.seconds = {column: [] for column in COLUMNS}

    def timed(self, column, function):
        begin = time.process_time()
        result = function()
        self.seconds[column].append(time.process_time() - begin)
        return result

    def load(self, path):
        interpreter = self.make(path)
        interpreter.allocate_tensors()
        return interpreter

    def run(self, path, batch):
        """One measurement of each column.  path: of a copy of the model that neither side has loaded."""
        living = [self.timed("first", lambda: self.load(path))]
        self.timed("again", lambda: self.load(path))
        if batch:
            self.timed("shape", lambda: _resize(living[0], batch))
        living.clear()
        self.timed("after", lambda: self.load(path))

    def medians(self):
        return {column: statistics.median(found) * 1e3 for column, found in self.seconds.items() if found}


def _resize(interpreter, batch):
    detail = interpreter.get_input_details()[0]
    interpreter.resize_tensor_input(detail["index"], (batch, *detail["shape"][1:]))
    interpreter.allocate_tensors()


def resizable(path):
    """Can both sides run the model with another batch?"""
    from pylite.interpreter import Interpreter
    try:
        for interpreter in (Interpreter(str(path)), _common.peer_interpreter(path)):
            if len(interpreter.get_input_details()) > 1:
                return False
            _resize(interpreter, 2)
    except (ValueError, RuntimeError):
        return False
    return True


def measure(path, runs):
    """(operators, [medians of pylite, of the peer])"""
    from pylite.interpreter import Interpreter
    from pylite.schema import load
    sides = [Side(lambda path: Interpreter(str(path))), Side(_common.peer_interpreter)]
    batches = itertools.count(2) if resizable(path) else itertools.repeat(None)
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / str(i) for i in range(2 * runs)]
        for copy in copies:
            shutil.copyfile(path, copy)
        time.sleep(SETTLED)
        for i in range(runs):
            batch = next(batches)
            for side, copy in zip(sides, copies[2 * i:], strict=False):
                side.run(copy, batch)
    return len(load(path).subgraphs[0].operators), [side.medians() for side in sides]


def models(paths, folder):
    """(name, path) of the models on the command line, else of the default models and of generated ones."""
    if paths:
        return [(_common.short(path), path) for path in paths]
    found = [(path.stem, path) for pattern in PATTERNS for path in _common.models(pattern)[:1]]
    for name, make in MADE.items():
        path = Path(folder) / f"{len(found)}.tflite"
        path.write_bytes(make())
        found.append((name, path))
    return found


def row(name, operators, ours, theirs):
    cells = [f"{ours[c]:.2f} / {theirs[c]:.2f} ({ours[c] / theirs[c]:.2f})" if c in ours else "" for c in COLUMNS]
    return [name, str(operators), *cells]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if _common.peer() is None:
        raise SystemExit("no peer: pip install ai-edge-litert")
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(name, *((found := measure(path, args.runs))[0], *found[1]))
                for name, path in models(args.models, folder)]
    headers = ("model", "operators", *COLUMNS)
    _common.print_table(headers, rows)
    if args.write:
        measurements.write("prepare", "CPU time to construct and allocate", "python benchmarks/prepare.py", headers,
                           rows, NOTE)


if __name__ == "__main__":
    sys.exit(main())
