"""Shared by the examples: arguments, making a task of a model, the camera."""
import argparse
import os
import sys

from pylite.media import capture, models


def stop(text):
    """End the program with a message and exit code 2."""
    sys.stderr.write(text + "\n")
    raise SystemExit(2)


def positive(kind):
    """A type of arguments: numbers of `kind`, int or float, above 0."""
    def parse(text):
        number = kind(text)
        if not number > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return number
    parse.__name__ = kind.__name__      # argparse names it for other text
    return parse


def add_arguments(parser, model):
    parser.add_argument("--model", default=model, metavar="MODEL",
                        help="a .tflite file, or a model that is bundled with pylite (default: %(default)s)")
    parser.add_argument("--labels", metavar="FILE",
                        help="names of the classes, one per line (default: those inside the model)")
    parser.add_argument("--threads", type=positive(int), default=os.cpu_count(),
                        help="(default: %(default)s, all cores)")


def make(task, args, **options):
    """A task of pylite.tasks for parsed arguments of add_arguments()."""
    return task(path_of(args), labels=args.labels, num_threads=args.threads, **options)


def path_of(args):
    """The path of the model that the arguments name."""
    return models.path(args.model) if args.model in models.names() else args.model


def text(category):
    """The name of a class, or its number."""
    return category.category_name or f"class {category.index}"


def camera_pictures(rate=None):
    """Endless pictures from the camera: uint8 (height, width, 3) with red first, `rate` per second."""
    try:
        yield from capture.pictures(rate=rate)
    except ImportError as error:
        stop(f"--camera: {error}")
