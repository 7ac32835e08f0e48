"""Inference times beside the peer's default interpreter (XNNPACK), in one process and by turns.

    python benchmarks/speed.py [MODEL.tflite ...] [--threads 1 2] [--seconds 1]

Medians of invoke(); the ratio is the peer's time over pylite's, more than 1 where pylite is the faster.
"""
import argparse
import math
import statistics
import time

import _common
import numpy as np

DEFAULT = (
    "test_data/mobilenet_v2_1.0_224_quant.tflite", "keras/mobilenet_v1_050_160_int8.tflite",
    "keras/mobilenet_v1_050_160_float32.tflite", "test_data/mobilenet_v1_0.25_128_quant.tflite",
    "tiny/benchmark/training/**/*vww_96_int8.tflite", "tiny/benchmark/training/**/pretrainedResnet_quant.tflite",
    "tiny/benchmark/training/**/ad01_int8.tflite", "tiny/benchmark/training/**/kws_ref_model.tflite",
    "keras/unet_transpose_128_int8.tflite", "test_data/deeplabv3_mnv2_dm05_pascal_quant.tflite",
    "go-tflite/_example/ssd/detect.tflite", "test_data/movenet_single_pose_lightning_ptq.tflite",
)


def ready(interpreter):
    """The interpreter with random contents in its inputs."""
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        dtype = np.dtype(detail["dtype"])
        if dtype.kind == "f":
            array = rng.standard_normal(detail["shape"]).astype(dtype)
        else:
            array = rng.integers(0, 100, detail["shape"]).astype(dtype)
        interpreter.set_tensor(detail["index"], array)
    return interpreter


def by_turns(interpreters, seconds):
    """Median seconds of invoke() of each; they take turns so that a busy moment meets all of them."""
    times = [[] for _ in interpreters]
    for interpreter in interpreters:
        interpreter.invoke()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for interpreter, into in zip(interpreters, times, strict=True):
            start = time.perf_counter()
            interpreter.invoke()
            into.append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def main():
    from pylite.errors import PyliteError
    from pylite.interpreter import Interpreter
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=1, help="for each model and thread count (default: 1)")
    args = parser.parse_args()
    with_peer = _common.peer() is not None
    rows, ratios = [], []
    for path in args.models or _common.models(*DEFAULT):
        for threads in args.threads:
            try:
                interpreters = [ready(Interpreter(str(path), num_threads=threads))]
            except (PyliteError, ValueError) as error:
                rows.append((_common.short(path), threads, "cannot run", "", str(error)[:60]))
                continue
            if with_peer:
                interpreters.append(ready(_common.peer_interpreter(path, threads)))
            medians = by_turns(interpreters, args.seconds)
            ratio = medians[1] / medians[0] if with_peer else math.nan
            ratios.append(ratio)
            rows.append((_common.short(path), threads, *(f"{t * 1e3:.3f}" for t in medians), f"{ratio:.2f}"))
    headers = ("model", "threads", "pylite ms", "peer ms", "ratio")
    if not with_peer:
        headers, rows = headers[:3], [row[:3] for row in rows]
    _common.print_table(headers, rows)
    if with_peer and ratios:
        _common.say(f"\ngeometric mean of the ratio: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
