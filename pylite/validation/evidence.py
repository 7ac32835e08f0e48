"""How to measure accuracy, and the facts that determine the task: settings, data, the model's output and labels."""
from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from pylite.media import labels
from pylite.validation import metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from pylite.runtime.model import Model
    from pylite.validation.data import Samples
    from pylite.validation.predicting import Predictor

FOLDERS = "sorted"      # instead of a file of labels: the labels that occur, in alphabetical order


@dataclass(frozen=True)
class Settings:
    """How to measure accuracy; None: as the model and the data suggest.

    task: one of TASKS; labels: a file with the classes' names, or FOLDERS; offset: added to labels that are
    numbers; output: the name of the output to score; metric: a function of the user's own or its name, MODULE:FUNCTION,
    in place of the task's metrics
    """
    task: str | None = None
    labels: str | None = None
    offset: int | None = None
    output: str | None = None
    metric: str | Callable[..., Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(replace(self, metric=None if self.metric is None else metric.named(self.metric)))


@dataclass(frozen=True)
class Evidence:
    """The facts that determine the task, and the meaning of labels and outputs.

    predictor: the model's; shape: of its first output for the first sample; label: of the first sample, None without
    labels; names: {class: name}
    """
    samples: Samples
    settings: Settings
    predictor: Predictor
    shape: tuple[int, ...]
    label: Any
    names: dict[int, str]

    @property
    def size(self) -> int:
        """Number of elements of the first output."""
        return math.prod(self.shape)

    @classmethod
    def of(cls, predictor: Predictor, samples: Samples, settings: Settings, models: Sequence[Model]) -> Evidence:
        """models: to take names of classes from."""
        shape = predictor.run(samples[0])[0].shape
        label = samples.source.label(0)
        return cls(samples, settings, predictor, shape, label, _names(settings.labels, models, predictor, shape))


def _names(given: str | None, models: Sequence[Model], predictor: Predictor, shape: tuple[int, ...]) -> dict[int, str]:
    """{class: name} of the caller, or else of one of the models."""
    if given == FOLDERS:
        return {}
    if given is not None:
        return labels.read(given)
    for model in models:
        for attached in labels.attached(model):
            if predictor.detects:
                return attached
            names = labels.fitted(attached, max(shape[-1] if len(shape) == 4 else math.prod(shape), 2))
            if names:
                return names
    return {}
