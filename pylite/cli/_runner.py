"""One model that a command runs on files: their contents become its inputs, its outputs become answers."""
import os
import time

import numpy as np

from pylite.cli import _answers, _common, _format, _inputs, _plugins
from pylite.interpreter import Interpreter
from pylite.media import metadata
from pylite.media.labels import attached, read
from pylite.media.tensors import feed
from pylite.runtime.cache_files import default_folder


class Runner:
    """A model with the options of `pylite run`."""

    def __init__(self, args):
        self.path = _common.model_path(args.model)
        self.args = args
        given = [read(args.labels)] if args.labels else []
        self.interpreter = Interpreter(self.path, num_threads=args.threads, experimental_delegates=_plugins.load(args),
                                       cache_dir=default_folder())
        self.model = self.interpreter._model
        self.detector = _detector(self.model, args)
        if self.detector:
            self.interpreter = self.detector.interpreter
        self.labels = given or attached(self.model)
        details = self.interpreter.get_input_details()
        self.names = _names(self.model, details)
        self.known = [metadata.of_input(self.model.graph.metadata, i) for i in range(len(details))]
        self.rate = args.rate or next((known["rate"] for known in self.known if "rate" in known), None)
        self.ready = False
        self.outputs, self.found = [], []       # [(details, array)] of the last run, and the objects of a detector
        self.pixels = None      # the first picture of the last run

    def run(self, files):
        """{"seconds": of invoke(), "notes": texts, "outputs": answers} for files.

        Each is [NAME=]FILE, or (kind, contents) as _inputs.read() returns them.
        """
        interpreter = self.interpreter
        details = interpreter.get_input_details()
        if self.detector:
            assigned = list(self._assigned(files))
            if [kind for _, kind, _ in assigned] == ["image"]:
                return self._detected(assigned[0][2])
        arrays, notes, size = self._contents(files, details)
        allocate, self.ready = not self.ready, False     # an error leaves it so
        feed(interpreter, arrays, allocate)
        self.ready = True
        interpreter.reset_all_variables()
        start = time.perf_counter()
        interpreter.invoke()
        seconds = time.perf_counter() - start
        self.outputs = [(d, interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]
        found = _answers.answer(self.model.graph.subgraphs[0], self.outputs, self.labels, self.args.top,
                                self.args.threshold, size, ranked=bool(files))
        return {"seconds": seconds, "notes": notes, "outputs": found}

    def _detected(self, pixels):
        """run() of a model of Ultralytics on a picture; seconds: with the decoding of its outputs."""
        self.pixels = pixels
        start = time.perf_counter()
        self.found = self.detector.detect(pixels)
        seconds = time.perf_counter() - start
        self.outputs = [(d, self.interpreter.get_tensor(d["index"])) for d in self.interpreter.get_output_details()]
        return {"seconds": seconds, "notes": [],
                "outputs": [_answers.of_detections(self.found, self.args.threshold, pixels.shape[:2])]}

    def _contents(self, files, details):
        """(arrays for all inputs, notes to print, (height, width) of the first picture or None)"""
        arrays, notes, size = [None] * len(details), [], None
        for position, kind, contents in self._assigned(files):
            arrays[position], note = _inputs.tensor(kind, contents, details[position], *self._scaling(position))
            notes += [note] if note else []
            if kind == "image" and size is None:
                self.pixels, size = contents, contents.shape[:2]
        empty = [i for i, array in enumerate(arrays) if array is None]
        if empty:
            notes.append(self._fill(arrays, details, empty))
        return arrays, notes, size

    def _scaling(self, position):
        """(mean, std) of the pixels for an input: those given, or what the metadata say of a float input's."""
        given = self.args.mean, self.args.std
        if any(given) or np.dtype(self.interpreter.get_input_details()[position]["dtype"]).kind != "f":
            return given
        return self.known[position].get("mean"), self.known[position].get("std")

    def vacant(self, files):
        """The details of the first input that `files` leave over."""
        taken = {position for position, _, _ in self._assigned(files)}
        details = self.interpreter.get_input_details()
        return details[_position(None, self.names, taken, len(details))]

    def _assigned(self, files):
        """(position of the input, kind, contents) for every array in the files."""
        taken = set()
        for given in files:
            name, path, (kind, contents) = (None, "", given) if isinstance(given, tuple) else self._read(given)
            for part, array in _parts(name, path, contents):
                position = _position(part, self.names, taken, len(self.known))
                taken.add(position)
                yield position, kind, array

    def _read(self, text):
        """(name of the input or None, path, (kind, contents)) of [NAME=]FILE."""
        name, equals, path = text.partition("=")
        if not equals or os.path.exists(text):
            name, path = None, text
        return name, path, _inputs.read(path, self.rate)

    def _fill(self, arrays, details, empty):
        """Fill the inputs without a file as the options say; returns a note."""
        seed = self.args.random
        if seed is None and not self.args.zeros:
            missing = ", ".join(f"{details[i]['name']!r} ({np.dtype(details[i]['dtype'])}"
                                f"{list(map(int, details[i]['shape_signature']))})" for i in empty)
            raise _common.UsageError(f"no contents for input {missing}: give --input FILE (a picture, .wav, .npy or "
                                     ".npz), --random SEED, or --zeros")
        rng = None if seed is None else np.random.default_rng(seed)
        for i in empty:
            arrays[i] = _inputs.blank(details[i], rng)
        what = "zeros" if rng is None else f"random numbers (seed {seed})"
        return f"no file for {', '.join(repr(details[i]['name']) for i in empty)}: filled with {what}"


def _detector(model, args):
    """The ObjectDetector for a model with the metadata of Ultralytics, whose boxes need decoding, or None."""
    from pylite.media import yolo
    head = yolo.head_of(model)
    if head is None or head.task == "classify":
        return None
    from pylite.tasks import ObjectDetector
    return ObjectDetector(model, labels=args.labels, score_threshold=args.threshold, max_results=args.top,
                          mean=args.mean, std=args.std, num_threads=args.threads,
                          experimental_delegates=_plugins.load(args))


def _names(model, details):
    """{name: position of the input}, for tensor names and the names in signatures of subgraph 0."""
    names = {detail["name"]: i for i, detail in enumerate(details)}
    positions = {detail["index"]: i for i, detail in enumerate(details)}
    for signature in model.graph.signatures:
        if signature.subgraph == 0:
            names |= {name: positions[index] for name, index in signature.inputs.items() if index in positions}
    return names


def _parts(name, path, contents):
    """[(input name or None, array)]: an .npz file may have several."""
    if not isinstance(contents, dict):
        return [(name, contents)]
    if name is None and len(contents) > 1:
        return list(contents.items())
    if name is not None and name in contents:
        return [(name, contents[name])]
    if len(contents) != 1:
        raise _common.UsageError(f"{path}: has {', '.join(contents) or 'no arrays'}, and no {name}" if name else
                                 f"{path}: has no arrays")
    return [(name, next(iter(contents.values())))]


def _position(name, names, taken, count):
    if name is None:
        position = next((i for i in range(count) if i not in taken), None)
        if position is None:
            raise _common.UsageError(f"the model has {_format.counted(count, 'input')}, and more files were given")
        return position
    if name in names:
        return names[name]
    raise _common.UsageError(f"no input is called {name!r}; the model has {', '.join(map(repr, names))}")
