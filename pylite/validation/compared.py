"""The input of a report: a model, its reference, and sums of their differences."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pylite.ir.graph import Subgraph
    from pylite.runtime.model import Model
    from pylite.validation.called import SubgraphCalls
    from pylite.validation.histograms import Histograms
    from pylite.validation.matching import Matching
    from pylite.validation.origins import OriginSums
    from pylite.validation.statistics import ErrorSums, Grid


class Compared:
    """The base of Comparison, which runs a reference model, and of GoldenComparison, which reads its tensors.

    subgraph, other: the main subgraphs of the model and of the reference; matching: the Matching of their tensors;
    measured: the tensors that are compared, in order; unmeasured: {tensor that could be compared, but is not: why};
    grids: {tensor: Grid}; calls: the SubgraphCalls of WHILE and similar ops; samples: number of samples so far.

    cumulative: {tensor: ErrorSums} of the whole model; local: {tensor: ErrorSums} of each node by itself; input_sums:
    {input: ErrorSums} of the error from quantizing the samples; given: {tensor: ErrorSums} of the error from rounding
    the arrays that nodes read, empty unless these are stored; histograms: {tensor: Histograms} of each node by
    itself; origins: the OriginSums of these nodes' errors, or None.
    """
    calls: SubgraphCalls | tuple[()]
    origins: OriginSums | None

    def __init__(self, model: Model, reference: Model, matching: Matching, measured: list[int]) -> None:
        self.model, self.reference = model, reference
        self.subgraph: Subgraph = model.graph.subgraphs[0]
        self.other: Subgraph = reference.graph.subgraphs[0]
        self.matching, self.measured = matching, measured
        self.unmeasured: dict[int, str] = {}
        self.grids: dict[int, Grid] = {}
        self.cumulative: dict[int, ErrorSums] = {}
        self.local: dict[int, ErrorSums] = {}
        self.input_sums: dict[int, ErrorSums] = {}
        self.given: dict[int, ErrorSums] = {}
        self.histograms: dict[int, Histograms] = {}
        self.calls = ()
        self.origins = None
        self.samples = 0
