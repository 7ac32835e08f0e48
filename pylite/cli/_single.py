"""The modes of `pylite validate` that have no reference model: recordings, other runtimes, delegates, NaN, excerpts."""
import json
import os
import sys
from dataclasses import asdict

from pylite.cli import _common, _format, _limits, _outputs, _plugins
from pylite.cli._terminal import Progress

AGAINST = ("litert", "litert:ref", "litert:opt", "litert:default")
RESULTS = "--record, --check and --against"      # in messages


def add(group):
    group.add_argument("--against", choices=AGAINST, metavar="litert[:ref|:opt|:default]",
                       help="compare every result with LiteRT's: from its reference kernels (the default), its "
                            "optimized kernels, or the kernels it uses by default")
    group.add_argument("--record", type=_common.output_file(".npz"), metavar="FILE",
                       help="write a digest of every result to this .npz file, for --check")
    group.add_argument("--record-values", type=_common.output_file(".npz"), metavar="FILE",
                       help="write every result to this .npz file, for --check")
    group.add_argument("--check", metavar="FILE", help="compare every result with a recorded file, bit for bit")
    group.add_argument("--delegate", action="append", default=[], metavar="WHAT",
                       help="compare a delegate with pylite's own kernels, node by node; exit with 1 if a result "
                            f"differs. WHAT: {_plugins.DELEGATE}")
    group.add_argument("--nan", action="store_true",
                       help="name the first node that produces NaN or infinity, and the sample; exit with 1 if one "
                            "does")
    group.add_argument("--isolate", type=_nodes, metavar="NODE[..NODE]",
                       help="for a bug report: write these nodes as a model, MODEL_NODE.tflite, and their inputs for "
                            "the first sample as MODEL_NODE.npz, to the working folder")


@_common.written_as("a node, as 4, or nodes from one to another, as 4..7")
def _nodes(text):
    first, _, last = text.partition("..")
    return int(first), int(last or first)


def mode_of(args):
    """The function for the mode that the options choose, which returns the exit code; None for other modes."""
    modes = ((args.isolate, _isolate), (args.nan, _find_nonfinite), (args.delegate, _compare_delegates),
             (args.record or args.record_values, _record), (args.check, _check_recording),
             (args.against, _compare_runtimes))
    return next((mode for chosen, mode in modes if chosen), None)


def _alone(args):
    """(path, Model, Samples) of a model without a reference."""
    from pylite.runtime.model import Model
    from pylite.validation.data import Samples
    path = _common.model_path(args.model)
    model = Model(path)
    return path, model, Samples(args.data, model.graph.subgraphs[0], args.mean, args.std, args.samples,
                                metadata=model.graph.metadata, rate=args.rate, pictures=args.images)


def _isolate(args):
    """Write nodes as a model of their own, and its inputs."""
    if args.merge:
        raise _common.UsageError("--isolate needs --data, and does not work with --merge")
    import io

    import numpy as np

    from pylite.validation.excerpt import excerpt
    path, model, samples = _alone(args)
    first, last = args.isolate
    contents, inputs = excerpt(model, first, last, samples[0], args.threads)
    stem = f"{os.path.splitext(os.path.basename(path))[0]}_{first}" + (f"-{last}" if last > first else "")
    file = io.BytesIO()
    np.savez(file, **inputs)
    with _outputs.Attempts() as attempt:
        attempt(_outputs.write, f"{stem}.tflite", contents)
        attempt(_outputs.write, f"{stem}.npz", file.getvalue())
        attempt(_outputs.show, f"{stem}.tflite: {_format.counted(last - first + 1, 'node')}\n{stem}.npz: "
                               f"{_format.counted(len(inputs), 'input')}: {', '.join(inputs)}\n")
    return 0


def _check_live(args, options, pages=True):
    """UsageError if other options do not go with `options`, which run models on data; pages: do they write any?"""
    several = " and " in options
    if args.merge:
        raise _common.UsageError(f"{options} {'need' if several else 'needs'} --data, and "
                                 f"{'do' if several else 'does'} not work with --merge")
    if not pages and (args.html or args.explorer):
        raise _common.UsageError(f"{options} {'write' if several else 'writes'} no --html and no --explorer")
    _outputs.check(args)


def _find_nonfinite(args):
    """Name the first node that makes NaN or infinity."""
    _check_live(args, "--nan")
    from pylite.validation.nonfinite import search
    path, model, samples = _alone(args)
    with Progress("samples") as progress:
        faults = search(model, (samples[i] for i in range(len(samples))), args.threads,
                        lambda done: progress.show(done, len(samples)))
    name, count = os.path.basename(path), _format.counted(len(samples), "sample")
    lines = [row.line(samples.source.where(row.sample)) for row in faults] or ["no NaN and no infinity"]
    sys.stdout.write(json.dumps([asdict(row) for row in faults], indent=2) + "\n" if args.json else
                     f"{name}: {count}\n" + "\n".join(lines) + "\n")
    return _limits.finish(args, path, {"makes finite numbers": [row.line() for row in faults]})


def _compare_delegates(args):
    """Compare delegates with pylite's own kernels, node by node; returns the exit code."""
    _check_live(args, "--delegate", pages=False)
    from pylite.validation import delegated
    path, delegates = _common.model_path(args.model), _plugins.delegates(args.delegate)
    result = delegated.compare(path, delegates, args.data, samples=args.samples, mean=args.mean, std=args.std,
                               rate=args.rate, pictures=args.images, threads=args.threads)
    _outputs.show_result(result, args, args.top)
    failed = [] if result.equal else [result.lines(args.top)[0 if not result.claims else 1]]
    return _limits.finish(args, path, {f"comparison with {delegated.CPU}": failed})


def _record(args):
    """Write a recording of the results."""
    _check_live(args, RESULTS, pages=False)
    from pylite.validation import agreement
    path, model, samples = _alone(args)
    file = args.record or args.record_values
    count = agreement.record(model, samples, file, bool(args.record_values), args.threads)
    sys.stdout.write(f"{file}: {_format.counted(count, 'sample')} of {os.path.basename(path)}\n")
    _outputs.wrote(file)
    return 0


def _check_recording(args):
    """Compare the results with a recording; returns the exit code."""
    _check_live(args, RESULTS, pages=False)
    from pylite.validation import agreement
    path, model, samples = _alone(args)
    return _agreed(args, path, agreement.check(model, samples, args.check, path, args.threads))


def _compare_runtimes(args):
    """Compare the results with LiteRT's; returns the exit code."""
    _check_live(args, RESULTS, pages=False)
    from pylite.validation import agreement
    from pylite.validation.litert import LiteRT
    path, model, samples = _alone(args)
    other = LiteRT(bytes(model.graph.contents), args.against.partition(":")[2] or "ref", args.threads)
    return _agreed(args, path, agreement.compare_with(model, samples, other.results, args.against, path, args.threads))


def _agreed(args, path, result):
    """Show an Agreement; returns the exit code."""
    _outputs.show_result(result, args, args.top)
    failed = [] if result.equal else result.lines(args.top)[:1]
    return _limits.finish(args, path, {f"comparison with {result.other}": failed})
