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
    """One step: gained_db, fitted_db: on the held-out samples, and on those that it was chosen on; kept: is it in the
    file?  changed: how many nodes or ranges; detail: by which methods; metric: the accuracy of the held-out samples
    with it, None if it was not measured."""
    name: str
    changed: int
    gained_db: float
    fitted_db: float
    kept: bool
    detail: str = ""
    metric: Metric | None = None


@dataclass(frozen=True)
class Proposal:
    """What a step would change: the numbers with it, how many nodes or ranges, and by which methods.

    reference: a float model that computes the same as the reference, and whose weights and ranges go with the numbers;
    None for the reference.
    """
    numbers: Numbers
    changed: int
    detail: str = ""
    reference: Model | None = None


class State(NamedTuple):
    """What steps have reached."""
    numbers: Numbers
    steps: list[Step]
    value: float
    held_value: float
    metric: Metric | None
    reference: Model
