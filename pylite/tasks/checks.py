"""Checks of the numbers that tasks get as arguments."""
from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING

from pylite.media.audio import HIGHEST_RATE

if TYPE_CHECKING:
    from typing import Any

def number(name: str, value: Any, expected: str = "a finite number", least: float = -math.inf,
           most: float = math.inf) -> None:
    """TypeError unless `value` is a real number; ValueError unless it is finite and from `least` to `most`."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is {value!r}; expected {expected}")
    if not (math.isfinite(value) and least <= float(value) <= most):
        raise ValueError(f"{name} is {value}; expected {expected}")


def fraction(name: str, value: Any) -> None:
    """number() for a number from 0 to 1."""
    number(name, value, "a number from 0 to 1", 0, 1)


def threshold(value: Any, probabilities: bool = True) -> None:
    """number() for a `score_threshold`, or None; with `probabilities`, from 0 to 1."""
    if value is not None and probabilities:
        fraction("score_threshold", value)
    elif value is not None:
        number("score_threshold", value)


def most_results(value: Any) -> None:
    """TypeError unless `max_results` is a whole number or None, ValueError below 1."""
    if value is not None and not isinstance(value, numbers.Integral):
        raise TypeError(f"max_results is {value!r}; it must be a whole number, or None for all")
    if value is not None and value < 1:
        raise ValueError(f"max_results is {value}; it must be at least 1, or None for all")


def rate(value: Any) -> None:
    """number() for a `sample_rate`, in Hz."""
    number("sample_rate", value, "samples per second, 1 to 1e9", 1, HIGHEST_RATE)
