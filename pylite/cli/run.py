"""Run a model on files and print its answers.

A picture is resized to the input's size.  A float input gets pixels scaled to -1..1, or (pixel - MEAN) / STD; an 8-bit
input gets the pixels unchanged, unless --mean or --std is given.  Real numbers are quantized for the inputs, and the
outputs are dequantized.
"""
import json
import os
import sys
import time

from pylite.cli import _common, _format, _plugins

EPILOG = __doc__.split("\n\n", 1)[1] + """
examples:
  pylite run digits --input seven               a model and a sample that come with pylite
  pylite run mobilenet.tflite --input cat.jpg --labels labels.txt
  pylite run model.tflite --input left=a.npy --input right=b.npy --output results.npz
  pylite run yamnet.tflite --input dog.wav --json
"""


def configure(parser):
    _common.add_model(parser)
    parser.add_argument("--input", "-i", action="append", default=[], metavar="[NAME=]FILE",
                        help="an .npy, .npz or .wav file, or a picture; files without a name go to the inputs in order")
    parser.add_argument("--labels", metavar="FILE",
                        help="names of the classes, one per line (default: those inside the model)")
    parser.add_argument("--top", type=_common.positive, default=5, metavar="N",
                        help="number of classes or boxes to print (default: 5)")
    parser.add_argument("--threshold", type=float, default=0.3, metavar="SCORE",
                        help="minimum score of a box (default: 0.3)")
    parser.add_argument("--mean", type=_channels, metavar="M[,M,M]",
                        help="mean of the pixels, one number or one per channel (default: 127.5 for a float input)")
    parser.add_argument("--std", type=_channels, metavar="S[,S,S]",
                        help="standard deviation of the pixels (default: 127.5 for a float input)")
    parser.add_argument("--random", type=_common.not_negative, metavar="SEED",
                        help="fill inputs without a file with random numbers")
    parser.add_argument("--threads", type=_common.positive, default=1, metavar="N",
                        help="threads of invoke() (default: 1)")
    parser.add_argument("--output", "-o", metavar="OUT.npz", help="write the outputs to this file, as real numbers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _plugins.add(parser)


def _channels(text):
    return [float(part) for part in text.split(",")]


def run(args):
    import numpy as np

    from pylite.cli import _answers, _inputs
    from pylite.interpreter import Interpreter
    from pylite.media.labels import attached, read
    from pylite.runtime.model import Model
    if 0 in (args.std or ()):
        raise _common.UsageError("--std must not be 0")
    path = _common.model_path(args.model)
    given = [read(args.labels)] if args.labels else []
    model = Model(path)
    interpreter = Interpreter(model=model, num_threads=args.threads, experimental_delegates=_plugins.load(args))
    details = interpreter.get_input_details()
    arrays, notes, size = _contents(args, details, _names(model, details))
    for detail, array in zip(details, arrays, strict=True):
        if array.shape != tuple(detail["shape"]):
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    start = time.perf_counter()
    interpreter.invoke()
    seconds = time.perf_counter() - start
    outputs = [(d, interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]
    if args.output:
        with open(args.output, "wb") as file:
            np.savez(file, **{d["name"]: _inputs.dequantize(a, d) for d, a in outputs})
    labels = given or attached(path, model.associated_files)
    found = _answers.answer(model.graph.subgraphs[0], outputs, labels, args.top, args.threshold, size)
    if args.json:
        report = {"model": path, "seconds": seconds, "notes": notes, "outputs": found}
        sys.stdout.write(json.dumps(report, indent=2, allow_nan=False) + "\n")
        return
    for note in notes:
        sys.stderr.write(f"note: {note}\n")
    text = [line for one in found for line in _answers.lines(one)]
    sys.stdout.write("\n".join([*text, f"({_format.seconds(seconds)})"]) + "\n")


def _names(model, details):
    """{name: position of the input}, for tensor names and the names in signatures of subgraph 0."""
    names = {detail["name"]: i for i, detail in enumerate(details)}
    positions = {detail["index"]: i for i, detail in enumerate(details)}
    for signature in model.graph.signatures:
        if signature.subgraph == 0:
            names |= {name: positions[index] for name, index in signature.inputs.items() if index in positions}
    return names


def _contents(args, details, names):
    """(arrays for all inputs, notes to print, (height, width) of the first picture or None)"""
    from pylite.cli import _inputs
    arrays, notes, size = [None] * len(details), [], None
    for position, kind, contents in _assigned(args.input, names, len(details)):
        arrays[position], note = _inputs.tensor(kind, contents, details[position], args.mean, args.std)
        notes += [note] if note else []
        if kind == "image" and size is None:
            size = contents.shape[:2]
    empty = [i for i, array in enumerate(arrays) if array is None]
    if empty:
        import numpy as np
        rng = None if args.random is None else np.random.default_rng(args.random)
        for i in empty:
            arrays[i] = _inputs.blank(details[i], rng)
        what = "zeros; give --input FILE" if rng is None else f"random numbers (seed {args.random})"
        notes.append(f"no file for {', '.join(repr(details[i]['name']) for i in empty)}: filled with {what}")
    return arrays, notes, size


def _assigned(given, names, count):
    """(position of the input, kind, contents) for every array in the files [NAME=]FILE."""
    from pylite.cli import _inputs
    taken = set()
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or os.path.exists(text):
            name, path = None, text
        kind, contents = _inputs.read(path)
        for part, array in _parts(name, path, contents):
            position = _position(part, names, taken, count)
            taken.add(position)
            yield position, kind, array


def _parts(name, path, contents):
    """[(input name or None, array)]: an .npz file may have several."""
    if not isinstance(contents, dict):
        return [(name, contents)]
    if name is None and len(contents) > 1:
        return list(contents.items())
    if name is not None and name in contents:
        return [(name, contents[name])]
    if len(contents) != 1:
        raise _common.UsageError(f"{path}: has {', '.join(contents) or 'no arrays'}, and no {name}")
    return [(name, next(iter(contents.values())))]


def _position(name, names, taken, count):
    if name is None:
        position = next((i for i in range(count) if i not in taken), None)
        if position is None:
            raise _common.UsageError(f"the model has {count} input(s), and more files were given")
        return position
    if name in names:
        return names[name]
    raise _common.UsageError(f"no input is called {name!r}; the model has {', '.join(map(repr, names))}")
