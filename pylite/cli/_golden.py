"""`pylite validate --golden`: comparison with tensors of another framework."""
from pylite.cli import _common


def add(group):
    group.add_argument("--golden", metavar="FOLDER",
                       help="compare with tensors from another framework: .npy files named after the tensors, or .npz "
                            "files with arrays of these names; leave out --data if the folder has the inputs")


def check(args):
    """UsageError if other options contradict it."""
    others = {"--accuracy": args.accuracy, "--metric": args.metric, "--sensitivity": args.sensitivity,
              "--repair": args.repair, "--save": args.save, "--merge": args.merge,
              "--dask": args.dask, "--shard": args.shard != (1, 1),
              "--workers": args.workers > 1, "--max-drop": args.max_drop is not None,
              "--local-samples": args.local_samples is not None, "--tensors": args.tensors is not None}
    given = [name for name, value in others.items() if value]
    if given:
        raise _common.UsageError(f"--golden cannot be combined with {', '.join(given)}")


def measured(args, model, progress):
    """The Report."""
    from pylite.validation import golden
    return golden.compare(model, args.golden, args.data, samples=args.samples, mean=args.mean, std=args.std,
                          rate=args.rate, pictures=args.images, threads=args.threads,
                          histograms=args.html is not None, progress=progress)
