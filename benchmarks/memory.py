"""Memory: peak resident size of new processes that load a model and run it once, excluding numpy's.

    python benchmarks/memory.py [MODEL.tflite ...] [--runs N]

Megabytes, the least of N processes each: pylite, pylite with a plan in its cache, the peer, and the peer with its cache
of packed weights, which is filled beforehand.  `bound` is 1.1 times the file, the arena and 10 MB.  Without models on
the command line: the float models of ../shared/models above 5 MB, and those made here.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import _common
import _models

LEAST = 5_000_000       # bytes of a file
CACHED_PEER = """
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.cpu_options import CpuOptions
from ai_edge_litert.hardware_accelerator import HardwareAccelerator
from ai_edge_litert.options import Options
model = CompiledModel.from_file({path!r}, options=Options(
    hardware_accelerators=HardwareAccelerator.CPU, cpu_options=CpuOptions(xnnpack_weight_cache_path={folder!r})))
inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
model.run_by_index(0, inputs, outputs)
"""
REPORT = """
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
print(int(status["VmHWM"].split()[0]))
"""
MADE = {"convolutions float32": lambda: _models.convolutions(),
        "convolutions float16": lambda: _models.convolutions(half=True),
        "matrix products float32": lambda: _models.perceptron()}


def peak(code):
    """Peak resident kB of a new process, or None if it fails."""
    done = subprocess.run([sys.executable, "-c", "import numpy\n" + code + REPORT], capture_output=True, text=True)
    return None if done.returncode else json.loads(done.stdout.splitlines()[-1])


def least(code, runs):
    found = [peak(code) for _ in range(runs)]
    return None if None in found else min(found)


def row(name, path, base, runs):
    """The cells of a model, and pylite's peak."""
    from pylite.interpreter import Interpreter
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    needed = path.stat().st_size + interpreter._main.current.placement.total
    with tempfile.TemporaryDirectory() as folder:
        codes = [_common.first_run("pylite.interpreter", path, ", cache_dir=''"),
                 _common.first_run("pylite.interpreter", path, f", cache_dir={folder!r}"),
                 _common.first_run("ai_edge_litert.interpreter", path),
                 CACHED_PEER.format(path=str(path), folder=folder)]
        for code in codes[1::2]:
            peak(code)      # fill the caches
        found = [least(code, runs) for code in codes]
    cells = ["" if kb is None else f"{(kb - base) / 1e3:.1f}" for kb in found]
    return [name, f"{path.stat().st_size / 1e6:.1f}", *cells, f"{1.1 * (needed / 1e6 + 10):.1f}"]


def is_float(path):
    """Are most bytes of the model's constants float32 or float16?"""
    from pylite.schema import load
    sizes = {}
    for subgraph in load(path).subgraphs:
        for tensor in subgraph.tensors:
            if tensor.data is not None:
                sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.data.nbytes
    return bool(sizes) and max(sizes, key=sizes.get) in ("float32", "float16")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        models = [(_common.short(path), path) for path in args.models]
        if not models:
            models = [(_common.short(path), path) for path in _common.models()
                      if path.stat().st_size > LEAST and is_float(path)]
            for name, make in MADE.items():
                path = Path(folder) / f"{len(models)}.tflite"
                path.write_bytes(make())
                models.append((name, path))
        base = least("", args.runs)
        rows = [row(name, path, base, args.runs) for name, path in models]
    _common.print_table(("model", "file", "pylite", "with a plan", "peer", "peer, cached", "bound"), rows)


if __name__ == "__main__":
    main()
