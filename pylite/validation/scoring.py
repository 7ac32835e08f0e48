"""Runs a model and its reference on labelled samples and counts: which task it is, what labels and outputs mean."""
from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.simd import Pool
from pylite.errors import ComparisonError
from pylite.media import images, labels
from pylite.media.outputs import DETECTION, PROBABILITIES, objects, producer
from pylite.runtime.executor import Executor
from pylite.validation import metric
from pylite.validation.accuracy_report import OWN, TASKS
from pylite.validation.detection import Detection
from pylite.validation.feeding import feed
from pylite.validation.sources import File, Objects
from pylite.validation.statistics import Grid
from pylite.validation.tally import Tally
from pylite.validation.tasks import Classification, Segmentation, Task, Vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model
    from pylite.validation.accuracy_report import Accuracy
    from pylite.validation.data import Samples

    Array = NDArray[Any]

KINDS: dict[str, type[Task]] = {"classification": Classification, "detection": Detection, "segmentation": Segmentation,
                                "regression": Vectors, "embedding": Vectors}
FOLDERS = "sorted"      # instead of a file of labels: the labels that occur, in alphabetical order
BACKGROUND = ("background", "???")
EXTENT = 1000           # a mask's classes are below, if the output does not tell their number


@dataclass(frozen=True)
class Settings:
    """How to measure accuracy; None: as the model and the data suggest.

    task: one of TASKS; labels: a file with the classes' names, or FOLDERS; offset: added to labels that are numbers
    output: the name of the output to score; metric: a function of the user's own or its name, MODULE:FUNCTION, in place
    of the task's metrics
    """
    task: str | None = None
    labels: str | None = None
    offset: int | None = None
    output: str | None = None
    metric: str | Callable[..., Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(replace(self, metric=None if self.metric is None else metric.named(self.metric)))


class Predictor:
    """Runs a model for its outputs.

    detects: are they boxes, classes, scores and their number?  likely: are they probabilities?
    """

    def __init__(self, model: Model, output: str | None, threads: int = 1) -> None:
        self.subgraph = model.graph.subgraphs[0]
        self._executor = Executor(model, self.subgraph, Pool(threads))
        self.outputs = list(self.subgraph.outputs)
        tensors = self.subgraph.tensors
        if output is not None:
            self.outputs = [i for i in self.outputs if tensors[i].name == output]
            if not self.outputs:
                raise ComparisonError(f"no output is called {output!r}; the model has "
                                      + ", ".join(repr(tensors[i].name) for i in self.subgraph.outputs))
        operator = next((o for o in self.subgraph.operators if o.name == DETECTION), None)
        self.detects = len(self.outputs) == 4
        if operator is not None and set(operator.outputs) == set(self.outputs):
            self.outputs = list(operator.outputs)       # of files that list them in another order
        self._grids = {i: Grid.of(tensors[i]) for i in self.outputs}
        self.likely = producer(self.subgraph, self.outputs[0]) in PROBABILITIES if self.outputs else False

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, dequantized; the arrays belong to the caller."""
        executor = self._executor
        feed(executor, inputs)
        executor.invoke()
        return [self._real(index) for index in self.outputs]

    def _real(self, index: int) -> Array:
        grid, values = self._grids[index], self._executor.array(index)
        return values.copy() if grid is None or not grid.step else grid.real(values)


def _unlabelled(samples: Samples, task: str, compared: bool) -> ComparisonError:
    """The error for samples without labels, which the task needs.  compared: is there a reference model?"""
    return ComparisonError(f"{samples.path} has no labels for {task}; give a folder for each class, a column or an "
                           "array of labels, masks beside the pictures, or COCO's annotations"
                           + ("" if compared else "; without labels, compare with a reference model"))


class Scorer:
    """Runs models on samples and counts the results.  Outputs and labels determine the task.

    models: the model, and its reference if there is one; named: other models to take class names from.
    """

    def __init__(self, models: Sequence[Model], samples: Samples, settings: Settings, threads: int = 1,
                 named: Sequence[Model] = ()) -> None:
        self._predictors = [Predictor(model, settings.output, threads) for model in models]
        self._samples, self._source, self._settings = samples, samples.source, settings
        self._shape = self._predictors[0].run(samples[0])[0].shape
        self._size = int(np.prod(self._shape, dtype=int))
        first = self._source.label(0)
        self._names = self._known([*models, *named])
        function = None if settings.metric is None else metric.resolved(settings.metric)
        if function is not None and settings.task is not None:
            raise ComparisonError("a metric and a task exclude each other: a metric of your own takes all outputs")
        name = settings.task or (OWN if function else self._inferred(first))
        if name not in TASKS and function is None:
            raise ComparisonError(f"no task is called {name!r}; the tasks are {', '.join(TASKS)}")
        self._classes = max(self._size, 2) if name == "classification" else 0
        self.facts: dict[str, Any] = {"task": name, "paired": len(models) > 1, "labelled": first is not None,
                                      "classes": self._classes, "notes": list(samples.notes)}
        prepare = {"classification": self._classified, "detection": self._detected,
                   OWN: self._known_to_metric}.get(name, dict)
        self.facts |= prepare()
        self.facts["labels"] = [self._names.get(i, "") for i in range(max(self._names, default=-1) + 1)]
        if first is None and (name in ("detection", "segmentation") or (len(models) < 2 and name != OWN)):
            raise _unlabelled(samples, name, len(models) > 1)
        self._task = _task(self.facts, function)

    def _known(self, models: Sequence[Model]) -> dict[int, str]:
        """{class: name}: those given, or those attached to one of the models."""
        given = self._settings.labels
        if given == FOLDERS:
            return {}
        if given is not None:
            return labels.read(given)
        for model in models:
            for attached in labels.attached(model):
                if self._predictors[0].detects:
                    return attached
                names = labels.fitted(attached, max(self._shape[-1] if len(self._shape) == 4 else self._size, 2))
                if names:
                    return names
        return {}

    def _inferred(self, label: Any) -> str:
        """The task, where outputs and labels leave no doubt."""
        predictor = self._predictors[0]
        if len(predictor.outputs) == 4 and isinstance(label, Objects):
            return "detection"
        fitting = [name for name, fits in self._fits(label).items() if fits and len(predictor.outputs) == 1]
        if fitting:
            return fitting[0]
        kind = "no label" if label is None else "COCO's objects" if isinstance(label, Objects) else (
            f"a label such as {label!r}" if np.size(label) < 4 else f"labels of {np.size(label)} numbers")
        names = ", ".join(repr(predictor.subgraph.tensors[i].name) for i in predictor.outputs)
        which = " and --output, the one that counts" if len(predictor.outputs) > 1 else ""
        raise ComparisonError(f"{self._source.where(0)}: {kind}, and output {names} of shape {list(self._shape)}, "
                              f"leave the task open; give --task ({', '.join(TASKS)}){which}")

    def _fits(self, label: Any) -> dict[str, bool]:
        """{task: do this label and the only output fit it?}"""
        if isinstance(label, Objects):
            return {}
        vector = self._size > 1 and self._size == max(self._shape, default=1)
        bare = label is None and bool(self._predictors[0].likely or self._names)
        text = isinstance(label, str) and not _numbers(label)
        return {"segmentation": isinstance(label, File) or np.ndim(label) >= 2,
                "classification": (text and self._size == 1) or (vector and (text or bare or _integer(label))),
                "regression": np.size(label) == self._size == 1 and _numbers(label) and not _integer(label)}

    def _classified(self) -> dict[str, Any]:
        """Find the class of every label."""
        sample_labels = [self._source.label(i) for i in range(len(self._samples))]
        texts = sorted({str(label) for label in sample_labels if label is not None})
        if self._settings.labels == FOLDERS:
            self._names = dict(enumerate(texts))
        known = {_plain(name): number for number, name in self._names.items()}
        numbers = all(map(_integer, texts)) and any(_plain(text) not in known for text in texts)
        if numbers and self._settings.offset is None and self._names.get(0) in BACKGROUND:
            raise ComparisonError(f"{self._samples.path}: class 0 of the model is {self._names[0]!r}; do the labels "
                                  "count from there, or from the class after it? Give --label-offset 0 or 1")
        self._class = [self._class_of(i, label, {} if numbers else known) for i, label in enumerate(sample_labels)]
        return {}

    def _check(self, number: int, label: Any) -> None:
        if (label is None) == self.facts["labelled"]:
            raise ComparisonError(f"{self._source.where(number)}: has {'no' if label is None else 'a'} label, unlike "
                                  "the first sample")

    def _class_of(self, number: int, label: Any, known: dict[str, int]) -> int | None:
        self._check(number, label)
        if label is None:
            return None
        if _plain(str(label)) in known:
            return known[_plain(str(label))]
        if not known and _integer(label):
            index = int(label) + (self._settings.offset or 0)
            if 0 <= index < self._classes:
                return index
            raise ComparisonError(f"{self._source.where(number)}: label {label} is not one of the {self._classes} "
                                  f"classes")
        if self._names:
            raise ComparisonError(f"{self._source.where(number)}: the model has no class {str(label)!r}; it has "
                                  f"{', '.join(list(self._names.values())[:5])}, ...; give their names (--labels FILE)")
        raise ComparisonError(f"{self._source.where(number)}: label {str(label)!r} is not a number, and the model has "
                              f"no "
                              f"labels; give their names (--labels FILE), or --labels {FOLDERS} if its classes are in "
                              "the alphabetical order of the data's")

    def _known_to_metric(self) -> dict[str, Any]:
        assert self._settings.metric is not None
        if self._settings.labels == FOLDERS:
            labels = [self._source.label(i) for i in range(len(self._samples))]
            self._names = dict(enumerate(sorted({str(label) for label in labels if label is not None})))
        self._numbers = {_plain(name): number for number, name in self._names.items()}
        first = self._given(self._source.label(0))
        if isinstance(first, str):
            self.facts["notes"].append(f"the metric gets labels as text, as {first!r}; --labels FILE, or --labels "
                                       f"{FOLDERS}, numbers them")
        return {"metric": metric.named(self._settings.metric)}

    def _given(self, label: Any) -> Any:
        """A label as a metric gets it: a class, numbers, text, the classes of pixels, or the rows of Objects."""
        if isinstance(label, File):
            return images.read_mask(label)
        if isinstance(label, Objects):
            return label.rows
        if isinstance(label, str) and _plain(label) in self._numbers:
            return self._numbers[_plain(label)]
        if label is not None and _integer(label):
            return int(label) + (self._settings.offset or 0)
        if isinstance(label, str) and _numbers(label):
            values = np.array(label.split(), np.float64)
            return values if values.size > 1 else values[0]
        return label

    def _detected(self) -> dict[str, Any]:
        """Find COCO's category of every class, by name."""
        categories = self._source.categories
        if categories is None or not self._predictors[0].detects:
            raise ComparisonError(f"{self._samples.path}: detection needs COCO's annotations, and a model with boxes, "
                                  "classes, scores and their number")
        if not self._names:
            raise ComparisonError(f"{self._samples.path}: the model has no labels; give a file with the names of its "
                                  "classes (--labels FILE)")
        if self._names.get(0) in BACKGROUND and 1 in self._names:
            self._names = {i - 1: name for i, name in self._names.items() if i}     # boxes have no background
        numbers = {_plain(name): number for number, name in categories.items()}
        category_of = {c: numbers[_plain(name)] for c, name in self._names.items() if _plain(name) in numbers}
        used = np.concatenate([self._source.label(i).rows[:, 4] for i in range(len(self._samples))])
        missing = [categories[number] for number in sorted(set(used.tolist()) - set(category_of.values()))]
        if missing:
            raise ComparisonError(f"{self._samples.path}: the model has no class {', '.join(map(repr, missing[:5]))}; "
                                  f"it has {', '.join(list(self._names.values())[:5])}, ...; --labels FILE gives names")
        return {"categories": {str(c): number for c, number in category_of.items()}}

    def add(self, tally: Tally, number: int, inputs: Sequence[Array]) -> None:
        """Run the models on a sample and count it."""
        results = [predictor.run(inputs) for predictor in self._predictors]
        name = self.facts["task"]
        label: Any = self._source.label(number)
        self._check(number, label)
        shown: list[Any]
        if name == "classification":
            label = self._class[number]
            shown = [_scores(out[0].reshape(-1), p.likely) for out, p in zip(results, self._predictors, strict=True)]
        elif name == "detection":
            label = self._sized(number, label)
            shown = [_objects(out) for out in results]
        elif name == "segmentation":
            shown = [_map(out[0], p.likely) for out, p in zip(results, self._predictors, strict=True)]
            label = self._mask(number, label, results[0][0])
        elif name == OWN:
            shown, label = results, self._given(label)
        else:
            shown = [out[0] for out in results]
            label = self._vector(number, label)
        self._task.add(tally, number, self._source.path(number), label, shown)

    def _sized(self, number: int, label: Objects) -> Objects:
        if label.height and label.width:
            return label
        return label._replace(**dict(zip(("height", "width"), images.read(self._source.path(number) or "").shape[:2],
                                         strict=True)))

    def _mask(self, number: int, label: Any, output: Array) -> Array:
        mask = images.read_mask(label) if isinstance(label, File) else np.asarray(label)
        mask = mask.reshape(mask.shape[:2]) if mask.ndim == 3 and mask.shape[2] == 1 else mask
        if mask.ndim != 2 or mask.dtype.kind not in "iub":
            raise ComparisonError(f"{self._source.where(number)}: a mask has one number for each pixel, its class, and "
                                  f"this one has the shape {list(mask.shape)} and the type {mask.dtype}")
        classes = output.shape[-1] if output.ndim == 4 else EXTENT
        if classes == 1:
            return (mask > 0).astype(np.uint8)
        wrong = mask[(mask != 255) & ((mask >= classes) | (mask < 0))]
        if wrong.size:
            raise ComparisonError(f"{label if isinstance(label, File) else self._source.where(number)}: the mask has "
                                  f"class {wrong[0]}, and the model {classes} classes")
        return mask

    def _vector(self, number: int, label: Any) -> Any:
        try:
            return None if label is None else np.array(label.split() if isinstance(label, str) else label, np.float64)
        except (ValueError, TypeError):
            raise ComparisonError(f"{self._source.where(number)}: label {label!r} is not a number") from None


def finish(facts: dict[str, Any], tally: Tally, samples: int, function: Callable[..., Any] | None = None) -> Accuracy:
    """The Accuracy of what a Scorer with these facts has counted, here or elsewhere; function: a metric of the user's
    own that cannot be found by its name."""
    return _task(facts, function).finish(tally, samples)


def _task(facts: dict[str, Any], function: Callable[..., Any] | None) -> Task:
    return metric.Own(facts, function) if facts["task"] == OWN else KINDS[facts["task"]](facts)


def scored(model: Model, samples: Samples, numbers: Sequence[int], settings: Settings, threads: int,
           reference: Model) -> Accuracy:
    """The Accuracy of a model on some of the samples; reference: names the classes, too, and a metric of the user's own
    may ask for its outputs."""
    function = None if settings.metric is None else metric.resolved(settings.metric)
    paired = [reference] if function is not None and metric.wants_reference(function) else []
    scorer, tally = Scorer([model, *paired], samples, settings, threads, [reference]), Tally()
    for number in numbers:
        scorer.add(tally, number, samples[number])
    return finish({**settings.to_dict(), **scorer.facts}, tally, len(numbers), function)


def _plain(name: str) -> str:
    """A name in lower case, with single spaces in place of underscores and hyphens, so that spellings agree."""
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())


def _integer(label: Any) -> bool:
    if isinstance(label, str):
        return label.lstrip("+-").isdecimal()
    return np.ndim(label) == 0 and np.asarray(label).dtype.kind in "iub"


def _numbers(label: Any) -> bool:
    try:
        return label is not None and np.size(np.array(label.split() if isinstance(label, str) else label, float)) > 0
    except ValueError:
        return False


def _scores(row: Array, likely: bool) -> tuple[Array, Array]:
    """(scores, probabilities) of the classes.  A model with one number has two classes; the number is for class 1."""
    real = row.astype(np.float64)
    if real.size == 1:
        shown = real if likely else 1 / (1 + np.exp(-real))
        shown = np.array([1 - shown[0], shown[0]])
        return shown, shown
    if not likely:
        powers = np.exp(real - real.max())
        return row, powers / powers.sum()
    return row, real


def _objects(outputs: Sequence[Array]) -> tuple[Array, Array, Array]:
    boxes, classes, scores, count = outputs
    if not boxes.size == 4 * classes.size == 4 * scores.size or count.size != 1:
        raise ComparisonError("the outputs are not boxes, classes, scores and their number, in this order: they have "
                              "the shapes " + ", ".join(str(list(array.shape)) for array in outputs))
    return objects(boxes, classes, scores, count)


def _map(output: Array, likely: bool) -> Array:
    """The class of each pixel."""
    if output.ndim == 4 and output.shape[0] == 1:
        return np.argmax(output[0], 2) if output.shape[3] > 1 else (output[0, :, :, 0] > 0.5 * likely).astype(np.int64)
    if output.ndim == 3 and output.shape[0] == 1 and output.dtype.kind in "iu":
        return output[0]
    raise ComparisonError(f"an output of shape {list(output.shape)} and type {output.dtype} has no classes of pixels")
