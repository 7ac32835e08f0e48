"""The protocol through which ops use the runtime: `node.host` is the Executor of the subgraph being lowered.

Ops are below the runtime and never import it.  This module is for readers and mypy: running a model never imports it.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from numpy.typing import NDArray

from pylite._core.run.program import Callee
from pylite.ir.graph import Subgraph
from pylite.ir.interpreter_state import InterpreterState

Shape = tuple[int, ...]


class Prepared(Protocol):
    """A subgraph bound to memory for one set of input shapes.

    lowered: the Lowered with its values and calls; boundary: the Value or Node on whose data later shapes depend, or
    None.
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
    shared: the InterpreterState of all subgraphs of the interpreter;
    plugins: {operator index: its Op} of the nodes that plug-ins run;
    known_inputs: {position of an input: its contents}, inputs that the caller knows to be constant;
    guard: guard bands are checked after each step;
    half: may float32 be computed in float16?
    max_memory: bytes that the model may take in addition to its file and its packed weights, or None.
    """
    pool: Any
    shared: InterpreterState
    plugins: dict[int, Any]
    known_inputs: Mapping[int, NDArray[Any]]
    guard: bool
    half: bool
    max_memory: int | None

    @property
    def subgraph(self) -> Subgraph: ...

    def callee(self, index: int) -> Host:
        """The host of another subgraph, which an operator of this one calls."""
        ...

    def prepared(self, shapes: Sequence[Shape], known_inputs: Mapping[int, NDArray[Any]]) -> Prepared:
        """Prepare for these input shapes.  known_inputs: {position of an input: its contents, which are not copied}.

        Variables keep their contents.
        """
        ...

    def entry(self, whole: bool = False) -> Callee:
        """The last prepared program for a kernel that runs it; while the caller is recorded, a CalledProgram.

        Kernels do not copy known inputs, nor inputs that nothing reads, unless `whole`.
        """
        ...

    def call(self, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run once on `arrays`; returns copies of the outputs."""
        ...

    def lower_again(self) -> None:
        """Lower all subgraphs of the interpreter again, because an earlier op was lowered on other assumptions.

        Subgraphs that are being lowered start again, the others are lowered before their next run.
        """
        ...

    def run_loop(self, node: Any, condition: Any, body: Any, arrays: Sequence[NDArray[Any]],
                 kernels: bool) -> Sequence[NDArray[Any]]:
        """Run the host `body` while `condition` holds, on variables that may change shape; returns their last contents.

        kernels: kernels may run the subgraphs; otherwise Python runs each iteration.
        """
        ...
