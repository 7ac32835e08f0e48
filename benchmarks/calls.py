"""The cost of calls beside LiteRT's: CompiledModel's write, run and read, and an invoke by the C library.

    python benchmarks/calls.py [--library LIBRARY] [MODEL ...]

CPU time of the least of several rounds, by turns: without a MODEL on one ADD of four floats, where calls are all that
there is; else on each file, or each file below a folder, of up to --largest bytes.  The column "invoke" has the kernels
of pylite with next to no call around them.  LIBRARY: another libtensorflowlite_c.so, such as that of pymicro-wakeword.
"""
import argparse
import ctypes
import sys
import tempfile
import time
from pathlib import Path

import _common
import numpy as np

from pylite import Interpreter, clib, compiled_model
from pylite.schema.builder import ModelBuilder

ROUNDS, CALLS = 9, 5000
SECONDS = 0.01      # of a round on a MODEL


def adding():
    m = ModelBuilder()
    a, b, c = (m.tensor(name, (4,)) for name in "abc")
    m.operator("ADD", [a, b], [c])
    m.inputs([a, b])
    m.outputs([c])
    m.signature("add", {"x": a, "y": b}, {"z": c})
    return m.build()


def microseconds(*functions, count=CALLS):
    """CPU time of one call of each function."""
    least = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            begin = time.process_time()
            for _ in range(count):
                function()
            least[i] = min(least[i], time.process_time() - begin)
    return [1e6 * seconds / count for seconds in least]


def calls(module, data):
    """{name: function} of a CompiledModel of `module`."""
    made = module.CompiledModel.from_buffer(data)
    inputs, outputs = made.create_input_buffers(0), made.create_output_buffers(0)
    array, kind = np.arange(4, dtype=np.float32), np.float32
    return made, {
        "write": lambda: inputs[0].write(array), "run_by_index": lambda: made.run_by_index(0, inputs, outputs),
        "run_by_name": lambda: made.run_by_name("add", {"x": inputs[0], "y": inputs[1]}, {"z": outputs[0]}),
        "read": lambda: outputs[0].read(4, kind), "get_tensor_details": inputs[0].get_tensor_details}


def invoke(path, model_path):
    """A function that invokes `model_path` by the library at `path`."""
    library, pointer = ctypes.CDLL(path), ctypes.c_void_p
    library.TfLiteModelCreateFromFile.restype = library.TfLiteInterpreterCreate.restype = pointer
    model = pointer(library.TfLiteModelCreateFromFile(model_path))
    interpreter = pointer(library.TfLiteInterpreterCreate(model, None))
    library.TfLiteInterpreterAllocateTensors(interpreter)
    return lambda: library.TfLiteInterpreterInvoke(interpreter)


def one_call(module, data):
    """(write all inputs, run, read all outputs) of a CompiledModel of `module`, after a first call of each."""
    made, given = module.CompiledModel.from_buffer(data), Interpreter(model_content=data)
    inputs, outputs = made.create_input_buffers(0), made.create_output_buffers(0)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 2, d["shape"]).astype(d["dtype"]) for d in given.get_input_details()]
    results = [(int(np.prod(d["shape"])), d["dtype"]) for d in given.get_output_details()]

    def write():
        for buffer, array in zip(inputs, arrays, strict=True):
            buffer.write(array)

    def run():
        made.run_by_index(0, inputs, outputs)

    def read():
        for buffer, (count, kind) in zip(outputs, results, strict=True):
            buffer.read(count, kind)

    for step in (write, run, read):
        step()
    return write, run, read


def of_models(litert, paths):
    """Rows of a table of the models that both run."""
    rows = []
    for path in paths:
        data = path.read_bytes()
        try:
            steps = one_call(compiled_model, data) + one_call(litert, data)
            kernels = Interpreter(model_content=data)
            kernels.allocate_tensors()
            kernels.invoke()
        except (RuntimeError, ValueError, TypeError) as error:
            sys.stderr.write(f"{path}: {str(error).splitlines()[0]}\n")
            continue
        begin = time.perf_counter()
        for step in steps:
            step()
        count = int(min(max(SECONDS / (time.perf_counter() - begin), 10), CALLS))
        *found, alone = microseconds(*steps, kernels.invoke, count=count)
        mine, peer = sum(found[:3]), sum(found[3:])
        rows.append((mine / peer, [path.name, *(f"{t:.2f}" for t in found[:3]), f"{alone:.2f}",
                                   *(f"{t:.2f}" for t in found[3:]), f"{mine / peer:.2f}"]))
    return [row for _, row in sorted(rows, reverse=True)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL")
    parser.add_argument("--library")
    parser.add_argument("--largest", type=int, default=100_000)
    chosen = parser.parse_args()
    data, rows = adding(), []
    try:
        from ai_edge_litert import compiled_model as litert
    except ImportError:
        raise SystemExit("ai-edge-litert is not installed") from None
    if chosen.models:
        files = [f for path in chosen.models for f in (sorted(path.rglob("*.tflite")) if path.is_dir() else [path])]
        rows = of_models(litert, [f for f in files if f.stat().st_size <= chosen.largest])
        _common.print_table(["model", "write", "run", "read", "invoke", "peer's write", "run", "read", "ratio"], rows)
        return
    (_, ours), (_, theirs) = kept = calls(compiled_model, data), calls(litert, data)
    for name in ours:
        mine, peer = microseconds(ours[name], theirs[name])
        rows.append([name, f"{mine:.2f}", f"{peer:.2f}", f"{mine / peer:.2f}"])
    del kept
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "add.tflite")
        path.write_bytes(data)
        libraries = [clib.library_path(), *filter(None, [chosen.library])]
        found = microseconds(*(invoke(library, bytes(path)) for library in libraries))
        rows.append(["TfLiteInterpreterInvoke", *(f"{t:.2f}" for t in found),
                     *([f"{found[0] / found[1]:.2f}"] if len(found) > 1 else [""] * 2)])
    _common.print_table(["call", "pylite, us", "peer, us", "ratio"], rows)


if __name__ == "__main__":
    main()
