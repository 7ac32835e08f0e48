"""The results of a comparison, as dataclasses, as JSON and as text."""
from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING

from pylite.display import notebook, text_table
from pylite.errors import counted
from pylite.validation.accuracy_report import finite
from pylite.validation.causes import NOTABLE_DB, SUSPICIOUS_DB
from pylite.validation.printed import Printed, pandas
from pylite.validation.ranking import FLOOR_DB
from pylite.validation.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pylite.display.text_table import Table
    from pylite.validation.accuracy_report import Accuracy

VERSION = 1
INNER = "tensors", "ranking", "ranked_by", "first_divergence", "unmatched", "notes", "called"   # of called subgraphs
SHOWN = 10      # nodes of the table in notebooks


@dataclass
class TensorReport:
    """The errors of one tensor of the model.

    node, op: the node that computes it; tensor: its index; matched: how its counterpart was found; output: is it an
    output of the model?
    sqnr_db: of both models run from their inputs; cumulative_excess_db: the noise then, over the noise of the node's
    operands plus that of a good quantization
    All others are of the node by itself, and None if that was not measured:
    sqnr_local_db; excess_db: noise over that of a good quantization of the node
    sqnr_weights_db, sqnr_activations_db: with only the weights and bias quantized, and with only the activations, on
    the first samples; from_weights: the weights' share of these two noises
    rmse_over_scale, mean_error_steps, max_error_steps: root mean square (0.289 for ideal rounding), mean and largest
    error, in steps; None for tensors of real numbers
    saturated_low, saturated_high: shares of the values at an end of the range whose reference is beyond it
    range_used: share of the range that the reference's values span, above 1 if they exceed it; None without a range
    cause, detail, remedy: None if rounding explains the error
    channels: {"sqnr_db", "sqnr_local_db", "rmse_over_scale", "mean_error_steps", "max_error_steps", "saturated_low",
    "saturated_high", "range_used"}: lists
    weights: {"sqnr_db", "gain": lists by output channel, "spread", "scales", "scale_spread"}, or None
    histograms: {"values", "reference", "error": {"start", "width", "counts"}} if they were requested
    judged: does its SQNR tell how good the model is?  It does for outputs; for a detector, for the boxes and scores
    that its post-processing reads
    """
    node: int
    op: str
    tensor: int
    name: str
    reference_name: str
    matched: str
    dtype: str
    output: bool
    sqnr_db: float | None
    cumulative_excess_db: float
    sqnr_local_db: float | None = None
    excess_db: float | None = None
    rmse_over_scale: float | None = None
    mean_error_steps: float | None = None
    max_error_steps: float | None = None
    saturated_low: float | None = None
    saturated_high: float | None = None
    range_used: float | None = None
    cause: str | None = None
    detail: str | None = None
    remedy: str | None = None
    channels: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] | None = None
    histograms: dict[str, dict[str, Any]] | None = None
    judged: bool = False
    sqnr_weights_db: float | None = None
    sqnr_activations_db: float | None = None
    from_weights: float | None = None


@dataclass
class Called:
    """A subgraph that a node calls, compared on the inputs of the reference's calls.

    node, op: the node that calls it; part: "condition", "body", "then", "else", "branch 0", ... or "decomposition";
    subgraph: its index; calls: number of calls measured; report: the Report of its nodes.
    """
    node: int
    op: str
    part: str
    subgraph: int
    calls: int
    report: Report

    def to_dict(self) -> dict[str, Any]:
        """An entry of `called` in docs/validation.schema.json."""
        report = self.report.to_dict()
        return {**{name: getattr(self, name) for name in ("node", "op", "part", "subgraph", "calls")},
                **{name: report[name] for name in INNER}}

    @property
    def title(self) -> str:
        """A heading for the subgraph."""
        return f"{self.part} of node {self.node} ({self.op}), subgraph {self.subgraph}"


@dataclass(repr=False)
class Report(Printed):
    """A model compared with its reference.

    ranking: nodes by `ranked_by`, the worst first; first_divergence: the first node in the order of execution whose own
    noise exceeds the expected by `causes.SUSPICIOUS_DB`, or None
    unmatched: results that were not compared, and why; accuracy: None if it was not measured; precision: "float16" if
    the model ran in float16; notes: remarks on the samples; called: the subgraphs that nodes call, in order
    regained: {node: decibels that the outputs gain if it computes as the reference's node does}, for the few nodes that
    were tried because the model is not good
    """
    model: str
    reference: str | None
    samples: int
    local_samples: int
    tensors: list[TensorReport]
    ranking: list[int]
    first_divergence: int | None
    unmatched: list[dict[str, Any]]
    accuracy: Accuracy | None = None
    precision: str | None = None
    notes: list[str] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    regained: dict[int, float] = field(default_factory=dict)

    @classmethod
    def of_accuracy(cls, model: str, reference: str | None, samples: int, accuracy: Accuracy | None) -> Report:
        """A report without tensors: of accuracy alone."""
        return cls(model, reference, samples, local_samples=0, tensors=[], ranking=[], first_divergence=None,
                   unmatched=[], accuracy=accuracy)

    def to_dict(self) -> dict[str, Any]:
        """The report as docs/validation.schema.json describes it; infinities and NaN are None."""
        accuracy = self.accuracy.to_dict() if self.accuracy else {}
        own = {name: value for name, value in vars(self).items() if name not in ("tensors", "accuracy", "called")}
        return {"version": VERSION, **finite({**own, "tensors": [asdict(t) for t in self.tensors]}),
                "accuracy": accuracy, "ranked_by": self.ranked_by, "verdict": self.verdict,
                "called": [called.to_dict() for called in self.called]}

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    @property
    def verdict(self) -> dict[str, str]:
        """{"level": "good", "fair", "poor" or, without a reference, "plain", "text": why, in sentences}"""
        return verdict(self)

    @property
    def ranked_by(self) -> str:
        """The measure that orders `ranking`: of nodes by themselves if they were measured, else from the inputs on."""
        return "excess_db" if self.local_samples else "cumulative_excess_db"

    def suspicion(self, tensor: TensorReport) -> float:
        """The tensor's value of the measure `ranked_by`; FLOOR_DB if its node could not run by itself."""
        value = getattr(tensor, self.ranked_by)
        return FLOOR_DB if value is None else float(value)

    @property
    def outputs(self) -> list[TensorReport]:
        """The TensorReports of the model's outputs."""
        return [t for t in self.tensors if t.output]

    def parts(self) -> Iterator[tuple[str, Report]]:
        """("", this Report), then (title, Report) of each called subgraph, at any depth."""
        yield "", self
        for called in self.called:
            for title, report in called.report.parts():
                yield f"{called.title}{', ' if title else ''}{title}", report

    def by_node(self, node: int) -> TensorReport:
        """The worst tensor of a node."""
        return max((t for t in self.tensors if t.node == node), key=self.suspicion)

    def to_pandas(self) -> Any:
        """One row for each tensor; needs pandas."""
        nested = "channels", "weights", "histograms"
        rows = [{k: v for k, v in asdict(t).items() if k not in nested} for t in self.tensors]
        return pandas().DataFrame(rows).set_index("tensor")

    def lines(self, top: int = 10, table: Table = text_table.table) -> list[str]:
        """The report as text: the verdict, the ranking's first `top` nodes, causes, what was not compared, accuracy.

        table: makes the lines of tables.
        """
        own, other = (f" in {self.precision}", " in float32") if self.precision else ("", "")
        against = f" against {os.path.basename(self.reference)}{other}" if self.reference else ""
        text = [f"{os.path.basename(self.model)}{own}{against}: {counted(self.samples, 'sample')}"
                + (f", {counted(len(self.tensors), 'tensor')}" if self.tensors else "")]
        if self.reference is not None:
            text += [self.verdict["text"], ""]
        if self.tensors:
            text += self.node_lines(top, table)
        for title, report in [*self.parts()][1:]:
            text += ["", f"{title}: {counted(report.samples, 'call')}, {counted(len(report.tensors), 'tensor')}",
                     *(f"note: {note}" for note in report.notes), *report.node_lines(top, table)]
        accuracy = self.accuracy.lines(top, table) if self.accuracy else []
        return text + [f"note: {note}" for note in self.notes] + accuracy

    def node_lines(self, top: int = 10, table: Table = text_table.table) -> list[str]:
        """The part of lines() about nodes: the ranking, causes, and what was not compared."""
        return [*(self._own_lines(top, table) if self.local_samples else self._cumulative_lines(top, table)),
                *(f"not compared: {u['name']} ({u['side']}): {u['reason']}" for u in self.unmatched)]

    def _cumulative_lines(self, top: int, table: Table) -> list[str]:
        """The ranking by what both models computed from their inputs."""
        rows = [(t.node, t.op, _decibels(t.sqnr_db), _excess(t.cumulative_excess_db))
                for t in map(self.by_node, self.ranking[:top])]
        return [*table(("node", "op", "SQNR", "excess"), rows, ("node", "SQNR", "excess")), "",
                "Ranked by cumulative errors (from the inputs on): the noise beyond that of a node's operands.",
                "Nodes by themselves were not measured, so no cause is named; --local-samples 64 does that."]

    def _own_lines(self, top: int, table: Table) -> list[str]:
        """The ranking by the nodes' own errors, and causes."""
        headers = "node", "op", "SQNR", "local", "weights", "excess", "RMSE/step", "saturated", "range", "cause"
        rows = [(f"{'> ' * (t.node == self.first_divergence)}{t.node}", t.op, _decibels(t.sqnr_db),
                 _decibels(t.sqnr_local_db), _number(t.from_weights, ".0%"), _excess(t.excess_db),
                 _number(t.rmse_over_scale, ".3f"), f"{(t.saturated_low or 0) + (t.saturated_high or 0):.2%}",
                 _number(t.range_used, ".0%"), t.cause or "")
                for t in map(self.by_node, self.ranking[:top])]
        lines = table(headers, rows, (*headers[:1], *headers[2:-1]),
                      ("weights", "range", "saturated", "RMSE/step", "local"))
        remedies = set[str]()       # each is said once
        for node in self.ranking[:top]:
            t = self.by_node(node)
            if t.cause:
                first = t.name.partition(";")[0]        # of the names of fused nodes
                lines += ["", f"node {node} ({t.op}, {first}): {t.cause}: {t.detail}."]
                lines += [f"  {t.remedy}"] if t.remedy and t.remedy not in remedies else []
                remedies.add(t.remedy or "")
                lines += _origins(t)
        lines.append("")
        if self.first_divergence is not None:
            lines.append(f"First divergence: node {self.first_divergence} (marked >).")
        elif all(t.cause is None and self.suspicion(t) < NOTABLE_DB for t in self.tensors):
            lines.append("No node has more noise of its own than rounding explains.")
        else:
            lines.append(f"No node diverges: that takes {SUSPICIOUS_DB:g} dB more noise of its own than rounding "
                         "explains.")
        return lines

    def to_html(self) -> str:
        """The report as an HTML page with charts, as `pylite validate --html` writes it, without the graph.

        FileFormatError (a ValueError) if the extra `validate` is not installed.
        """
        from pylite.validation import page
        return page.page({"report": self.to_dict(), "made": page.made()})

    def _repr_html_(self) -> str:
        """The verdict, and a short table of the nodes with the most noise of their own."""
        worst = [self.by_node(node) for node in self.ranking[:SHOWN]]
        rows = [(t.node, t.op, _decibels(t.sqnr_db), _decibels(t.sqnr_local_db), _excess(t.excess_db), t.cause or "")
                for t in worst]
        more = len(self.ranking) - len(worst)
        return (f"<p><b>{escape(self.verdict['text'])}</b></p>"
                + notebook.table(("node", "op", "SQNR, dB", "local, dB", "excess, dB", "cause"), rows)
                + (f"<p>and {more} more; to_pandas() has all</p>" if more > 0 else ""))


def _origins(t: TensorReport) -> list[str]:
    """Lines on where a node's noise comes from; none if that was not measured."""
    if t.from_weights is None or t.sqnr_weights_db is None or t.sqnr_activations_db is None:
        return []
    parts = t.sqnr_weights_db, t.sqnr_activations_db
    weights, activations = ("exact" if part == math.inf else f"{part:.1f} dB" for part in parts)
    explained = -10 * math.log10(sum(10 ** (-part / 10) for part in parts))
    if t.sqnr_local_db is not None and explained > t.sqnr_local_db + SUSPICIOUS_DB:
        return [f"  Neither its weights (SQNR: {weights}) nor activations ({activations}) explain its noise."]
    return [f"  {t.from_weights:.0%} of its noise comes from its weights ({'SQNR ' * (parts[0] < math.inf)}{weights}), "
            f"the rest from activations ({activations})."]


def _decibels(value: float | None) -> str:
    """An SQNR as text; "none" if nothing is left of the signal."""
    return "exact" if value is None or value == math.inf else "none" if value <= FLOOR_DB else f"{value:.1f}"


def _excess(value: float | None) -> str:
    return "exact" if value is None or value <= FLOOR_DB else f"{value:.1f}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
