"""What ops may ask of the runtime: `node.host`, the Executor of the subgraph that is lowered, seen as a protocol."""
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np


class Host(Protocol):
    """One subgraph of an interpreter, as its own nodes and those that call it see it.

    shared: what all subgraphs of the interpreter have in common, by name: ops keep resources there;
    stale: set by an op that learns what ops lowered before should have known: the graph is lowered again;
    guard: are guard bands looked at after each step?  pool: the worker threads; plugins: {operator index: its Op} of
    the nodes that plug-ins run; subgraph: the graph.Subgraph that runs.
    """
    shared: dict[str, Any]
    stale: bool
    guard: bool
    pool: Any
    plugins: dict[int, Any]
    subgraph: Any

    def callee(self, index: int) -> "Host":
        """The host of another subgraph, which an operator of this one calls."""
        ...

    def prepared(self, shapes: Sequence[tuple[int, ...]], given: dict[int, np.ndarray]) -> Any:
        """The BoundProgram for these input shapes; given: {position of an input: its contents, which nobody copies}.

        Variables keep their contents.
        """
        ...

    def entry(self, whole: bool = False) -> tuple[Any, Any, list[np.ndarray | None], list[np.ndarray]]:
        """What a kernel needs to run the program that was prepared last: (Program, failure, inputs, outputs).

        Inputs and outputs are byte arrays; an input is None that nothing reads, unless `whole`, or that is given.
        """
        ...

    def call(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run once on `arrays`; copies of the outputs."""
        ...

    def run_loop(self, node: Any, condition: "Host", body: "Host", arrays: Sequence[np.ndarray],
                 kernels: bool) -> Sequence[np.ndarray]:
        """Run `body` while `condition` holds, on variables whose shapes may change; their last contents.

        kernels: may kernels run the subgraphs?  Else Python runs each iteration.
        """
        ...
