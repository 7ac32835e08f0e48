"""Tasks on pictures.

A picture is a path, a Pillow image, or uint8 pixels: (height, width) or (height, width, 1, 3 or 4) with red first.
OpenCV's frames have blue first: say `channel_order="BGR"`.  It is stretched to the size that the model takes; for
models of Ultralytics, and for faces, it keeps its proportions and gets a border.
"""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError, TensorError
from pylite.media import images, tensors, yolo
from pylite.tasks.results import (
    ClassificationResult,
    Classifications,
    Embedding,
    Keypoint,
    Pose,
    Segmentation,
)
from pylite.tasks.task import ClassFilter, Task, check_threshold, named

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.media.metadata import TensorInfo
    from pylite.tasks.task import Labels, ModelSource

    Numbers = float | Sequence[float]       # one, or one for each channel

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
    of the model's metadata, or -1..1 (0..1 for models of Ultralytics), and for 8-bit inputs the pixels themselves.
    """

    def __init__(self, model: ModelSource, *, mean: Numbers | None = None, std: Numbers | None = None,
                 num_threads: int = 1, experimental_delegates: Sequence[Any] | None = None) -> None:
        super().__init__(model, num_threads=num_threads, experimental_delegates=experimental_delegates)
        details = self.interpreter.get_input_details()
        if len(details) != 1:
            raise ModelError(f"the model has {len(details)} inputs; this task takes one with one, the picture")
        self._head = yolo.head_of(self.model)
        own = self._inputs[0]
        if mean is None and std is None:
            if self._head is not None:
                mean, std = 0.0, 255.0
            elif np.dtype(details[0]["dtype"]).itemsize > 1:
                mean, std = own.mean, own.std
        self._mean, self._std = _numbers(mean), _numbers(std)
        if self._std and 0 in self._std:
            raise ValueError("std is 0; pixels are divided by it")

    def _outputs_of(self, image: Any, channel_order: str) -> tuple[list[NDArray[Any]], tuple[int, int]]:
        """(outputs, (height, width) of the picture), which is stretched."""
        pixels = pixels_of(image, channel_order)
        return self._run(self._input_of(pixels)), pixels.shape[:2]

    def _boxed(self, image: Any, channel_order: str,
               border: int = yolo.GREY) -> tuple[list[NDArray[Any]], yolo.Placement]:
        """(outputs, where the picture lies in the input), which keeps its proportions."""
        pixels, place = yolo.letterboxed(pixels_of(image, channel_order), *self._size(), border)
        return self._run(self._input_of(pixels)), place

    def _input_of(self, pixels: images.Pixels) -> NDArray[Any]:
        return tensors.picture(pixels, self.interpreter.get_input_details()[0], self._mean, self._std)

    def _size(self) -> tuple[int, int]:
        """(height, width) of the input."""
        _, *sizes = (int(size) for size in self.interpreter.get_input_details()[0]["shape"])
        if len(sizes) != 3:
            raise ModelError(f"the model's input has the shape {[1, *sizes]}; expected (1, height, width, channels)")
        planar = sizes[0] in (1, 3, 4) and sizes[2] not in (1, 3, 4)
        return (sizes[1], sizes[2]) if planar else (sizes[0], sizes[1])

    def _output_shapes(self) -> list[list[int]]:
        return [[int(size) for size in detail["shape"]] for detail in self.interpreter.get_output_details()]


def _numbers(given: Numbers | None) -> list[float] | None:
    if given is None:
        return None
    return [float(given)] if isinstance(given, (int, float)) else [float(v) for v in given]


class ImageClassifier(ImageTask):
    """Classifies pictures by a model whose outputs have a score for each class.

    The arguments are those of ImageTask, Task and ClassFilter.  ModelError for a model with other outputs, ValueError
    for labels that do not fit.
    """

    def __init__(self, model: ModelSource, *, max_results: int | None = None, score_threshold: float | None = None,
                 category_allowlist: Iterable[str] = (), category_denylist: Iterable[str] = (),
                 display_names_locale: str | None = None, labels: Labels | None = None, mean: Numbers | None = None,
                 std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates)
        if self._head is not None and self._head.task == "classify" and labels is None:
            labels = self._head.names
        self._heads = [
            ClassFilter(info, labels, max_results, score_threshold, category_allowlist, category_denylist,
                        display_names_locale, count=count, probabilities=self._likely(position))
            for position, (info, count) in enumerate(zip(self._outputs, self._class_counts(), strict=True))]

    def _class_counts(self) -> list[int]:
        """Classes of each output; ModelError for outputs that are not a row of scores."""
        shapes = self._output_shapes()
        for shape in shapes:
            if sum(size != 1 for size in shape) > 1:
                raise ModelError(f"the model's output has the shape {shape}; a classifier gives (1, classes). "
                                 "ImageSegmenter, ObjectDetector and PoseEstimator take other models")
        return [int(np.prod(shape)) for shape in shapes]

    def classify(self, image: Any, channel_order: str = "RGB") -> ClassificationResult:
        """The classes of a picture, for each output of the model."""
        outputs, _ = self._outputs_of(image, channel_order)
        return ClassificationResult([
            Classifications([category for _, category in head.categories(scores)], index, head.info.name)
            for index, (head, scores) in enumerate(zip(self._heads, outputs, strict=True))])


class ImageSegmenter(ImageTask):
    """Finds the class of each pixel.

    labels: of the classes; score_threshold: of the objects of an Ultralytics model, by default 0.25.  The other
    arguments are those of ImageTask and Task.  ModelError for a model with another output than segment() describes.
    """

    def __init__(self, model: ModelSource, *, labels: Labels | None = None, score_threshold: float | None = None,
                 mean: Numbers | None = None, std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates)
        check_threshold(score_threshold)
        info: TensorInfo = self._outputs[0]
        self._detector = None
        if self._head is not None and self._head.task == "segment":
            from pylite.tasks.detection import ObjectDetector
            self._detector = ObjectDetector(model, labels=labels, score_threshold=score_threshold, mean=mean, std=std,
                                            num_threads=num_threads, experimental_delegates=experimental_delegates)
            self._labels = self._head.names if labels is None else named(labels)
            return
        self._labels = info.labels.get("", {}) if labels is None else named(labels)
        detail = self.interpreter.get_output_details()[0]
        self._check(self._output_shapes()[0], np.dtype(detail["dtype"]).kind in "iu" and not detail["quantization"][0])

    @staticmethod
    def _check(shape: Sequence[int], classes: bool) -> None:
        if len(shape) not in (3, 4) or shape[0] != 1 or 0 in shape or (len(shape) == 3 and not classes):
            raise ModelError(f"the model's output has the shape {list(shape)}; expected (1, height, width) of "
                             "classes or (1, height, width, classes) of their scores. ImageClassifier takes "
                             "(1, classes)")

    def segment(self, image: Any, channel_order: str = "RGB") -> Segmentation:
        """The classes of a picture's pixels, at the size of the model's output.

        The output is (1, height, width) of classes, or (1, height, width, classes) of their scores, of which the first
        largest counts.  For an Ultralytics model the mask has the picture's size: the class of the best object at each
        pixel, and of pixels without an object the number of classes, which is called "background".
        """
        if self._detector is not None:
            return self._of_objects(pixels_of(image, channel_order))
        output = self._outputs_of(image, channel_order)[0][0]
        self._check(output.shape, output.dtype.kind in "iu")
        if output.ndim == 3:
            return Segmentation(_mask(output[0]), None, self._labels)
        return Segmentation(_mask(output[0].argmax(2)),
                            np.ascontiguousarray(output[0].transpose(2, 0, 1), np.float32), self._labels)

    def _of_objects(self, pixels: images.Pixels) -> Segmentation:
        detector: Any = self._detector
        background = max(self._labels, default=-1) + 1
        mask = np.full(pixels.shape[:2], background, np.int64)
        for detection in reversed(detector.detect(pixels)):     # the best is the last to be drawn
            mask[detection.mask] = detection.categories[0].index
        return Segmentation(_mask(mask), None, {**self._labels, background: "background"})


def _mask(classes: NDArray[Any]) -> NDArray[Any]:
    """Classes as bytes; as they are if one of them is no byte."""
    return classes.astype(np.uint8) if 0 <= classes.min() <= classes.max() < 256 else classes


class PoseEstimator(ImageTask):
    """Finds the points of bodies by MoveNet of one person, or by a pose model of Ultralytics.

    MoveNet's output is (1, 1, 17, 3): row, column, score; ModelError for another.
    score_threshold: of the points to return.  The other arguments are those of ImageTask and Task.
    """

    def __init__(self, model: ModelSource, *, score_threshold: float = 0.0, mean: Numbers | None = None,
                 std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates)
        check_threshold(score_threshold)
        self._least = score_threshold
        self._detector = None
        if self._head is not None and self._head.task == "pose":
            from pylite.tasks.detection import ObjectDetector
            self._detector = ObjectDetector(model, mean=mean, std=std, num_threads=num_threads,
                                            experimental_delegates=experimental_delegates)
        elif self._output_shapes()[0] != [1, 1, len(POINTS), 3]:
            raise ModelError(f"the model's output has the shape {self._output_shapes()[0]}; expected [1, 1, 17, 3], as "
                             "MoveNet's, or a pose model with the metadata of Ultralytics")

    def estimate(self, image: Any, channel_order: str = "RGB") -> Pose:
        """The points of the body in a picture, of several the best; no points where there is none."""
        return next(iter(self.estimate_all(image, channel_order)), Pose([], 0.0))

    def estimate_all(self, image: Any, channel_order: str = "RGB") -> list[Pose]:
        """The points of each body in a picture, the best first; MoveNet gives one."""
        if self._detector is not None:
            return [Pose([point for point in one.keypoints or () if point.score >= self._least],
                         one.categories[0].score, one.bounding_box)
                    for one in self._detector.detect(image, channel_order)]
        outputs, (height, width) = self._outputs_of(image, channel_order)
        points = [Keypoint(name, float(x) * width, float(y) * height, float(score))
                  for name, (y, x, score) in zip(POINTS, outputs[0][0, 0].tolist(), strict=True)
                  if score >= self._least]
        return [Pose(points, sum(point.score for point in points) / len(points) if points else 0.0)]


class ImageEmbedder(ImageTask):
    """Makes vectors of pictures by a model whose first output is one.

    l2_normalize: scale vectors to the length 1; quantize: return int8, 127 for 1 (of the normalized vector).  The other
    arguments are those of ImageTask and Task.
    """

    def __init__(self, model: ModelSource, *, l2_normalize: bool = False, quantize: bool = False,
                 mean: Numbers | None = None, std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates)
        self._normalized, self._quantized = l2_normalize, quantize

    def embed(self, image: Any, channel_order: str = "RGB") -> Embedding:
        """The vector of a picture: float32 (n,), or int8."""
        outputs, _ = self._outputs_of(image, channel_order)
        return Embedding.of(outputs[0], self._normalized, self._quantized)
