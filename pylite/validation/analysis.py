"""Makes the Report from the sums of a Comparison."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from pylite.media.outputs import DETECTION
from pylite.validation import causes, differences, harmless, ranking, weights
from pylite.validation.causes import CALLED, NOTABLE_DB, SUSPICIOUS_DB
from pylite.validation.isolation import closure
from pylite.validation.measures import TINY, Errors
from pylite.validation.report import Called, Report, TensorReport
from pylite.validation.widening import folded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pylite.ir.graph import Operator
    from pylite.validation.accuracy_report import Accuracy
    from pylite.validation.causes import Cause
    from pylite.validation.compared import Compared
    from pylite.validation.origins import OriginSums
    from pylite.validation.statistics import ErrorSums, Grid

WEIGHTY = 0.25      # share of a node's noise from which on its constants may be the cause
UNSEEN = "its shape depends on data: in no sample did it have elements, and as many as its counterpart"


def analyse(comparison: Compared, model: str | os.PathLike[str] = "",
            reference: str | os.PathLike[str] = "", accuracy: Accuracy | None = None) -> Report:
    """The Report of a comparison; model, reference: the models' names in it; accuracy: their accuracy, if known."""
    producer = {i: o for o in comparison.subgraph.operators for i in o.outputs}
    for index in [i for i in comparison.measured if i not in comparison.cumulative
                  or not comparison.cumulative[i].samples]:
        comparison.measured.remove(index)
        comparison.unmeasured[index] = UNSEEN
    tensors = [_tensor(comparison, producer[i], i) for i in comparison.measured]
    for t in tensors:
        t.judged = t.tensor in _judged(comparison)
    local = max((sums.samples for sums in comparison.local.values()), default=0)
    report = Report(os.fspath(model), os.fspath(reference), comparison.samples, local, tensors, ranking=[],
                    first_divergence=None, unmatched=_unmatched(comparison), accuracy=accuracy,
                    precision="float16" if comparison.model.half else None)
    _add_calls(comparison, report)
    report.notes += harmless.excuse(comparison, tensors, accuracy)
    worst: dict[int, float] = {}
    for t in tensors:
        worst[t.node] = max(worst.get(t.node, -np.inf), report.suspicion(t))
    report.ranking = ranking.causes_first(sorted(worst, key=lambda node: (-worst[node], node)),
                                          lambda node: blamed(comparison, report, node))
    if local:
        report.first_divergence = min((node for node in worst if worst[node] >= SUSPICIOUS_DB), default=None)
    return report


def _add_calls(comparison: Compared, report: Report) -> None:
    """Add the Reports of called subgraphs, or notes why there are none, and judge the nodes that call by them."""
    for call in comparison.calls:
        inner = call.comparison
        if inner is not None and inner.samples:
            report.called.append(Called(call.node.index, call.node.name, call.part, call.subgraphs[0], inner.samples,
                                        analyse(inner)))
        elif call.reason or inner is not None:
            report.notes.append(f"the {call.part} of node {call.node.index} ({call.node.name}) was not compared node "
                                f"by node: {call.reason or 'the reference never ran it'}")
    wrong = {call.node.index for call in comparison.calls if not call.same_grids}       # by a fault of their own
    for t in report.tensors:
        parts = [called for called in report.called if called.node == t.node]
        if parts and t.excess_db is not None and t.node not in wrong:
            _judge_by(t, parts)


def _judge_by(t: TensorReport, parts: list[Called]) -> None:
    """Name the node of a called subgraph that explains the noise of a node that calls, if one does.

    If none does, there is no cause: the noise of a loop's iterations adds up, however good each node is.
    """
    diverging = next((called for called in parts if called.report.first_divergence is not None), None)
    if diverging is None:
        t.excess_db = min(t.excess_db or 0.0, NOTABLE_DB)
        t.cause = t.detail = t.remedy = None
        return
    worst = diverging.report.by_node(diverging.report.ranking[0])
    t.cause, t.remedy = CALLED, worst.remedy
    t.detail = (f"node {worst.node} ({worst.op}) of its {diverging.part}"
                + (f": {worst.cause}: {worst.detail}" if worst.cause else ""))


def _judged(comparison: Compared) -> set[int]:
    """The tensors whose SQNR says how good the model is.

    They are the outputs.  Any error may change the order of a detector's boxes, so the tensors that these are chosen
    from take their place.
    """
    boxes = {i: operator.inputs for operator in comparison.subgraph.operators if operator.name == DETECTION
             for i in operator.outputs}
    return {read for index in comparison.subgraph.outputs for read in boxes.get(index, (index,))}


def blamed(comparison: Compared, report: Report, node: int) -> list[int]:
    """The nodes to blame for a node's noise: it reads their results, whose ranges are wrong.

    If the scale of a tensor changes, the node that reads it has an error, too: its bias is in the old scale, or it
    copies numbers to a tensor that has the old one.  Nodes with other faults are to blame for themselves: [].
    """
    if report.by_node(node).cause not in causes.STALE:
        return []
    measured = set(comparison.measured)
    results = tuple(i for i in comparison.subgraph.operators[node].outputs if i in measured)
    producer = {i: o.index for o in comparison.subgraph.operators for i in o.outputs}
    read = {producer[i] for i in closure(comparison.subgraph, results, measured - set(results))[1]}
    return [other for other in sorted(read) for t in [report.by_node(other)]
            if t.cause in causes.RANGES and t.excess_db is not None and t.excess_db >= SUSPICIOUS_DB]


def _tensor(comparison: Compared, operator: Operator, index: int) -> TensorReport:
    grid, counterpart = comparison.grids[index], comparison.matching.matches[index]
    others = _counterparts(comparison, index)
    cumulative = Errors.of(comparison.cumulative[index])
    constants = weights.compare(comparison.model, operator, comparison.reference, others)
    power = _data_power(comparison, operator)
    report = TensorReport(
        operator.index, operator.name, index, comparison.subgraph.tensors[index].name,
        reference_name=comparison.other.tensors[counterpart.reference].name, matched=counterpart.how, dtype=grid.dtype,
        output=index in comparison.subgraph.outputs, sqnr_db=cumulative.sqnr_db,
        cumulative_excess_db=ranking.excess_db(
            operator.name, cumulative, grid, constants, power,
            _inherited(comparison, index, {**comparison.input_sums, **comparison.cumulative})))
    if constants is not None:
        report.weights = {"sqnr_db": constants.sqnr_db.tolist(), "gain": constants.gain.tolist(),
                          "spread": constants.spread, "scales": constants.scales,
                          "scale_spread": constants.scale_spread}
    report.channels = {"sqnr_db": cumulative.channel_sqnr_db()}
    if index in comparison.local and comparison.local[index].samples:
        local = Errors.of(comparison.local[index])
        excess = ranking.excess_db(operator.name, local, grid, constants, power,
                                   _inherited(comparison, index, comparison.given))
        if comparison.origins is not None:
            _fill_origins(report, comparison.origins)
        alike = next((o for o in others if o.name == operator.name), None)
        different = differences.find(
            comparison.model, operator, comparison.reference, alike, comparison.matching.matches,
            report.from_weights is None or report.from_weights >= WEIGHTY)
        _fill_local(report, local, grid, excess, causes.find(
            operator.name, local, grid, constants, excess, _operands(comparison, operator), different))
        if index in comparison.histograms:
            report.histograms = comparison.histograms[index].to_dict()
    return report


def _fill_local(report: TensorReport, local: Errors, grid: Grid, excess: float, cause: Cause | None) -> None:
    """Fill in the measures of a node by itself."""
    report.sqnr_local_db, report.excess_db = local.sqnr_db, excess
    report.saturated_low, report.saturated_high = local.mean(local.low), local.mean(local.high)
    report.channels |= {"sqnr_local_db": local.channel_sqnr_db(), "saturated_low": local.low.tolist(),
                        "saturated_high": local.high.tolist()}
    if grid.step:
        report.rmse_over_scale = float(np.sqrt(local.mean(local.noise))) / grid.step
        report.mean_error_steps = local.mean(local.mean_error) / grid.step
        report.max_error_steps = float(local.max_error.max(initial=0)) / grid.step
        report.range_used = local.range_used(grid)
        report.channels["rmse_over_scale"] = (np.sqrt(local.noise) / grid.step).tolist()
        report.channels["mean_error_steps"] = (local.mean_error / grid.step).tolist()
        report.channels["max_error_steps"] = (local.max_error.astype(np.float64) / grid.step).tolist()
        report.channels["range_used"] = local.channel_range_used(grid)
    if cause is not None:
        report.cause, report.detail, report.remedy = cause.name, cause.detail, cause.remedy


def _fill_origins(report: TensorReport, origins: OriginSums) -> None:
    """Fill in where a node's error comes from."""
    noises = []
    for name, group in (("sqnr_weights_db", origins.constants), ("sqnr_activations_db", origins.activations)):
        sums = group.get(report.tensor)
        if sums is not None and sums.samples:
            errors = Errors.of(sums)
            setattr(report, name, errors.sqnr_db)
            noises.append(errors.mean(errors.noise))
    if len(noises) == 2 and sum(noises) > 0:
        report.from_weights = noises[0] / sum(noises)


def _inherited(comparison: Compared, index: int, known: Mapping[int, ErrorSums]) -> float:
    """The largest noise over its signal, both mean squares, of the tensors that the node of `index` reads.

    known: the sums of these.
    """
    if not known:
        return 0.0
    _, read = closure(comparison.subgraph, (index,), set(known) - {index})
    errors = [Errors.of(known[i]) for i in read]
    return max((e.mean(e.noise) / max(e.mean(e.signal), TINY) for e in errors), default=0.0)


def _counterparts(comparison: Compared, index: int) -> list[Operator]:
    """The reference's nodes that compute what the node of `index` does."""
    matches = comparison.matching.matches
    counterpart = matches[index].reference
    cuts = {matches[i].reference for i in (*comparison.measured, *comparison.subgraph.inputs) if i in matches}
    return closure(comparison.other, (counterpart,), cuts - {counterpart})[0]


def _operands(comparison: Compared, operator: Operator) -> dict[str, float]:
    """{name: largest magnitude} of the activations that a node joins under one scale; only a CONCATENATION does."""
    magnitudes: dict[str, float] = {}
    for index in operator.inputs if operator.name == "CONCATENATION" else ():
        sums = comparison.cumulative.get(index) or comparison.input_sums.get(index)
        if sums is not None:
            low, high = Errors.of(sums).needed()
            magnitudes[comparison.subgraph.tensors[index].name] = max(-low, high)
    return magnitudes


def _data_power(comparison: Compared, operator: Operator) -> float:
    """The mean square of the activations that a node's weights meet."""
    op = weights.WEIGHT_OPS.get(operator.name)
    if op is None:
        return 0.0
    index = operator.inputs[op.data]
    sums: Any = comparison.cumulative.get(index) or comparison.input_sums.get(index)
    if sums is None:
        return 0.0
    errors = Errors.of(sums)
    return errors.mean(errors.signal)


def _unmatched(comparison: Compared) -> list[dict[str, Any]]:
    """Results that were not compared, of both models, and why."""
    measured = set(comparison.measured)
    unmatched = []
    constant = set(folded(comparison.subgraph))
    for operator in comparison.subgraph.operators:
        for index in operator.outputs:
            if index not in measured and index not in constant:
                tensor = comparison.subgraph.tensors[index]
                reason = comparison.unmeasured.get(index)
                if reason is None and index in comparison.matching.unmatched:
                    reason = "the reference has no counterpart"
                if reason is not None:
                    unmatched.append({"side": "model", "node": operator.index, "op": operator.name, "tensor": index,
                                      "name": tensor.name, "reason": reason})
    producer = {i: o for o in comparison.other.operators for i in o.outputs}
    unmatched += [{"side": "reference", "node": producer[i].index, "op": producer[i].name, "tensor": i,
                   "name": comparison.other.tensors[i].name, "reason": "the model has no counterpart"}
                  for i in comparison.matching.unmatched_reference if i not in folded(comparison.other)]
    return unmatched
