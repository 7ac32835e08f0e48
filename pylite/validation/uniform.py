"""Measures samples of equal shapes: both models, and nodes by themselves, run as one interleaved program.

Its twin for samples of any shapes is varying.py; both add to the sums of a Comparison.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pylite.runtime.executor import Executor
from pylite.validation.feeding import feed
from pylite.validation.interleaving import Interleaved, Track, Usage, quantizing_kernels
from pylite.validation.isolation import Isolated, Isolation, closure, grouped
from pylite.validation.origins import Origins
from pylite.validation.statistics import Grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.kernel import Kernel
    from pylite._core.simd import Pool
    from pylite.ir.graph import Subgraph
    from pylite.runtime.model import Model

    Comparison = Any        # it imports this module

# What a program measures: both models from their inputs; each node by itself, too; and where a node's error comes from.
CUMULATIVE, LOCAL, ORIGINS = range(3)


class Separate(NamedTuple):
    """A graph whose nodes run by themselves, and the Executor that runs it."""
    executor: Executor
    graph: Isolated

    @classmethod
    def of(cls, model: Model, graph: Isolated, pool: Pool) -> Separate:
        return cls(Executor(model, graph.subgraph, pool), graph)


class Uniform:
    """Adds samples of one set of shapes to the sums of a Comparison.

    origins: the Origins of the nodes' errors, or None; programs: {CUMULATIVE, LOCAL or ORIGINS: the Interleaved that
    measures as much}
    """

    def __init__(self, comparison: Comparison, full: Executor, reference: Executor, pool: Pool, origins: bool) -> None:
        """full, reference: Executors of both models, fed with a sample of these shapes, with the tensors to compare as
        outputs; origins: measure where the errors of nodes come from."""
        self._comparison, self._full, self._reference, self._pool = comparison, full, reference, pool
        self._separate: tuple[Separate, Separate] | None = None     # nodes of the model and of the reference
        self.origins: Origins | None = None
        self._casts: dict[int, int] = {}                # result of a cast -> the matched tensor that it reads
        self._represented: dict[int, NDArray[Any]] = {}     # such a tensor -> the activation that the cast reads
        if comparison.alone:
            self._isolate(origins)
        self._share_memory()
        self.programs = {level: self._interleaved(level) for level in range(1 + comparison.alone + origins)}

    def add(self, inputs: Sequence[NDArray[Any]], local: bool, origins: bool) -> None:
        """Run both models on one sample; local, origins: as Comparison.add() has them."""
        level = min(ORIGINS if local and origins else LOCAL if local else CUMULATIVE, len(self.programs) - 1)
        comparison = self._comparison
        self._fill(inputs)
        comparison.add_inputs(self._full, inputs)
        self.programs[level].run()
        groups = [comparison.cumulative, comparison.local] if level >= LOCAL else [comparison.cumulative]
        if level == ORIGINS and self.origins is not None:
            groups += [self.origins.constants, self.origins.activations]
        for group in groups:
            for sums in group.values():
                sums.counted()

    def _fill(self, inputs: Sequence[NDArray[Any]]) -> None:
        """Set the inputs of all graphs to one sample."""
        for full in (self._reference, self._full):
            feed(full, inputs)
        if self._separate:
            ours, theirs = self._separate
            sides = [(self._reference, theirs), (self._full, ours)]
            if self.origins is not None:
                sides.append((self._reference, Separate(self.origins.executor, self.origins.isolated)))
            for full, (alone, isolated) in sides:
                alone.reset_variables_and_ops()
                for original, index in isolated.inputs.items():
                    alone.array(index)[...] = full.array(original)

    def _isolate(self, with_origins: bool) -> None:
        """Make the graphs of single nodes."""
        comparison, matches = self._comparison, self._comparison.matching.matches
        subgraph, other = comparison.subgraph, comparison.other
        cuts = {i: matches[i].reference for i in comparison.measured}
        cuts |= {i: matches[i].reference for i in subgraph.inputs if i in matches and Grid.of(subgraph.tensors[i])
                 and other.tensors[matches[i].reference].dtype == "float32"}
        pairs, self._casts = grouped(subgraph, cuts)
        others = [(mine, counterpart) for mine, counterpart in pairs if counterpart is not None]
        shapes = _shapes(self._reference, other, cuts.values())
        ours, theirs = Isolation(subgraph, _shapes(self._full, subgraph, cuts)), Isolation(other, shapes)
        for group, _ in pairs:
            ours.add(group)
        for _, group in others:
            theirs.add(group)
        self._separate = (Separate.of(comparison.model, ours.finished(), self._pool),
                          Separate.of(comparison.reference, theirs.finished(), self._pool))
        if with_origins:
            self.origins = Origins(comparison.model, comparison.reference, others, shapes, self._pool)
            self.origins.prepare(comparison.grids, {i: sums for i, sums in comparison.local.items()
                                                    if i not in self._casts})

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
        comparison, given = self._comparison, set[int]()
        waiting = deque((index, self._read(index)) for index in (comparison.measured if local else ()))
        for key in (*comparison.subgraph.inputs, *comparison.measured):
            if key in comparison.cumulative:
                yield "observe", key
            if key in keys:
                given.add(key)
                yield "give", key
            while waiting and waiting[0][1] <= given:
                yield "alone", waiting.popleft()[0]
        assert not waiting

    def _share_memory(self) -> None:
        """Allocate all graphs so that each tensor keeps its memory no longer than a run needs it."""
        executors = [self._reference, self._full, *[side.executor for side in self._separate or ()],
                     *([self.origins.executor] if self.origins else [])]
        reference, full, *single = usages = [Usage(executor.subgraph) for executor in executors]
        for what, index in self._order(self._comparison.alone):
            matched = self._matched(index)
            if what == "observe":
                reference.compute(matched)
                full.compute(index)
                if self.origins is not None and index in self.origins.activations and self._separate is not None:
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
            if self.origins is not None:
                self.origins.plan(what, index, matched, *more)
        for executor, usage in zip(executors, usages, strict=True):
            executor.release()
            executor.access = usage.access
            executor.allocate()

    def _interleaved(self, level: int) -> Interleaved:
        """A program that runs both models, observes each tensor once both have computed it, and then runs the nodes by
        themselves that read it.  level: CUMULATIVE, LOCAL or ORIGINS."""
        comparison, program = self._comparison, Interleaved(self._pool)
        full, reference = Track(self._full), Track(self._reference)
        single = [Track(side.executor) for side in self._separate or ()] if level >= LOCAL else []
        origins = self.origins if level == ORIGINS else None
        if origins is not None:
            single.append(Track(origins.executor))
        for what, index in self._order(level >= LOCAL):
            matched = self._matched(index)
            if what == "observe":
                program.advance(reference, matched)
                program.advance(full, index)
                grid, expected = comparison.grids[index], self._reference.array(matched)
                program.add(comparison.cumulative[index].observer(grid, self._full.array(index), expected))
                if origins is not None and index in origins.activations and self._separate is not None:
                    theirs = self._separate[1]
                    computed = theirs.executor.array(theirs.graph.results[matched])
                    program.add(*origins.watch_activations(index, grid, computed, expected))
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
            result = theirs.graph.results[self._matched(index)]
            program.advance(counterpart, result)
            expected = theirs.executor.array(result)
        computed = ours.executor.array(ours.graph.results[index])
        comparison = self._comparison
        observer = comparison.local[index].observer(comparison.grids[index], computed, expected)
        program.add(observer)
        if index in comparison.histograms:
            program.add(comparison.histograms[index].counter(observer))
        return expected

    def _read(self, index: int) -> set[int]:
        """The tensors that the node of `index` and its counterpart read when they run by themselves."""
        assert self._separate is not None
        activations: set[int] = set()
        sides = [(self._separate[0].graph, index)]
        if index not in self._casts:
            sides.append((self._separate[1].graph, self._matched(index)))
        for isolated, result in sides:
            names = {place: key for key, place in isolated.cuts.items()}
            activations |= {names[i] for i in closure(isolated.subgraph, (isolated.results[result],), set(names))[1]}
        return activations

    def _give(self, key: int, origins: Origins | None) -> list[Kernel]:
        """Kernels that round the reference's activation to the grid of the model's tensor `key`, and write it to the
        nodes by themselves that read it."""
        assert self._separate is not None
        ours, theirs = self._separate
        real = self._reference.array(self._matched(key))
        represented = [theirs.executor.array(theirs.graph.cuts[key])] if key in theirs.graph.cuts else []
        if origins is not None and key in origins.isolated.cuts:
            represented.append(origins.executor.array(origins.isolated.cuts[key]))
        if key in self._casts.values():     # for the cast that reads it, this is the expected result
            represented.append(self._represented.setdefault(key, np.empty(real.shape, np.float32)))
        quantized = ours.executor.array(ours.graph.cuts[key]) if key in ours.graph.cuts else None
        return quantizing_kernels(self._comparison.grids[key], real, quantized, represented)

    def _matched(self, index: int) -> int:
        """The reference's counterpart of a tensor."""
        reference: int = self._comparison.matching.matches[index].reference
        return reference


def _shapes(executor: Executor, subgraph: Subgraph, tensors: Any) -> dict[int, tuple[int, ...]]:
    return {i: executor.array(i).shape for i in (*subgraph.inputs, *tensors)}
