"""`pylite validate --sensitivity`: which nodes to run in float."""
import json

from pylite.cli import _common, _limits, _outputs
from pylite.cli._terminal import Progress


def add(parser):
    parser.add_argument("--sensitivity", action="store_true",
                        help="with --reference: run quantized nodes in float, one at a time, rank them by the gain, "
                             "and find the smallest set that reaches --target (default: on the first 64 samples)")
    parser.add_argument("--target", type=_target, metavar="20dB|0.95",
                        help="goal of --sensitivity: an SQNR that every output must reach, or an accuracy (top-1, or "
                             "the task's first metric) if the data have labels")
    parser.add_argument("--blocks", action="store_true",
                        help="with --sensitivity: try whole blocks (residual, attention, ...) instead of nodes")
    parser.add_argument("--mixed", type=_common.output_file(".tflite"), metavar="FILE",
                        help="with --sensitivity: write MODEL with the set in float to this .tflite file")
    parser.add_argument("--recipe", metavar="FILE",
                        help="with --sensitivity: write the set as a recipe for ai-edge-quantizer")
    parser.add_argument("--denylist", metavar="FILE",
                        help="with --sensitivity: write the set as TensorFlow's denylisted_nodes, one name per line")


@_common.written_as("decibels, as 20dB, or an accuracy, as 0.95")
def _target(text):
    """(number, is it decibels?)"""
    number = text[:-2] if text.lower().endswith("db") else text
    return _common.number(number), number != text


def wanted(args):
    """Is --sensitivity given?  UsageError if its options contradict others."""
    if not args.sensitivity:
        if args.target or args.blocks or args.mixed or args.recipe or args.denylist:
            raise _common.UsageError("--target, --blocks, --mixed, --recipe and --denylist need --sensitivity")
        return False
    examples = {"--reference": "FLOAT_MODEL", "--data": "SAMPLES", "--target": "40dB"}
    lacking = [f"{option} {value}" for option, value in examples.items() if not getattr(args, option[2:])]
    if lacking:
        raise _common.UsageError(f"--sensitivity needs more: {' '.join(lacking)}")
    return True


def run(args, model, reference):
    from pylite.validation import Settings
    from pylite.validation.sensitivity import sensitivity
    target, decibels = args.target
    if decibels and args.metric:
        raise _common.UsageError("with --metric, --target is a value of the metric, such as 0.95, not decibels")
    if not (decibels or args.metric or target <= 1):
        raise _common.UsageError(f"--target {target:g}: an accuracy is at most 1; for an SQNR write {target:g}dB")
    settings = None if decibels else Settings(args.task, args.labels, args.label_offset, args.output, args.metric)
    with Progress("models") as progress:
        result = sensitivity(model, reference, args.data, target, accuracy=settings, samples=args.samples,
                             mean=args.mean, std=args.std, threads=args.threads, blocks=args.blocks,
                             progress=progress.show)
    with _outputs.Attempts() as attempt:
        attempt(_outputs.show_result, result, args, args.top)
        if args.html:
            attempt(_outputs.write_page, args, {"sensitivity": result.to_dict()})
        if args.explorer:
            attempt(_overlay, args.explorer, model, result)
        if args.mixed:
            attempt(_outputs.write, args.mixed, result.contents)
        if args.recipe:
            attempt(_outputs.write, args.recipe, json.dumps(result.recipe(), indent=2))
        if args.denylist:
            attempt(_outputs.write, args.denylist, "".join(name + "\n" for name in result.denylist()))
        return attempt(_limits.finish, args, model,
                       {"target": [] if result.ok else [result.outcome()]})


def _overlay(path, model, result):
    values = {node: row.regained for row in result.ranking if abs(row.regained) < float("inf") for node in row.nodes}
    _outputs.write_overlay(path, model, f"regained ({result.measure})", values, gradient=_outputs.GRADIENT)
