"""Run a model on files and print its answers.

Pictures are resized to the input's size.  For a float input, pixels become (pixel - MEAN) / STD with the values of
--mean and --std, else those of the model's metadata, else they become -1 to 1.  An 8-bit input gets the pixels
unchanged unless you pass --mean or --std.  Sound is resampled to --rate or the metadata's rate; a sound longer than the
model's window runs window by window.  Inputs are quantized and outputs dequantized where the model needs it.
"""
import json
import sys
from itertools import islice

from pylite.cli import _common, _format, _outputs, _plugins, _terminal
from pylite.cli._parser import explained

EPILOG = explained(__doc__) + """
examples:
  pylite run digits --input seven               a model and a sample that come with pylite
  pylite run mobilenet.tflite --input cat.jpg --labels labels.txt
  pylite run model.tflite --input left=a.npy --input right=b.npy --output results.npz
  pylite run yamnet.tflite --input dog.wav --json
  pylite run sentences.tflite --input "It rains."
  pylite run bert.tflite --input "It rains." --vocabulary vocab.txt
  pylite run mobilenet.tflite photos/ more/*.png --csv > answers.csv
  pylite run mobilenet.tflite --camera --frames 100 --jsonl
  pylite run yamnet.tflite --microphone
"""
USAGE = "pylite run MODEL --input FILE [options]\n       pylite run MODEL FILE ... [options]"


def configure(parser):
    _common.add_model(parser)
    parser.add_argument("files", metavar="FILE", nargs="*", default=[],
                        help="files, folders, or patterns such as 'photos/*.jpg'; the model runs once for each file")
    _common.add_threads(parser)
    _common.add_precision(parser)
    _common.add_signature(parser)
    _plugins.add(parser)
    inputs = parser.add_argument_group("inputs")
    inputs.add_argument("--input", "-i", action="append", default=[], metavar="[NAME=]FILE|TEXT",
                        help="a picture, .wav, .npy or .npz file; for a model that reads text, the text or a .txt "
                             "file. Files without NAME= go to the inputs in order")
    inputs.add_argument("--mean", type=_common.means, metavar="M[,M,M]",
                        help="mean of the pixels: one number, or one per channel (default for a float input: the "
                             "metadata's, or 127.5)")
    inputs.add_argument("--std", type=_common.deviations, metavar="S[,S,S]",
                        help="standard deviation of the pixels (default for a float input: the metadata's, or 127.5)")
    inputs.add_argument("--rate", type=_common.rate, metavar="R",
                        help="sample rate of the model's sound input, in Hz (default: the metadata's)")
    inputs.add_argument("--vocabulary", metavar="FILE",
                        help="words of the tokenizer, one per line, for a model that takes token ids (default: the "
                             "metadata's)")
    inputs.add_argument("--cased", action="store_true",
                        help="the vocabulary has capitals and accents, so texts keep theirs")
    source = inputs.add_mutually_exclusive_group()
    source.add_argument("--camera", type=_common.not_negative, nargs="?", const=0, metavar="N",
                        help="run on live pictures from camera N (default: 0); needs picamera2 or OpenCV")
    source.add_argument("--microphone", action="store_true",
                        help="run on live sound from the microphone; needs sounddevice or arecord")
    inputs.add_argument("--frames", type=_common.positive, metavar="N",
                        help="stop after N pictures or windows of sound (default: until Ctrl-C)")
    blank = inputs.add_mutually_exclusive_group()
    blank.add_argument("--random", type=_common.not_negative, metavar="SEED",
                       help="fill inputs that got no file with random numbers")
    blank.add_argument("--zeros", action="store_true", help="fill inputs that got no file with zeros")
    answers = parser.add_argument_group("answers")
    answers.add_argument("--labels", metavar="FILE",
                         help="class names, one per line (default: the names in the model)")
    answers.add_argument("--top", type=_common.positive, metavar="N",
                         help="print the N best classes or boxes (default: 5, or 1 when text is printed for many "
                              "files)")
    answers.add_argument("--threshold", type=_common.score, default=0.3, metavar="SCORE",
                         help="print only boxes and key points with at least this score (default: 0.3)")
    answers.add_argument("--output", "-o", type=_common.output_file(".npz"), metavar="OUT.npz",
                         help="write the outputs to this file, dequantized")
    answers.add_argument("--save", metavar="OUT.png", help="write the picture with the boxes and key points in it")
    answers.add_argument("--json", action="store_true", help="print JSON")
    many = answers.add_mutually_exclusive_group()
    many.add_argument("--csv", action="store_true",
                      help="with FILE ..., --camera or --microphone: print CSV, one row per class, box or point")
    many.add_argument("--jsonl", action="store_true",
                      help="with FILE ..., --camera or --microphone: print JSON lines, one object per file")


def run(args):
    source = "--camera" if args.camera is not None else "--microphone" if args.microphone else ""
    form = "csv" if args.csv else "jsonl" if args.jsonl else "text"
    _check(args, source, form)
    args.ranks = args.top is not None       # also for --zeros and --random
    if source or args.files:
        return _many(args, form, source)
    from pylite.cli._file_model import FileModel
    args.top = args.top or 5
    model = FileModel(args)
    result = model.run(args.input)
    if args.output:
        _save(args.output, model.outputs)
    if args.save:
        _draw(args.save, model, result.outputs)
    if args.json:
        sys.stdout.write(json.dumps({"model": model.path, **result.to_dict()}, indent=2, allow_nan=False) + "\n")
        return 0
    for note in result.notes:
        _terminal.say(f"note: {note}")
    sys.stdout.write("\n".join(_terminal.shown(_lines(result))) + "\n")
    return 0


def _lines(result):
    """The result of one run as text."""
    from pylite.cli import _answers
    windows = result.windows
    lines = [*_answers.window_lines(windows), "mean of all windows:"] if windows else []
    lines += [line for one in result.outputs for line in one.lines()]
    runs = _format.counted(len(windows), "window") if windows else "one run"
    if not result.outputs:
        lines.append("the model has no outputs")
    if _answers.unnamed(result.outputs):
        lines.append("(the model has no names for its classes; --labels FILE gives them)")
    return [*lines, f"{runs} took {_format.seconds(result.seconds)}"]


def _check(args, source, form):
    """UsageError for options that contradict each other."""
    many = source or args.files
    if source and args.files:
        raise _common.UsageError(f"FILE ... and {source} exclude each other; give one of them")
    if args.frames and not source:
        raise _common.UsageError("--frames is for --camera and --microphone")
    if form != "text" and not many:
        raise _common.UsageError(f"--{form} is for many files; give FILE ... after the model, --camera or --microphone")
    if many and (args.json or args.output or args.save):
        raise _common.UsageError("--json, --output and --save are for one run; with "
                                 f"{source or 'FILE ...'} give --jsonl or --csv")


def _many(args, form, source):
    """Run each of the files that the command line names, or what `source` captures."""
    from pylite.cli import _batch
    from pylite.cli._file_model import FileModel
    args.top = args.top or (1 if form == "text" else 5)
    if not source:
        return _batch.run(FileModel(args), _batch.expanded(args.files), args.input, form)
    model = FileModel(args)
    try:
        captured = islice(_captured(args, model), args.frames and min(args.frames, sys.maxsize))
        return _batch.live(model, source[2:], captured, args.input, form)
    except KeyboardInterrupt:       # how it ends
        return 0
    except ImportError as error:
        raise _common.UsageError(f"{source}: {error}") from None


def _captured(args, model):
    """(kind, contents) of each picture of the camera, or window of the microphone's sound."""
    from pylite.cli import _inputs
    from pylite.media import audio, capture
    if not args.microphone:
        yield from (("image", pixels) for pixels in capture.pictures(args.camera))
        return
    _, size = _inputs.window(model.vacant(args.input))
    if model.rate is None:
        raise _common.UsageError("the model does not give its sample rate; pass --rate, such as --rate 16000")
    yield from (("audio", audio.Sound(samples, model.rate))
               for samples in capture.sounds(model.rate, size or model.rate))


def _draw(path, model, answers):
    """Write the picture with the objects in it, masks and points included where the model gives them."""
    from pylite.cli import _answers
    from pylite.media import drawing, images
    pixels = (drawing.detections(model.pixels, model.detections) if model.detector and model.pixels is not None
              else _answers.drawn(model.pixels, answers))
    images.write(path, pixels)
    _outputs.wrote(path)


def _save(path, outputs):
    """Write the outputs, dequantized, to an .npz file, which is replaced at once.

    Outputs of the same name get the numbers of their tensors.
    """
    import zipfile

    import numpy as np

    from pylite.media.tensors import dequantize
    from pylite.validation.files import replacing
    names = [detail["name"] for detail, _ in outputs]
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:    # numpy.savez takes no name "file"
        for detail, array in outputs:
            name = detail["name"] if names.count(detail["name"]) == 1 else f"{detail['name']} {detail['index']}"
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, dequantize(array, detail))
    _outputs.wrote(path)
