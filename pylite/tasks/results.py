"""Results of tasks."""
from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from typing import Any, Self

    from numpy.typing import NDArray


Item = TypeVar("Item")


class Result:
    """The base of results; notebooks show their text."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


@dataclass(frozen=True)
class Category(Result):
    """A class with its score.  display_name: in the language of `display_names_locale`, or ""."""
    index: int
    score: float
    category_name: str = ""
    display_name: str = ""

    def __str__(self) -> str:
        return f"{self.display_name or self.category_name or f'class {self.index}'} {self.score:.3f}"


@dataclass(frozen=True)
class Classifications(Result):
    """The classes of one output, the best first.  timestamp: seconds from the beginning of the sound to this window."""
    categories: list[Category]
    head_index: int = 0
    head_name: str = ""
    timestamp: float = 0.0

    def __str__(self) -> str:
        return ", ".join(map(str, self.categories)) or "no class reaches the threshold"


@dataclass(frozen=True)
class ClassificationResult(Result):
    """Classifications: one for each output, or for each window of a sound."""
    classifications: list[Classifications]

    def __str__(self) -> str:
        """A line for each output or window, the windows of a sound with their seconds."""
        heads = len({one.head_index for one in self.classifications}) > 1
        windows = len({one.timestamp for one in self.classifications}) > 1
        return "\n".join(f"{one.timestamp:7.2f} s  " * windows + f"{one.head_name or one.head_index}: " * heads
                         + str(one) for one in self.classifications)

    @property
    def categories(self) -> list[Category]:
        """The classes of the first output or window."""
        return self.classifications[0].categories


@dataclass(frozen=True)
class BoundingBox(Result):
    """A box in pixels of the picture.  origin_x, origin_y: its top left corner."""
    origin_x: int
    origin_y: int
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width} x {self.height} at ({self.origin_x}, {self.origin_y})"


@dataclass(frozen=True)
class Detection(Result):
    """An object and its place.

    Some models also give one of: mask, (height, width) of bool, the object's pixels in the picture; keypoints, its
    Keypoints; corners, (4, 2) x and y of the corners of a rotated box, whose bounding_box encloses it.
    """
    bounding_box: BoundingBox
    categories: list[Category]
    mask: NDArray[np.bool_] | None = None
    keypoints: list[Keypoint] | None = None
    corners: NDArray[np.float64] | None = None

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.categories))}: {self.bounding_box}"


class Results(list[Item], Result):
    """A list of results, whose text has a line or more for each."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "nothing reaches the threshold"

    __repr__ = __str__

    @property
    def detections(self) -> Results[Item]:
        """The list itself, as the Task Library and MediaPipe call it."""
        return self


@dataclass(frozen=True)
class ColoredLabel(Result):
    """A class of a Segmentation.  color: red, green, blue."""
    color: tuple[int, int, int]
    category_name: str
    display_name: str = ""


def _color(number: int) -> tuple[int, int, int]:
    """Pascal VOC's colour of a class: its bits go to red, green and blue in turn, the lowest to their highest bits."""
    red, green, blue = (sum((number >> (3 * i + c) & 1) << (7 - i) for i in range(8)) for c in range(3))
    return red, green, blue


@dataclass(frozen=True)
class Segmentation(Result):
    """A class for each pixel of the model's output.

    category_mask: (height, width) of classes; confidence_masks: float32 (classes, height, width), or None for a model
    that gives classes alone; labels: {class: name}.
    """
    category_mask: NDArray[np.uint8]
    confidence_masks: NDArray[np.float32] | None
    labels: dict[int, str]

    @property
    def segmentations(self) -> list[Self]:
        """The Task Library's list of results, which has this one."""
        return [self]

    @property
    def colored_labels(self) -> list[ColoredLabel]:
        """The name of each class, by its number, with a colour to draw it in."""
        count = max([int(self.category_mask.max(initial=0)), *self.labels]) + 1
        return [ColoredLabel(_color(number), self.labels.get(number, "")) for number in range(count)]

    def __str__(self) -> str:
        """A line for each class with its share of the pixels, the largest first."""
        classes, counts = np.unique(self.category_mask, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return "\n".join(f"{counts[i] / self.category_mask.size:6.1%}  {self.labels.get(int(classes[i]), '')}"
                         f"{'' if self.labels.get(int(classes[i])) else f'class {classes[i]}'}" for i in order)


@dataclass(frozen=True)
class Keypoint(Result):
    """A point of a body in pixels of the picture, and its score."""
    name: str
    x: float
    y: float
    score: float

    def __str__(self) -> str:
        return f"{self.name} ({self.x:.0f}, {self.y:.0f}) {self.score:.2f}"


@dataclass(frozen=True)
class Pose(Result):
    """The points of a body that reach the score threshold.

    score: their mean, or the score of the body if the model gives one; bounding_box: of the body, or None.
    """
    keypoints: list[Keypoint]
    score: float
    bounding_box: BoundingBox | None = None

    def __str__(self) -> str:
        return "\n".join(map(str, self.keypoints)) or "no point reaches the threshold"


@dataclass(frozen=True)
class Embedding(Result):
    """The vector of a text or a picture: float32 (n,), or int8 (n,) if the task quantizes."""
    feature_vector: NDArray[np.float32] | NDArray[np.int8]

    @classmethod
    def of(cls, output: NDArray[Any], l2_normalize: bool, quantize: bool) -> Self:
        """The vector in a model's output; quantize: as int8, 127 for 1 of the normalized vector."""
        vector = output.reshape(-1).astype(np.float32)
        if l2_normalize or quantize:
            vector = vector / max(float(np.linalg.norm(vector)), 1e-12)
        if quantize:
            return cls((vector * 127).round().clip(-128, 127).astype(np.int8))
        return cls(vector)

    @property
    def embeddings(self) -> list[Self]:
        """The Task Library's list of results, which has this one."""
        return [self]

    @staticmethod
    def cosine_similarity(u: Embedding | NDArray[Any], v: Embedding | NDArray[Any]) -> float:
        """The cosine of the angle between two vectors; ValueError if one is all zeros, or if their sizes differ."""
        a, b = (np.asarray(getattr(each, "feature_vector", each), np.float64) for each in (u, v))
        if a.shape != b.shape:
            raise ValueError(f"the vectors have {a.size} and {b.size} numbers; expected the same number")
        lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
        if not lengths:
            raise ValueError("a vector of zeros has no direction")
        return float(a @ b) / lengths

    def __str__(self) -> str:
        first = ", ".join(f"{value:.3g}" for value in self.feature_vector[:4])
        return f"{self.feature_vector.size} numbers: {first}{', ...' if self.feature_vector.size > 4 else ''}"
