"""Finds the node that makes the first NaN or infinity, and the sample.

    from pylite import Model
    from pylite.validation.nonfinite import search
    for found in search(Model("model.tflite"), samples):
        print(found.line())
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pylite.validation.agreement import ExposedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator
    from pylite.runtime.model import Model
    from pylite.validation.comparison import Comparison

TESTS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {"NaN": np.isnan, "infinity": np.isinf}


@dataclass
class NonFinite:
    """A node whose result is the first with this kind of number.

    kind: "NaN" or "infinity"; sample: the first one with it, from 0 on; node, op, tensor, name: the first node in it,
    and its result; count, size: how many of the result's elements; samples: how many samples have the kind in any
    tensor; constants: names of those of the node that hold such numbers themselves.
    """
    kind: str
    sample: int
    node: int
    op: str
    tensor: int
    name: str
    count: int
    size: int
    samples: int
    constants: list[str] = field(default_factory=list)

    def line(self, where: str = "") -> str:
        """This finding in one line; where: a name for the sample, by default its number."""
        constant = f"; its constant {self.constants[0]!r} holds such numbers" if self.constants else ""
        more = f" and {self.samples - 1} more" if self.samples > 1 else ""
        return (f"{self.kind} in {where or f'sample {self.sample}'}{more}: node {self.node} ({self.op}, {self.name!r}) "
                f"is the first, with {self.count} of {self.size} values{constant}")


def search(model: Model, samples: Iterable[Sequence[NDArray[Any]]], threads: int = 1,
           progress: Callable[[int], object] | None = None) -> list[NonFinite]:
    """The first NonFinite of each kind that a model's main subgraph makes, in the order of samples and then of nodes.

    samples: arrays for the inputs, as `pylite.validation.data.Samples` gives them; progress: called with the number of
    samples done.
    """
    exposed = ExposedModel(model, threads)
    by_kind: dict[str, NonFinite] = {}
    for number, inputs in enumerate(samples):
        _, results = exposed.run(inputs)
        bad = {i: array for i, array in results.items() if array.dtype.kind in "fc" and not np.isfinite(array).all()}
        for kind, test in TESTS.items():
            index = next((i for i, array in bad.items() if test(array).any()), None)
            if index is None:
                continue
            if kind not in by_kind:
                operator, array = exposed.producer[index], bad[index]
                by_kind[kind] = NonFinite(kind, number, operator.index, operator.name, index,
                                          exposed.subgraph.tensors[index].name, count=int(test(array).sum()),
                                          size=array.size, samples=0, constants=list(_constants(model, operator)))
            by_kind[kind].samples += 1
        if progress is not None:
            progress(number + 1)
    return sorted(by_kind.values(), key=lambda f: (f.sample, f.node, f.kind))


def _constants(model: Model, operator: Operator) -> Iterator[str]:
    """Names of the constants of a node that are not finite."""
    for index in operator.inputs:
        tensor = model.graph.subgraphs[0].tensors[index] if index >= 0 else None
        values = None if tensor is None or tensor.data is None else model.weights.constant(tensor)
        if tensor is not None and values is not None and values.dtype.kind in "fc" and not np.isfinite(values).all():
            yield tensor.name


def notes(comparison: Comparison, samples: Callable[[], Iterable[Sequence[NDArray[Any]]]],
          where: Callable[[int], str]) -> Iterator[str]:
    """Lines for numbers in a comparison that are not finite, if there are any.

    samples(): the comparison's samples once more; where(i): the name of sample i.
    """
    if not comparison.finite:
        for what, model in (("the model", comparison.model), ("the reference", comparison.reference)):
            for case in search(model, samples()):
                yield f"{what} makes {case.line(where(case.sample))}"
