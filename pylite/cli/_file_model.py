"""One model that a command runs on files: their contents become its inputs, its outputs become answers."""
import os
import time

import numpy as np

from pylite.cli import _answering, _common, _format, _inputs, _plugins, _signature
from pylite.cli._answers import Result, Window
from pylite.errors import ExecutionError
from pylite.media import metadata, yolo
from pylite.media.labels import REMEDY, attached, complete, read
from pylite.media.tensors import dequantize, feed, picture_size, takes_picture
from pylite.runtime.cache_files import default_folder


class FileModel:
    """A model with the options of `pylite run`."""

    def __init__(self, args):
        self.path = _common.model_path(args.model)
        self.args = args
        given = [read(args.labels)] if args.labels else []
        self.delegates = _plugins.load(args)
        self.interpreter = _signature.opened(
            args.signature, model_path=self.path, num_threads=args.threads, experimental_delegates=self.delegates,
            cache_dir=default_folder(), precision=args.precision)
        self.model = self.interpreter._model
        self.subgraph = self.interpreter._main.subgraph.index
        first = self.subgraph == 0      # metadata, and what else a file says of its inputs, are about this one
        details = self.interpreter.get_input_details()
        picture = len(details) == 1 and takes_picture(details[0])       # a part of a model keeps the metadata of all
        self.head = yolo.head_of(self.model) if first and picture else None
        self.detector = _detector(self.interpreter, self.head, args) if first else None
        if self.detector:
            self.interpreter = self.detector.interpreter
        self.labels = given or ([self.head.names] if self.head else attached(self.model))
        details = self.interpreter.get_input_details()
        self.names = _common.input_names(self.interpreter)
        self.known = [metadata.of_input(self.model.graph.metadata, i) if first else {} for i in range(len(details))]
        self.rate = args.rate or next((known["rate"] for known in self.known if "rate" in known), None)
        self.ready = self.fresh = False     # are inputs allocated, and variables to be reset?
        self.tokenizer = None       # of the first text, if the model takes token ids
        self.outputs, self.detections = [], []      # of the last run: [(details, array)], and the objects of a detector
        self.paths = {}         # {position of an input: the file that it last got, "" if it has none}
        self.pixels = None      # the first picture of the last run

    def run(self, files):
        """The Result for files.  Each is [NAME=]FILE, or (kind, contents) as _inputs.read() returns them."""
        assigned = list(self._words(files) or self._assigned(files))
        self._check_options({kind for _, kind, _ in assigned})
        if self.detector and [kind for _, kind, _ in assigned] == ["image"]:
            return self._detected(assigned[0][2])
        rounds = self._rounds(assigned)
        self.fresh = True
        if len(rounds) == 1:
            seconds, notes, size = self._once(assigned)
            return Result(seconds, notes, self._answered(self.outputs, assigned, size))
        runs = []
        for each in rounds:
            seconds, notes, size = self._once(each)
            runs.append((seconds, notes, self.outputs, self._answered(self.outputs, each, size)))
        self.outputs = [(each[0][0], np.stack([array for _, array in each])) if _alike(each) else each[0]
                        for each in zip(*(outputs for _, _, outputs, _ in runs), strict=True)]
        windows = _dated(rounds, [answers for *_, answers in runs])
        return Result(sum(seconds for seconds, *_ in runs), runs[0][1],
                      self._answered(_means(self.outputs, list(map(_length, rounds))), assigned, size), windows)

    def _check_options(self, kinds):
        """UsageError for options that convert sounds or pictures, if there are none among these kinds of contents."""
        for options, kind, what in ((("rate",), "audio", "sound"), (("mean", "std"), "image", "pictures")):
            given = [f"--{option}" for option in options if getattr(self.args, option) is not None]
            if given and kind not in kinds:
                raise _common.UsageError(f"{' and '.join(given)} {'is' if len(given) == 1 else 'are'} for {what}, and "
                                         f"no input got {what}; leave {'it' if len(given) == 1 else 'them'} out")

    def _words(self, files):
        """_assigned() for a single text and a model that takes the numbers of its words; None in all other cases."""
        given, args = self._single_text(files), self.args
        if given is None:
            if args.vocabulary or args.cased:
                raise _common.UsageError(f"--{'vocabulary' if args.vocabulary else 'cased'} is for a model that takes "
                                         "token ids and gets one text; leave it out")
            return None
        if self.tokenizer is None:
            details = self.interpreter.get_input_details()
            self.tokenizer = _inputs.tokenizer(given, self.model, details, args.vocabulary, not args.cased)
        return [(place, "array", array) for place, array in enumerate(self.tokenizer.inputs(_inputs.text(given)))]

    def _single_text(self, files):
        """The text among `files`, [NAME=]TEXT, if it is all that they are, and the model may take numbers of words."""
        details = self.interpreter.get_input_details()
        if (len(files) != 1 or not isinstance(files[0], str)
                or any(_inputs.is_text(detail) or takes_picture(detail) for detail in details)):
            return None
        name, _, text = files[0].partition("=")
        if name not in self.names:
            text = files[0]
        elif len(details) > 1:
            return None
        known = self.args.vocabulary is not None or any("vocab" in name for name in self.model.associated_files)
        return text if _inputs.looks_like_text(text, known) else None

    def _rounds(self, assigned):
        """`assigned` for each run: once, or, with one long sound, for each of its windows."""
        details = self.interpreter.get_input_details()
        sounds = [place for place, (_, kind, _) in enumerate(assigned) if kind == "audio"]
        if len(sounds) != 1:
            return [assigned]
        position, kind, sound = assigned[sounds[0]]
        try:
            windows = _inputs.windows(sound, details[position])
        except _common.UsageError as error:
            about = self.model.graph.description
            raise _common.UsageError(f"{error}; the model is described as {about!r}" if about else str(error)) from None
        return [[*assigned[:sounds[0]], (position, kind, window), *assigned[sounds[0] + 1:]]
                for window in windows]

    def _once(self, assigned):
        """(seconds of one run, notes, (height, width) of the first picture or None); `outputs` are the results."""
        interpreter = self.interpreter
        arrays, notes, size = self._contents(assigned)
        given = list(arrays)
        notes += _signature.notes(self.model, self.subgraph)
        self._allocate(arrays)          # before inputs are filled, which a model that cannot run need not be
        notes += self._filled(arrays)
        feed(interpreter, arrays)
        if self.fresh:                  # variables last from window to window
            interpreter.reset_all_variables()
        self.fresh = False
        notes += _plugins.unclaimed(interpreter._main, self.delegates) if self.delegates else []
        start = time.perf_counter()
        try:
            interpreter.invoke()
        except ExecutionError as error:
            # an exception of a Python op explains itself
            if error.__cause__ is None and self.args.random is not None and any(array is None for array in given):
                raise ExecutionError(f"{error}. Random numbers may be what the model cannot take: give it --zeros or "
                                     "a file") from error
            raise
        seconds = time.perf_counter() - start
        self.outputs = [(d, interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]
        return seconds, notes, size

    def _answered(self, outputs, assigned, size):
        details = self.interpreter.get_input_details()
        kinds = {"image" if takes_picture(details[position]) else kind for position, kind, _ in assigned} or (
            {"array"} if self.args.ranks else set())
        answers = _answering.answer(self.model.graph.subgraphs[self.subgraph], outputs, self.labels, self.args.top,
                                    self.args.threshold, size, kinds)
        counts = [count for count in (one.model_classes() for one in answers) if count is not None]
        if self.args.labels and counts and not any(complete(self.labels[0], count) for count in counts):
            raise _common.UsageError(f"{self.args.labels}: has {_format.counted(len(self.labels[0]), 'name')}, and the "
                                     f"model gives {max(counts)} classes; {REMEDY}")
        return answers

    def _detected(self, pixels):
        """run() of a detector on a picture; seconds: with the decoding of its outputs."""
        self.pixels = pixels
        start = time.perf_counter()
        self.detections = self.detector.detect(pixels)
        seconds = time.perf_counter() - start
        self.outputs = [(d, self.interpreter.get_tensor(d["index"])) for d in self.interpreter.get_output_details()]
        return Result(seconds, [], [_answering.of_detections(self.detections, self.args.threshold, pixels.shape[:2])])

    def _contents(self, assigned):
        """(arrays for all inputs, notes to print, (height, width) of the first picture or None)"""
        details = self.interpreter.get_input_details()
        arrays, notes, size = [None] * len(details), [], None
        for position, kind, contents in assigned:
            asked = contents
            if kind == "image" and self.head and takes_picture(details[position]):
                asked = yolo.cropped(contents, *picture_size(details[position]))
            try:
                arrays[position], note = _inputs.tensor(kind, asked, details[position], *self._scaling(position))
            except _common.UsageError as error:
                raise _named(error, self.paths.get(position)) from None
            notes += [note] if note else []
            if kind == "image" and size is None:
                self.pixels, size = contents, contents.shape[:2]
            if kind == "audio" and self.rate is None:
                notes.append(f"the model does not give its sample rate, so the file's is used, {contents.rate:g} Hz; "
                             "--rate sets another")
        self._check_filled([detail for detail, array in zip(details, arrays, strict=True) if array is None])
        return arrays, notes, size

    def _check_filled(self, empty):
        """UsageError for inputs without a file, which `empty` describes, that no option fills."""
        if empty and self.args.random is None and not self.args.zeros:
            missing = ", ".join(map(_inputs.described, empty))
            what = "TEXT (or an .npy or .npz file)" if all(map(_inputs.is_text, empty)) else (
                f"FILE ({_inputs.kinds_of_files(empty)})")
            raise _common.UsageError(f"no contents for input {missing}: give --input {what}, --random SEED, or --zeros")

    def _allocate(self, arrays):
        """Allocate for the shapes of `arrays`, where None stands for an input that has no contents yet."""
        for detail, array in zip(self.interpreter.get_input_details(), arrays, strict=True):
            if array is not None and tuple(detail["shape"]) != array.shape:
                self.ready = False      # an error leaves it so
                self.interpreter.resize_tensor_input(detail["index"], array.shape)
        if not self.ready:
            self.interpreter.allocate_tensors()
        self.ready = True

    def _scaling(self, position):
        """(mean, std) of the pixels for an input: those given, or what the metadata say of a float input's."""
        given = self.args.mean, self.args.std
        if self.head and not any(given):
            return yolo.MEAN_STD
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
            name, path, (kind, contents) = (None, "", given) if isinstance(given, tuple) else self._read(given, taken)
            for part, array in _parts(name, path, contents):
                position = _position(part, self.names, taken, len(self.known))
                if position in taken:
                    called = " or ".join(repr(each) for each in self.names if self.names[each] == position)
                    raise _common.UsageError(f"the input {called} is given twice; give one file for each input")
                taken.add(position)
                self.paths[position] = path
                yield position, kind, array

    def _read(self, text, taken):
        """(name of the input or None, path, (kind, contents)) of [NAME=]FILE, or of [NAME=]TEXT for strings."""
        name, equals, path = text.partition("=")
        if not equals or os.path.exists(text):
            name, path = None, text
        details = self.interpreter.get_input_details()
        position = self.names.get(name, next((i for i in range(len(details)) if i not in taken), None))
        if position is not None and _inputs.is_text(details[position]) and not path.endswith((".npy", ".npz")):
            if name not in self.names:
                name, path = None, text         # a text may have a "="
            return name, path, ("text", _inputs.text(path))
        return name, path, _inputs.read(path, self.rate)

    def _filled(self, arrays):
        """[a note] if inputs without a file were filled as the options say, else []."""
        seed, details = self.args.random, self.interpreter.get_input_details()
        rng = None if seed is None else np.random.default_rng(seed)
        empty = [i for i, array in enumerate(arrays) if array is None]
        for i in empty:
            arrays[i] = _inputs.blank(details[i], rng)
        what = "zeros" if rng is None else f"random numbers (seed {seed})"
        texts = any(_inputs.is_text(details[i]) for i in empty)
        names = ", ".join(repr(details[i]["name"]) if details[i]["name"] else f"input {i}" for i in empty)
        return [f"no file for {names}: filled with {what}{', strings are empty' * texts}"] if empty else []


def _named(error, path):
    """The UsageError about the contents of a file, with its path."""
    text = f"{path}: {error}" if path else str(error)
    return _common.UsageError(text + ("; `pylite validate --data` takes all of them" if "such as array[0]" in text
                                      else ""))


def _alike(results):
    """Are the results of one output, [(details, array)], numbers of one shape?"""
    return len({array.shape for _, array in results}) == 1 and results[0][1].dtype.kind in "fiub"


def _means(outputs, lengths):
    """The means of outputs over their first axis, which counts windows; those of _alike alone have it.

    lengths: samples of sound in each window, by which they count; the rest of the last one is silence.
    """
    return [(detail, np.average(dequantize(array, detail), 0, lengths).astype(np.float32))
            if array.ndim > len(detail["shape"]) else (detail, array) for detail, array in outputs]


def _length(assigned):
    """Samples of sound that one run takes."""
    return next(len(contents.samples) for _, kind, contents in assigned if kind == "audio")


def _dated(rounds, answers):
    """The Windows of a sound with these answers."""
    windows, begin = [], 0.0
    for assigned, outputs in zip(rounds, answers, strict=True):
        sound = next(contents for _, kind, contents in assigned if kind == "audio")
        end = begin + _length(assigned) / sound.rate
        windows.append(Window(round(begin, 4), round(end, 4), outputs))
        begin = end
    return windows


def _detector(interpreter, head, args):
    """The task that decodes the boxes of a YOLO model with metadata, or of a BlazeFace; None for another model."""
    from pylite.tasks import FaceDetector, ObjectDetector
    from pylite.tasks.detection import finds_faces
    options = {"score_threshold": args.threshold, "max_results": args.top, "mean": args.mean, "std": args.std,
               "num_threads": args.threads, "precision": args.precision}
    if head is not None and head.task != "classify":
        return ObjectDetector(interpreter._model, labels=args.labels, **options,
                              experimental_delegates=_plugins.load(args))
    if finds_faces(interpreter):
        return FaceDetector(interpreter._model, **options, experimental_delegates=_plugins.load(args))
    return None


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
            raise _common.UsageError(f"the model has {_format.counted(count, 'input')}, and more files were given; to "
                                     "run the model on each of several files, give them without --input")
        return position
    if name in names:
        return names[name]
    raise _common.unknown_input(name, names)
