"""Run a model on files and print its answers.

A picture is resized to the input's size.  A float input gets pixels scaled to -1..1, or (pixel - MEAN) / STD; an 8-bit
input gets the pixels unchanged, unless --mean or --std is given.  Real numbers are quantized for the inputs, and the
outputs are dequantized.
"""
import json
import sys

from pylite.cli import _common, _format, _plugins

EPILOG = __doc__.split("\n\n", 1)[1] + """
examples:
  pylite run digits --input seven               a model and a sample that come with pylite
  pylite run mobilenet.tflite --input cat.jpg --labels labels.txt
  pylite run model.tflite --input left=a.npy --input right=b.npy --output results.npz
  pylite run yamnet.tflite --input dog.wav --json
  pylite run mobilenet.tflite photos/ more/*.png --csv > answers.csv
"""


def configure(parser):
    _common.add_model(parser)
    parser.add_argument("files", metavar="FILE", nargs="*",
                        help="run each of these on its own: files, folders, patterns such as 'photos/*.jpg'")
    parser.add_argument("--input", "-i", action="append", default=[], metavar="[NAME=]FILE",
                        help="an .npy, .npz or .wav file, or a picture; files without a name go to the inputs in order")
    parser.add_argument("--labels", metavar="FILE",
                        help="names of the classes, one per line (default: those inside the model)")
    parser.add_argument("--top", type=_common.positive, metavar="N",
                        help="number of classes or boxes to print (default: 5; 1 for lines of text of many files)")
    parser.add_argument("--threshold", type=float, default=0.3, metavar="SCORE",
                        help="minimum score of a box (default: 0.3)")
    parser.add_argument("--mean", type=_channels, metavar="M[,M,M]",
                        help="mean of the pixels, one number or one per channel (default: 127.5 for a float input)")
    parser.add_argument("--std", type=_channels, metavar="S[,S,S]",
                        help="standard deviation of the pixels (default: 127.5 for a float input)")
    parser.add_argument("--random", type=_common.not_negative, metavar="SEED",
                        help="fill inputs without a file with random numbers")
    parser.add_argument("--zeros", action="store_true", help="fill inputs without a file with zeros")
    parser.add_argument("--threads", type=_common.positive, default=1, metavar="N",
                        help="threads of invoke() (default: 1)")
    parser.add_argument("--output", "-o", metavar="OUT.npz", help="write the outputs to this file, as real numbers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--csv", action="store_true", help="with FILE ...: print CSV, a row for each class or box")
    many.add_argument("--jsonl", action="store_true", help="with FILE ...: print JSON lines, an object for each file")
    _plugins.add(parser)


def _channels(text):
    return [float(part) for part in text.split(",")]


def run(args):
    if 0 in (args.std or ()):
        raise _common.UsageError("--std must not be 0")
    form = "csv" if args.csv else "jsonl" if args.jsonl else "text"
    if args.files:
        return _many(args, form)
    if form != "text":
        raise _common.UsageError(f"--{form} is for many files; give FILE ... after the model")
    from pylite.cli._runner import Runner
    args.top = args.top or 5
    runner = Runner(args)
    result = runner.run(args.input)
    if args.output:
        _save(args.output, runner.outputs)
    if args.json:
        sys.stdout.write(json.dumps({"model": runner.path, **result}, indent=2, allow_nan=False) + "\n")
        return 0
    from pylite.cli import _answers
    for note in result["notes"]:
        sys.stderr.write(f"note: {note}\n")
    text = [line for one in result["outputs"] for line in _answers.lines(one)]
    sys.stdout.write("\n".join([*text, f"({_format.seconds(result['seconds'])})"]) + "\n")
    return 0


def _many(args, form):
    """Run each of the files that the command line names."""
    from pylite.cli import _batch
    from pylite.cli._runner import Runner
    if args.json or args.output:
        raise _common.UsageError("--json and --output are for one run; with FILE ... give --jsonl or --csv")
    files = _batch.expanded(args.files)
    args.top = args.top or (1 if form == "text" else 5)
    return _batch.run(Runner(args), files, args.input, form)


def _save(path, outputs):
    """Write the outputs, dequantized, to an .npz file."""
    import numpy as np

    from pylite.media.tensors import dequantize
    with open(path, "wb") as file:
        np.savez(file, **{d["name"]: dequantize(a, d) for d, a in outputs})
