"""What tasks return."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Category:
    """A class with its score.  display_name: in the language of `display_names_locale`, "" without."""
    index: int
    score: float
    category_name: str = ""
    display_name: str = ""


@dataclass(frozen=True)
class Classifications:
    """The classes of one output, the best first.  timestamp: seconds from the beginning of the sound to this window."""
    categories: list[Category]
    head_index: int = 0
    head_name: str = ""
    timestamp: float = 0.0


@dataclass(frozen=True)
class ClassificationResult:
    """Classifications: one for each output, or for each window of a sound."""
    classifications: list[Classifications]

    @property
    def categories(self) -> list[Category]:
        """The classes of the first."""
        return self.classifications[0].categories


@dataclass(frozen=True)
class BoundingBox:
    """A box in pixels of the picture; origin: its corner at the top left."""
    origin_x: int
    origin_y: int
    width: int
    height: int


@dataclass(frozen=True)
class Detection:
    """An object and where it is."""
    bounding_box: BoundingBox
    categories: list[Category]


@dataclass(frozen=True)
class Segmentation:
    """A class for each pixel of the model's output.

    category_mask: (height, width) of classes; confidence_masks: float32 (classes, height, width), or None for a model
    that gives classes alone; labels: {class: name}.
    """
    category_mask: NDArray[np.uint8]
    confidence_masks: NDArray[np.float32] | None
    labels: dict[int, str]


@dataclass(frozen=True)
class Keypoint:
    """A point of a body in pixels of the picture, and its score."""
    name: str
    x: float
    y: float
    score: float


@dataclass(frozen=True)
class Pose:
    """The points of a body that reach the score threshold; score: their mean."""
    keypoints: list[Keypoint]
    score: float


@dataclass(frozen=True)
class Embedding:
    """A vector that stands for a text.  float32, or int8 where it was asked to be quantized."""
    feature_vector: NDArray[np.float32] | NDArray[np.int8]
