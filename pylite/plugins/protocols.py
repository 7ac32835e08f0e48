"""Protocols for the graph that custom ops and delegates in Python see; running a model never imports this module."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
# The result of a prepare(): a shape for each output, the shape of the only output, or None to keep the shapes.
OutputShapes = Sequence[Sequence[int]] | Shape | None


class TensorInfo(Protocol):
    """A tensor while its graph is prepared.

    dtype: a name such as "float32" or "int8"; an op may set another one for its outputs in prepare();
    shape: its sizes, current for inputs;
    data: the contents of a constant, read-only, else None;
    scale, zero_point: its first scale, 0 without one, and its first zero point; real = scale * (q - zero_point).
    """
    dtype: str

    @property
    def index(self) -> int:
        """The tensor's index in the subgraph."""
        ...

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def size(self) -> int:
        """Number of elements."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that the elements occupy as a numpy array."""
        ...

    @property
    def data(self) -> NDArray[Any] | None: ...

    @property
    def scale(self) -> np.float32: ...

    @property
    def zero_point(self) -> int: ...

    @property
    def scales(self) -> NDArray[np.float32]:
        """Every scale: one for the tensor, or one for each index along `axis`; empty without quantization."""
        ...

    @property
    def zero_points(self) -> NDArray[np.int64]: ...

    @property
    def axis(self) -> int:
        """The axis that the scales run along."""
        ...

    @property
    def block_size(self) -> int:
        """Elements that share one scale in blockwise quantization, else 0."""
        ...


class NodeInfo(Protocol):
    """A node of a graph: what a delegate sees in supports(), graph.nodes and part.nodes.

    name: the operator's, such as "CONV_2D", or a custom op's code; "DELEGATE" for a node that a delegate has taken;
    options: the fields of its options table as attributes; none for a custom op.
    """
    @property
    def index(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def options(self) -> Any: ...

    @property
    def inputs(self) -> Sequence[TensorInfo]:
        """Its inputs in order.  An absent one is None, which this type leaves out; input() does not."""
        ...

    @property
    def outputs(self) -> Sequence[TensorInfo]: ...

    def input(self, i: int) -> TensorInfo | None:
        """Input i, or None if it is absent or left out."""
        ...

    def constant(self, i: int, what: str = "input") -> NDArray[Any]:
        """The contents of input i.  If it is not constant, an error that calls it `what`."""
        ...

    def error(self, text: str, value: Any = None) -> Exception:
        """The exception to raise if the node cannot be prepared; it names the node and, if passed, the tensor."""
        ...


class OpNode(NodeInfo, Protocol):
    """The node that a custom op's or a delegate's kernel prepares: prepare(node)."""

    def temporary(self, shape: Sequence[int], dtype: str = "float32") -> None:
        """Ask for memory that lasts while this node runs: invoke() gets it as one more array, after the outputs."""
        ...


class _HasInvoke(Protocol):
    @property
    def invoke(self) -> Callable[..., Any]:
        """invoke(*inputs, *outputs, *temporaries): numpy arrays on the interpreter's memory; inputs are read-only."""
        ...


class _HasEvaluate(Protocol):
    @property
    def evaluate(self) -> Callable[..., Any]:
        """evaluate(*inputs): the outputs, whose shapes depend on data."""
        ...


class _HasKernel(Protocol):
    @property
    def kernel(self) -> Callable[..., Any]:
        """kernel(*inputs, *outputs, *temporaries): a Kernel written in Cython."""
        ...


# What runs a node; it may also have prepare(node), reset() and free().
DelegateKernel = _HasInvoke | _HasEvaluate | _HasKernel
