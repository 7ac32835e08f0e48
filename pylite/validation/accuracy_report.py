"""The accuracy of a model and its reference on labelled samples, and the samples on which they differ."""
from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from pylite.display import text_table
from pylite.errors import counted
from pylite.validation.printed import Printed, pandas

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pylite.display.text_table import Table

TASKS = ("classification", "detection", "segmentation", "regression", "embedding")
OWN = "metric"      # the task of a user-defined metric
POINTS = 100        # a metric's whole range in percentage points


@dataclass
class Metric:
    """One metric of the model and of the reference (None without one), with 95 % intervals.

    interval, reference_interval: (low, high) by `method` ("Wilson", "normal", "bootstrap"), or None; better: "higher"
    or "lower"
    """
    model: float | None
    reference: float | None = None
    interval: tuple[float, float] | None = None
    reference_interval: tuple[float, float] | None = None
    method: str | None = None
    better: str = "higher"

    @classmethod
    def of(cls, values: Sequence[Any], intervals: Sequence[Any] = (None, None), method: str | None = None,
           better: str = "higher") -> Metric:
        """The Metric of the values, and intervals, of the model and of the reference."""
        return cls(values[0], values[1], intervals[0], intervals[1], method, better)

    def worse_than(self, other: Metric) -> bool:
        """Is this metric's value for the model worse than that of `other`?  An unknown value is worse than a known one.
        """
        if self.model is None or other.model is None:
            return self.model is None and other.model is not None
        return self.model < other.model if self.better == "higher" else self.model > other.model

    def __str__(self) -> str:
        """The model's value, and its interval if there is one."""
        return _number(self.model) + (f" ({_interval(self.interval)})" if self.interval else "")


@dataclass
class Flip:
    """A sample on which the two models differ, or that a model gets wrong.

    sample: its number; path: its file, or None; label, reference, model: classes, or None if the task has none
    scores: {"model", "reference"}: of the class that each names; for other tasks the sample's own measure
    drop: by how much the model's score of the right class, or its measure, is below the reference's
    """
    sample: int
    path: str | None
    label: int | None
    reference: int | None
    model: int | None
    scores: dict[str, float]
    drop: float

    @classmethod
    def of_measure(cls, sample: int, path: str | None, scores: dict[str, float], drop: float) -> Flip:
        """A Flip of a task without classes."""
        return cls(sample, path, None, None, None, scores, drop)


@dataclass(repr=False)
class Accuracy(Printed):
    """A model's results on a data set, with its reference's if there is one.

    task: one of TASKS, or OWN; main: the metric of `drop`; labels: names of the classes; metrics: {name: Metric}
    classes: [{"class", "label", "count", "model", "reference"}]: recall, IoU or AP of each class that occurs
    confusion: {"model", "reference"}: [[label, predicted class, count]] where the count is not 0
    calibration: {"model", "reference"}: [{"low", "high", "count", "confidence", "accuracy"}], bins of the confidence
    mcnemar: {"reference_only", "model_only", "statistic", "p", "method"}: how many only one of the two gets right, and
    how probable such a difference is if both were as good; None without a reference
    flipped: samples (objects, in detection) on which the two differ; flips: the worst of these, worst first
    worst: the samples with the largest errors of the model; notes: assumptions about the data
    """
    task: str
    samples: int
    main: str
    labels: list[str]
    metrics: dict[str, Metric]
    classes: list[dict[str, Any]] = field(default_factory=list)
    confusion: dict[str, list[list[int]] | None] = field(default_factory=dict)
    calibration: dict[str, list[dict[str, Any]] | None] = field(default_factory=dict)
    mcnemar: dict[str, Any] | None = None
    flipped: int = 0
    flips: list[Flip] = field(default_factory=list)
    worst: list[Flip] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def drop(self) -> float | None:
        """By how many percentage points the main metric is below the reference's; None without a reference."""
        main = self.metrics[self.main]
        if main.model is None or main.reference is None:
            return None
        return (main.reference - main.model) * (POINTS if main.better == "higher" else -POINTS)

    def to_dict(self) -> dict[str, Any]:
        """`accuracy` in docs/validation.schema.json; infinities and NaN are None."""
        return {**finite(asdict(self)), "drop": finite(self.drop)}

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def to_pandas(self) -> Any:
        """One row for each metric; needs pandas."""
        return pandas().DataFrame.from_dict({name: asdict(m) for name, m in self.metrics.items()}, orient="index")

    def name(self, number: int | None) -> str:
        """The name of a class; its number if it has none."""
        if number is None:
            return ""
        return self.labels[number] if number < len(self.labels) and self.labels[number] else str(number)

    def lines(self, top: int = 10, table: Table = text_table.table) -> list[str]:
        """The results as text: metrics, McNemar's test, and the `top` worst samples.  table: makes lines of tables."""
        paired = any(m.reference is not None for m in self.metrics.values())
        headers = ["metric", "model", "95 %", *(["reference", "95 %"] if paired else []), "interval"]
        cells = [(name, _number(m.model), _interval(m.interval),
                  *([_number(m.reference), _interval(m.reference_interval)] if paired else []), m.method or "")
                 for name, m in self.metrics.items()]
        text = [f"accuracy ({self.task}): {counted(self.samples, 'sample')}",
                *table(headers, cells, headers[1:-1], ("interval", "95 %", "95 %"))]
        if self.mcnemar is not None:
            t = self.mcnemar
            text.append(f"only the reference was right: {t['reference_only']}; only the model: {t['model_only']}; "
                        f"McNemar p = {t['p']:.3g} ({t['method']})")
        for title, rows in ((f"{self.flipped} differ", self.flips), ("worst", self.worst)):
            if rows:
                text += ["", f"{title}:", *(self._line(row) for row in rows[:top])]
        return text + [f"note: {note}" for note in self.notes]

    def _line(self, row: Flip) -> str:
        scores = ", ".join(f"{side} {self.name(getattr(row, side))} ({score:.4g})".replace("  ", " ")
                           for side, score in row.scores.items())
        label = "" if row.label is None else f"{self.name(row.label)}: "
        return f"  {row.path or f'sample {row.sample}'}: {label}{scores}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def _interval(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{ends[0]:.4f}..{ends[1]:.4f}"


def finite(value: Any) -> Any:
    """Plain numbers for JSON; NaN and infinities, which JSON lacks, become None."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
