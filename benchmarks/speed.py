"""Inference times compared with the peer's default interpreter (XNNPACK), interleaved in one process.

    python benchmarks/speed.py [MODEL.tflite ...] [--all] [--threads 1 2] [--seconds 1] [--least] [--calls] [--peers]
        [--write NAME]

Medians of invoke(), or with --least minima, for a machine that is not idle; with --calls of set_tensor, invoke and
get_tensor together.  The ratio is the peer's time over pylite's: above 1 if pylite is faster.  The last lines are its
geometric means by class of model and number of threads, and the models that are slower than LiteRT.  --all: every model
in ../shared/models; --peers: OpenVINO and ONNX Runtime, too (_peers.py), and the best peer's time over pylite's.
--write keeps the table as the measurement NAME (measurements.py).
"""
import argparse
import math
import statistics
import time
from pathlib import Path

import _common
import _peers
import measurements
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

INTERVAL = 0.02     # seconds that one interpreter runs before the other
PAUSE = 0.01        # seconds between them with several threads


def ready(interpreter):
    """The interpreter, allocated and with random inputs."""
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


def interleaved(functions, seconds, summary=statistics.median, pause=0):
    """Summary of the seconds of each function; they run in turn, so that disturbances affect all of them.

    pause: seconds before each interval, in which the worker threads of the other interpreter stop spinning.
    """
    times = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for function, into in zip(functions, times, strict=True):
            time.sleep(pause)
            function()
            stop = time.perf_counter() + INTERVAL
            while (start := time.perf_counter()) < stop:
                function()
                into.append(time.perf_counter() - start)
    return [summary(t) for t in times]


def whole_call(interpreter):
    """A function that sets the first input, invokes, and gets the first output."""
    x = interpreter.get_input_details()[0]["index"]
    y = interpreter.get_output_details()[0]["index"]
    data = interpreter.get_tensor(x)

    def call():
        interpreter.set_tensor(x, data)
        interpreter.invoke()
        interpreter.get_tensor(y)
    return call


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--threads", nargs="+", type=int, default=[1])
    parser.add_argument("--seconds", type=float, default=1, help="for each model and thread count (default: 1)")
    parser.add_argument("--least", action="store_true", help="minimum times instead of medians")
    parser.add_argument("--calls", action="store_true", help="with set_tensor and get_tensor")
    parser.add_argument("--all", action="store_true", help="every model in ../shared/models")
    parser.add_argument("--peers", action="store_true", help="OpenVINO and ONNX Runtime, too")
    parser.add_argument("--write", metavar="NAME", help="keep the table in docs/measurements")
    return parser.parse_args()


def measure(path, threads, args):
    """Seconds of one model: [pylite's, the peer's if it is installed, and with --peers those of _peers or None]"""
    from pylite.interpreter import Interpreter
    interpreters = [ready(Interpreter(str(path), num_threads=threads))]
    if _common.peer() is not None:
        interpreters.append(ready(_common.peer_interpreter(path, threads)))
    functions = [whole_call(i) if args.calls else i.invoke for i in interpreters]
    if args.peers:
        functions += [_peers.runner(name, path, threads) for name in _peers.RUNTIMES]
    times = iter(interleaved([f for f in functions if f], args.seconds, min if args.least else statistics.median,
                             PAUSE if threads > 1 else 0))
    return [next(times) if f else None for f in functions]


def kind_of(path):
    """float32, int8 or uint8: the type that most tensors with a scale have."""
    from pylite.schema import load
    types = [t.dtype for s in load(path).subgraphs for t in s.tensors if t.dtype in ("float32", "int8", "uint8")
             and (t.dtype == "float32" or t.quantization is not None) and t.data is None]
    return max(sorted(set(types)), key=types.count) if types else "other"


def chosen(args):
    """(class, path) of the models to run."""
    from pylite.errors import PyliteError
    if not args.all:
        yield from [("", path) for path in args.models] or [
            (kind, path) for kind, patterns in CLASSES.items() for path in _common.models(*patterns)]
        return
    for path in _common.models():
        try:
            yield kind_of(path), path
        except (PyliteError, ValueError):       # no model, on purpose
            continue


def measured(args):
    """(class, model, threads, seconds of measure() or the error) for every model and number of threads"""
    from pylite.errors import PyliteError
    models = list(chosen(args))
    for threads in args.threads:
        for kind, path in models:
            try:
                yield kind, path, threads, measure(path, threads, args)
            except (PyliteError, ValueError, RuntimeError, TypeError) as error:
                yield kind, path, threads, error


def milliseconds(seconds):
    return "" if seconds is None else f"{seconds * 1e3:.3f}"


def other_runtimes():
    """Names of the runtimes of _peers; says which are absent."""
    for name in _peers.RUNTIMES:
        if _peers.missing(name):
            _common.say(f"{name} is left out: pip install {' '.join(_peers.missing(name))}")
    return list(_peers.RUNTIMES)


def say_means(title, ratios):
    for (kind, threads), found in ratios.items():
        _common.say(f"geometric mean of {title}, {kind or 'all'}, threads {threads}: "
                    f"{statistics.geometric_mean(found):.2f}")


def say_summary(ratios, best, slower):
    _common.say("")
    say_means("the ratio", ratios)
    say_means("the best peer's time over pylite's", best)
    _common.say("\n".join(["slower than the peer:", *slower] if slower else ["no model is slower than the peer"]))


def write(name, rows, threads):
    """Keep the rows of the table, which has one for each model and number of threads, as one for each model."""
    cells = {}
    for model, kind, _, ours, theirs, ratio, *_ in rows:
        cells.setdefault((model, kind), []).extend([ours, theirs, ratio])
    headers = [text for n in threads for text in (f"{n} thread{'s' * (n > 1)}: pylite ms", "LiteRT ms", "ratio")]
    measurements.write(name, "Models", f"python benchmarks/speed.py --threads {' '.join(map(str, threads))}",
                       ["model", "class", *headers],
                       [[Path(model).stem, kind, *found] for (model, kind), found in cells.items()])


def main():
    args = arguments()
    with_peer = _common.peer() is not None
    others = other_runtimes() if args.peers else []
    rows, ratios, best, slower = [], {}, {}, []
    for kind, path, threads, times in measured(args):
        name = _common.short(path)
        if isinstance(times, Exception):
            rows.append((name, kind, threads, "cannot run", "", str(times)[:60], *[""] * (len(others) + 1)))
            continue
        ratio = times[1] / times[0] if with_peer else math.nan
        ratios.setdefault((kind, threads), []).append(ratio)
        least = min(t for t in (*times[1:], math.inf) if t is not None) / times[0]
        best.setdefault((kind, threads), []).append(least)
        if ratio < 1:
            slower.append(f"{name}, {threads} threads: {ratio:.2f}")
        rows.append((name, kind, threads, *map(milliseconds, times[:2]), f"{ratio:.2f}",
                     *map(milliseconds, times[1 + with_peer:]), f"{least:.2f}"))
    headers = ("model", "class", "threads", "pylite ms", "peer ms", "ratio", *(f"{name} ms" for name in others), "best")
    keep = 3 + 1 if not with_peer else len(headers) if others else 6
    _common.print_table(headers[:keep], [row[:keep] for row in rows], right=headers[2:keep])
    if with_peer:
        say_summary(ratios, best if others else {}, slower)
    if args.write:
        write(args.write, rows, args.threads)


if __name__ == "__main__":
    main()
