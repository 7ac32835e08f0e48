"""TFLite_Detection_PostProcess, the custom op that ends SSD detectors: from encoded boxes to the best few."""
import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call, Scratch
from pylite.ops.custom_options import decoded, integer_option, number_option
from pylite.ops.moves import scalar

NAME = "TFLite_Detection_PostProcess"
COUNTS = {"max_detections": 0, "max_classes_per_detection": 0, "num_classes": 0, "detections_per_class": 100}
NUMBERS = "nms_score_threshold", "nms_iou_threshold", "y_scale", "x_scale", "h_scale", "w_scale"
# The number that each of the 256 bytes stands for.
CODES: "dict[str, np.ndarray]" = {"uint8": np.arange(256), "int8": np.arange(256, dtype=np.uint8).view(np.int8)}


def detection_options(node):
    """The options as a dict, with the peer's defaults for missing ones."""
    given = decoded(node)
    options = {name: integer_option(node, given, name, 1, default) for name, default in COUNTS.items()}
    options |= {name: number_option(node, given, name) for name in NUMBERS}
    options["use_regular_nms"] = bool(given.get("use_regular_nms"))
    if not 0 < options["nms_iou_threshold"] <= 1:
        raise node.error(f"nms_iou_threshold {options['nms_iou_threshold']} is not above 0 and at most 1")
    return options


def infer_detection(node):
    encodings, scores, anchors = node.inputs
    options = detection_options(node)
    classes = options["num_classes"]
    if len(encodings.shape) != 3 or encodings.shape[0] != 1 or encodings.shape[2] < 4:
        raise node.error(f"of shape {list(encodings.shape)} should be encoded boxes, [1, boxes, 4 or more]", encodings)
    boxes = encodings.shape[1]
    if scores.shape not in ((1, boxes, classes), (1, boxes, classes + 1)):
        raise node.error(f"of shape {list(scores.shape)} should be scores of {boxes} boxes for {classes} classes, with "
                         "or without a background", scores)
    if len(anchors.shape) != 2 or anchors.shape[0] < boxes or anchors.shape[1] != 4:
        raise node.error(f"of shape {list(anchors.shape)} should be {boxes} anchors of 4", anchors)
    count = options["max_detections"] * options["max_classes_per_detection"]
    return [(1, count, 4), (1, count), (1, count), (1,)]


def lower_detection(node):
    encodings, scores, _ = node.inputs
    o = detection_options(node)
    n, classes = encodings.shape[1], o["num_classes"]
    most, regular = o["max_detections"], o["use_regular_nms"]
    operands = [value.view(value.shape[-2:], dtype="uint8" if value.dtype == "int8" else value.dtype)
                for value in node.inputs]
    tables = [None if value.dtype == "float32" else table(value)
              for value, table in zip(node.inputs, (box_table, score_table, box_table), strict=True)]
    boxes, labels, confidences, count = node.outputs
    box_count = boxes.shape[1]
    scales = np.array([o["y_scale"], o["x_scale"], o["h_scale"], o["w_scale"]], np.float32)
    return Call("detection.DetectionPostProcess", *operands, encodings_table=tables[0], scores_table=tables[1],
                anchors_table=tables[2], boxes=boxes.view((box_count, 4)), labels=labels.flat,
                confidences=confidences.flat, count=count, scales=scales, classes=classes, most=most,
                per_class=o["detections_per_class"], per_box=o["max_classes_per_detection"], regular=regular,
                score_threshold=o["nms_score_threshold"], overlap_threshold=o["nms_iou_threshold"],
                flip=0x80 if scores.dtype == "uint8" else 0, decoded=Scratch((n, 4), "float32"),
                heap=Scratch((n,), "uint64"), chosen=Scratch((most,), "int32"),
                chosen_class=Scratch((most,), "int32"), chosen_score=Scratch((most,), "float32"),
                order=Scratch((max(classes, most),), "int32"))


def box_table(value):
    """The real number of each 8-bit code in an encoding or an anchor, (256,) float32, computed in float32."""
    return (CODES[value.dtype].astype(np.float32) - np.float32(value.zero_point)) * value.scale


def score_table(value):
    """The real number of each 8-bit code as a score, (256,) float32, computed as DEQUANTIZE does."""
    return (float(value.scale) * (CODES[value.dtype].astype(np.int64) - value.zero_point)).astype(np.float32)


register(NAME, versions=(1, 100), types=[f"{b} {s} {b} -> float32 float32 float32 float32"
                                         for b in ("float32", "uint8", "int8") for s in ("float32", "uint8", "int8")],
         infer=infer_detection, lower=lower_detection)


# ---- NON_MAX_SUPPRESSION_V4 and _V5 --------------------------------------------------------------------------------
def infer_non_max_suppression(node):
    boxes, scores = node.inputs[:2]
    most = scalar(node, 2, "maximum output size")
    if len(boxes.shape) != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1] or most < 0:
        raise node.error(f"of shape {list(boxes.shape)} should be boxes of 4, with scores of shape "
                         f"{list(scores.shape)}, of which {most} are to be chosen", boxes)
    if any(value.size != 1 for value in node.inputs[3:]):
        raise node.error("needs one value for each of its thresholds")
    return [(most,)] * (len(node.outputs) - 1) + [()]


def lower_non_max_suppression(node):
    boxes, scores = node.inputs[:2]
    limits = {name: value.flat for name, value in zip(("iou_threshold", "score_threshold", "sigma"), node.inputs[3:],
                                                      strict=False)}
    chosen, *chosen_scores, count = node.outputs
    return Call("non_max_suppression.NonMaxSuppression", boxes, scores, **limits, chosen=chosen,
                chosen_scores=chosen_scores[0] if chosen_scores else None, count=count.flat,
                heap=Scratch((scores.size, 3), "int32"))


register("NON_MAX_SUPPRESSION_V4", types=["float32 float32 int32 float32 float32 -> int32 int32"],
         infer=infer_non_max_suppression, lower=lower_non_max_suppression)
register("NON_MAX_SUPPRESSION_V5", types=["float32 float32 int32 float32 float32 float32 -> int32 float32 int32"],
         infer=infer_non_max_suppression, lower=lower_non_max_suppression)
