"""The cost of calls beside LiteRT's: CompiledModel's write, run and read, and an invoke by the C library.

    python benchmarks/calls.py [LIBRARY]

CPU time of the least of several rounds, by turns, on a model of one ADD of four floats, where calls are all that there
is.  LIBRARY: another libtensorflowlite_c.so, such as that of pymicro-wakeword.
"""
import ctypes
import sys
import tempfile
import time
from pathlib import Path

import _common
import numpy as np

from pylite import clib, compiled_model
from pylite.schema.builder import ModelBuilder

ROUNDS, CALLS = 9, 5000


def adding():
    m = ModelBuilder()
    a, b, c = (m.tensor(name, (4,)) for name in "abc")
    m.operator("ADD", [a, b], [c])
    m.inputs([a, b])
    m.outputs([c])
    m.signature("add", {"x": a, "y": b}, {"z": c})
    return m.build()


def microseconds(*functions):
    """CPU time of one call of each function."""
    least = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, function in enumerate(functions):
            begin = time.process_time()
            for _ in range(CALLS):
                function()
            least[i] = min(least[i], time.process_time() - begin)
    return [1e6 * seconds / CALLS for seconds in least]


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


def main():
    data, rows = adding(), []
    try:
        from ai_edge_litert import compiled_model as litert
    except ImportError:
        raise SystemExit("ai-edge-litert is not installed") from None
    (_, ours), (_, theirs) = kept = calls(compiled_model, data), calls(litert, data)
    for name in ours:
        mine, peer = microseconds(ours[name], theirs[name])
        rows.append([name, f"{mine:.2f}", f"{peer:.2f}", f"{mine / peer:.2f}"])
    del kept
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "add.tflite")
        path.write_bytes(data)
        libraries = [clib.library_path(), *sys.argv[1:2]]
        found = microseconds(*(invoke(library, bytes(path)) for library in libraries))
        rows.append(["TfLiteInterpreterInvoke", *(f"{t:.2f}" for t in found),
                     *([f"{found[0] / found[1]:.2f}"] if len(found) > 1 else [""] * 2)])
    _common.print_table(["call", "pylite, us", "peer, us", "ratio"], rows)


if __name__ == "__main__":
    main()
