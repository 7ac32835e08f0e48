"""The answers of a model as records: their text, and their form for JSON."""
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pylite.cli import _format
from pylite.cli._common import UsageError
from pylite.media.outputs import POINTS

SHOWN, BRIEF = 8, 4      # values of a tensor, and of one among many


class Named(NamedTuple):
    """A class, its name or None, and its score, None if it is not finite."""
    number: int
    label: str | None
    score: float | None

    def to_dict(self):
        return {"class": self.number, "label": self.label, "score": self.score}


class Box(NamedTuple):
    """The edges of a box, in pixels or as fractions of the picture."""
    top: float
    left: float
    bottom: float
    right: float


class Place(NamedTuple):
    """Where a point is, in pixels or in fractions of the picture."""
    x: float
    y: float


class Point(NamedTuple):
    """A key point; pixels: None if the size of the picture is not known."""
    label: str
    score: float
    place: Place
    pixels: Place | None

    def to_dict(self):
        entry = {"label": self.label, "score": self.score, "place": self.place._asdict()}
        return entry | ({"pixels": self.pixels._asdict()} if self.pixels else {})


class Found(NamedTuple):
    """An object in a picture; pixels: as of a Point; points: its key points, None if the model gives none."""
    number: int
    label: str | None
    score: float | None
    box: Box
    pixels: Box | None
    points: list[Point] | None = None

    def to_dict(self):
        entry = {"class": self.number, "label": self.label, "score": self.score, "box": self.box._asdict()}
        if self.pixels:
            entry["pixels"] = self.pixels._asdict()
        return entry | ({} if self.points is None else {"points": [point.to_dict() for point in self.points]})


class Answer:
    """The answer of a model, from one output or from all of them.

    kind: the word for it in JSON; entries: the classes, objects or points that it names
    """
    kind = ""
    entries: Sequence[Any]

    def to_dict(self):
        raise NotImplementedError

    def lines(self):
        """The answer as text."""
        raise NotImplementedError

    def brief(self):
        """The answer in a few words."""
        return ", ".join(f"{e.label or e.number} {score_text(e.score)}" for e in self.entries) or "nothing found"

    def model_classes(self):
        """Number of the model's classes, or None if the answer does not tell."""


@dataclass
class _OfOutput(Answer):
    """An answer by one output."""
    name: str
    shape: list[int]
    dtype: str

    def heading(self):
        return f"{self.name or _format.NAMELESS}  {_format.shape(self.shape)} {self.dtype}"

    def described(self):
        return {"kind": self.kind, "name": self.name, "shape": self.shape, "dtype": self.dtype}


@dataclass
class Summary(_OfOutput):
    """The first values of an output, and facts on all: "min", "max", "mean", "not_finite", if it has these."""
    values: list[Any]
    facts: dict[str, float]
    kind = "tensor"
    entries = ()

    def to_dict(self):
        return self.described() | self.facts | {"values": self.values}

    def lines(self):
        facts = [f"{k} {_format.number(self.facts[k])}" for k in ("min", "max", "mean") if k in self.facts]
        if "not_finite" in self.facts:
            facts.append(f"{self.facts['not_finite']} not finite")
        return [self.heading(), *(["  " + ", ".join(facts)] if facts else []), f"  {self._first(', ', SHOWN)}"]

    def brief(self):
        return f"{self.name or _format.NAMELESS} {self._first(' ', BRIEF)}"

    def _first(self, between, most):
        """The first values, at most so many, and "..." if there are more."""
        several = math.prod(self.shape) > 1
        values = ["nan or inf" if v is None else
                  repr(v) if isinstance(v, str) and (several or not v) else _format.number(v)
                  for v in self.values[:most]]
        return between.join([*values, "..."] if math.prod(self.shape) > len(values) else values)


@dataclass
class Classes(_OfOutput):
    """The best classes; probabilities: are their scores probabilities?"""
    probabilities: bool
    entries: list[Named]
    kind = "classes"

    def to_dict(self):
        return self.described() | {"probabilities": self.probabilities,
                                   "classes": [entry.to_dict() for entry in self.entries]}

    def lines(self):
        rows = [(rank, score_text(c.score), c.number, c.label or "") for rank, c in enumerate(self.entries, 1)]
        score = self.score_name()
        return [self.heading(), *_classes_table(("rank", score, "class", "label"), rows, ("rank", score, "class"))]

    def score_name(self):
        return "probability" if self.probabilities else "score"

    def model_classes(self):
        return math.prod(self.shape)


@dataclass
class Areas(_OfOutput):
    """The classes with the largest areas in a picture; score: their share of the pixels."""
    entries: list[Named]
    kind = "areas"

    def to_dict(self):
        return self.described() | {"areas": [entry.to_dict() for entry in self.entries]}

    def lines(self):
        rows = [(f"{a.score:.1%}", a.number, a.label or "") for a in self.entries]
        return [self.heading(), *_classes_table(("area", "class", "label"), rows, ("area", "class"))]

    def model_classes(self):
        return self.shape[3] if len(self.shape) == 4 else None


@dataclass
class Detections(Answer):
    """The objects in a picture with a score of `threshold` or more."""
    threshold: float
    entries: list[Found]
    kind = "detections"

    def to_dict(self):
        return {"kind": self.kind, "threshold": self.threshold,
                "detections": [entry.to_dict() for entry in self.entries]}

    def lines(self):
        if not self.entries:
            return [f"nothing found with a score of {self.threshold} or more"]
        rows = [(score_text(d.score), d.number, d.label or "", *(d.pixels or [f"{v:.3f}" for v in d.box]))
                for d in self.entries]
        text = _classes_table(("score", "class", "label", *Box._fields), rows, ("score", "class", *Box._fields))
        for number, one in enumerate(self.entries, 1):
            if one.points is not None:
                text += ["", f"points of {one.label or one.number} {number}:",
                         *_point_lines(one.points, self.threshold)]
        return text


@dataclass
class Pose(_OfOutput):
    """The key points of a body with a score of `threshold` or more."""
    threshold: float
    entries: list[Point]
    kind = "points"

    def to_dict(self):
        return self.described() | {"threshold": self.threshold, "points": [entry.to_dict() for entry in self.entries]}

    def lines(self):
        return [self.heading(), *_point_lines(self.entries, self.threshold)]

    def brief(self):
        return f"{len(self.entries)} of {len(POINTS)} points with a score of {self.threshold} or more"


class Window(NamedTuple):
    """A part of a sound, from second to second, and the answers for it."""
    begin: float
    end: float
    outputs: list[Answer]

    def to_dict(self):
        return {"begin": self.begin, "end": self.end, "outputs": [answer.to_dict() for answer in self.outputs]}


class Result(NamedTuple):
    """The result of a run: the seconds of invoke(), notes as texts, and answers; windows: of a sound longer than the
    model's window, for which the answers come from the means of the windows."""
    seconds: float
    notes: list[str]
    outputs: list[Answer]
    windows: list[Window] | tuple[()] = ()

    def to_dict(self):
        return {"seconds": self.seconds, "notes": self.notes,
                **({"windows": [window.to_dict() for window in self.windows]} if self.windows else {}),
                "outputs": [answer.to_dict() for answer in self.outputs]}


def drawn(pixels, answers):
    """The picture with the objects of the answers in it; UsageError if the model finds none."""
    from pylite.media import drawing
    from pylite.tasks import BoundingBox, Category, Detection
    if pixels is not None and isinstance(answers[0], Pose):
        return drawing.points(pixels, [(p.pixels.x, p.pixels.y) for p in answers[0].entries if p.pixels])
    detections = next((one.entries for one in answers if isinstance(one, Detections)), None)
    if detections is None or pixels is None:
        raise UsageError("--save draws boxes and key points into the picture, and this model, or this input, gives "
                         "none")
    return drawing.detections(pixels, [
        Detection(BoundingBox(p.left, p.top, p.right - p.left, p.bottom - p.top),
                  [Category(one.number, one.score or 0.0, one.label or "")])
        for one in detections for p in [one.pixels]])


def window_lines(windows):
    """The answers for the windows of a sound, as lines: for each output, which class was the best and when."""
    text = []
    for answers in zip(*(window.outputs for window in windows), strict=True):
        spans = [(window.begin, window.end, one) for window, one in zip(windows, answers, strict=True)]
        text += [answers[0].heading(), *(_class_spans(spans) if isinstance(answers[0], Classes) else
                                         [f"  {_span(begin, end)} s  {one.brief()}" for begin, end, one in spans]), ""]
    return text


def _class_spans(spans):
    """A row for each stretch of windows with the same best class."""
    score = spans[0][2].score_name()
    rows = []
    for _, group in itertools.groupby(spans, key=lambda span: span[2].entries[0].number):
        stretch = list(group)
        best = max((one.entries[0] for _, _, one in stretch), key=lambda c: -math.inf if c.score is None else c.score)
        rows.append((_span(stretch[0][0], stretch[-1][1]), score_text(best.score), best.number, best.label or ""))
    return _classes_table(("seconds", score, "class", "label"), rows, ("seconds", score, "class"))


def _classes_table(headers, rows, right):
    """A table of classes; without the column of labels if no class has one."""
    place = headers.index("label")
    if not any(row[place] for row in rows):
        headers, *rows = ((*row[:place], *row[place + 1:]) for row in (headers, *rows))
    return _format.table(headers, rows, right)


def unnamed(answers):
    """Do the answers name classes, and none has a label?"""
    entries = [entry for one in answers for entry in one.entries]
    return bool(entries) and not any(entry.label for entry in entries)


def _span(begin, end):
    return f"{begin:.2f} to {end:.2f}"


def score_text(score):
    """A score of an answer, None if it is not finite."""
    return "nan or inf" if score is None else f"{score:.4f}"


def _point_lines(points, threshold):
    """A table of key points."""
    if not points:
        return [f"no point with a score of {threshold} or more"]
    rows = [(score_text(p.score), p.label, *(p.pixels or [f"{v:.3f}" for v in p.place])) for p in points]
    headers = "score", "point", "x", "y"
    if all(p.score == 1 for p in points):       # the model gives none
        headers, *rows = (row[1:] for row in (headers, *rows))
    return _format.table(headers, rows, ("score", "x", "y"))
