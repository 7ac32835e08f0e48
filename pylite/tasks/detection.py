"""Objects and faces in pictures."""
from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError
from pylite.media import tensors, yolo
from pylite.media.outputs import DETECTION, POINTS, objects
from pylite.tasks import checks
from pylite.tasks.image_task import ImageTask
from pylite.tasks.results import BoundingBox, Category, Detection, Keypoint, Results
from pylite.tasks.task import ClassFilter, ClassOptions, class_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.interpreter import Interpreter
    from pylite.tasks.image_task import Numbers
    from pylite.tasks.task import Labels, ModelSource
    from pylite.tflite.types import Precision

LEAST, OVERLAP, MOST = 0.25, 0.7, 300       # defaults of Ultralytics' models


class ObjectDetector(ImageTask):
    """Finds objects.

    The model ends in the op TFLite_Detection_PostProcess, or its metadata name its outputs, or it is one of Ultralytics
    (YOLO v5, v8, 11 and such; detect, segment, pose or obb), with its metadata or, without them, with `labels`.
    Raises ModelError for another model.

    iou_threshold counts for models that do not suppress boxes themselves.  By default an Ultralytics model returns at
    most 300 boxes, with scores of 0.25 or more.
    """

    def __init__(self, model: ModelSource, *, max_results: int | None = None, score_threshold: float | None = None,
                 category_allowlist: Iterable[str] = (), category_denylist: Iterable[str] = (),
                 display_names_locale: str | None = None, labels: Labels | None = None,
                 iou_threshold: float = OVERLAP, mean: Numbers | None = None, std: Numbers | None = None,
                 num_threads: int = 1, experimental_delegates: Sequence[Any] | None = None,
                 precision: Precision | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        checks.fraction("iou_threshold", iou_threshold)
        self._overlap = iou_threshold
        options = ClassOptions(labels, max_results, score_threshold, category_allowlist, category_denylist,
                               display_names_locale)
        self._order = self._positions()
        if not self._order:
            self._head = self._yolo_head(labels)
        if self._head is not None:
            self._least = LEAST if score_threshold is None else score_threshold
            options = replace(options, labels=self._head.names if labels is None else labels,
                              max_results=max_results or MOST, score_threshold=self._least)
            self._filter = ClassFilter(type(self._outputs[0])(), options, len(self._head.names))
            if mean is None and std is None:
                self._mean, self._std = [0.0], [255.0]
            return
        boxes, classes, scores, _ = (self._outputs[i] for i in self._order)
        info = type(scores)(labels=classes.labels, calibration=scores.calibration or classes.calibration,
                            score_threshold=scores.score_threshold)
        self._box_order = boxes.box_order or (1, 0, 3, 2)       # of left, top, right, bottom: the op's
        self._filter = ClassFilter(info, options)

    def _positions(self) -> list[int]:
        """Positions of boxes, classes, scores and their number among the model's outputs, or none."""
        subgraph = self.model.graph.subgraphs[0]
        for operator in subgraph.operators:
            if operator.name == DETECTION and set(operator.outputs) <= set(subgraph.outputs):
                return [list(subgraph.outputs).index(i) for i in operator.outputs]
        names = [info.name for info in self._outputs]
        wanted = ("location", "category", "score", "number of detections")
        return [names.index(name) for name in wanted] if set(wanted) <= set(names) else []

    def _yolo_head(self, labels: Labels | None) -> yolo.Head:
        """The head that the metadata or the labels describe."""
        head, shapes = self._head, self._output_shapes()
        if head is None and len(shapes[0]) == 3 and shapes[0][0] == 1 and labels is not None:
            task = "segment" if len(shapes) > 1 else "detect"
            head = yolo.Head(task, class_names(labels))
        if head is None or head.task == "classify":
            raise ModelError(
                f"the model is not a detector that pylite knows: its outputs have the shapes "
                f"{', '.join(map(str, shapes))}, and it has neither {DETECTION}, nor metadata that name location, "
                "category, score and number of detections, nor Ultralytics' metadata. For a YOLO model without "
                f"metadata, give labels with the name of each class{self._hint()}")
        return head

    def detect(self, image: Any, channel_order: str = "RGB") -> Results[Detection]:
        """The objects in a picture, the best first.

        image: a path, a Pillow image, or a uint8 array (height, width) or (height, width, channels).
        channel_order: "BGR" for arrays whose first channel is blue, as OpenCV's.
        """
        if self._head is not None:
            return self._of_head(image, channel_order, self._head)
        outputs, (height, width) = self._outputs_of(image, channel_order)
        boxes, classes, scores = objects(*(outputs[i] for i in self._order))
        boxes = boxes[:, list(self._box_order)].clip(0, 1) * [width, height, width, height]
        return Results(Detection(_box(boxes[i]), [category])
                       for i, category in self._filter.categories(scores, classes))

    def _of_head(self, image: Any, channel_order: str, head: yolo.Head) -> Results[Detection]:
        outputs, place = self._boxed(image, channel_order)
        if head.task == "segment":      # the prototypes have four dimensions, wherever they stand
            if len(outputs) < 2:
                raise ModelError("the model's metadata say that it segments, and it has one output; expected a second "
                                 "one of prototypes")
            outputs.sort(key=lambda output: output.ndim)
        candidates = yolo.boxes_of(outputs, head, self._size(), self._least)
        if not head.end_to_end:
            candidates = yolo.suppressed(candidates, self._overlap, MOST)
        chosen = self._filter.categories(candidates.scores, candidates.classes)
        candidates = candidates.take(np.array([i for i, _ in chosen], np.int64))
        if candidates.angles is not None:
            return self._rotated(candidates, place, [category for _, category in chosen])
        boxes = place.points(candidates.boxes.reshape(-1, 2, 2)).reshape(-1, 4)
        masks = yolo.masks_of(outputs[1], candidates, place) if head.task == "segment" else [None] * len(boxes)
        points = ([None] * len(boxes) if candidates.points is None
                  else [_keypoints(row, place) for row in candidates.points])
        return Results(Detection(_box(box), [category], mask, keypoints)
                       for box, (_, category), mask, keypoints in zip(boxes, chosen, masks, points, strict=True))

    @staticmethod
    def _rotated(candidates: yolo.Candidates, place: yolo.Placement, categories: list[Category]) -> Results[Detection]:
        centres, sizes = place.points(candidates.boxes[:, :2]), place.lengths(candidates.boxes[:, 2:])
        corners = yolo.corners(np.hstack([centres, sizes]), candidates.angles)  # type: ignore[arg-type]
        inside = corners.clip(0, [place.width, place.height])
        edges = np.hstack([inside.min(1), inside.max(1)])
        return Results(Detection(_box(box), [category], corners=four)
                       for box, category, four in zip(edges, categories, corners, strict=True))


def _box(edges: NDArray[Any]) -> BoundingBox:
    """The box of left, top, right and bottom in pixels."""
    left, top, right, bottom = (round(float(edge)) for edge in edges)
    return BoundingBox(left, top, right - left, bottom - top)


def _keypoints(row: NDArray[Any], place: yolo.Placement, names: Sequence[str] = POINTS) -> list[Keypoint]:
    """Keypoints of (points, 2 or 3) numbers; points beyond the names have numbers."""
    scores = row[:, 2] if row.shape[1] > 2 else np.ones(len(row))
    return [Keypoint(names[i] if len(row) == len(names) else f"point {i}", float(x), float(y), float(score))
            for i, ((x, y), score) in enumerate(zip(place.points(row[:, :2]), scores, strict=True))]


FACE_POINTS = ("left eye", "right eye", "nose", "mouth", "left ear", "right ear")       # seen from the front
# Boxes at each position of a map: of the front models of 128 and the back and full-range models of 192 and 256 pixels.
FACE_ANCHORS = {128: ((8, 2), (16, 6)), 256: ((16, 2), (32, 6)), 192: ((4, 1),)}       # (stride, boxes at a position)


class FaceDetector(ImageTask):
    """Finds faces by MediaPipe's BlazeFace models: front, back, short or full range.

    Their outputs are (1, anchors, 16), the box and six points of each anchor, and (1, anchors, 1), its score; raises
    ModelError for another model.
    """

    def __init__(self, model: ModelSource, *, score_threshold: float = 0.5, iou_threshold: float = 0.3,
                 max_results: int | None = None, mean: Numbers | None = None, std: Numbers | None = None,
                 num_threads: int = 1, experimental_delegates: Sequence[Any] | None = None,
                 precision: Precision | None = None) -> None:
        super().__init__(model, mean=mean, std=std, num_threads=num_threads,
                         experimental_delegates=experimental_delegates, precision=precision)
        checks.threshold(score_threshold)
        checks.fraction("iou_threshold", iou_threshold)
        checks.most_results(max_results)
        self._least, self._overlap, self._most = score_threshold, iou_threshold, max_results or MOST
        size, shapes = self._size(), self._output_shapes()
        anchors = _fitting_anchors(size, shapes)
        if anchors is None:
            raise ModelError(f"the model takes {size[0]} x {size[1]} pixels and gives {', '.join(map(str, shapes))}; "
                             f"expected a BlazeFace of {', '.join(map(str, sorted(FACE_ANCHORS)))} pixels that gives a "
                             f"box with six points (16 numbers) and a score for each anchor{self._hint()}")
        self._anchors, self._boxes_at = anchors, shapes.index([1, len(anchors), 16])

    def detect(self, image: Any, channel_order: str = "RGB") -> Results[Detection]:
        """The faces in a picture, the best first, with the six points of each.

        image: a path, a Pillow image, or a uint8 array (height, width) or (height, width, channels).
        channel_order: "BGR" for arrays whose first channel is blue, as OpenCV's.
        """
        outputs, place = self._boxed(image, channel_order, 0)
        size = self._size()[0]
        rows = outputs[self._boxes_at][0].astype(np.float64)
        scores = 1 / (1 + np.exp(-outputs[1 - self._boxes_at].reshape(-1).astype(np.float64).clip(-100, 100)))
        kept = np.flatnonzero((scores >= self._least) & np.isfinite(rows).all(1))
        kept = kept[np.argsort(-scores[kept], kind="stable")]
        rows, anchors = rows[kept] / size, self._anchors[kept]
        centres = rows[:, :2] + anchors
        points = rows[:, 4:].reshape(-1, len(FACE_POINTS), 2) + anchors[:, None]
        boxes = np.hstack([centres - rows[:, 2:4] / 2, centres + rows[:, 2:4] / 2])
        faces = yolo.suppressed(yolo.Candidates(boxes, scores[kept], np.zeros(len(kept), np.int64), points=points),
                                self._overlap, self._most)
        edges = place.points(faces.boxes.reshape(-1, 2, 2)).reshape(-1, 4)
        every: Any = faces.points
        return Results(Detection(_box(box), [Category(0, float(score), "face")],
                                 keypoints=_keypoints(row, place, FACE_POINTS))
                       for box, score, row in zip(edges, faces.scores, every, strict=True))


def finds_faces(interpreter: Interpreter) -> bool:
    """Does FaceDetector take the model of this interpreter?"""
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    return len(inputs) == 1 and tensors.takes_picture(inputs[0]) and _fitting_anchors(
        tensors.picture_size(inputs[0]), [detail["shape"].tolist() for detail in outputs]) is not None


def _fitting_anchors(size: tuple[int, int], shapes: list[list[int]]) -> NDArray[np.float64] | None:
    """The anchors of a BlazeFace with an input of `size` and outputs of these shapes; None for another model."""
    if size[0] != size[1] or size[0] not in FACE_ANCHORS:
        return None
    anchors = face_anchors(size[0])
    return anchors if sorted(shapes, reverse=True) == [[1, len(anchors), 16], [1, len(anchors), 1]] else None


def face_anchors(size: int) -> NDArray[np.float64]:
    """(anchors, 2): x and y of the centres that a BlazeFace of `size` pixels refers to, as fractions of it."""
    grids = []
    for stride, count in FACE_ANCHORS[size]:
        centres = (np.arange(size // stride) + 0.5) * stride / size
        y, x = np.meshgrid(centres, centres, indexing="ij")
        grids.append(np.repeat(np.stack([x, y], 2).reshape(-1, 2), count, 0))
    return np.concatenate(grids)
