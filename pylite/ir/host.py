"""What ops may ask of the runtime: `node.host`, the Executor of the subgraph that is lowered, seen as a protocol.

Ops are below the runtime and never import it.  This module is for readers and mypy: running a model never imports it.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from pylite.ir.graph import Subgraph

Shape = tuple[int, ...]
# What a kernel needs to run a prepared program: (Program, failure(step, status), inputs, outputs).  Inputs and outputs
# are byte arrays; None stands for an input that the kernel need not copy.
Entry = tuple[Any, Callable[[int, int], Exception], list[NDArray[Any] | None], list[NDArray[Any]]]


class Prepared(Protocol):
    """A subgraph bound to memory for one set of input shapes.

    lowered: the Lowered with its values and calls; boundary: the Value or Node that decides on shapes that depend on
    data, or None.
    """
    lowered: Any
    boundary: Any

    def shape(self, index: int) -> Shape:
        """The shape of tensor `index`."""
        ...


class Host(Protocol):
    """One subgraph of an interpreter, as its own nodes see it, and the nodes that call it.

    subgraph: the graph.Subgraph that runs;
    pool: the worker threads, a simd.Pool;
    shared: what all subgraphs of the interpreter have in common, by name; ops keep their resources here;
    plugins: {operator index: its Op} of the nodes that plug-ins run;
    given: {position of an input: its contents}, inputs that the caller knows to be constant;
    guard: guard bands are checked after each step;
    max_memory: bytes that the model may take beside its file and its packed weights, or None;
    stale: an op sets it where the graph must be lowered again, since an op before it was lowered on other assumptions.
    """
    pool: Any
    shared: dict[str, Any]
    plugins: dict[int, Any]
    given: Mapping[int, NDArray[Any]]
    guard: bool
    max_memory: int | None
    stale: bool

    @property
    def subgraph(self) -> Subgraph: ...

    def callee(self, index: int) -> Host:
        """The host of another subgraph, which an operator of this one calls."""
        ...

    def prepared(self, shapes: Sequence[Shape], given: Mapping[int, NDArray[Any]]) -> Prepared:
        """Prepare for these input shapes; given: {position of an input: its contents, which are not copied}.

        Variables keep their contents.
        """
        ...

    def entry(self, whole: bool = False) -> Entry:
        """What a kernel needs to run what was prepared last.

        An input is None that is given or that nothing reads; with `whole` only those that are given.
        """
        ...

    def call(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run once on `arrays`; copies of the outputs."""
        ...

    def run_loop(self, node: Any, condition: Any, body: Any, arrays: Sequence[NDArray[Any]],
                 kernels: bool) -> Sequence[NDArray[Any]]:
        """Run `body` while `condition` holds (hosts), on variables whose shapes may change; their last contents.

        kernels: kernels may run the subgraphs; otherwise Python runs each iteration.
        """
        ...
