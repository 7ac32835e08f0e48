"""Classifiers of images, sound and text; detectors of objects and faces; segmentation, pose and embeddings.

    from pylite.tasks import ImageClassifier
    best = ImageClassifier("mobilenet.tflite", max_results=3).classify("cat.jpg").categories[0]

Labels, normalization, sample rate and score calibration come from the model's metadata; pass as arguments what these
lack.  Arguments and results have the names of tflite-support's Task Library.
"""
import importlib
import sys

_HOMES = {name: home for home, names in {
    "audio": "AudioClassifier AudioFormat AudioRecord TensorAudio",
    "results": "BoundingBox Category Classifications ClassificationResult ColoredLabel Detection Embedding Keypoint "
               "Pose Results Segmentation",
    "detection": "FaceDetector ObjectDetector",
    "task": "Options OutputType TensorImage",
    "text": "TextClassifier TextEmbedder",
    "vision": "ImageClassifier ImageEmbedder ImageSegmenter PoseEstimator",
}.items() for name in names.split()}
_GROUPS = "Base", "Classification", "Detection", "Embedding", "Segmentation"    # of the Task Library's options
_SAME = {"NLClassifier": "TextClassifier", "BertNLClassifier": "TextClassifier", "DetectionResult": "Results",
         "SegmentationResult": "Segmentation", "EmbeddingResult": "Embedding"}      # the Task Library's names
__all__ = list(_HOMES)


def __getattr__(name):
    group = name.removesuffix("Options")
    known = "Options" if group != name and group in (*_GROUPS, *_HOMES, *_SAME) else _SAME.get(name, name)
    if known not in _HOMES:
        raise AttributeError(f"module 'pylite.tasks' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    value = globals()[name] = getattr(importlib.import_module(f"pylite.tasks.{_HOMES[known]}"), known)
    return value


def __dir__():
    return sorted(__all__)
