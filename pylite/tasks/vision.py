"""Tasks on pictures, as image_task describes them."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError
from pylite.media.outputs import POSE, key_points
from pylite.tasks import checks
from pylite.tasks.detection import ObjectDetector
from pylite.tasks.image_task import ImageTask, pixels_of
from pylite.tasks.results import (
    ClassificationResult,
    Classifications,
    Embedding,
    Keypoint,
    Pose,
    Results,
    Segmentation,
)
from pylite.tasks.task import ClassOptions, checked_class_names, class_names
from pylite.tflite.arguments import flag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.media import images
    from pylite.media.metadata import TensorInfo
    from pylite.tasks.image_task import Numbers
    from pylite.tasks.task import Labels, ModelSource
    from pylite.tflite.types import Precision


class ImageClassifier(ImageTask):
    """Classifies pictures by a model whose outputs have a score for each class.

    Raises ModelError for a model with other outputs, ValueError for labels that do not fit.
    """

    def __init__(self, model: ModelSource, *, max_results: int | None = None, score_threshold: float | None = None,
                 category_allowlist: Iterable[str] = (), category_denylist: Iterable[str] = (),
                 display_names_locale: str | None = None, labels: Labels | None = None, mean: Numbers | None = None,
                 std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None, precision: Precision | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        if self._head is not None and self._head.task == "classify" and labels is None:
            labels = self._head.names
        options = ClassOptions(labels, max_results, score_threshold, category_allowlist, category_denylist,
                               display_names_locale)
        self._heads = self._filters(options, self._class_counts())

    def _plausible(self) -> bool:
        """Several outputs of numbers may be points, such as those of a hand."""
        count = len(self._outputs)
        return super()._plausible() and (count == 1 or all(map(self._likely, range(count))))

    def _class_counts(self) -> list[int]:
        """Classes of each output; ModelError for outputs that are not a row of scores."""
        shapes = self._output_shapes()
        for shape in shapes:
            if sum(size != 1 for size in shape) > 1:
                raise ModelError(f"the model's output has the shape {shape}; a classifier gives (1, classes)"
                                 f"{self._hint()}")
        self._check_numbers(self.interpreter.get_output_details())
        return [int(np.prod(shape)) for shape in shapes]

    def classify(self, image: Any, channel_order: str = "RGB") -> ClassificationResult:
        """The classes of a picture, for each output of the model.

        image: a path, a Pillow image, or a uint8 array (height, width) or (height, width, channels).
        channel_order: "BGR" for arrays whose first channel is blue, as OpenCV's.
        """
        outputs, _ = self._outputs_of(image, channel_order)
        return ClassificationResult([
            Classifications([category for _, category in head.categories(scores)], index, head.info.name)
            for index, (head, scores) in enumerate(zip(self._heads, outputs, strict=True))])


class ImageSegmenter(ImageTask):
    """Finds the class of each pixel.

    score_threshold counts for an Ultralytics model only, whose default is 0.25.  Raises ModelError if the output is not
    one that segment() describes.
    """

    _detector: ObjectDetector | None = None

    def __init__(self, model: ModelSource, *, labels: Labels | None = None, score_threshold: float | None = None,
                 mean: Numbers | None = None, std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None, precision: Precision | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        checks.threshold(score_threshold)
        info: TensorInfo = self._outputs[0]
        if self._head is not None and self._head.task == "segment":
            self._detector = ObjectDetector(model, labels=labels, score_threshold=score_threshold, mean=mean, std=std,
                                            num_threads=num_threads, experimental_delegates=experimental_delegates,
                                            precision=precision)
            self._labels = self._head.names if labels is None else class_names(labels)
            return
        self._labels = info.labels.get("", {}) if labels is None else class_names(labels)
        detail = self.interpreter.get_output_details()[0]
        shape = self._output_shapes()[0]
        self._check(shape, np.dtype(detail["dtype"]).kind in "iu" and not detail["quantization"][0])
        if labels is not None and len(shape) == 4:
            self._labels = checked_class_names(labels, shape[3])

    def _check(self, shape: Sequence[int], classes: bool) -> None:
        if len(shape) not in (3, 4) or shape[0] != 1 or 0 in shape or (len(shape) == 3 and not classes):
            raise ModelError(f"the model's output has the shape {list(shape)}; expected (1, height, width) of "
                             f"classes or (1, height, width, classes) of their scores{self._hint()}")

    def segment(self, image: Any, channel_order: str = "RGB") -> Segmentation:
        """The classes of a picture's pixels, at the size of the model's output.

        The output is (1, height, width) of classes, or (1, height, width, classes) of their scores; the first of the
        largest scores counts.  For an Ultralytics model the mask has the picture's size.  Each pixel has the class of
        the best object there; a pixel without an object has the number of classes, whose name is "background".

        image: a path, a Pillow image, or a uint8 array (height, width) or (height, width, channels).
        channel_order: "BGR" for arrays whose first channel is blue, as OpenCV's.
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
    """Classes as uint8, if all of them fit."""
    return classes.astype(np.uint8) if 0 <= classes.min() <= classes.max() < 256 else classes


class PoseEstimator(ImageTask):
    """Finds the points of bodies by MoveNet of one person, or by a pose model of Ultralytics.

    MoveNet's output is (1, 1, 17, 3): row, column, score; raises ModelError for another.  score_threshold limits the
    scores of points.
    """

    _detector: ObjectDetector | None = None

    def __init__(self, model: ModelSource, *, score_threshold: float = 0.0, mean: Numbers | None = None,
                 std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None, precision: Precision | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        checks.threshold(score_threshold)
        self._least = score_threshold
        if self._head is not None and self._head.task == "pose":
            self._detector = ObjectDetector(model, mean=mean, std=std, num_threads=num_threads,
                                            experimental_delegates=experimental_delegates, precision=precision)
        elif self._output_shapes()[0] != POSE:
            raise ModelError(f"the model's output has the shape {self._output_shapes()[0]}; expected [1, 1, 17, 3], as "
                             f"MoveNet's, or a pose model with the metadata of Ultralytics{self._hint()}")

    def estimate(self, image: Any, channel_order: str = "RGB") -> Pose:
        """The points of the body in a picture, of the best one if there are several; no points if there is none.

        image: a path, a Pillow image, or a uint8 array (height, width) or (height, width, channels).
        channel_order: "BGR" for arrays whose first channel is blue, as OpenCV's.
        """
        return next(iter(self.estimate_all(image, channel_order)), Pose([], 0.0))

    def estimate_all(self, image: Any, channel_order: str = "RGB") -> Results[Pose]:
        """The points of each body in a picture, the best first; MoveNet finds one.

        image: a path, a Pillow image, or a uint8 array (height, width) or (height, width, channels).
        channel_order: "BGR" for arrays whose first channel is blue, as OpenCV's.
        """
        if self._detector is not None:
            return Results(Pose([point for point in one.keypoints or () if point.score >= self._least],
                                one.categories[0].score, one.bounding_box)
                           for one in self._detector.detect(image, channel_order))
        outputs, (height, width) = self._outputs_of(image, channel_order)
        points = [Keypoint(name, x * width, y * height, score) for name, x, y, score in key_points(outputs[0])
                  if score >= self._least]
        return Results([Pose(points, sum(point.score for point in points) / len(points) if points else 0.0)])


class ImageEmbedder(ImageTask):
    """Turns pictures into vectors, by a model whose first output is a vector."""

    cosine_similarity = staticmethod(Embedding.cosine_similarity)

    def __init__(self, model: ModelSource, *, l2_normalize: bool = False, quantize: bool = False,
                 mean: Numbers | None = None, std: Numbers | None = None, num_threads: int = 1,
                 experimental_delegates: Sequence[Any] | None = None, precision: Precision | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        self._check_numbers(self.interpreter.get_output_details()[:1])
        self._normalized = flag("l2_normalize", l2_normalize)
        self._quantized = flag("quantize", quantize)

    def embed(self, image: Any, channel_order: str = "RGB") -> Embedding:
        """The vector of a picture: float32 (n,), or int8.

        image: a path, a Pillow image, or a uint8 array (height, width) or (height, width, channels).
        channel_order: "BGR" for arrays whose first channel is blue, as OpenCV's.
        """
        outputs, _ = self._outputs_of(image, channel_order)
        return Embedding.of(outputs[0], self._normalized, self._quantized)
