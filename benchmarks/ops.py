"""The speed of ops on this CPU, by shape: time, products per second, and their share of the CPU's peak.

    python benchmarks/ops.py [NAME ...] [--types int8 float32] [--isa-levels avx2 avx512vnni] [--threads 1]

NAME: a part of an op's name (default: all).  With several --isa-levels (or `all`) each result is also compared with the
first level's: integers must be equal, floats nearly so.  The peak is the speed of a loop of multiply-accumulates in
registers (peak.c, compiled with cc; without a compiler the column is empty).  Times are minima.
"""
import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _common
import numpy as np

# Name, input shape (n, h, w, c), filters, filter size, stride.
SHAPES = [
    ("CONV_2D", (1, 224, 224, 3), 32, 3, 2),
    ("CONV_2D", (1, 112, 112, 16), 96, 1, 1),
    ("CONV_2D", (1, 56, 56, 24), 144, 1, 1),
    ("CONV_2D", (1, 32, 32, 16), 16, 3, 1),
    ("CONV_2D", (1, 32, 32, 64), 64, 3, 1),
    ("CONV_2D", (1, 14, 14, 384), 64, 1, 1),
    ("CONV_2D", (1, 10, 10, 256), 256, 1, 1),
    ("CONV_2D", (1, 7, 7, 960), 320, 1, 1),
    ("DEPTHWISE_CONV_2D", (1, 48, 48, 8), 8, 3, 1),
    ("DEPTHWISE_CONV_2D", (1, 112, 112, 32), 32, 3, 1),
    ("DEPTHWISE_CONV_2D", (1, 112, 112, 96), 96, 3, 2),
    ("DEPTHWISE_CONV_2D", (1, 28, 28, 192), 192, 3, 1),
    ("DEPTHWISE_CONV_2D", (1, 14, 14, 384), 384, 5, 1),
    ("DEPTHWISE_CONV_2D", (1, 7, 7, 960), 960, 3, 1),
    ("FULLY_CONNECTED", (1, 640), 128, 1, 1),
    ("FULLY_CONNECTED", (1, 1024), 1001, 1, 1),
    ("FULLY_CONNECTED", (64, 256), 256, 1, 1),
]


def build(name, shape, filters, size, stride, dtype):
    """A model of one op with random weights: (bytes of the model, products of one run)"""
    from pylite.schema.builder import ModelBuilder
    rng = np.random.default_rng(0)
    m = ModelBuilder()
    c = shape[-1]
    out = (*shape[:-1], filters) if len(shape) == 2 else (shape[0], -(-shape[1] // stride), -(-shape[2] // stride),
                                                          filters)
    kernel = {"CONV_2D": (filters, size, size, c), "DEPTHWISE_CONV_2D": (1, size, size, filters),
              "FULLY_CONNECTED": (filters, c)}[name]
    depth = int(np.prod(kernel)) // filters
    channel = 3 if name == "DEPTHWISE_CONV_2D" else 0
    if dtype == "float32":
        x, y = m.tensor("x", shape), m.tensor("y", out)
        w = m.constant("w", rng.standard_normal(kernel).astype(np.float32))
        b = m.constant("b", rng.standard_normal(filters).astype(np.float32))
    else:
        low, high = (0, 256) if dtype == "uint8" else (-127, 128)
        per_channel = dtype == "int8" and name != "FULLY_CONNECTED"
        scales = np.full(filters if per_channel else 1, 0.02 / np.sqrt(depth), np.float32)
        zero = 128 if dtype == "uint8" else 0
        x = m.tensor("x", shape, dtype, 0.05, zero + 3)
        w = m.constant("w", rng.integers(low, high, kernel).astype(dtype), scales, zero - (dtype == "uint8"), channel)
        b = m.constant("b", rng.integers(-1000, 1000, filters).astype(np.int32), scales * 0.05, 0)
        y = m.tensor("y", out, dtype, 0.1, zero - 5)
    options = {} if name == "FULLY_CONNECTED" else {"padding": "SAME", "stride_h": stride, "stride_w": stride}
    if name == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = 1
    m.operator(name, [x, w, b], [y], **options)
    m.inputs([x])
    m.outputs([y])
    return m.build(), int(np.prod(out)) * depth


def run(model, threads, seconds):
    """(minimum seconds of invoke(), the output)"""
    from pylite.interpreter import Interpreter
    interpreter = Interpreter(model_content=model, num_threads=threads)
    interpreter.allocate_tensors()
    detail = interpreter.get_input_details()[0]
    rng = np.random.default_rng(1)
    dtype = np.dtype(detail["dtype"])
    x = rng.standard_normal(detail["shape"]) if dtype.kind == "f" else rng.integers(
        *((0, 256) if dtype == np.uint8 else (-128, 128)), detail["shape"])
    interpreter.set_tensor(detail["index"], x.astype(dtype))
    best, end, runs = 1e9, time.perf_counter() + seconds, 0
    while time.perf_counter() < end or runs < 5:
        start = time.perf_counter()
        interpreter.invoke()
        best, runs = min(best, time.perf_counter() - start), runs + 1
    return best, interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def peaks():
    """{type: peak products per second of one core}, or {} without a compiler."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "peak"
        source = Path(__file__).with_name("peak.c")
        try:
            subprocess.run(["cc", "-O2", "-march=native", source, "-o", program], check=True, capture_output=True)
            found = subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            return {}
    int8, float32 = map(float, found)
    return {"int8": int8, "uint8": int8, "float32": float32}


def same(a, b):
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    return np.allclose(a, b, rtol=1e-5, atol=1e-5 * max(1, float(np.abs(b).max(initial=0))))


def main():
    from pylite._core import simd
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--types", nargs="+", default=["int8", "uint8", "float32"])
    parser.add_argument("--isa-levels", nargs="+", default=[simd.current], help="instruction sets, or all")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each op, shape and ISA level (default: 0.1)")
    args = parser.parse_args()
    isa_levels = simd.available() if args.isa_levels == ["all"] else args.isa_levels
    peak = peaks()
    rows, wrong = [], 0
    for name, shape, filters, size, stride in SHAPES:
        if args.names and not any(part.upper() in name for part in args.names):
            continue
        for dtype in args.types:
            model, products = build(name, shape, filters, size, stride, dtype)
            first = None
            for isa_level in isa_levels:
                simd.use(isa_level)
                seconds, y = run(model, args.threads, args.seconds)
                first = y if first is None else first
                good = same(y, first)
                wrong += not good
                share = f"{products / seconds / peak[dtype] / args.threads:.0%}" if peak else ""
                rows.append((f"{name} {'x'.join(map(str, shape))} to {filters}, {size}x{size}/{stride}", dtype,
                             isa_level, f"{seconds * 1e6:.1f}", f"{products / seconds / 1e9:.1f}", share,
                             "" if good else "WRONG"))
    numbers = "us", "GMAC/s", "of the peak"
    _common.print_table(("op", "type", "ISA level", *numbers, ""), rows, right=numbers)
    if peak:
        _common.say(f"\npeak of one core, GMAC/s: {peak['int8'] / 1e9:.0f} int8, {peak['float32'] / 1e9:.0f} float32")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
