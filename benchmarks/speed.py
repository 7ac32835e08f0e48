"""Inference times beside the peer's default interpreter (XNNPACK), in one process and by turns.

    python benchmarks/speed.py [MODEL.tflite ...] [--threads 1 2] [--seconds 1] [--least] [--calls]

Medians of invoke(), or with --least the smallest times, for a machine that does other things, too; with --calls of
set_tensor, invoke and get_tensor together.  The ratio is the peer's time over pylite's: more than 1 where pylite is the
faster.  Geometric means by class of model and number of threads close the table.
"""
import argparse
import math
import statistics
import time

import _common
import numpy as np

CLASSES = {
    "int8": (
        "keras/mobilenet_v1_050_160_int8.tflite", "keras/unet_transpose_128_int8.tflite",
        "keras/conv1d_har_128_int8.tflite", "tiny/benchmark/training/**/*vww_96_int8.tflite",
        "tiny/benchmark/training/**/pretrainedResnet_quant.tflite", "tiny/benchmark/training/**/kws_ref_model.tflite",
        "tiny/benchmark/training/**/ad01_int8.tflite", "AI-on-the-edge-device/**/ana-cont_1400_s2_q.tflite",
        "test_data/movenet_single_pose_lightning_ptq.tflite", "micro-wake-word-models/models/v2/okay_nabu.tflite",
        "tflite-micro/tensorflow/**/micro_speech_quantized.tflite"),
    "uint8": (
        "test_data/mobilenet_v2_1.0_224_quant.tflite", "test_data/mobilenet_v1_0.25_128_quant.tflite",
        "test_data/mobilenet_v1_0.5_160_quant.tflite", "test_data/deeplabv3_mnv2_dm05_pascal_quant.tflite",
        "go-tflite/_example/ssd/detect.tflite"),
    "float32": (
        "keras/mobilenet_v1_050_160_float32.tflite", "keras/unet_transpose_128_float32.tflite",
        "keras/conv1d_har_128_float32.tflite", "tiny/benchmark/training/**/vww_96_float.tflite",
        "tiny/benchmark/training/**/pretrainedResnet.tflite", "tflite2onnx/assets/tests/mobilenet_v1_0.25_128.tflite",
        "go-tflite/_example/blazeface/face_detection_front.tflite",
        "AI-on-the-edge-device/**/dig-class11_1701_s2.tflite",
        "pypi/mediapipe*/**/hand_landmark_lite.tflite", "tflite-micro/_history/**/magic_wand.tflite"),
}

TURN = 0.02         # seconds
REST = 0.01


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


def by_turns(functions, seconds, summary=statistics.median, rest=0):
    """Summary of the seconds that each takes; they take turns, so that a busy moment meets all of them.

    rest: seconds before each turn, for the other one's workers to stop looking out for work, which is in the way.
    """
    times = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, into in zip(functions, times, strict=True):
            time.sleep(rest)
            function()
            stop = time.perf_counter() + TURN
            while (start := time.perf_counter()) < stop:
                function()
                into.append(time.perf_counter() - start)
    return [summary(t) for t in times]


def whole_call(interpreter):
    """What a caller does for each inference: set the first input, invoke, get the first output."""
    x = interpreter.get_input_details()[0]["index"]
    y = interpreter.get_output_details()[0]["index"]
    data = interpreter.get_tensor(x)

    def call():
        interpreter.set_tensor(x, data)
        interpreter.invoke()
        interpreter.get_tensor(y)
    return call


def main():
    from pylite.errors import PyliteError
    from pylite.interpreter import Interpreter
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=1, help="for each model and thread count (default: 1)")
    parser.add_argument("--least", action="store_true", help="the smallest times instead of medians")
    parser.add_argument("--calls", action="store_true", help="with set_tensor and get_tensor")
    args = parser.parse_args()
    with_peer = _common.peer() is not None
    rows, ratios = [], {}
    work = [("", path) for path in args.models] or [
        (kind, path) for kind, patterns in CLASSES.items() for path in _common.models(*patterns)]
    for (kind, path), threads in ((w, n) for n in args.threads for w in work):
        try:
            interpreters = [ready(Interpreter(str(path), num_threads=threads))]
        except (PyliteError, ValueError) as error:
            rows.append((_common.short(path), kind, threads, "cannot run", "", str(error)[:60]))
            continue
        if with_peer:
            interpreters.append(ready(_common.peer_interpreter(path, threads)))
        functions = [whole_call(i) if args.calls else i.invoke for i in interpreters]
        times = by_turns(functions, args.seconds, min if args.least else statistics.median,
                         REST if threads > 1 else 0)
        ratio = times[1] / times[0] if with_peer else math.nan
        ratios.setdefault((kind, threads), []).append(ratio)
        rows.append((_common.short(path), kind, threads, *(f"{t * 1e3:.3f}" for t in times), f"{ratio:.2f}"))
    headers = ("model", "class", "threads", "pylite ms", "peer ms", "ratio")
    if not with_peer:
        headers, rows = headers[:4], [row[:4] for row in rows]
    _common.print_table(headers, rows, right=headers[2:])
    if with_peer:
        _common.say("")
        for (kind, threads), found in ratios.items():
            _common.say(f"geometric mean of the ratio, {kind or 'all'}, threads {threads}: "
                        f"{statistics.geometric_mean(found):.2f}")


if __name__ == "__main__":
    main()
