"""Runs a model and its reference on labelled samples, and counts how often they are right."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.validation import metric
from pylite.validation.accuracy_report import OWN
from pylite.validation.detection import Detection
from pylite.validation.evidence import Evidence
from pylite.validation.inferring import check_labelled, task_of
from pylite.validation.labelling import LABELLINGS
from pylite.validation.predicting import Predictor
from pylite.validation.tally import Tally
from pylite.validation.tasks import Classification, Segmentation, Task, Vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model
    from pylite.validation.accuracy_report import Accuracy
    from pylite.validation.data import Samples
    from pylite.validation.evidence import Settings

    Array = NDArray[Any]

KINDS: dict[str, type[Task]] = {"classification": Classification, "detection": Detection, "segmentation": Segmentation,
                                "regression": Vectors, "embedding": Vectors}


class Scorer:
    """Runs models on samples and counts the results.  Outputs and labels determine the task.

    models: the model, and its reference if there is one; named: other models to take class names from.
    facts: what finish() needs to know, for any task, and from its Labelling.
    """

    def __init__(self, models: Sequence[Model], samples: Samples, settings: Settings, threads: int = 1,
                 named: Sequence[Model] = ()) -> None:
        self._predictors = [Predictor(model, settings.output, threads) for model in models]
        self._source = samples.source
        evidence = Evidence.of(self._predictors[0], samples, settings, [*models, *named])
        function = None if settings.metric is None else metric.resolved(settings.metric)
        name = task_of(evidence, function, len(models) > 1)
        self._labelling = labelling = LABELLINGS[name](evidence)
        check_labelled(evidence, name, len(models) > 1)
        names = labelling.names
        self.facts: dict[str, Any] = {
            "task": name, "paired": len(models) > 1, "labelled": labelling.labelled, "classes": 0,
            "notes": labelling.notes, **labelling.facts,
            "labels": [names.get(i, "") for i in range(max(names, default=-1) + 1)]}
        self._task = _task(self.facts, function)

    def add(self, tally: Tally, number: int, inputs: Sequence[Array]) -> None:
        """Run the models on a sample and count it."""
        outputs = [predictor.run(inputs) for predictor in self._predictors]
        label = self._labelling.label(number, outputs[0])
        results = [self._labelling.result(arrays, predictor.likely)
                   for arrays, predictor in zip(outputs, self._predictors, strict=True)]
        self._task.add(tally, number, self._source.path(number), label, results)


def finish(facts: dict[str, Any], tally: Tally, samples: int, function: Callable[..., Any] | None = None) -> Accuracy:
    """The Accuracy from the counts of a Scorer with these facts, here or elsewhere; function: a metric of the user's
    own that cannot be found by its name."""
    return _task(facts, function).finish(tally, samples)


def _task(facts: dict[str, Any], function: Callable[..., Any] | None) -> Task:
    return metric.Own(facts, function) if facts["task"] == OWN else KINDS[facts["task"]](facts)


def scored(model: Model, samples: Samples, numbers: Sequence[int], settings: Settings, threads: int,
           reference: Model) -> Accuracy:
    """The Accuracy of a model on some of the samples; reference: names the classes, too, and a metric of the user's own
    may ask for its outputs."""
    function = None if settings.metric is None else metric.resolved(settings.metric)
    paired = [reference] if function is not None and metric.wants_reference(function) else []
    scorer, tally = Scorer([model, *paired], samples, settings, threads, [reference]), Tally()
    for number in numbers:
        scorer.add(tally, number, samples[number])
    return finish({**settings.to_dict(), **scorer.facts}, tally, len(numbers), function)
