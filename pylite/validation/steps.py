"""The proposals and results of the steps of a repair."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pylite.runtime.model import Model
    from pylite.validation.accuracy_report import Metric
    from pylite.validation.requantizing import Changes

MIN_GAIN_DB = 0.01      # a change that gains less on the fitted samples is not adopted
EQUALIZED = "channels equalized"        # the name of the step that scales channels


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
    """The proposal of a step: the Changes to keep from here on.

    changed, detail: as of a Step; reference: the float model that belongs to the Changes, if they scale channels: it
    computes what the reference does.  None for the reference itself.
    """
    changes: Changes
    changed: int
    detail: str = ""
    reference: Model | None = None


class State(NamedTuple):
    """A Repairer's state between two steps, to which it can return: its attributes of the same names."""
    changes: Changes
    steps: list[Step]
    fit_db: float
    held_db: float
    metric: Metric | None
    reference: Model
