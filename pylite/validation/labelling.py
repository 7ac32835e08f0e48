"""Converts labels and outputs to the form that each task counts."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.media import images
from pylite.media.outputs import objects
from pylite.validation import metric
from pylite.validation.accuracy_report import OWN
from pylite.validation.evidence import FOLDERS
from pylite.validation.sources import File, Objects

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.evidence import Evidence

    Array = NDArray[Any]

BACKGROUND = ("background", "???")
EXTENT = 1000           # a mask's classes are below, if the output does not tell their number


class Labelling:
    """The labels and outputs of samples, as a Task counts them: the base class.

    objects: does the task take Objects for labels?  names: {class: name}; facts: more for the Task; notes: for the
    report
    """
    objects = False

    def __init__(self, evidence: Evidence) -> None:
        self.samples, self.source, self.settings = evidence.samples, evidence.samples.source, evidence.settings
        self.size, self.labelled = evidence.size, evidence.label is not None
        self.names = evidence.names
        self.facts: dict[str, Any] = {}
        self.notes = list(evidence.samples.notes)

    def label(self, number: int, outputs: Sequence[Array]) -> Any:
        """The label of a sample; outputs: the model's for this sample."""
        label = self.source.label(number)
        self.check(number, label)
        return self.meaning(number, label, outputs)

    def check(self, number: int, label: Any) -> None:
        """Raise ComparisonError if only some of the samples have labels, or labels of another task."""
        if (label is None) == self.labelled:
            raise ComparisonError(f"{self.source.where(number)}: has {'no' if label is None else 'a'} label, unlike "
                                  "the first sample")
        if isinstance(label, Objects) and not self.objects:
            raise ComparisonError(f"{self.source.where(number)}: the label has boxes, which --task detection takes")

    def meaning(self, number: int, label: Any, outputs: Sequence[Array]) -> Any:
        """A label of the data in the form that the Task counts."""
        raise NotImplementedError

    def result(self, outputs: Sequence[Array], likely: bool) -> Any:
        """Outputs in the form that the Task counts; likely: are they probabilities?"""
        raise NotImplementedError

    def all_labels(self) -> list[Any]:
        """The labels of all samples, as the data have them."""
        return [self.source.label(i) for i in range(len(self.samples))]


class ClassLabelling(Labelling):
    """Classification: a label is a class; a result has the scores and the probabilities of all."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        self.facts["classes"] = self._count = max(self.size, 2)
        labels = self.all_labels()
        texts = _texts(labels)
        if self.settings.labels == FOLDERS:
            self.names = dict(enumerate(texts))
        known = {_plain(name): number for number, name in self.names.items()}
        numbers = all(map(is_integer, texts)) and any(_plain(text) not in known for text in texts)
        if numbers and self.settings.offset is None and self.names.get(0) in BACKGROUND:
            raise ComparisonError(f"{self.samples.path}: class 0 of the model is {self.names[0]!r}; do the labels "
                                  "count from there, or from the class after it? Give --label-offset 0 or 1")
        self._classes = [self._class_of(i, label, {} if numbers else known) for i, label in enumerate(labels)]

    def _class_of(self, number: int, label: Any, known: dict[str, int]) -> int | None:
        self.check(number, label)
        if label is None:
            return None
        if _plain(str(label)) in known:
            return known[_plain(str(label))]
        if not known and is_integer(label):
            index = int(label) + (self.settings.offset or 0)
            if 0 <= index < self._count:
                return index
            raise ComparisonError(f"{self.source.where(number)}: label {label} is not one of the {self._count} classes")
        if self.names:
            raise ComparisonError(f"{self.source.where(number)}: the model has no class {str(label)!r}; it has "
                                  f"{', '.join(list(self.names.values())[:5])}, ...; give their names (--labels FILE)")
        raise ComparisonError(f"{self.source.where(number)}: label {str(label)!r} is not a number, and the model has "
                              f"no labels; give their names (--labels FILE), or --labels {FOLDERS} if its classes are "
                              "in the alphabetical order of the data's")

    def meaning(self, number: int, label: Any, outputs: Sequence[Array]) -> int | None:
        return self._classes[number]

    def result(self, outputs: Sequence[Array], likely: bool) -> tuple[Array, Array]:
        """A model with one number has two classes; the number is for class 1."""
        row = outputs[0].reshape(-1)
        real = row.astype(np.float64)
        if real.size == 1:
            shown = real if likely else 1 / (1 + np.exp(-real))
            shown = np.array([1 - shown[0], shown[0]])
            return shown, shown
        if not likely:
            powers = np.exp(real - real.max())
            return row, powers / powers.sum()
        return row, real


class ObjectLabelling(Labelling):
    """Detection: a label is the Objects of a picture; a result has boxes, classes and scores."""
    objects = True

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        categories = self.source.categories
        if categories is None or not evidence.predictor.detects:
            raise ComparisonError(f"{self.samples.path}: detection needs COCO's annotations, and a model with boxes, "
                                  "classes, scores and their number")
        if not self.names:
            raise ComparisonError(f"{self.samples.path}: the model has no labels; give a file with the names of its "
                                  "classes (--labels FILE)")
        if self.names.get(0) in BACKGROUND and 1 in self.names:
            self.names = {i - 1: name for i, name in self.names.items() if i}     # boxes have no background
        numbers = {_plain(name): number for number, name in categories.items()}
        category_of = {c: numbers[_plain(name)] for c, name in self.names.items() if _plain(name) in numbers}
        used = np.concatenate([label.rows[:, 4] for label in self.all_labels()])
        missing = [categories[number] for number in sorted(set(used.tolist()) - set(category_of.values()))]
        if missing:
            raise ComparisonError(f"{self.samples.path}: the model has no class {', '.join(map(repr, missing[:5]))}; "
                                  f"it has {', '.join(list(self.names.values())[:5])}, ...; --labels FILE gives names")
        self.facts["categories"] = {str(c): number for c, number in category_of.items()}

    def meaning(self, number: int, label: Objects, outputs: Sequence[Array]) -> Objects:
        if label.height and label.width:
            return label
        return label._replace(**dict(zip(("height", "width"), images.read(self.source.path(number) or "").shape[:2],
                                         strict=True)))

    def result(self, outputs: Sequence[Array], likely: bool) -> tuple[Array, Array, Array]:
        boxes, classes, scores, count = outputs
        if not boxes.size == 4 * classes.size == 4 * scores.size or count.size != 1:
            raise ComparisonError("the outputs are not boxes, classes, scores and their number, in this order: they "
                                  "have the shapes " + ", ".join(str(list(array.shape)) for array in outputs))
        return objects(boxes, classes, scores, count)


class MaskLabelling(Labelling):
    """Segmentation: a label is the mask of a picture, the class of each pixel; so is a result."""

    def meaning(self, number: int, label: Any, outputs: Sequence[Array]) -> Array:
        mask = images.read_mask(label) if isinstance(label, File) else np.asarray(label)
        mask = mask.reshape(mask.shape[:2]) if mask.ndim == 3 and mask.shape[2] == 1 else mask
        if mask.ndim != 2 or mask.dtype.kind not in "iub":
            raise ComparisonError(f"{self.source.where(number)}: a mask has one number for each pixel, its class, and "
                                  f"this one has the shape {list(mask.shape)} and the type {mask.dtype}")
        classes = outputs[0].shape[-1] if outputs[0].ndim == 4 else EXTENT
        if classes == 1:
            return (mask > 0).astype(np.uint8)
        wrong = mask[(mask != 255) & ((mask >= classes) | (mask < 0))]
        if wrong.size:
            raise ComparisonError(f"{label if isinstance(label, File) else self.source.where(number)}: the mask has "
                                  f"class {wrong[0]}, and the model {classes} classes")
        return mask

    def result(self, outputs: Sequence[Array], likely: bool) -> Array:
        output = outputs[0]
        if output.ndim == 4 and output.shape[0] == 1:
            return (np.argmax(output[0], 2) if output.shape[3] > 1
                    else (output[0, :, :, 0] > 0.5 * likely).astype(np.int64))
        if output.ndim == 3 and output.shape[0] == 1 and output.dtype.kind in "iu":
            return output[0]
        raise ComparisonError(f"an output of shape {list(output.shape)} and type {output.dtype} has no classes of "
                              "pixels")


class NumberLabelling(Labelling):
    """Regression and embeddings: a label is numbers, and so is a result."""

    def meaning(self, number: int, label: Any, outputs: Sequence[Array]) -> Any:
        try:
            return None if label is None else np.array(label.split() if isinstance(label, str) else label, np.float64)
        except (ValueError, TypeError):
            raise ComparisonError(f"{self.source.where(number)}: label {label!r} is not a number") from None

    def result(self, outputs: Sequence[Array], likely: bool) -> Array:
        return outputs[0]


class OwnLabelling(Labelling):
    """A metric of the user's own: a label is a class, numbers, text, the classes of pixels, or the rows of Objects; a
    result is all outputs."""
    objects = True

    def __init__(self, evidence: Evidence) -> None:
        super().__init__(evidence)
        assert self.settings.metric is not None
        if self.settings.labels == FOLDERS:
            self.names = dict(enumerate(_texts(self.all_labels())))
        self._numbers = {_plain(name): number for number, name in self.names.items()}
        first = self.meaning(0, evidence.label, ())
        if isinstance(first, str):
            self.notes.append(f"the metric gets labels as text, as {first!r}; --labels FILE, or --labels {FOLDERS}, "
                              "numbers them")
        self.facts["metric"] = metric.named(self.settings.metric)

    def meaning(self, number: int, label: Any, outputs: Sequence[Array]) -> Any:
        if isinstance(label, File):
            return images.read_mask(label)
        if isinstance(label, Objects):
            return label.rows
        if isinstance(label, str) and _plain(label) in self._numbers:
            return self._numbers[_plain(label)]
        if label is not None and is_integer(label):
            return int(label) + (self.settings.offset or 0)
        if isinstance(label, str) and is_numeric(label):
            values = np.array(label.split(), np.float64)
            return values if values.size > 1 else values[0]
        return label

    def result(self, outputs: Sequence[Array], likely: bool) -> Sequence[Array]:
        return outputs


LABELLINGS: dict[str, type[Labelling]] = {
    "classification": ClassLabelling, "detection": ObjectLabelling, "segmentation": MaskLabelling,
    "regression": NumberLabelling, "embedding": NumberLabelling, OWN: OwnLabelling}


def is_integer(label: Any) -> bool:
    if isinstance(label, str):
        return label.lstrip("+-").isdecimal()
    return np.ndim(label) == 0 and np.asarray(label).dtype.kind in "iub"


def is_numeric(label: Any) -> bool:
    """Is it a number, several, or text that has them?"""
    try:
        return label is not None and np.size(np.array(label.split() if isinstance(label, str) else label, float)) > 0
    except ValueError:
        return False


def _texts(labels: Sequence[Any]) -> list[str]:
    """The labels that occur, in alphabetical order."""
    return sorted({str(label) for label in labels if label is not None})


def _plain(name: str) -> str:
    """A name in lower case, with single spaces in place of underscores and hyphens, so that spellings agree."""
    return " ".join(name.casefold().replace("_", " ").replace("-", " ").split())
