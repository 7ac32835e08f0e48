"""Shared by several commands: arguments, and finding models and samples."""
import argparse
import os

from pylite.tflite import MOST_THREADS


class UsageError(Exception):
    """An argument or a file is wrong; the message says which and why."""


def model_path(text):
    """The path that `text` names: a file, or the short name of a bundled model."""
    return _bundled(text, "path")


def input_path(text):
    """The path that `text` names: a file, or the short name of a bundled sample."""
    return _bundled(text, "sample")


def _bundled(text, kind):
    if os.path.exists(text) or os.sep in text or "." in text:
        return text
    from pylite.media import models
    try:
        return os.fspath(getattr(models, kind)(text))
    except ValueError as error:
        raise UsageError(f"there is no file {text!r}, and {error}") from None


def written_as(form):
    """Decorates a function that parses an option: its ValueError becomes a message with the form that is expected."""
    def decorated(parse):
        def checked(text):
            try:
                return parse(text)
            except ValueError:
                raise argparse.ArgumentTypeError(f"{text!r} is not {form}") from None
        return checked
    return decorated


def output_file(suffix):
    """A function for argparse: the name of a file that is written, with `suffix` or none."""
    article = "an" if suffix == ".npz" else "a"

    @written_as(f"the name of {article} {suffix} file")
    def named(text):
        if os.path.splitext(text)[1].lower() not in ("", suffix):
            raise ValueError
        return text
    return named


@written_as("a whole number of at least 1")
def positive(text):
    """`text` as an integer of at least 1; for argparse."""
    value = int(text)
    if value < 1:
        raise ValueError
    return value


@written_as("a whole number of at least 0")
def not_negative(text):
    """`text` as an integer of at least 0; for argparse."""
    value = int(text)
    if value < 0:
        raise ValueError
    return value


def number(text):
    """`text` as a float; ValueError for another word, and for NaN, with which comparisons always fail."""
    value = float(text)
    if value != value:
        raise ValueError
    return value


@written_as("a number")
def real(text):
    """`text` as a float; for argparse."""
    return number(text)


@written_as("a score from 0 to 1")
def score(text):
    """`text` as a float from 0 to 1; for argparse."""
    value = number(text)
    if not 0 <= value <= 1:
        raise ValueError
    return value


@written_as("a whole number")
def whole(text):
    """`text` as an integer; for argparse."""
    return int(text)


@written_as("a whole number of samples per second, 1 to 1e9")
def rate(text):
    """`text` as an integer, a sample rate; for argparse."""
    from pylite.media.audio import HIGHEST_RATE  # few give the option
    value = int(text)
    if not 1 <= value <= HIGHEST_RATE:
        raise ValueError
    return value


@written_as("a finite number, or one for each channel between commas")
def means(text):
    """`text` as a list of floats; for argparse."""
    return _scaling(text, False)


@written_as("a finite number other than 0, or one for each channel between commas")
def deviations(text):
    """`text` as a list of floats, none of them 0; for argparse."""
    return _scaling(text, True)


def _scaling(text, divides):
    from pylite.media.tensors import check_scaling  # few give the options
    numbers = list(map(float, text.split(",")))
    check_scaling("", numbers, divides)
    return numbers


def add_threads(parser, what="invoke()"):
    """The option --threads."""
    parser.add_argument("--threads", type=threads, default=1, metavar="N",
                        help=f"number of threads for {what} (default: 1)")


@written_as(f"a whole number from 1 to {MOST_THREADS}")
def threads(text):
    """`text` as a number of threads; for argparse."""
    value = int(text)
    if not 1 <= value <= MOST_THREADS:
        raise ValueError
    return value


def add_cache(parser):
    parser.add_argument("--cache-dir", metavar="DIR", help="folder of the plan cache (default: PYLITE_CACHE_DIR, "
                        "or ~/.cache/pylite)")


def cache_folder(args):
    """The folder of the plan cache; UsageError if an empty PYLITE_CACHE_DIR disables it."""
    from pylite.runtime.cache_files import default_folder  # commands that have a cache import it
    folder = args.cache_dir or default_folder()
    if not folder:
        raise UsageError("there is no plan cache, since PYLITE_CACHE_DIR is empty: give --cache-dir DIR")
    return folder


def add_verbose(parser):
    parser.add_argument("--verbose", "-v", action="store_true",
                        help="show every column (below its row if it does not fit), and full paths")


def add_model(parser):
    parser.add_argument("model", metavar="MODEL", help="a .tflite file, or the name of a bundled model")


def shapes(given):
    """{input name: shape}"""
    by_name = {}
    for text in given:
        name, equals, sizes = text.rpartition("=")
        try:
            by_name[name] = [int(size) for size in sizes.split(",")]
            if min(by_name[name]) < 0:
                raise ValueError
        except ValueError:
            equals = ""
        if not equals:
            raise UsageError(f"--shape {text}: expected INPUT=N,N,... such as image=1,224,224,3")
    return by_name


def input_names(interpreter):
    """{name: position of the input}, for tensor names and the names in signatures of the subgraph that runs."""
    return names_of(interpreter._model.graph, interpreter._main.subgraph)


def names_of(graph, subgraph):
    """input_names() of a subgraph of a Model's graph."""
    positions = {index: i for i, index in enumerate(subgraph.inputs)}
    names = {subgraph.tensors[index].name: i for index, i in positions.items()}
    for signature in graph.signatures:
        if signature.subgraph == subgraph.index:
            names |= {name: positions[index] for name, index in signature.inputs.items() if index in positions}
    return names


def unknown_input(name, names):
    """The UsageError for a name that no input has; names: {name: position of the input}, some of which have several."""
    known = {}
    for each, position in names.items():
        known.setdefault(position, []).append(repr(each))
    listed = ", ".join(first + (f" (its signature calls it {' or '.join(others)})" if others else "")
                       for first, *others in known.values())
    return UsageError(f"no input is called {name!r}; the model has {listed}")


def resize(interpreter, shapes):
    """Resize inputs to {input name: shape}; UsageError names an input that the model does not have."""
    details, names = interpreter.get_input_details(), input_names(interpreter)
    for name, shape in shapes.items():
        interpreter.resize_tensor_input(details[position_of(name, names)]["index"], shape)


def position_of(name, names):
    """The position of the input called `name`; UsageError if there is none."""
    if name not in names:
        raise unknown_input(name, names)
    return names[name]


def add_shape(parser):
    """The option --shape of commands that run one model."""
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=N,N,...",
                        help="resize an input first")


def add_signature(parser):
    """The option --signature of commands that run one model."""
    parser.add_argument("--signature", metavar="NAME",
                        help="run this signature of the model (default: the model's first subgraph)")


def add_precision(parser):
    """The option --precision of commands that run one model."""
    parser.add_argument("--precision", type=_precision, metavar="TYPE",
                        help="number type for convolutions and matrix products of a float model: float32, float16 "
                             "where the CPU has it, prefer_float16, or emulate_float16 (default: what the model "
                             "allows)")


def _precision(text):
    from pylite.tflite import arguments
    *others, last = arguments.PRECISIONS
    if text not in arguments.PRECISIONS:
        raise argparse.ArgumentTypeError(f"{text!r} is not {', '.join(others)} or {last}")
    try:
        return arguments.precision(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("precision=")) from None
