"""The base of all tasks: a model with its metadata, labels, and the choice of classes by score."""
from __future__ import annotations

import contextlib
import enum
import numbers
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError, PyliteError, counted
from pylite.interpreter import Interpreter, load_delegate
from pylite.media import labels as label_files
from pylite.media import metadata, models
from pylite.media.outputs import PROBABILITIES, producer
from pylite.media.tensors import dequantize, feed
from pylite.runtime.cache_files import default_folder
from pylite.runtime.model import Model
from pylite.tasks import checks
from pylite.tasks.results import Category

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Self

    from numpy.typing import NDArray

    from pylite.media.metadata import TensorInfo
    from pylite.tflite.types import ModelContents, Precision

    ModelSource = Model | str | os.PathLike[str] | ModelContents
    Labels = str | os.PathLike[str] | Mapping[int, str] | Sequence[str]


ARGUMENTS = {       # the descriptions from which docstrings of tasks list their arguments
    "model": 'path of a .tflite file, name of a bundled model such as "digits", bytes of a file, or a pylite.Model',
    "max_results": "the most classes or objects to return; None: all",
    "score_threshold": "the least score of a result; by default the metadata's or the task's",
    "category_allowlist": "names of the only classes to return",
    "category_denylist": "names of classes to leave out; not together with category_allowlist",
    "display_names_locale": 'language of display_name, such as "de", if the metadata have it',
    "labels": "names of the classes: a file with one per line, a list, or {class: name}; None: the metadata's",
    "iou_threshold": "0 to 1: where boxes share more than this part of their union, only the best is returned",
    "mean": "mean of the pixels, one number or one per channel; None: the metadata's or the task's",
    "std": "standard deviation of the pixels, likewise; the model gets (pixel - mean) / std",
    "sample_rate": "samples per second that the model takes; None: the metadata's",
    "vocabulary": "the tokenizer's words: a list, or a file with one per line; None: the metadata's",
    "lower_case": "write the text in lower case and without accents, as the vocabulary is",
    "l2_normalize": "scale vectors to the length 1",
    "quantize": "return int8 vectors, with 127 for 1 of the normalized vector",
    "num_threads": "threads of one run",
    "experimental_delegates": "delegates, as the Interpreter takes them",
    "precision": 'of float models, as the Interpreter takes it, such as "prefer_float16"',
}


OTHERS: Mapping[str, Mapping[str, Any]] = {     # tasks whose models are of one kind -> what they need
    "FaceDetector": {}, "ObjectDetector": {}, "PoseEstimator": {}, "ImageClassifier": {}, "ImageSegmenter": {},
    "AudioClassifier": {"sample_rate": 1}, "TextClassifier": {"vocabulary": ["[UNK]"]}}
_trying = False


class Task:
    """A model that is ready to run.

    model: a pylite.Model, to share it, or what makes one: a path, the name of a bundled model such as "digits", or a
    file's bytes, whose plan is kept in the user's cache folder (PYLITE_CACHE_DIR names another one, or "" for none);
    num_threads: of one run; experimental_delegates, precision: as the Interpreter takes them.

    Several threads may share a task: their calls take turns.  `with` closes it at its end.
    """

    _detector: Task | None = None       # the task that does the work for this one, if another does

    def __init__(self, model: ModelSource, *, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None, precision: Precision | None = None) -> None:
        options: Any = {"num_threads": num_threads, "experimental_delegates": experimental_delegates,
                        "precision": precision}
        if isinstance(model, Model):
            options["model"] = model
        else:
            if isinstance(model, (str, os.PathLike)):
                options["model_path"] = models.named(model)
            else:
                options["model_content"] = model
                try:
                    memoryview(options["model_content"])
                except TypeError:
                    raise TypeError(f"{type(self).__name__} takes a model ({ARGUMENTS['model']}), not "
                                    f"{type(model).__name__}") from None
            options["cache_dir"] = default_folder()
        self.interpreter = Interpreter(**options)
        self.model = self.interpreter._model
        self.interpreter.allocate_tensors()
        self._inputs, self._outputs = metadata.read(self.model)
        if not (self._inputs and self._outputs):
            raise ModelError(f"the model has {counted(len(self._inputs), 'input')} and "
                             f"{counted(len(self._outputs), 'output')}; a task needs both")

    def __init_subclass__(cls, **options: Any) -> None:
        """Let the docstring list the arguments of the constructor, which several tasks share."""
        super().__init_subclass__(**options)
        code = cls.__init__.__code__
        names = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]
        if cls.__doc__:         # python -OO leaves none
            margin = "" if sys.version_info >= (3, 13) else "    "      # Python 3.13 removes that of docstrings
            lines = "".join(f"{margin}    {name}: {ARGUMENTS[name]}\n" for name in names if name in ARGUMENTS)
            cls.__doc__ = f"{cls.__doc__.rstrip()}\n\n{margin}Arguments:\n{lines}{margin}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.interpreter!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory of the tensors; nothing can run afterwards."""
        self.interpreter.close()
        if self._detector is not None:
            self._detector.close()

    @classmethod
    def create_from_file(cls, file_path: str | os.PathLike[str], **options: Any) -> Self:
        """The task of a file; the same as calling the class."""
        return cls(file_path, **options)

    create_from_model_path = create_from_file       # MediaPipe's name

    @classmethod
    def create_from_options(cls, options: Options) -> Self:
        """The task that Options describe."""
        return cls(**options.arguments())

    def _likely(self, position: int) -> bool:
        """Is the output at `position` made by an op whose results lie between 0 and 1?"""
        subgraph = self.model.graph.subgraphs[0]
        return producer(subgraph, subgraph.outputs[position]) in PROBABILITIES

    def _filters(self, options: ClassOptions, counts: Iterable[int]) -> list[ClassFilter]:
        """The ClassFilter of each output; counts: their numbers of classes."""
        return [ClassFilter(info, options, count, self._likely(position))
                for position, (info, count) in enumerate(zip(self._outputs, counts, strict=True))]

    def _plausible(self) -> bool:
        """May the model be meant for this task, which takes its shapes?"""
        return True

    def _hint(self) -> str:
        """The end of an error about a model of another kind: the task that takes it, if one of OTHERS does."""
        global _trying
        if not _trying:
            try:
                _trying = True
                for name, options in OTHERS.items():
                    with contextlib.suppress(PyliteError, ValueError):
                        if getattr(sys.modules[__package__], name)(self.model, **options)._plausible():
                            return f"; {name} takes it"
            finally:
                _trying = False
        return ""

    def _check_numbers(self, details: Iterable[Mapping[str, Any]]) -> None:
        """ModelError if one of these outputs is not of real numbers."""
        for detail in details:
            dtype: np.dtype[Any] = np.dtype(detail["dtype"])
            if dtype.kind not in "fiub":
                kind = "complex numbers" if dtype.kind == "c" else "strings"
                raise ModelError(f"the model's output {detail['name']!r} is of {kind}; expected real numbers")

    def _run(self, *arrays: NDArray[Any]) -> list[NDArray[Any]]:
        """Set the inputs, run, and return the outputs as real numbers; calls of several threads take turns."""
        run = self.interpreter
        with run._lock:     # until the outputs are read: another thread's call would replace inputs, shapes and outputs
            feed(run, arrays)
            run.invoke()
            outputs = [(run.get_tensor(detail["index"]), detail) for detail in run.get_output_details()]
        return [dequantize(*output) for output in outputs]


_ARGUMENTS = {"file_name": "model", "file_content": "model", "category_name_allowlist": "category_allowlist",
              "category_name_denylist": "category_denylist"}


class OutputType(enum.Enum):
    """What the Task Library's segmenter returns; pylite's always returns both masks."""
    UNSPECIFIED, CATEGORY_MASK, CONFIDENCE_MASK = range(3)


class Options:
    """Options of the Task Library: arguments of a task, and other Options.  use_coral: load libedgetpu.

    parts: other Options, or the file of the model.
    """

    OutputType = OutputType

    def __init__(self, *parts: Options | str | os.PathLike[str], **values: Any) -> None:
        for number, part in enumerate(parts):
            vars(self)[f"part{number}" if isinstance(part, Options) else "file_name"] = part
        vars(self).update(values)

    def arguments(self) -> dict[str, Any]:
        """The arguments for the constructor of the task.  None, False and -1 mean the defaults."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Options):
                found |= value.arguments()
            elif name == "use_coral" and value:
                found["experimental_delegates"] = [load_delegate("libedgetpu.so.1")]
            elif not (value is None or value is False or type(value) is OutputType
                      or (type(value) is int and value == -1)):
                found[_ARGUMENTS.get(name, name)] = value
        return found


class TensorImage:
    """The Task Library's pictures: tasks take paths and arrays as they are."""
    create_from_file = staticmethod(os.fspath)
    create_from_array = staticmethod(np.asarray)


@dataclass(frozen=True)
class ClassOptions:
    """Which classes are returned: the best `max_results` of the classes that reach `score_threshold`.

    category_allowlist, category_denylist: names of the only classes to return, or of classes to leave out; give at most
    one of the two.  score_threshold: by default the model's.  labels: names of the classes, as the path of a file,
    {class: name} or a list; by default the model's.  display_names_locale: language of `display_name`, such as "de".
    """
    labels: Labels | None
    max_results: int | None
    score_threshold: float | None
    category_allowlist: Iterable[str]
    category_denylist: Iterable[str]
    display_names_locale: str | None


class ClassFilter:
    """Chooses classes by ClassOptions.

    info: of the output; count: number of the model's classes, None if it is not known; probabilities: are scores
    between 0 and 1?
    """

    def __init__(self, info: TensorInfo, options: ClassOptions, count: int | None = None,
                 probabilities: bool = True) -> None:
        checks.most_results(options.max_results)
        checks.threshold(options.score_threshold, probabilities)
        self.allowed = _class_names("allow", options.category_allowlist)
        self.denied = _class_names("deny", options.category_denylist)
        if self.allowed and self.denied:
            raise ValueError("category_allowlist and category_denylist exclude each other; give one of them")
        self.info, self.most = info, options.max_results
        self.least = info.score_threshold if options.score_threshold is None else options.score_threshold
        self._has_own_labels = options.labels is not None
        self.names = info.labels.get("", {}) if options.labels is None else checked_class_names(options.labels, count)
        self.shown = info.labels.get(options.display_names_locale, {}) if options.display_names_locale else {}
        unknown = (self.allowed | self.denied) - set(self.names.values())
        if unknown:
            raise ValueError(f"no class is called {', '.join(map(repr, sorted(unknown)))}; the labels are "
                             f"{', '.join(list(self.names.values())[:10]) or 'missing: give labels'}"
                             f"{', ...' if len(self.names) > 10 else ''}")

    def fitted(self, count: int) -> dict[int, str]:
        """The names for `count` classes; a list in the file with one name less lacks the background, class 0."""
        return self.names if self._has_own_labels else label_files.fitted(self.names, count) or self.names

    def categories(self, scores: NDArray[Any], classes: NDArray[Any] | None = None) -> list[tuple[int, Category]]:
        """[(position in `scores`, Category)], the best first; classes: of each score, by default its position."""
        scores = scores.reshape(-1)
        if scores.dtype.kind != "f":
            scores = scores.astype(np.float64)      # -scores wraps for integers without a sign
        names = self.names if classes is not None else self.fitted(scores.size)
        classes = np.arange(scores.size) if classes is None else classes.reshape(-1).astype(np.int64)
        if self.info.calibration is not None:
            scores = self.info.calibration(scores, classes)
        chosen: list[tuple[int, Category]] = []
        for i in np.argsort(-scores, kind="stable").tolist():
            if len(chosen) == self.most or (self.least is not None and not scores[i] >= self.least):
                break
            name = names.get(int(classes[i]), "")
            if name not in self.denied and (not self.allowed or name in self.allowed):
                chosen.append((i, Category(int(classes[i]), float(scores[i]), name,
                                           self.shown.get(int(classes[i]), ""))))
        return chosen


def checked_class_names(labels: Labels, count: int | None) -> dict[int, str]:
    """Labels as {class: name}; ValueError unless they name `count` classes.  count: None if it is not known.

    A dictionary may leave classes out.
    """
    names, numbered = class_names(labels), isinstance(labels, dict)
    if count is None:
        return names
    fitted = names if numbered and max(names, default=0) < count else label_files.fitted(names, count)
    if fitted is None or not (numbered or label_files.complete(names, count)):
        given = os.fspath(labels) if isinstance(labels, (str, os.PathLike)) else "labels"
        raise ValueError(f"{given} has {len(names)} name{'s' * (len(names) != 1)}, and the model {count} "
                         f"class{'es' * (count != 1)}; {label_files.REMEDY}")
    return fitted


def _class_names(kind: str, classes: Iterable[str]) -> frozenset[str]:
    if isinstance(classes, str):
        raise TypeError(f"category_{kind}list must be a list of names, such as [{classes!r}], not a string")
    return frozenset(classes)


def class_names(labels: Labels) -> dict[int, str]:
    """Labels as {class: name}.  TypeError for labels of another type; errors of labels.read() for a file."""
    if isinstance(labels, (list, tuple)):
        labels = dict(enumerate(labels))
    if isinstance(labels, dict):
        for number, name in labels.items():
            if not isinstance(number, numbers.Integral):
                raise TypeError(f"the keys of labels are numbers of classes, such as 7, not {number!r}")
            if not isinstance(name, str):
                raise TypeError(f"labels holds {name!r}; names must be strings")
        return labels
    if not isinstance(labels, (str, bytes, os.PathLike)):
        raise TypeError(f"labels is {labels!r}; expected a file, a list of names, or a dictionary {{class: name}}")
    return label_files.read(labels)
