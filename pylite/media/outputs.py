"""The meaning of a model's outputs, by the ops that compute them."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph

PASS_THROUGH = {"DEQUANTIZE", "QUANTIZE", "RESHAPE", "SQUEEZE", "CAST"}     # ops that keep the meaning of the numbers
PROBABILITIES = {"SOFTMAX", "LOGISTIC"}
DETECTION = "TFLite_Detection_PostProcess"
POINTS = ("nose", "left eye", "right eye", "left ear", "right ear", "left shoulder", "right shoulder", "left elbow",
          "right elbow", "left wrist", "right wrist", "left hip", "right hip", "left knee", "right knee", "left ankle",
          "right ankle")        # of COCO, in MoveNet's order
POSE = [1, 1, len(POINTS), 3]       # shape of MoveNet's output: row, column and score of each point


def producer(subgraph: Subgraph, index: int) -> str | None:
    """The name of the op that computed tensor `index`, without regard to PASS_THROUGH ops; None for an input."""
    made_by = {output: operator for operator in subgraph.operators for output in operator.outputs}
    operator = made_by.get(index)
    while operator is not None and operator.name in PASS_THROUGH:
        operator = made_by.get(operator.inputs[0])
    return None if operator is None else operator.name


def key_points(output: NDArray[Any]) -> list[tuple[str, float, float, float]]:
    """(name, x, y, score) of each point in an output of shape POSE; x and y are fractions of the picture."""
    return [(name, x, y, score) for name, (y, x, score) in zip(POINTS, output[0, 0].tolist(), strict=True)]


def objects(boxes: NDArray[Any], classes: NDArray[Any], scores: NDArray[Any], count: NDArray[Any],
            ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[Any]]:
    """(boxes: (n, 4), classes, scores) of the outputs of a detector: those among the first `count` that are numbers.

    ModelError if the outputs do not fit together.
    """
    boxes, classes, scores, count = (array.reshape(-1) for array in (boxes, classes, scores, count))
    if count.size != 1 or not count[0] >= 0:
        raise ModelError(f"the model's number of objects is {count.tolist()[:4]}; expected one number of at least 0")
    n = int(min(count[0], scores.size))
    if boxes.size % 4 or boxes.size < 4 * n or classes.size < n:
        raise ModelError(f"the model gives {boxes.size} numbers for the boxes and {classes.size} classes of {n} "
                         "objects; expected four for each box, and a class for each object")
    boxes, classes, scores = boxes[:4 * n].reshape(-1, 4).astype(np.float64), classes[:n], scores[:n]
    real = np.isfinite(boxes).all(1) & (abs(classes) < 2**31) & ~np.isnan(scores)
    return boxes[real], classes[real].astype(np.int64), scores[real]
