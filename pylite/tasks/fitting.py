"""Which task takes a model: the hint in the errors of those that do not."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.media import tensors, yolo
from pylite.media.outputs import DETECTION, POSE

if TYPE_CHECKING:
    from pylite.interpreter import Interpreter
    from pylite.runtime.model import Model

OF_HEADS = {"classify": "ImageClassifier", "segment": "ImageSegmenter", "pose": "PoseEstimator"}
FACES = 16      # numbers for each box of a BlazeFace


def hint(interpreter: Interpreter, model: Model) -> str:
    """The end of an error: "; ImageSegmenter takes it", or nothing where no task does for sure."""
    inputs = interpreter.get_input_details()
    kinds, shapes = ([np.dtype(detail["dtype"]).kind for detail in inputs],
                     [[int(size) for size in detail["shape"]] for detail in inputs])
    outputs = interpreter.get_output_details()
    if any(np.dtype(detail["dtype"]).kind not in "fiub" for detail in outputs) or not outputs:
        return ""
    task = ""
    if len(inputs) == 1 and tensors.takes_picture(inputs[0]) and kinds[0] in "fiu":
        task = _of_pictures(interpreter, model)
    elif (len(inputs) == 1 and kinds[0] in "OS") or (len(inputs) in (1, 3) and set(kinds) == {"i"} and all(
            len(shape) == 2 and np.dtype(detail["dtype"]).itemsize >= 4
            for shape, detail in zip(shapes, inputs, strict=True))):
        task = "TextClassifier or TextEmbedder"
    elif len(inputs) == 1 and kinds[0] in "fi" and sum(size != 1 for size in shapes[0]) == 1:
        task = "AudioClassifier"
    return f"; {task} takes it" if task else ""


def _of_pictures(interpreter: Interpreter, model: Model) -> str:
    head = yolo.head_of(model)
    if head is not None:
        return OF_HEADS.get(head.task, "ObjectDetector")
    details = interpreter.get_output_details()
    shapes = [[int(size) for size in detail["shape"]] for detail in details]
    if any(operator.name == DETECTION for operator in model.graph.subgraphs[0].operators):
        return "ObjectDetector"
    if len(shapes) == 2 and {shape[-1] for shape in shapes if len(shape) == 3} == {1, FACES}:
        return "FaceDetector"
    if shapes[0] == POSE:
        return "PoseEstimator"
    if all(sum(size != 1 for size in shape) <= 1 for shape in shapes):
        return "ImageClassifier"
    classes = np.dtype(details[0]["dtype"]).kind in "iu" and not details[0]["quantization"][0]
    return "ImageSegmenter" if shapes[0][0] == 1 and (len(shapes[0]) == 4 or (len(shapes[0]) == 3 and classes)) else ""
