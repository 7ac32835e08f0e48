"""Tasks on pictures.

A picture is a path, a Pillow image, or uint8 pixels: (height, width) or (height, width, 1, 3 or 4) with red first.
OpenCV's frames have blue first: say `channel_order="BGR"`.  It is stretched to the size that the model takes.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError, TensorError
from pylite.media import images, tensors
from pylite.media.outputs import objects
from pylite.tasks.results import (
    BoundingBox,
    ClassificationResult,
    Classifications,
    Detection,
    Keypoint,
    Pose,
    Segmentation,
)
from pylite.tasks.task import Chosen, Task, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.media.metadata import TensorInfo
    from pylite.tasks.task import Labels

POINTS = ("nose", "left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder", "left elbow",
          "right elbow", "left wrist", "right wrist", "left hip", "right hip", "left knee", "right knee", "left ankle",
          "right ankle")        # of COCO, in MoveNet's order


def pixels_of(image: Any, channel_order: str = "RGB") -> images.Pixels:
    """uint8 (height, width, channels) of a picture, as the module describes it.

    TensorError for another array, FileFormatError for a file that is no picture.
    """
    if channel_order not in ("RGB", "BGR"):
        raise ValueError(f"channel_order is {channel_order!r}; it is 'RGB' or 'BGR'")
    if isinstance(image, (str, os.PathLike)):
        return images.read(image)
    if hasattr(image, "convert"):       # Pillow's, which has modes such as palettes
        image = image.convert("L" if image.mode in ("1", "L", "I;16") else "RGB")
    pixels = np.asarray(image)
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or not pixels.size:
        raise TensorError(f"a picture of shape {list(np.shape(image))} and type {pixels.dtype}; expected uint8 "
                          "(height, width) or (height, width, 1, 3 or 4)")
    if channel_order == "BGR" and pixels.shape[2] > 1:
        pixels = pixels[:, :, [2, 1, 0, 3][:pixels.shape[2]]]
    return pixels


class ImageTask(Task):
    """A model that takes one picture.

    mean, std: of the pixels, a number or one for each channel: the model gets (pixel - mean) / std.  By default those
    of the model's metadata, or -1..1, and for 8-bit inputs the pixels themselves.
    """

    def __init__(self, model: Any, *, mean: float | Sequence[float] | None = None,
                 std: float | Sequence[float] | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None) -> None:
        super().__init__(model, num_threads=num_threads, experimental_delegates=experimental_delegates)
        details = self.interpreter.get_input_details()
        if len(details) != 1:
            raise ModelError(f"the model has {len(details)} inputs; this task takes one with one, the picture")
        own = self._inputs[0]
        if mean is None and std is None and np.dtype(details[0]["dtype"]).itemsize > 1:
            mean, std = own.mean, own.std
        self._mean, self._std = _numbers(mean), _numbers(std)
        if self._std and 0 in self._std:
            raise ValueError("std is 0; pixels are divided by it")

    def _outputs_of(self, image: Any, channel_order: str) -> tuple[list[NDArray[Any]], tuple[int, int]]:
        """(outputs, (height, width) of the picture)"""
        pixels = pixels_of(image, channel_order)
        detail = self.interpreter.get_input_details()[0]
        return self._run(tensors.picture(pixels, detail, self._mean, self._std)), pixels.shape[:2]


def _numbers(given: float | Sequence[float] | None) -> list[float] | None:
    if given is None:
        return None
    return [float(given)] if isinstance(given, (int, float)) else [float(v) for v in given]


class ImageClassifier(ImageTask):
    """Classifies pictures.  The arguments are those of ImageTask, Task and Chosen."""

    def __init__(self, model: Any, *, max_results: int | None = None, score_threshold: float | None = None,
                 category_allowlist: Iterable[str] = (), category_denylist: Iterable[str] = (),
                 display_names_locale: str | None = None, labels: Labels | None = None, **options: Any) -> None:
        super().__init__(model, **options)
        self._heads = [Chosen(info, labels, max_results, score_threshold, category_allowlist, category_denylist,
                              display_names_locale) for info in self._outputs]

    def classify(self, image: Any, channel_order: str = "RGB") -> ClassificationResult:
        """The classes of a picture, for each output of the model."""
        outputs, _ = self._outputs_of(image, channel_order)
        return ClassificationResult([
            Classifications([category for _, category in head.categories(scores)], index, head.info.name)
            for index, (head, scores) in enumerate(zip(self._heads, outputs, strict=True))])


class ObjectDetector(ImageTask):
    """Finds objects by a model that ends in the op TFLite_Detection_PostProcess, or whose metadata name its outputs.

    The arguments are those of ImageTask, Task and Chosen; ModelError for another model.
    """

    def __init__(self, model: Any, *, max_results: int | None = None, score_threshold: float | None = None,
                 category_allowlist: Iterable[str] = (), category_denylist: Iterable[str] = (),
                 display_names_locale: str | None = None, labels: Labels | None = None, **options: Any) -> None:
        super().__init__(model, **options)
        self._order = self._positions()
        boxes, classes, scores, _ = (self._outputs[i] for i in self._order)
        info = type(scores)(labels=classes.labels, calibration=scores.calibration or classes.calibration,
                            score_threshold=scores.score_threshold)
        self._box_order = boxes.box_order or (1, 0, 3, 2)       # of left, top, right, bottom: the op's
        self._chosen = Chosen(info, labels, max_results, score_threshold, category_allowlist, category_denylist,
                              display_names_locale)

    def _positions(self) -> list[int]:
        """Positions of boxes, classes, scores and their number among the model's outputs."""
        subgraph = self.model.graph.subgraphs[0]
        for operator in subgraph.operators:
            if operator.name == "TFLite_Detection_PostProcess" and set(operator.outputs) <= set(subgraph.outputs):
                return [list(subgraph.outputs).index(i) for i in operator.outputs]
        names = [info.name for info in self._outputs]
        try:
            return [names.index(name) for name in ("location", "category", "score", "number of detections")]
        except ValueError:
            raise ModelError(f"the model has {len(names)} outputs, which neither the op TFLite_Detection_PostProcess "
                             "makes nor metadata name location, category, score and number of detections") from None

    def detect(self, image: Any, channel_order: str = "RGB") -> list[Detection]:
        """The objects in a picture, the best first."""
        outputs, (height, width) = self._outputs_of(image, channel_order)
        boxes, classes, scores = objects(*(outputs[i] for i in self._order))
        boxes = boxes[:, list(self._box_order)]
        found = []
        for i, category in self._chosen.categories(scores, classes):
            left, top, right, bottom = (round(float(edge) * size) for edge, size in
                                        zip(boxes[i].clip(0, 1), (width, height, width, height), strict=True))
            found.append(Detection(BoundingBox(left, top, right - left, bottom - top), [category]))
        return found


class ImageSegmenter(ImageTask):
    """Finds the class of each pixel.  labels: of the classes; the other arguments are those of ImageTask and Task."""

    def __init__(self, model: Any, *, labels: Labels | None = None, **options: Any) -> None:
        super().__init__(model, **options)
        info: TensorInfo = self._outputs[0]
        self._labels = info.labels.get("", {}) if labels is None else named(labels)

    def segment(self, image: Any, channel_order: str = "RGB") -> Segmentation:
        """The classes of a picture's pixels, at the size of the model's output.

        The output is (1, height, width) of classes, or (1, height, width, classes) of their scores, of which the first
        largest counts; ModelError for another.
        """
        output = self._outputs_of(image, channel_order)[0][0]
        if output.ndim not in (3, 4) or output.shape[0] != 1 or not output.size or (
                output.ndim == 3 and output.dtype.kind not in "iu"):
            raise ModelError(f"the model's output has the shape {list(output.shape)}; expected (1, height, width) of "
                             "classes or (1, height, width, classes) of their scores")
        if output.ndim == 3:
            return Segmentation(_mask(output[0]), None, self._labels)
        return Segmentation(_mask(output[0].argmax(2)),
                            np.ascontiguousarray(output[0].transpose(2, 0, 1), np.float32), self._labels)


def _mask(classes: NDArray[Any]) -> NDArray[Any]:
    """Classes as bytes; as they are if one of them is no byte."""
    return classes.astype(np.uint8) if 0 <= classes.min() <= classes.max() < 256 else classes


class PoseEstimator(ImageTask):
    """Finds the 17 points of a body by a model such as MoveNet, whose output is (1, 1, 17, 3): row, column, score.

    score_threshold: of the points to return.  The other arguments are those of ImageTask and Task.
    """

    def __init__(self, model: Any, *, score_threshold: float = 0.0, **options: Any) -> None:
        super().__init__(model, **options)
        self._least = score_threshold

    def estimate(self, image: Any, channel_order: str = "RGB") -> Pose:
        """The points of the body in a picture; ModelError for a model with another output."""
        outputs, (height, width) = self._outputs_of(image, channel_order)
        if outputs[0].shape != (1, 1, len(POINTS), 3):
            raise ModelError(f"the model's output has the shape {list(outputs[0].shape)}; expected [1, 1, 17, 3]")
        points = [Keypoint(name, float(x) * width, float(y) * height, float(score))
                  for name, (y, x, score) in zip(POINTS, outputs[0][0, 0].tolist(), strict=True)
                  if score >= self._least]
        return Pose(points, sum(point.score for point in points) / len(points) if points else 0.0)
