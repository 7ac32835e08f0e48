"""Answers from a model's outputs: ranked classes, boxes, or a summary of the numbers."""
import itertools
import math

import numpy as np

from pylite.cli import _format
from pylite.cli._common import UsageError
from pylite.media.labels import fitted
from pylite.media.outputs import DETECTION, POINTS, POSE, PROBABILITIES, key_points, objects, producer
from pylite.media.tensors import dequantize

LEAST_CLASSES = 10       # a row of so many numbers for a picture or a sound has the scores of classes
SHOWN, BRIEF = 8, 4      # values of a tensor, and of one among many
LEAST_PIXELS, MOST_CLASSES = 8, 512         # of an output that gives the class of each pixel


def answer(subgraph, outputs, labels, top, threshold, size, kinds=frozenset(("array",))):
    """The answers: a list of dictionaries, each with a "kind".

    outputs: [(details, array)]; labels: [{class: name}], the caller's first; size: (height, width) of the input
    picture, or None; kinds: of the contents of inputs, "image" also where an array is a picture.  Any kind allows
    ranked classes, "image" poses and areas; with "image" or "audio", enough scores in a row are classes even if they
    have no names.
    """
    if len(outputs) == 4 and all(producer(subgraph, d["index"]) == DETECTION for d, _ in outputs):
        return [_detections([dequantize(a, d) for d, a in outputs], labels, top, threshold, size)]
    if len(outputs) == 1 and list(outputs[0][1].shape) == POSE and "image" in kinds:
        (detail, array), = outputs
        return [_pose(detail, array, threshold, size)]
    return [_output(subgraph, detail, array, labels, top, kinds) for detail, array in outputs]


def _output(subgraph, detail, array, labels, top, kinds):
    real = dequantize(array, detail)
    entry = {"kind": "tensor", "name": detail["name"], "shape": list(array.shape), "dtype": _type(array)}
    classes = _classes_of_pixels(real) if "image" in kinds else None
    if classes is not None:
        return entry | {"kind": "areas", "areas": _areas(classes, real, labels, top)}
    row = real.reshape(-1)
    if kinds and _one_row(real):
        names = next(filter(None, (fitted(known, row.size) for known in labels)), None)
        likely = producer(subgraph, detail["index"]) in PROBABILITIES
        if likely or names or (row.size >= LEAST_CLASSES and not kinds.isdisjoint(("image", "audio"))):
            best = np.argsort(-row.astype(np.float64), kind="stable")[:top]     # -row wraps for integers
            entry |= {"kind": "classes", "probabilities": likely,
                      "classes": [{"class": int(i), "label": (names or {}).get(int(i)), "score": _plain(float(row[i]))}
                                  for i in best]}
            return entry
    return entry | _summary(real)


def _type(array):
    """The type of an output by its name in the model."""
    return "string" if array.dtype == object else str(array.dtype)


def _one_row(real):
    """Can these be the scores of classes?  (1, n) and (1, n, 1, 1) can; (1, n, 1) has a number for each of n places."""
    return real.dtype.kind in "fiu" and real.size > 1 and real.size == max(real.shape) and (
        real.shape[-1] == real.size or real.ndim == 4)


def _classes_of_pixels(real):
    """The class of each pixel, (height, width), of an output that gives classes or their scores; None for another."""
    if real.ndim == 3 and real.shape[0] == 1 and min(real.shape[1:]) >= LEAST_PIXELS and real.dtype.kind in "iu":
        return real[0]
    if real.ndim == 4 and real.shape[0] == 1 and min(real.shape[1:3]) >= LEAST_PIXELS and (
            2 <= real.shape[3] <= MOST_CLASSES and real.dtype.kind == "f"):
        return real[0].argmax(2)
    return None


def _areas(classes, real, labels, top):
    """The classes with the largest areas; score: their share of the pixels."""
    known, counts = np.unique(classes, return_counts=True)
    size = real.shape[3] if real.ndim == 4 else int(known.max()) + 1
    names = next(filter(None, (fitted(each, size) or (real.ndim == 3 and each) for each in labels)), None) or {}
    order = np.argsort(-counts, kind="stable")[:top]
    return [{"class": int(known[i]), "label": names.get(int(known[i])), "score": float(counts[i] / classes.size)}
            for i in order]


def _summary(real):
    if real.dtype == object or not real.size:
        return {"values": [_plain(v) for v in real.reshape(-1)[:SHOWN]]}
    row = real.reshape(-1)
    if row.dtype.kind == "c":
        return {"values": [str(v) for v in row[:SHOWN]]}
    known = row[np.isfinite(row)] if row.dtype.kind == "f" else row
    facts = {"min": _plain(known.min()), "max": _plain(known.max()),
             "mean": float(known.mean(dtype=np.float64))} if known.size else {}
    if known.size < row.size:
        facts["not_finite"] = int(row.size - known.size)
    return facts | {"values": [_plain(v) for v in row[:SHOWN]]}


def _plain(value):
    """A number or text for JSON, where NaN and infinities are null."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _detections(arrays, labels, top, threshold, size):
    boxes, classes, scores = objects(*arrays)
    names = labels[0] if labels else {}
    entries = []
    for i in range(len(boxes)):
        if scores[i] >= threshold and len(entries) < top:
            box = [float(v) for v in boxes[i]]
            entry = {"class": int(classes[i]), "label": names.get(int(classes[i])), "score": _plain(float(scores[i])),
                     "box": dict(zip(("top", "left", "bottom", "right"), box, strict=True))}
            if size:
                entry["pixels"] = {k: round(v * size[k in ("left", "right")]) for k, v in entry["box"].items()}
            entries.append(entry)
    return {"kind": "detections", "threshold": threshold, "detections": entries}


def _pose(detail, array, threshold, size):
    """The points of one body."""
    height, width = size or (1, 1)
    points = [_point(name, x * width, y * height, score, (height, width), bool(size))
              for name, x, y, score in key_points(dequantize(array, detail))
              if score >= threshold and math.isfinite(x) and math.isfinite(y)]
    return {"kind": "points", "name": detail["name"], "shape": list(array.shape), "dtype": _type(array),
            "threshold": threshold, "points": points}


def _point(name, x, y, score, size, known=True):
    """A key point at (x, y) in pixels of a picture of `size`; unless that is known, it has fractions alone."""
    entry = {"label": name, "score": score, "place": {"x": x / size[1], "y": y / size[0]}}
    return entry | ({"pixels": {"x": round(x), "y": round(y)}} if known else {})


def of_detections(detections, threshold, size):
    """The answer for pylite.tasks.Detections in a picture of size (height, width)."""
    entries = []
    for detection in detections:
        best, box = detection.categories[0], detection.bounding_box
        pixels = {"top": box.origin_y, "left": box.origin_x, "bottom": box.origin_y + box.height,
                  "right": box.origin_x + box.width}
        entry = {"class": best.index, "label": best.category_name or None, "score": best.score,
                 "box": {k: v / size[k in ("left", "right")] for k, v in pixels.items()}, "pixels": pixels}
        if detection.keypoints is not None:
            entry["points"] = [_point(p.name, p.x, p.y, p.score, size) for p in detection.keypoints
                               if p.score >= threshold]
        entries.append(entry)
    return {"kind": "detections", "threshold": threshold, "detections": entries}


def drawn(pixels, answers):
    """The picture with the objects of the answers in it; UsageError where the model finds none."""
    from pylite.media import drawing
    from pylite.tasks import BoundingBox, Category, Detection
    if pixels is not None and answers[0]["kind"] == "points":
        return drawing.points(pixels, [tuple(point["pixels"].values()) for point in answers[0]["points"]])
    detections = next((one["detections"] for one in answers if one["kind"] == "detections"), None)
    if detections is None or pixels is None:
        raise UsageError("--save draws boxes and key points into the picture, and this model, or this input, gives "
                         "none")
    return drawing.detections(pixels, [
        Detection(BoundingBox(p["left"], p["top"], p["right"] - p["left"], p["bottom"] - p["top"]),
                  [Category(one["class"], one["score"] or 0.0, one["label"] or "")])
        for one in detections for p in [one["pixels"]]])


def lines(answer):
    """The text of one answer, as a list of lines."""
    write = {"areas": _area_lines, "classes": _class_lines, "detections": _detection_lines, "points": _pose_lines,
             "tensor": _tensor_lines}
    return write[answer["kind"]](answer)


def brief(answer):
    """An answer in a few words."""
    if answer["kind"] == "tensor":
        return f"{answer['name'] or _format.NAMELESS} {_values(answer, ' ', BRIEF)}"
    entries = answer[answer["kind"]]
    if answer["kind"] == "points":
        return f"{len(entries)} of {len(POINTS)} points with a score of {answer['threshold']} or more"
    return ", ".join(f"{e['label'] or e['class']} {score_text(e['score'])}" for e in entries) or "nothing found"


def window_lines(windows):
    """The answers for the windows of a sound, as lines: for each output, which class was the best and when."""
    text = []
    for answers in zip(*(window["outputs"] for window in windows), strict=True):
        spans = [(window["begin"], window["end"], one) for window, one in zip(windows, answers, strict=True)]
        text += [_heading(answers[0]), *(_class_spans(spans) if answers[0]["kind"] == "classes" else
                                         [f"  {_span(begin, end)} s  {brief(one)}" for begin, end, one in spans]), ""]
    return text


def _class_spans(spans):
    """A row for each stretch of windows with the same best class."""
    score = "probability" if spans[0][2]["probabilities"] else "score"
    rows = []
    for _, group in itertools.groupby(spans, key=lambda span: span[2]["classes"][0]["class"]):
        stretch = list(group)
        best = max((one["classes"][0] for _, _, one in stretch), key=lambda c: -math.inf if c["score"] is None
                   else c["score"])
        rows.append((_span(stretch[0][0], stretch[-1][1]), score_text(best["score"]), best["class"],
                     best["label"] or ""))
    return _classes_table(("seconds", score, "class", "label"), rows, ("seconds", score, "class"))


def _classes_table(headers, rows, right):
    """A table of classes; without the column of labels where none has one."""
    place = headers.index("label")
    if not any(row[place] for row in rows):
        headers, *rows = ((*row[:place], *row[place + 1:]) for row in (headers, *rows))
    return _format.table(headers, rows, right)


def unnamed(answers):
    """Do the answers have classes, and none a name?"""
    entries = [entry for one in answers if one["kind"] != "tensor" for entry in one[one["kind"]]]
    return bool(entries) and not any(entry["label"] for entry in entries)


def _span(begin, end):
    return f"{begin:.2f} to {end:.2f}"


def score_text(score):
    """A score of an answer, None if it is not finite."""
    return "nan or inf" if score is None else f"{score:.4f}"


def _class_lines(answer):
    score = "probability" if answer["probabilities"] else "score"
    rows = [(rank, score_text(c["score"]), c["class"], c["label"] or "") for rank, c in enumerate(answer["classes"], 1)]
    return [_heading(answer), *_classes_table(("rank", score, "class", "label"), rows, ("rank", score, "class"))]


def _area_lines(answer):
    rows = [(f"{a['score']:.1%}", a["class"], a["label"] or "") for a in answer["areas"]]
    return [_heading(answer), *_classes_table(("area", "class", "label"), rows, ("area", "class"))]


def _detection_lines(answer):
    if not answer["detections"]:
        return [f"nothing found with a score of {answer['threshold']} or more"]
    where = "pixels" if "pixels" in answer["detections"][0] else "box"
    rows = [(score_text(d["score"]), d["class"], d["label"] or "",
             *(v if where == "pixels" else f"{v:.3f}" for v in d[where].values())) for d in answer["detections"]]
    edges = ("top", "left", "bottom", "right")
    text = _classes_table(("score", "class", "label", *edges), rows, ("score", "class", *edges))
    for number, one in enumerate(answer["detections"], 1):
        if "points" in one:
            text += ["", f"points of {one['label'] or one['class']} {number}:", *_point_lines(one, answer["threshold"])]
    return text


def _pose_lines(answer):
    return [_heading(answer), *_point_lines(answer, answer["threshold"])]


def _point_lines(answer, threshold):
    """A table of key points."""
    if not answer["points"]:
        return [f"no point with a score of {threshold} or more"]
    rows = [(score_text(p["score"]), p["label"], *(p.get("pixels") or {k: f"{v:.3f}" for k, v in p["place"].items()})
             .values()) for p in answer["points"]]
    headers = "score", "point", "x", "y"
    if all(p["score"] == 1 for p in answer["points"]):       # the model gives none
        headers, *rows = (row[1:] for row in (headers, *rows))
    return _format.table(headers, rows, ("score", "x", "y"))


def _tensor_lines(answer):
    facts = [f"{k} {_format.number(answer[k])}" for k in ("min", "max", "mean") if k in answer]
    if "not_finite" in answer:
        facts.append(f"{answer['not_finite']} not finite")
    return [_heading(answer), *(["  " + ", ".join(facts)] if facts else []), f"  {_values(answer, ', ', SHOWN)}"]


def _values(answer, between, most):
    """The first numbers of a tensor, at most so many, and "..." where there are others."""
    several = math.prod(answer["shape"]) > 1
    values = ["nan or inf" if v is None else repr(v) if isinstance(v, str) and (several or not v) else _format.number(v)
              for v in answer["values"][:most]]
    return between.join([*values, "..."] if math.prod(answer["shape"]) > len(values) else values)


def _heading(answer):
    return f"{answer['name'] or _format.NAMELESS}  {_format.shape(answer['shape'])} {answer['dtype']}"
