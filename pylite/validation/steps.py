"""What the steps of a repair propose and reach."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pylite.runtime.model import Model
    from pylite.validation.accuracy_report import Metric
    from pylite.validation.requantizing import Numbers


@dataclass
class Step:
    """One step of a repair, and its result.

    changed: number of nodes or ranges; gained_db, fitted_db: gain in SQNR on the held-out and on the fitted samples
    kept: is it in the repaired file?  detail: the methods that it used; metric: the accuracy with it on the held-out
    samples, None if it was not measured
    """
    name: str
    changed: int
    gained_db: float
    fitted_db: float
    kept: bool
    detail: str = ""
    metric: Metric | None = None


@dataclass(frozen=True)
class Proposal:
    """A change that a step proposes: the Numbers with it, how many nodes or ranges it changes, and by which methods.

    reference: the float model with which the Numbers belong, if they scale channels; it computes what the reference
    does.  None for the reference itself.
    """
    numbers: Numbers
    changed: int
    detail: str = ""
    reference: Model | None = None


class State(NamedTuple):
    """A Repairer's state between two steps, to which it can return.

    value, held_value: the SQNR in dB on the fitted and on the held-out samples; metric: the accuracy on the latter
    """
    numbers: Numbers
    steps: list[Step]
    value: float
    held_value: float
    metric: Metric | None
    reference: Model
