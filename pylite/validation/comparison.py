"""Runs a model and its reference on samples, and sums the differences of all tensors that match."""
from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite._core.simd import Pool
from pylite.errors import ComparisonError
from pylite.runtime.executor import Executor
from pylite.validation.called import Calls
from pylite.validation.feeding import exposed, feed
from pylite.validation.histograms import Histograms
from pylite.validation.interleaving import Interleaved, Track, Usage, quantizing_kernels
from pylite.validation.isolation import Isolated, Isolation, closure, grouped
from pylite.validation.matching import Matching, match
from pylite.validation.origins import Origins, OriginSums
from pylite.validation.statistics import COUNT, ErrorSums, Grid, add_sample, channels_of
from pylite.validation.varying import Varying

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.kernel import Kernel
    from pylite.ir.graph import Subgraph
    from pylite.runtime.model import Model


# What is measured: both models from their inputs; each node by itself, too; and where a node's error comes from.
CUMULATIVE, LOCAL, ORIGINS = range(3)


class Separate(NamedTuple):
    """A graph whose nodes run by themselves, and the Executor that runs it."""
    executor: Executor
    graph: Isolated

    @classmethod
    def of(cls, model: Model, graph: Isolated, pool: Pool) -> Separate:
        return cls(Executor(model, graph.subgraph, pool), graph)


class Comparison:
    """A model beside its reference, ready to take samples.

    Samples of equal shapes run as one interleaved program; once shapes differ, or depend on data, a Varying runs them.

    matching: the Matching; measured: the tensors that are compared, in order; grids: {tensor: Grid}
    unmeasured: {matched tensor that is not compared: why}; calls: the Calls of WHILE and similar ops
    cumulative: {tensor: ErrorSums} of both models run from their inputs; local: {tensor: ErrorSums} of each node by
    itself; input_sums: {input: ErrorSums} of the error that quantizing the samples makes; given: empty, see Golden
    histograms: {tensor: Histograms} of each node by itself; origins: the OriginSums of these nodes' errors
    programs: {CUMULATIVE, LOCAL or ORIGINS: the Interleaved that measures as much}
    """

    def __init__(self, model: Model, reference: Model, threads: int = 1, histograms: bool = False,
                 alone: bool = True, origins: bool = False, depth: int = 0) -> None:
        """alone: run nodes by themselves, else `local`, `histograms` and `origins` stay empty; histograms, origins:
        measure these, too; depth: number of calls between the main subgraph and this one."""
        self.model, self.reference = model, reference
        self.subgraph, self.other = model.graph.subgraphs[0], reference.graph.subgraphs[0]
        self.matching: Matching = match(self.subgraph, self.other)
        inputs = set(self.subgraph.inputs)
        self.measured = [i for o in self.subgraph.operators for i in o.outputs
                         if i in self.matching.matches and i not in inputs]
        wanted = [self.matching.matches[i].reference for i in self.measured]
        pool = Pool(threads)
        self._full = exposed(model, self.subgraph, self.measured, pool)
        self._full_reference = exposed(reference, self.other, wanted, pool)
        self._pool = pool
        self._separate: tuple[Separate, Separate] | None = None     # of the model, of the reference
        self._varying: Varying | None = None
        self._changed: Origins | None = None    # nodes with the model's constants, in interleaved programs
        self.origins: OriginSums | None = None
        self._casts: dict[int, int] = {}                # result of a cast -> the matched tensor that it reads
        self._represented: dict[int, NDArray[Any]] = {}     # such a tensor -> the activation that the cast reads
        self.programs: dict[int, Interleaved] = {}
        self.grids: dict[int, Grid] = {}
        self.cumulative: dict[int, ErrorSums] = {}
        self.local: dict[int, ErrorSums] = {}
        self.input_sums: dict[int, ErrorSums] = {}
        self.given: dict[int, ErrorSums] = {}
        self.histograms: dict[int, Histograms] = {}
        self.alone, self._with_histograms, self._with_origins = alone, alone and histograms, alone and origins
        self.unmeasured: dict[int, str] = {}
        self.samples = 0
        self.calls = Calls(model, reference, self.matching, pool, depth, lambda one, other: Comparison(
            one, other, threads, histograms, alone, origins, depth + 1))

    def prepare(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Allocate for samples of these shapes; `inputs`: one array for each input, as `add` takes them."""
        executors = self._full, self._full_reference
        for executor in executors:
            feed(executor, inputs)
        if any(executor.current.boundary is not None for executor in executors):
            self._vary()
            return
        self._choose()
        for index in self.measured:
            self.cumulative[index] = ErrorSums(channels_of(self._full.array(index)))
        if self.alone:
            self.local = {index: ErrorSums(self.cumulative[index].channels) for index in self.measured}
            self._isolate()
        self._share_memory()
        self.programs = {level: self._interleaved(level) for level in range(1 + self.alone + self._with_origins)}

    def _vary(self) -> None:
        """Take samples of any shapes from here on."""
        if not self.grids:
            self._choose(sized=False)
            self.origins = OriginSums() if self._with_origins else None
        self.programs, self._separate, self._changed = {}, None, None
        wanted = [self.matching.matches[i].reference for i in (*self.subgraph.inputs, *self.measured)
                  if i in self.matching.matches]
        self._full = exposed(self.model, self.subgraph, self.measured, self._pool)
        self._full_reference = exposed(self.reference, self.other, wanted, self._pool)
        self._varying = Varying(self, self._full, self._full_reference, self._pool)

    def _choose(self, sized: bool = True) -> None:
        """Remove tensors that cannot be compared from `measured` (sized: those of other sizes, too); find the grids."""
        kept = []
        for index in self.measured:
            tensor, expected = self.subgraph.tensors[index], self.other.tensors[self.matching.matches[index].reference]
            grid = Grid.of(tensor)
            shapes = [self._full.shape(index), self._full_reference.shape(expected.index)] if sized else []
            if grid is None or expected.dtype != "float32":
                self.unmeasured[index] = f"{tensor.dtype} cannot be compared with {expected.dtype}"
            elif len(set(map(math.prod, shapes))) > 1:
                self.unmeasured[index] = f"its shape is {list(shapes[0])}, its counterpart's {list(shapes[1])}"
            else:
                kept.append(index)
                self.grids[index] = grid
        if not kept:
            raise ComparisonError("no tensor of the model has a counterpart of type float32 in the reference")
        self.measured = kept
        for index in self.subgraph.inputs:
            grid = Grid.of(self.subgraph.tensors[index])
            if grid is not None:
                self.grids[index], self.input_sums[index] = grid, ErrorSums(1)
        if self._with_histograms:
            self.histograms = {index: Histograms(self.grids[index]) for index in kept}

    @property
    def finite(self) -> bool:
        """Were all values and their references finite?  Sums leave out those that are not."""
        return all(int(sums.counts[COUNT].sum()) == sums.elements for sums in self.cumulative.values())

    def _groups(self) -> dict[str, dict[int, Any]]:
        groups: dict[str, dict[int, Any]] = {"cumulative": self.cumulative, "local": self.local,
                                             "input": self.input_sums, "histograms": self.histograms}
        if self.origins is not None:
            groups |= {"constants": self.origins.constants, "activations": self.origins.activations}
        return groups

    def sums(self) -> dict[str, ErrorSums | Histograms]:
        """Copies of all sums by name, for `take` of another Comparison of the same models."""
        own = {f"{name} {index}": type(sums).restored(sums.state())
               for name, group in self._groups().items() for index, sums in group.items()}
        return {**own, **self.calls.sums()}

    def clear(self) -> None:
        """Begin anew with sums of no samples."""
        for group in self._groups().values():
            for sums in group.values():
                sums.clear()
        self.samples = 0
        self.calls.clear()

    def take(self, sums: Mapping[str, ErrorSums | Histograms], samples: int) -> None:
        """Put sums of `samples` samples in place of these."""
        if not self.grids:
            self._vary()
        self.clear()
        for what, found in self.calls.take(sums).items():
            name, index = what.split()
            group, tensor = self._groups()[name], int(index)
            if tensor in group:
                group[tensor].merge(found)
            else:
                group[tensor] = found
        self.samples = samples

    def _expected(self, index: int) -> NDArray[Any]:
        return self._full_reference.array(self.matching.matches[index].reference)

    def _isolate(self) -> None:
        """Make the graphs of single nodes."""
        matches, inputs = self.matching.matches, self.subgraph.inputs
        cuts = {i: matches[i].reference for i in self.measured}
        cuts |= {i: matches[i].reference for i in inputs if i in matches and Grid.of(self.subgraph.tensors[i])
                 and self.other.tensors[matches[i].reference].dtype == "float32"}
        pairs, self._casts = grouped(self.subgraph, cuts)
        others = [(mine, other) for mine, other in pairs if other is not None]
        ours = Isolation(self.subgraph, _shapes(self._full, self.subgraph, cuts))
        shapes = _shapes(self._full_reference, self.other, cuts.values())
        theirs = Isolation(self.other, shapes)
        for group, _ in pairs:
            ours.add(group)
        for _, group in others:
            theirs.add(group)
        self._separate = (Separate.of(self.model, ours.finished(), self._pool),
                          Separate.of(self.reference, theirs.finished(), self._pool))
        if self._with_origins:
            self._changed = Origins(self.model, self.reference, others, shapes, self._pool)
            self._changed.prepare(self.grids, {i: sums for i, sums in self.local.items() if i not in self._casts})
            self.origins = self._changed

    def _order(self, local: bool) -> Iterator[tuple[str, int]]:
        """The steps of one run, in order, as (step, tensor).

        "observe": both models have computed the tensor; add its error to `cumulative`
        "give": copy the reference's activation to the nodes by themselves that read it
        "alone": run the tensor's node by itself, and add its error to `local`
        """
        keys: dict[int, int] = {}
        if local:
            assert self._separate is not None
            ours, theirs = self._separate
            keys = {**ours.graph.cuts, **theirs.graph.cuts}
        waiting = deque((index, self._read(index)) for index in (self.measured if local else ()))
        given: set[int] = set()
        for key in (*self.subgraph.inputs, *self.measured):
            if key in self.cumulative:
                yield "observe", key
            if key in keys:
                given.add(key)
                yield "give", key
            while waiting and waiting[0][1] <= given:
                yield "alone", waiting.popleft()[0]
        assert not waiting

    def _share_memory(self) -> None:
        """Allocate all graphs so that each tensor keeps its memory no longer than a run needs it."""
        executors = [self._full_reference, self._full, *[side.executor for side in self._separate or ()],
                     *([self._changed.executor] if self._changed else [])]
        reference, full, *single = usages = [Usage(executor.subgraph) for executor in executors]
        for what, index in self._order(self.alone):
            matched = self.matching.matches[index].reference
            if what == "observe":
                reference.compute(matched)
                full.compute(index)
                if self._changed is not None and index in self._changed.activations and self._separate is not None:
                    single[1].read_after_writing(self._separate[1].graph.results[matched])
                continue
            assert self._separate is not None
            (alone, counterpart, *more), (ours, theirs) = single, [side.graph for side in self._separate]
            if what == "give":
                reference.read(matched)
                alone.write(ours.cuts.get(index))
                counterpart.write(theirs.cuts.get(index))
            else:
                alone.compute(ours.results[index])
                if index not in self._casts:
                    counterpart.compute(theirs.results[matched])
            if self._changed is not None:
                self._changed.plan(what, index, matched, *more)
        for executor, usage in zip(executors, usages, strict=True):
            executor.release()
            executor.access = usage.access
            executor.allocate()

    def _interleaved(self, level: int) -> Interleaved:
        """A program that runs both models, observes each tensor once both have computed it, and then runs the nodes by
        themselves that read it.  level: CUMULATIVE, LOCAL or ORIGINS."""
        program, full, reference = Interleaved(self._pool), Track(self._full), Track(self._full_reference)
        single = [Track(side.executor) for side in self._separate or ()] if level >= LOCAL else []
        origins = self._changed if level == ORIGINS else None
        if origins is not None:
            single.append(Track(origins.executor))
        for what, index in self._order(level >= LOCAL):
            matched = self.matching.matches[index].reference
            if what == "observe":
                program.advance(reference, matched)
                program.advance(full, index)
                program.add(self.cumulative[index].observer(self.grids[index], self._full.array(index),
                                                            self._expected(index)))
                if origins is not None and index in origins.activations and self._separate is not None:
                    theirs = self._separate[1]
                    computed = theirs.executor.array(theirs.graph.results[matched])
                    program.add(*origins.watch_activations(index, self.grids[index], computed, self._expected(index)))
            elif what == "give":
                program.add(*self._give(index, origins))
            else:
                expected = self._watch(program, index, *single[:2])
                if origins is not None and index in origins.constants:
                    program.extend(origins.watch_constants(index, single[2], matched, expected))
        for track in (reference, full, *single):
            program.advance(track)
        return program

    def _watch(self, program: Interleaved, index: int, alone: Track, counterpart: Track) -> NDArray[Any]:
        """Append steps that run the node of `index` by itself and observe its result; returns the expected result."""
        assert self._separate is not None
        ours, theirs = self._separate
        program.advance(alone, ours.graph.results[index])
        if index in self._casts:
            expected = self._represented[self._casts[index]]
        else:
            result = theirs.graph.results[self.matching.matches[index].reference]
            program.advance(counterpart, result)
            expected = theirs.executor.array(result)
        computed = ours.executor.array(ours.graph.results[index])
        observer = self.local[index].observer(self.grids[index], computed, expected)
        program.add(observer)
        if index in self.histograms:
            program.add(self.histograms[index].counter(observer))
        return expected

    def _read(self, index: int) -> set[int]:
        """The tensors that the node of `index` and its counterpart read when they run by themselves."""
        assert self._separate is not None
        activations: set[int] = set()
        sides = [(self._separate[0].graph, index)]
        if index not in self._casts:
            sides.append((self._separate[1].graph, self.matching.matches[index].reference))
        for isolated, result in sides:
            names = {place: key for key, place in isolated.cuts.items()}
            activations |= {names[i] for i in closure(isolated.subgraph, (isolated.results[result],), set(names))[1]}
        return activations

    def _give(self, key: int, origins: Origins | None) -> list[Kernel]:
        """Kernels that round the reference's activation to the grid of the model's tensor `key`, and write it to the
        nodes by themselves that read it."""
        assert self._separate is not None
        ours, theirs = self._separate
        real = self._full_reference.array(self.matching.matches[key].reference)
        represented = [theirs.executor.array(theirs.graph.cuts[key])] if key in theirs.graph.cuts else []
        if origins is not None and key in origins.isolated.cuts:
            represented.append(origins.executor.array(origins.isolated.cuts[key]))
        if key in self._casts.values():     # for the cast that reads it, this is the expected result
            represented.append(self._represented.setdefault(key, np.empty(real.shape, np.float32)))
        quantized = ours.executor.array(ours.graph.cuts[key]) if key in ours.graph.cuts else None
        return quantizing_kernels(self.grids[key], real, quantized, represented)

    def add(self, inputs: Sequence[NDArray[Any]], local: bool = True, origins: bool = False) -> None:
        """Run both models on one sample: an array for each input, float32 for those that are real or quantized.

        local: measure each node by itself, too, if this Comparison does that at all; origins: and where its error comes
        from.
        """
        if not self.grids:
            self.prepare(inputs)
        local = local and self.alone
        if self._varying is None and [array.shape for array in inputs] != self._full.shapes:
            self._vary()
        if self._varying is not None:
            self._varying.add(inputs, local, origins)
        else:
            self._add(inputs, min(ORIGINS if local and origins else LOCAL if local else CUMULATIVE,
                                  len(self.programs) - 1))
        self.samples += 1
        self.calls.add(inputs, local, origins)

    def _add(self, inputs: Sequence[NDArray[Any]], level: int) -> None:
        """add() for a sample whose shapes the programs were made for."""
        self._fill(inputs)
        self.add_inputs(self._full, inputs)
        self.programs[level].run()
        groups = [self.cumulative, self.local] if level >= LOCAL else [self.cumulative]
        if level == ORIGINS and self.origins is not None:
            groups += [self.origins.constants, self.origins.activations]
        for group in groups:
            for sums in group.values():
                sums.counted()

    def add_inputs(self, executor: Executor, inputs: Sequence[NDArray[Any]]) -> None:
        """Add the error that quantizing a sample makes; the inputs of `executor` hold the quantized sample."""
        for index, array in zip(self.subgraph.inputs, inputs, strict=True):
            if index in self.input_sums and array.dtype == np.float32:
                add_sample(self.input_sums, index, self.grids[index], executor.array(index), array)

    def _fill(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Set the inputs of all graphs to one sample."""
        for full in (self._full_reference, self._full):
            feed(full, inputs)
        if self._separate:
            ours, theirs = self._separate
            sides = [(self._full_reference, theirs), (self._full, ours)]
            if self._changed is not None:
                sides.append((self._full_reference, Separate(self._changed.executor, self._changed.isolated)))
            for full, (alone, isolated) in sides:
                alone.reset_variables_and_ops()
                for original, index in isolated.inputs.items():
                    alone.array(index)[...] = full.array(original)


def _shapes(executor: Executor, subgraph: Subgraph, tensors: Any) -> dict[int, tuple[int, ...]]:
    return {i: executor.array(i).shape for i in (*subgraph.inputs, *tensors)}
