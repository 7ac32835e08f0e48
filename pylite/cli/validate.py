"""Find the node that makes a quantized model wrong; repair the model.

With --reference, each tensor of MODEL is compared with its counterpart in the float model: once with both models run
from their inputs (SQNR), and once with each node run by itself on the reference's activations (local).  Nodes are
ranked by the noise that they add, in decibels above the noise of a good quantization of the same node (excess).

If the data have labels, the accuracy of MODEL is measured, and with --reference that of both models.
"""
import os
import sys
import time
from functools import partial

from pylite.cli import _common, _format, _golden, _limits, _outputs, _plugins, _repair, _sensitivity, _single
from pylite.cli._parser import explained
from pylite.cli._terminal import Progress

EPILOG = explained(__doc__) + """
data:
  FILE.npz       arrays named after the inputs or in their order, and `labels` (or `label`); the first axis counts
                 samples
  FILE.npy       one such array, for a model with one input
  FOLDER         pictures, .npy or .wav files; the subfolders are the labels, or a mask a.png beside a.jpg
  FILE.csv       a column `file`, or one per input or per number, and `label` (or `labels`)
  FILE.jsonl     one object per line, with the same names
  FILE.json      COCO's annotations
Pass real numbers; they are quantized for the inputs.

exit codes: 0; 1 if a limit (--min-sqnr, --max-drop, --fail-on) is exceeded, --target is not reached, --nan finds a
node, or results differ from --against, --check or --delegate; 2 for a wrong argument or file

examples:
  pylite validate model.tflite --data pictures/
  pylite validate model_int8.tflite --reference model_float.tflite --data pictures/ --accuracy --max-drop 1
  pylite validate model_int8.tflite --reference model_float.tflite --data samples.npz
  pylite validate model_int8.tflite --reference model_float.tflite --data pictures/ --json > report.json
  pylite validate model_int8.tflite --reference model_float.tflite --data d.npz --min-sqnr 20 --fail-on saturation=1%
  pylite validate model_int8.tflite --reference model_float.tflite --data d.npz --repair better.tflite
  pylite validate model_int8.tflite --reference model_float.tflite --data d.npz --sensitivity --target 30dB
  pylite validate model_int8.tflite --reference model_float.tflite --data d.npz --shard 1/2 --save first.npz
  pylite validate model_int8.tflite --reference model_float.tflite --merge first.npz second.npz
  pylite validate model.tflite --data samples.npz --metric errors:word_error_rate
  pylite validate model.tflite --data samples.npz --record desk.npz
  pylite validate model.tflite --data samples.npz --check desk.npz
  pylite validate model.tflite --data samples.npz --against litert
  pylite validate model.tflite --data samples.npz --delegate libmine.so?precision=fp16
  pylite validate model.tflite --data sounds/ --ops flex
  pylite validate model.tflite --golden tensors/
"""
USAGE = "pylite validate MODEL --data PATH\n       [--reference OTHER] [options]"
SETTINGS = ("task", "labels", "label_offset", "output", "metric")


def configure(parser):
    _common.add_model(parser)
    _plugins.add_ops(parser)
    _add_modes(parser.add_argument_group("compare with"))
    _add_samples(parser.add_argument_group("samples"))
    _add_accuracy(parser.add_argument_group("accuracy"))
    better = parser.add_argument_group("a better model")
    _repair.add(better)
    _sensitivity.add(better)
    results = parser.add_argument_group("results")
    results.add_argument("--top", type=_common.positive, default=10, metavar="N",
                         help="print the N worst nodes (default: 10)")
    results.add_argument("--json", action="store_true", help="print the whole report as JSON")
    _common.add_verbose(results)
    _outputs.add(results, "with --reference: the excess of each node, or what it regains,")
    _limits.add(parser.add_argument_group("limits"))
    _add_sharing(parser.add_argument_group("many samples"))


def _add_modes(group):
    mode = group.add_mutually_exclusive_group()
    mode.add_argument("--reference", metavar="OTHER",
                      help="compare with the float model, or with a quantized model that is computed in real numbers")
    _golden.add(mode)
    mode.add_argument("--precision", choices=["float16"],
                      help="compare with the same model in float32: what Interpreter(precision='float16') costs")
    _single.add(mode)


def _add_samples(group):
    source = group.add_mutually_exclusive_group()
    source.add_argument("--data", metavar="PATH", help="the samples: a file or folder, see below")
    source.add_argument("--merge", nargs="+", metavar="FILE",
                        help="report on shards, from the files that --save wrote")
    group.add_argument("--samples", type=_common.positive, metavar="N", help="use the first N samples (default: all)")
    group.add_argument("--local-samples", type=_common.not_negative, metavar="N",
                       help="measure single nodes on the first N samples (default: all). 0 ranks nodes by their "
                            "cumulative error, which takes less than half the time but names no causes")
    group.add_argument("--tensors", type=_common.not_negative, metavar="N",
                       help="with --reference: compare tensors on the first N samples (default: all)")
    group.add_argument("--mean", type=_common.means, metavar="M[,M,M]",
                       help="mean of the pixels (default: the metadata's; an 8-bit input gets pixels unchanged; "
                            "otherwise 127.5)")
    group.add_argument("--std", type=_common.deviations, metavar="S[,S,S]",
                       help="standard deviation of the pixels, by default as for --mean")
    group.add_argument("--rate", type=_common.rate, metavar="HZ",
                       help="sample rate of the model's sound input (default: the metadata's)")
    group.add_argument("--images", metavar="FOLDER", help="folder of the pictures of COCO's annotations")


def _add_accuracy(group):
    group.add_argument("--accuracy", action="store_true",
                       help="with --reference: also measure the accuracy of both models")
    group.add_argument("--task", metavar="TASK",
                       help="classification, detection, segmentation, regression or embedding (default: found from "
                            "the outputs and labels)")
    group.add_argument("--labels", metavar="FILE",
                       help="class names, one per line (default: the names in the model); `sorted` numbers the "
                            "labels of the data in alphabetical order")
    group.add_argument("--label-offset", type=_common.whole, metavar="N", help="add N to labels that are numbers")
    group.add_argument("--output", metavar="NAME", help="measure the accuracy of this output")
    group.add_argument("--metric", metavar="MODULE:FUNCTION",
                       help="measure accuracy by a function of your own, metric(outputs, labels), which gets arrays "
                            "of all samples and returns one number; with --repair, no step may make it worse")


def _add_sharing(group):
    _common.add_threads(group, "each run")
    group.add_argument("--workers", type=_common.positive, default=1, metavar="N",
                       help="number of processes that share the samples (default: 1)")
    group.add_argument("--shard", type=_shard, default=(1, 1), metavar="I/N",
                       help="measure part I of N of the samples")
    group.add_argument("--dask", metavar="SCHEDULER",
                       help="share the samples among the workers of a Dask scheduler, tcp://HOST:PORT; they need "
                            "pylite-runtime[dask] and the same paths")
    group.add_argument("--save", "--resume", metavar="FILE",
                       help="keep the sums in this file, for --merge or to continue later")


@_common.written_as("a part of parts, as 1/2")
def _shard(text):
    part, _, parts = text.partition("/")
    return int(part), int(parts)


def run(args):
    if not (args.data or args.merge or args.golden):
        raise _common.UsageError("there are no samples: give --data PATH, or --merge with the files that --save wrote")
    _plugins.register(args.ops)
    if args.precision:
        if args.repair or args.sensitivity:
            raise _common.UsageError("--precision compares a model with itself; give --repair and --sensitivity a "
                                     "--reference instead")
        args.reference = args.model
    mode = _single.mode_of(args) or _compare
    return mode(args)


def _compare(args):
    """Compare with the float model, measure accuracy with labels, or repair; returns the exit code."""
    from pylite import validation
    from pylite.cli import _signature
    from pylite.runtime.model import Model
    _limits.check(args)
    if args.golden:
        _golden.check(args)
    model, reference = _common.model_path(args.model), args.reference and _common.model_path(args.reference)
    _outputs.check(args)
    if reference:
        _check_order(args, model, reference)
    if _repair.wanted(args):
        return _repair.run(args, model, reference)
    if _sensitivity.wanted(args):
        return _sensitivity.run(args, model, reference)
    speed = None
    if args.merge:
        report = validation.merge(model, reference, args.merge)
    else:
        try:
            with Progress("samples") as progress:
                speed = _Speed(progress.show)
                report = _measured(args, model, reference, speed)
            _outputs.wrote_if(args.save)
        except KeyboardInterrupt:
            kept = ("pass --save FILE to keep the sums next time" if not args.save else
                    f"the sums so far are in {args.save}; the same command continues from them"
                    if os.path.exists(args.save) else "no sums were ready to be saved")
            sys.stderr.write(f"pylite validate: interrupted; {kept}\n")
            raise
    _limits.note(report, args)
    with _outputs.Attempts() as attempt:
        more = [f"{speed} samples a second"] if speed is not None and str(speed) else []
        more += [f"note: {note}" for note in _signature.notes(Model(model))]
        attempt(lambda: _outputs.show_result(report, args, args.top, more=more))
        if args.html:
            attempt(_page, report, args, model, speed)
        if args.explorer:
            attempt(_overlay, report, args, model)
        return attempt(_limits.result, report, args)


def _check_order(args, model, reference):
    """UsageError if only the reference is quantized."""
    from pylite import validation
    if validation.swapped(model, reference):
        raise _common.UsageError(f"{args.model} has no quantized tensors, but {args.reference} has: swap them: "
                                 f"pylite validate {args.reference} --reference {args.model}")


class _Speed:
    """Samples per second, without the time to prepare; as text, empty if unknown."""

    def __init__(self, show):
        self._show, self._first, self._last = show, (0.0, 0), (0.0, 0)

    def __call__(self, done, total):
        self._last = time.monotonic(), done
        self._first = self._first if self._first[1] else self._last
        self._show(done, total)

    def __str__(self):
        if self._first == self._last:
            return ""
        (begun, before), (ended, after) = self._first, self._last
        return _format.rounded((after - before) / max(ended - begun, 1e-9))


def _measured(args, model, reference, progress):
    """The Report on the samples."""
    from pylite import validation
    if args.golden:
        return _golden.measured(args, model, progress)
    common = {"samples": args.samples, "mean": args.mean, "std": args.std, "threads": args.threads,
              "workers": args.workers, "shard": args.shard, "save": args.save, "progress": progress, "rate": args.rate,
              "pictures": args.images, "dask": args.dask,
              "prepare": partial(_plugins.register, args.ops) if args.ops else None}
    settings = tuple(getattr(args, name) for name in SETTINGS)
    wanted = args.accuracy or args.max_drop is not None or args.tensors == 0 or settings != (None,) * len(settings)
    if reference:
        return validation.compare(model, reference, args.data, local_samples=args.local_samples, tensors=args.tensors,
                                  histograms=args.html is not None, precision=args.precision,
                                  accuracy=validation.Settings(*settings) if wanted else None, **common)
    measured = validation.accuracy(model, args.data, None, **dict(zip(SETTINGS, settings, strict=True)), **common)
    return validation.Report.of_accuracy(model, None, measured.samples, measured)


def _page(report, args, model, speed):
    from pylite.cli import _overview
    workers, threads = _format.counted(args.workers, "worker"), _format.counted(args.threads, "thread")
    facts = {"samples a second": f"{speed} with {workers} of {threads}"} if speed and str(speed) else {}
    _outputs.write_page(args, {"report": report.to_dict(), "graph": _overview.overview(model, args.threads),
                               "pictures": _pictures(report.accuracy, args, model) if report.accuracy else {}}, facts)


def _overlay(report, args, model):
    from pylite.validation.causes import NOTABLE_DB, SUSPICIOUS_DB
    excess = {node: report.suspicion(report.by_node(node)) for node in report.ranking}
    name = "excess (dB)" if report.local_samples else "cumulative excess (dB)"
    _outputs.write_overlay(args.explorer, model, name, excess, thresholds=[
        {"value": NOTABLE_DB, "bgColor": "#ffffff"}, {"value": SUSPICIOUS_DB, "bgColor": "#ffe0c2"},
        {"value": max(SUSPICIOUS_DB, *excess.values()) + 1, "bgColor": "#ff9d5c"}])


def _pictures(accuracy, args, model):
    """{number: data URL} of the samples that the page shows, as far as they are pictures: files, or what models saw."""
    import numpy as np

    from pylite.media import images
    from pylite.runtime.model import Model
    from pylite.validation import page
    from pylite.validation.data import Samples
    samples, pictures = None, {}
    for row in accuracy.flips[:page.CARDS] + accuracy.worst[:page.CARDS]:
        if row.path and row.path.lower().endswith(images.SUFFIXES):
            if os.path.exists(row.path):
                pictures[row.sample] = page.picture(images.channels(images.read(row.path), 3))
        elif args.data and not row.path:
            samples = samples or Samples(args.data, Model(model).graph.subgraphs[0])
            array = samples[row.sample][0]
            if array.ndim == 4 and array.shape[3] in (1, 3):
                low, high = array.min(), array.max()
                pictures[row.sample] = page.picture(((array[0] - low) * (255 / (high - low or 1))).astype(np.uint8))
    return pictures
