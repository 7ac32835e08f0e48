"""User-defined metrics: functions of the outputs of all samples, and of their labels."""
from __future__ import annotations

import importlib
import inspect
import math
import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError, shortened
from pylite.validation.accuracy_report import OWN, Metric
from pylite.validation.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.validation.accuracy_report import Accuracy
    from pylite.validation.tally import Tally

    Array = NDArray[Any]
    Function = Callable[..., Any]

BETTER = "higher", "lower"
RESAMPLES = 200     # draws for an interval, unless the function has an attribute `resamples`
FEWEST = 20         # least number of samples for an interval
CALL = "metric(outputs, labels) or metric(outputs, labels, reference)"


def load(name: str) -> Function:
    """The function MODULE:FUNCTION, of a module in the working folder or of an installed one."""
    module, _, path = name.partition(":")
    if not (module and path):
        raise ComparisonError(f"metric {name!r}: names no function; write it as module:function")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        target: Any = importlib.import_module(module)
    except Exception as error:      # a module may raise anything
        raise ComparisonError(f"metric {name!r}: module {module!r} cannot be imported: {type(error).__name__}: "
                              f"{error}; install it, or run from the folder that has {module.partition('.')[0]}.py"
                              ) from error
    finally:
        sys.path.remove(here)
    for part in path.split("."):
        target = getattr(target, part, None)
    if target is None:
        functions = [key for key, value in vars(sys.modules[module]).items()
                     if inspect.isfunction(value) and value.__module__ == module]
        known = f"its functions are {', '.join(functions)}" if functions else "it has no functions"
        raise ComparisonError(f"metric {name!r}: module {module!r} has no {path!r}; {known}")
    return _checked(target, name)


def resolved(metric: str | Function) -> Function:
    """The function of a name, or the given one.  ComparisonError if it cannot be called as a metric."""
    return load(metric) if isinstance(metric, str) else _checked(metric, named(metric))


def named(metric: str | Function) -> str:
    """MODULE:FUNCTION of a function."""
    if isinstance(metric, str):
        return metric
    name = getattr(metric, "__qualname__", type(metric).__qualname__)
    return f"{getattr(metric, '__module__', type(metric).__module__)}:{name}"


def check_importable(metric: str | Function) -> None:
    """Raise ComparisonError if another process would not find the function by its name."""
    try:
        imported = load(named(metric))
    except ComparisonError:
        imported = None
    if imported is None or not (isinstance(metric, str) or imported is metric):
        raise ComparisonError(f"metric {named(metric)!r}: several workers, and files of sums, need a function of a "
                              f"module, which other processes can import; define it there, or use one worker")


def _checked(function: Any, name: str) -> Function:
    better = getattr(function, "better", BETTER[0])
    if better not in BETTER:
        raise ComparisonError(f"metric {name!r}: its attribute `better` is {better!r}; it must be 'higher' or 'lower'")
    resamples = getattr(function, "resamples", RESAMPLES)
    if type(resamples) is not int or resamples < 0:
        raise ComparisonError(f"metric {name!r}: its attribute `resamples` is {shortened(repr(resamples))}; it must be "
                              "a whole number, 0 for no interval")
    if not callable(function):
        raise ComparisonError(f"metric {name!r}: is {shortened(repr(function))}, which cannot be called; it must be a "
                              f"function, {CALL}")
    try:
        signature = inspect.signature(function)
    except ValueError:      # of a function in C that does not tell
        return function
    try:
        signature.bind(None, None, **({"reference": None} if wants_reference(function) else {}))
    except TypeError:
        raise ComparisonError(f"metric {name!r}: its parameters are {signature}; it is called as {CALL}") from None
    return function


def wants_reference(function: Function) -> bool:
    """Does the function take the reference's outputs?"""
    try:
        return "reference" in inspect.signature(function).parameters
    except ValueError:
        return False


class Own(Task):
    """The task of a metric of the user's own.

    results: the outputs, dequantized; label: an array or None; facts: also {"metric": its name, MODULE:FUNCTION};
    function: the metric, by default imported by that name
    """
    name = OWN

    def __init__(self, facts: dict[str, Any], function: Function | None = None) -> None:
        super().__init__(facts)
        self._function = load(facts["metric"]) if function is None else _checked(function, facts["metric"])
        self.main = facts["metric"].partition(":")[2]
        if wants_reference(self._function) and not facts["paired"]:
            raise ComparisonError(f"metric {facts['metric']!r}: has a parameter `reference`, and there is no "
                                  "reference; give one (--reference)")

    def add(self, tally: Tally, number: int, path: str | None, label: Any, results: Sequence[Any]) -> None:
        for side, outputs in zip(self.sides, results, strict=True):
            for place, array in enumerate(outputs):
                single = array[0] if array.shape[:1] == (1,) else array
                tally.keep(f"{side}.{place}", number, single.astype(np.bytes_) if single.dtype == object else single)
        if label is not None:
            tally.keep("label", number, np.asarray(label))

    def finish(self, tally: Tally, samples: int) -> Accuracy:
        outputs: dict[str, list[Any]] = {}
        for side in self.sides:
            count = sum(key.startswith(f"{side}.") for key in tally.arrays)
            outputs[side] = [_together(tally.kept(f"{side}.{place}")) for place in range(count)]
        labels = _together(tally.kept("label")) if self.facts["labelled"] else None
        values = self.each(lambda side: self._value(side, outputs, labels))
        better = getattr(self._function, "better", BETTER[0])
        intervals = self._intervals(outputs, labels)
        method = "bootstrap" if any(ends is not None for ends in intervals) else None
        accuracy = self.accuracy(tally, samples,
                                 {self.main: Metric.of(list(values.values()), intervals, method, better=better)})
        accuracy.mcnemar = None        # that test needs samples that are right or wrong
        return accuracy

    def _intervals(self, outputs: dict[str, list[Any]], labels: Any) -> list[tuple[float, float] | None]:
        """The 95 % interval of each side, by the bootstrap: percentiles of the metric on resampled samples.

        Both sides get the same draws, in every run.  None with fewer than FEWEST samples, or if the function fails on a
        draw, for example because a class is missing.
        """
        count = len(outputs["model"][0]) if outputs["model"] else 0
        resamples = getattr(self._function, "resamples", RESAMPLES)
        draws: dict[str, list[float]] = {side: [] for side in self.sides}
        if resamples and count >= FEWEST:
            rng = np.random.default_rng(0)
            try:
                for _ in range(resamples):
                    rows = rng.integers(count, size=count)
                    drawn = {side: [_rows(array, rows) for array in arrays] for side, arrays in outputs.items()}
                    for side in self.sides:
                        draws[side].append(self._value(side, drawn, _rows(labels, rows)))
            except ComparisonError:
                draws = {}
        return list(self.each(lambda side: _percentiles(draws.get(side))).values())

    def _value(self, side: str, outputs: dict[str, list[Any]], labels: Any) -> float:
        """The metric of one side's outputs.  ComparisonError if the function fails or returns no finite number."""
        name = self.facts["metric"]
        more = {"reference": outputs["reference"]} if wants_reference(self._function) else {}
        try:
            value = self._function(outputs[side], labels, **more)
        except Exception as error:      # the function may raise anything
            without = "" if self.facts["labelled"] else "; the data have no labels, so `labels` is None"
            raise ComparisonError(f"metric {name!r}: failed on the {side}'s outputs: {type(error).__name__}: {error}"
                                  f"{without}; outputs have the shapes {_shapes(outputs[side])}") from error
        if np.ndim(value) or np.asarray(value).dtype.kind not in "iuf":
            what = f"an array of shape {list(value.shape)}" if isinstance(value, np.ndarray) else (
                f"{shortened(repr(value))}, of type {type(value).__name__}")
            raise ComparisonError(f"metric {name!r}: returned {what}; it must return one number, as numpy.mean does")
        if not math.isfinite(value):
            raise ComparisonError(f"metric {name!r}: returned {float(value)} for the {side}'s outputs; it must return "
                                  "a finite number: leave out samples that it is not defined for (--nan finds outputs "
                                  "that are not finite)")
        return float(value)


def _together(arrays: Sequence[Array]) -> Any:
    """The arrays of all samples, stacked along a first axis; a list if their shapes differ."""
    same = len({array.shape for array in arrays}) == 1
    return np.stack(arrays) if same else list(arrays)


def _rows(arrays: Any, rows: Array) -> Any:
    """The samples `rows` of an array, or of a list of arrays; None stays."""
    if arrays is None or isinstance(arrays, np.ndarray):
        return arrays if arrays is None else arrays[rows]
    return [arrays[row] for row in rows]


def _percentiles(values: list[float] | None) -> tuple[float, float] | None:
    if not values:
        return None
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)


def _shapes(outputs: Sequence[Any]) -> str:
    return ", ".join(str(list(array.shape)) if isinstance(array, np.ndarray) else f"{len(array)} different ones"
                     for array in outputs)
