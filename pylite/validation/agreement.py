"""Compares a model's results with a recording from another machine, or with another runtime.

A recording is an .npz file: a header in JSON, 64-bit digests of the inputs and of every result, sample by sample, and
the values of the results if requested.
"""
from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pylite._core.simd import Pool
from pylite.display import text_table
from pylite.errors import ComparisonError, counted
from pylite.ir.graph import replace
from pylite.runtime.executor import Executor
from pylite.validation.feeding import feed
from pylite.validation.files import replacing
from pylite.validation.printed import Printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.display.text_table import Table
    from pylite.runtime.model import Model

    Array = NDArray[Any]
    # From a sample's number and the contents of the model's inputs to the results elsewhere, {tensor: contents}.
    Elsewhere = Callable[[int, Sequence[Array]], Mapping[int, Array]]

VERSION = 1
FORMAT = "pylite recording"
CLOSE = 1e-5        # difference of real numbers that other kernels may make, of the tensor's largest magnitude
COMPARABLE = ("float32", "float16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
              "bool")


@dataclass
class Difference:
    """A tensor that differs: in `samples` samples, the first of them `first_sample`.

    elements: how many differ; largest: difference, in steps for integers; histogram: {difference in steps: elements},
    for integers; larger differences than 16 count as 16.  With digests alone these are None.
    """
    node: int
    op: str
    tensor: int
    name: str
    first_sample: int
    samples: int = 0
    elements: int | None = None
    largest: float | None = None
    histogram: dict[int, int] | None = None

    def __str__(self) -> str:
        """How many samples or elements differ, and by how much as far as that is known."""
        if self.elements is None:
            return counted(self.samples, "sample")
        steps = ", ".join(f"{steps:+d}: {count}" for steps, count in sorted((self.histogram or {}).items()))
        return f"{counted(self.elements, 'element')}, by up to {self.amount}{f' ({steps})' if steps else ''}"

    @property
    def amount(self) -> str:
        """The largest difference, as text."""
        return f"{self.largest:g}{' step' + 's' * (self.largest != 1) if self.histogram else ''}"


@dataclass(repr=False)
class Agreement(Printed):
    """How a model's results compare with those elsewhere; differences in the order of the nodes."""
    model: str
    other: str
    samples: int
    tensors: int
    differences: list[Difference] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Are all results the same?"""
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        """The agreement for JSON; "first_difference" is the first node that differs, or None."""
        first = self.differences[0].node if self.differences else None
        return {"version": VERSION, "equal": self.equal, "first_difference": first, **asdict(self)}

    def to_json(self) -> str:
        """to_dict() as JSON text."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def lines(self, top: int = 10, table: Table = text_table.table) -> list[str]:
        """One line that says whether all is equal; if not, which node is the first that differs, and `top` in all.

        table: makes the lines of tables.
        """
        if self.equal:
            return [f"equal: {os.path.basename(self.model)} and {self.other} agree: "
                    f"{counted(self.samples, 'sample')}, {counted(self.tensors, 'tensor')}"]
        first = self.differences[0]
        return [f"differs: node {first.node} ({first.op}, {first.name!r}) is the first of {len(self.differences)} "
                f"that differ from {self.other}, in {first.samples} of {counted(self.samples, 'sample')}",
                *table(("node", "op", "difference"), [(d.node, d.op, str(d)) for d in self.differences[:top]],
                       ("node",))]


class ExposedModel:
    """A model that shows every result of its nodes.  results: their tensors, in order."""

    def __init__(self, model: Model, threads: int = 1) -> None:
        self.subgraph = model.graph.subgraphs[0]
        self.producer = {i: o for o in self.subgraph.operators for i in o.outputs}
        self.results = [i for i in self.producer if self.subgraph.tensors[i].dtype in COMPARABLE]
        outputs = tuple(dict.fromkeys((*self.subgraph.outputs, *self.results)))
        self._executor = Executor(model, replace(self.subgraph, outputs=outputs), Pool(threads))

    def run(self, inputs: Sequence[Array]) -> tuple[list[Array], dict[int, Array]]:
        """(the inputs as the model got them, {tensor: contents}), valid until the next run."""
        executor = self._executor
        feed(executor, inputs)
        given = [executor.array(index).copy() for index in self.subgraph.inputs]
        executor.invoke()
        return given, {i: executor.array(i) for i in self.results}


def record(model: Model, samples: Iterable[Sequence[Array]], path: str | os.PathLike[str], values: bool = False,
           threads: int = 1) -> int:
    """Write a recording of every result on the samples; returns the number of samples.

    values: record the contents of the results, not only their digests.
    """
    exposed = ExposedModel(model, threads)
    inputs, digests = [], []
    contents: dict[str, list[Array]] = {f"tensor_{i}": [] for i in exposed.results} if values else {}
    for sample in samples:
        given, results = exposed.run(sample)
        inputs.append([digest(array) for array in given])
        digests.append([digest(results[i]) for i in exposed.results])
        for i in exposed.results if values else ():
            contents[f"tensor_{i}"].append(results[i].copy())
    if not inputs:
        raise ComparisonError("there are no samples to record")
    header = {"format": FORMAT, "version": VERSION, "model": digest(np.frombuffer(model.graph.contents, np.uint8)),
              "tensors": exposed.results}
    changing = [name for name, arrays in contents.items() if len({array.shape for array in arrays}) > 1]
    if changing:
        raise ComparisonError(f"{changing[0].replace('_', ' ')} has a shape that depends on the sample; record "
                              f"digests only, without values")
    stacked = {name: np.stack(arrays) for name, arrays in contents.items()}
    with replacing(path) as file:
        np.savez_compressed(file, header=np.array(json.dumps(header)), inputs=np.array(inputs, np.uint64),
                            digests=np.array(digests, np.uint64), **stacked)  # type: ignore[arg-type]
    return len(inputs)


def digest(array: Array) -> int:
    """64 bits of the BLAKE2 hash of an array's contents."""
    return int.from_bytes(hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).digest(), "little")


class Recording:
    """A file that `record` wrote.  ComparisonError if it is not a recording, or belongs to another model."""

    def __init__(self, path: str | os.PathLike[str], model: Model) -> None:
        self.path = path
        try:
            with np.load(path, allow_pickle=False) as archive:
                self._arrays = {name: archive[name] for name in archive.files}
            header = json.loads(str(self._arrays["header"]))
            if header["format"] != FORMAT or header["version"] != VERSION:
                raise KeyError("format")
            recorded = header["model"]
            self.tensors: list[int] = [int(i) for i in header["tensors"]]
            self.samples = len(self._arrays["digests"])
            if (self._arrays["digests"].shape[1:] != (len(self.tensors),) or self._arrays["inputs"].ndim != 2
                    or len(self._arrays["inputs"]) != self.samples):
                raise ValueError("shapes")
        except Exception as error:      # of damaged files numpy raises many kinds
            if isinstance(error, OSError) and error.filename is not None:
                raise
            raise ComparisonError(f"{path}: is not a recording of version {VERSION}, as `pylite validate --record` "
                                  "writes it") from None
        if recorded != digest(np.frombuffer(model.graph.contents, np.uint8)):
            raise ComparisonError(f"{path}: belongs to another model, or to another version of it")
        self.has_values = all(f"tensor_{i}" in self._arrays for i in self.tensors)

    def check_inputs(self, number: int, inputs: Sequence[Array]) -> None:
        """Raise ComparisonError if sample `number` is not the recorded one."""
        if number >= self.samples:
            raise ComparisonError(f"{self.path}: has {counted(self.samples, 'sample')}, and the data have more; take "
                                  f"the first ones with --samples {self.samples}")
        if [digest(array) for array in inputs] != self._arrays["inputs"][number].tolist():
            raise ComparisonError(f"{self.path}: sample {number} of the data is not the recorded one; give the same "
                                  "data, --mean and --std")

    def digests(self, number: int) -> dict[int, int]:
        """{tensor index: 64-bit digest of its contents} of a sample."""
        return dict(zip(self.tensors, self._arrays["digests"][number].tolist(), strict=True))

    def values(self, number: int) -> dict[int, Array]:
        """{tensor index: its contents} of a sample; KeyError if they were not recorded."""
        return {i: self._arrays[f"tensor_{i}"][number] for i in self.tensors}


def check(model: Model, samples: Iterable[Sequence[Array]], path: str | os.PathLike[str], name: str = "",
          threads: int = 1) -> Agreement:
    """Compare the model's results on this machine with a recording, bit for bit; name: of the model, for the report.

    Raises ComparisonError if the recording, the model and the data do not belong together.
    """
    exposed, recording = ExposedModel(model, threads), Recording(path, model)
    differences: dict[int, Difference] = {}
    number = -1
    for number, sample in enumerate(samples):
        given, results = exposed.run(sample)
        recording.check_inputs(number, given)
        expected = recording.digests(number)
        for i in exposed.results:
            if digest(results[i]) != expected[i]:
                difference = _noted(differences, exposed, i, number)
                if recording.has_values:
                    _measure(difference, results[i], recording.values(number)[i])
    if number + 1 != recording.samples:
        raise ComparisonError(f"{path}: has {counted(recording.samples, 'sample')}, and the data {number + 1}")
    return _agreement(name, str(path), number + 1, exposed, differences)


def compare_with(model: Model, samples: Iterable[Sequence[Array]], elsewhere: Elsewhere, other: str, name: str = "",
                 threads: int = 1) -> Agreement:
    """Compare the model's results with those of another runtime; integers bit for bit, real numbers closely.

    Real numbers may differ by CLOSE of the tensor's largest magnitude, because other kernels round differently.
    """
    exposed, number = ExposedModel(model, threads), -1
    differences: dict[int, Difference] = {}
    compared: set[int] = set()
    for number, sample in enumerate(samples):
        given, results = exposed.run(sample)
        compared |= compare_results(differences, exposed, number, elsewhere(number, given), results)
    if number < 0:
        raise ComparisonError("there are no samples")
    agreement = _agreement(name, other, number + 1, exposed, differences)
    agreement.tensors = len(compared)
    return agreement


def compare_results(differences: dict[int, Difference], exposed: ExposedModel, number: int,
                    expected: Mapping[int, Array], results: Mapping[int, Array]) -> set[int]:
    """Compare a sample's results with the expected ones, both {tensor: contents}; add to `differences`.

    Returns the tensors that were compared: they are in both, with equal sizes.
    """
    compared = {i for i, array in expected.items() if i in results and array.size == results[i].size}
    for i in sorted(compared):
        values, wanted = results[i].reshape(-1), expected[i].reshape(-1)
        if not _same(values, wanted):
            _measure(_noted(differences, exposed, i, number), values, wanted)
    return compared


def _same(values: Array, expected: Array) -> bool:
    if values.dtype.kind != "f":
        return np.array_equal(values, expected)
    allowed = CLOSE * float(np.abs(expected).max(initial=0, where=np.isfinite(expected)))
    return bool(np.allclose(values, expected, rtol=0, atol=allowed, equal_nan=True))


def _noted(differences: dict[int, Difference], exposed: ExposedModel, tensor: int, sample: int) -> Difference:
    operator = exposed.producer[tensor]
    if tensor not in differences:
        differences[tensor] = Difference(operator.index, operator.name, tensor, exposed.subgraph.tensors[tensor].name,
                                         sample)
    differences[tensor].samples += 1
    return differences[tensor]


def _measure(difference: Difference, values: Array, expected: Array) -> None:
    """Add the elements that differ in one sample."""
    if values.dtype.kind == "f":
        step = np.abs(values.astype(np.float64) - expected)
        difference.elements = (difference.elements or 0) + int(np.count_nonzero(step))
    else:
        signed = values.astype(np.int64) - expected.astype(np.int64)
        step = np.abs(signed)
        steps, counts = np.unique(np.clip(signed[signed != 0], -16, 16), return_counts=True)
        difference.elements = (difference.elements or 0) + int(counts.sum())
        histogram = difference.histogram = difference.histogram or {}
        for key, count in zip(steps.tolist(), counts.tolist(), strict=True):
            histogram[key] = histogram.get(key, 0) + count
    difference.largest = max(difference.largest or 0.0, float(step.max(initial=0)))


def _agreement(name: str, other: str, samples: int, exposed: ExposedModel,
               by_tensor: dict[int, Difference]) -> Agreement:
    differences = sorted(by_tensor.values(), key=lambda d: (d.node, d.tensor))
    return Agreement(name, other, samples, len(exposed.results), differences)
