"""Finds the task: the settings name it, or outputs and labels determine it."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ComparisonError
from pylite.validation.accuracy_report import OWN, TASKS
from pylite.validation.labelling import is_integer, is_numeric
from pylite.validation.sources import File, Objects

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pylite.validation.evidence import Evidence


def task_of(evidence: Evidence, function: Callable[..., Any] | None, compared: bool = False) -> str:
    """The task that the settings name, or that outputs and labels suggest.

    function: a metric of the user's own; compared: is there a reference model?
    """
    given = evidence.settings.task
    if function is not None and given is not None:
        raise ComparisonError("a metric and a task exclude each other: a metric of your own takes all outputs")
    name = given or (OWN if function else _suggested(evidence, compared))
    if name not in TASKS and function is None:
        raise ComparisonError(f"no task is called {name!r}; the tasks are {', '.join(TASKS)}")
    return name


def check_labelled(evidence: Evidence, task: str, compared: bool) -> None:
    """Raise ComparisonError for samples without labels that the task needs.  compared: is there a reference model?"""
    if evidence.label is None and (task in ("detection", "segmentation") or (not compared and task != OWN)):
        raise _unlabelled(evidence, task, compared)


def _unlabelled(evidence: Evidence, purpose: str, compared: bool) -> ComparisonError:
    return ComparisonError(f"{evidence.samples.path} has no labels for {purpose}; give a folder for each class, a "
                           "column or an array of labels, masks beside the pictures, or COCO's annotations"
                           + ("" if compared else "; without labels, compare with a reference model (--reference)"))


def _suggested(evidence: Evidence, compared: bool) -> str:
    """The task that outputs and labels determine; ComparisonError if they are ambiguous."""
    predictor, label = evidence.predictor, evidence.label
    if len(predictor.outputs) == 4 and isinstance(label, Objects):
        return "detection"
    fitting = [name for name, fits in _fits(evidence).items() if fits and len(predictor.outputs) == 1]
    if fitting:
        return fitting[0]
    if label is None and not compared:
        raise _unlabelled(evidence, "an accuracy", compared)
    kind = "no label" if label is None else "COCO's objects" if isinstance(label, Objects) else (
        f"a label such as {label!r}" if np.size(label) < 4 else f"labels of {np.size(label)} numbers")
    names = ", ".join(repr(predictor.subgraph.tensors[i].name) for i in predictor.outputs)
    which = " and --output, the one that counts" if len(predictor.outputs) > 1 else ""
    raise ComparisonError(f"{evidence.samples.source.where(0)}: {kind}, and output {names} of shape "
                          f"{list(evidence.shape)}, leave the task open; give --task ({', '.join(TASKS)}){which}")


def _fits(evidence: Evidence) -> dict[str, bool]:
    """{task: do the label and the only output fit it?}"""
    label, size = evidence.label, evidence.size
    if isinstance(label, Objects):
        return {}
    vector = size > 1 and size == max(evidence.shape, default=1)
    bare = label is None and bool(evidence.predictor.likely or evidence.names)
    text = isinstance(label, str) and not is_numeric(label)
    return {"segmentation": isinstance(label, File) or np.ndim(label) >= 2,
            "classification": (text and size == 1) or (vector and (text or bare or is_integer(label))),
            "regression": np.size(label) == size == 1 and is_numeric(label) and not is_integer(label)}
