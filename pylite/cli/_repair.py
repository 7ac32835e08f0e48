"""`pylite validate --repair`: the same model with less error."""
import contextlib
import os

from pylite.cli import _common, _limits, _outputs
from pylite.cli._terminal import Progress


def add(parser):
    parser.add_argument("--repair", type=_common.output_file(".tflite"), metavar="FILE",
                        help="with --reference: repair weights, ranges and biases, and write the model to this .tflite "
                             "file; half of the samples fit each step, the other half check it (default: 64 samples, "
                             "spread evenly over the data)")
    parser.add_argument("--allow-float", action="store_true",
                        help="with --repair: as the last step, run nodes in float: the smallest set that reaches "
                             "--target, or without a target each node that gains 1 dB")


def wanted(args):
    """Is --repair given?  UsageError if other options contradict it."""
    if not args.repair:
        if args.allow_float:
            raise _common.UsageError("--allow-float needs --repair")
        return False
    if not (args.reference and args.data):
        raise _common.UsageError("--repair needs --reference and --data")
    if args.target and not (args.allow_float and args.target[1]):
        raise _common.UsageError("with --repair, --target needs --allow-float and a value in decibels, such as 30dB")
    others = {"--sensitivity": args.sensitivity, "--html": args.html, "--explorer": args.explorer, "--save": args.save,
              "--dask": args.dask, "--fail-on": args.fail_on, "--max-drop": args.max_drop is not None,
              "--shard": args.shard != (1, 1), "--workers": args.workers > 1}
    given = [name for name, value in others.items() if value]
    if given:
        raise _common.UsageError(f"--repair cannot be combined with {', '.join(given)}; validate the repaired file "
                                 f"with "
                                 f"{'it' if len(given) == 1 else 'them'}")
    return True


def run(args, model, reference):
    from pylite.validation.evidence import Settings
    from pylite.validation.repair import repair
    settings = (args.task, args.labels, args.label_offset, args.output, args.metric)
    accuracy = Settings(*settings) if args.accuracy or any(value is not None for value in settings) else None
    # Beside the file, as long as the repair is not done; pipes and devices have no such place.
    state = f"{args.repair}.state" if os.path.isfile(args.repair) or not os.path.exists(args.repair) else None
    with Progress("steps") as progress:
        repaired = repair(model, reference, args.data, samples=args.samples, mean=args.mean, std=args.std,
                          rate=args.rate, pictures=args.images, threads=args.threads, allow_float=args.allow_float,
                          target=args.target and args.target[0], accuracy=accuracy, state=state,
                          progress=progress.show)
    with _outputs.Attempts() as attempt:
        attempt(_outputs.show_result, repaired, args)
        attempt(_written, args.repair, repaired.contents, state)
        cases = {"repair": [] if args.min_sqnr is None or repaired.after_db >= args.min_sqnr else [
            f"the repaired model has an SQNR of {repaired.after_db:.1f} dB, below --min-sqnr {args.min_sqnr:g}"]}
        if args.target:
            cases["target"] = [] if repaired.after_db >= args.target[0] else [
                f"the repaired model has an SQNR of {repaired.after_db:.1f} dB, below --target {args.target[0]:g}dB"]
        return attempt(_limits.finish, args, model, cases)


def _written(path, contents, state):
    """Write the repaired model; then an interrupted repair has nothing to continue."""
    _outputs.write(path, contents)
    if state is not None:
        with contextlib.suppress(OSError):
            os.remove(state)
