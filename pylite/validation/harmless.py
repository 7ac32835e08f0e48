"""Saturation that changes no result, for example of logits whose softmax is 0 or 1 at the end of their range."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.media.outputs import PASS_THROUGH
from pylite.validation.causes import NOTABLE_DB
from pylite.validation.measures import Errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pylite.validation.accuracy_report import Accuracy
    from pylite.validation.compared import Compared
    from pylite.validation.report import TensorReport

CAUSES = "range too narrow", "zero point"       # causes that saturated values may have
UNCHANGED_DB = 40.0     # SQNR from which on, an error of 1 %, a result counts as unchanged


def excuse(comparison: Compared, tensors: list[TensorReport], accuracy: Accuracy | None) -> Iterator[str]:
    """Take away the causes of tensors whose saturation changes no result, and say so in a line for each.

    accuracy: of a classifier, whose logits may saturate if no sample changes its class; None if unknown.
    """
    for t in tensors:
        if t.cause not in CAUSES or t.excess_db is None:
            continue
        by_classes, read = _readers(comparison, t.tensor)
        if not (by_classes or read) or (by_classes and not _same_classes(accuracy)) or not all(
                map(_unchanged, map(comparison.cumulative.get, read))):
            continue
        t.excess_db = min(t.excess_db, NOTABLE_DB)
        t.cumulative_excess_db = min(t.cumulative_excess_db, NOTABLE_DB)
        t.cause = t.detail = t.remedy = None
        result = "the class of no sample changes" if by_classes else "no result after it changes by more than 1 %"
        yield f"node {t.node} ({t.op}): {_share(t):.2%} of the values saturate, which does no harm: {result}"


def _share(t: TensorReport) -> float:
    return (t.saturated_low or 0.0) + (t.saturated_high or 0.0)


def _same_classes(accuracy: Accuracy | None) -> bool:
    return (accuracy is not None and accuracy.task == "classification" and accuracy.drop is not None
            and not accuracy.flipped)


def _unchanged(sums: object) -> bool:
    return sums is not None and Errors.of(sums).sqnr_db >= UNCHANGED_DB     # type: ignore[arg-type]


def _readers(comparison: Compared, tensor: int) -> tuple[bool, list[int]]:
    """(Is it an output?, results of the nodes that read it), also through ops that keep the meaning of numbers."""
    output, read = tensor in comparison.subgraph.outputs, list[int]()
    for operator in comparison.subgraph.operators:
        if tensor in operator.inputs:
            if operator.name in PASS_THROUGH:
                reaches_output, readers = _readers(comparison, operator.outputs[0])
                output, read = output or reaches_output, read + readers
            else:
                read += operator.outputs
    return output, read
