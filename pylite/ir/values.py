"""The graph as ops see it: values, nodes, and the calls, aliases and constants that ops lower nodes to."""
import sys
from typing import TYPE_CHECKING

import numpy as np

from pylite import errors
from pylite._core.graph.calls import TEMPORARIES, NodeBase, ValueBase, enter_types
from pylite._core.graph.calls import Call as Call
from pylite._core.graph.calls import Packed as Packed
from pylite._core.graph.calls import Scratch as Scratch
from pylite._core.graph.calls import View as View
from pylite._core.graph.dimensions import cells_in
from pylite._core.kernels import is_owned as is_owned
from pylite._core.kernels import kernel_class
from pylite._core.kernels import runs_python as runs_python
from pylite._core.run.kernel import of_types
from pylite._core.run.memory import LARGE_ARENA, aligned, memory_limit
from pylite.ir.graph import NUMPY_DTYPES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Quantization, Tensor

enter_types(NUMPY_DTYPES)
FEW = 4         # most tensors that an error names
_NO_SCALE = np.float32(0)
_EMPTY_F32 = np.empty(0, np.float32)
_EMPTY_I64 = np.empty(0, np.int64)


class Value(ValueBase):
    """A tensor during lowering: the file's declaration, and all that is known about it so far.

    shape: tuple of int, final once infer() of its node has run
    data: the contents as a read-only array of its dtype, or Deferred for some weights (see known_array()); None if they
    are not known; fixed: do they depend only on the file, not on the input shapes?
    pad: the FoldablePad that computes it, for readers that add the border themselves
    root, byte_offset: the Value whose memory this one shares, and the offset there
    kind: "temporary", "input", "variable" or "carried" (an earlier segment computed it)
    quantization: the file's Quantization, or None; quantized: does it have scales?  scale: the first scale as
    np.float32, 0 if there is none; zero_point: the first zero point as int
    """
    __slots__ = ()
    if TYPE_CHECKING:
        tensor: "Tensor"        # None for a Temporary
        quantization: "Quantization | None"
        pad: "FoldablePad | None"

    def __repr__(self) -> str:
        return f"tensor {self.index} {self.name!r} ({self.dtype} {list(self.shape)})"

    @property
    def scales(self) -> "NDArray[np.float32]":
        q = self.quantization
        return q.scale if q is not None else _EMPTY_F32

    @property
    def zero_points(self) -> "NDArray[np.int64]":
        q = self.quantization
        return q.zero_point if q is not None else _EMPTY_I64

    @property
    def axis(self) -> int:
        """The axis along which the scales vary."""
        q = self.quantization
        return q.axis if q is not None else 0

    @property
    def block_size(self) -> int:
        """Elements that share one scale in blockwise quantization, else 0."""
        q = self.quantization
        return q.block_size if q is not None else 0


class Deferred:
    """Takes the place of a constant's array: a kernel converts the contents from the file's array at each use.

    stored: the file's array; kernel: the kernel's name; args: its arguments, with None for the bytes of the result.
    """
    __slots__ = ("shape", "dtype", "nbytes", "stored", "kernel", "args")

    def __init__(self, value: "Value", stored: "NDArray[Any]", kernel: str, args: "Sequence[Any]") -> None:
        self.shape, self.dtype, self.nbytes = value.shape, NUMPY_DTYPES[value.dtype], value.nbytes
        self.stored, self.kernel, self.args = stored, kernel, args

    @property
    def halves(self) -> "NDArray[Any] | None":
        """The float16 numbers of the file, if the contents are these as float32, or None."""
        same = self.stored.dtype == np.float16 and self.dtype == np.float32
        return self.stored.reshape(self.shape) if same else None

    def array(self) -> "NDArray[Any]":
        """The contents as a new array."""
        result = aligned(self.nbytes).view(self.dtype).reshape(self.shape)      # the C library would keep its memory
        kernel_class(self.kernel)(*[raw(result) if arg is None else arg for arg in self.args]).run()
        return result


def known_array(value: "Value") -> "Any":
    """The contents of a Value as an array, or None if they are not known."""
    data: Any = value.data
    return data.array() if type(data) is Deferred else data


BAND = 64           # bytes of a guard band; PL_BAND in _core/capi/host.h


class Banded:
    """A value's bytes between two guard bands, for untrusted kernels."""
    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


def roots(call: Call) -> "list[Value]":
    """The roots whose memory `call` reads or writes, one for each such argument."""
    return [a.root if type(a) is Value else a.value.root for a in of_types(call.args, _PLACED)]


_PLACED = frozenset((Value, View, Banded))


class Alias:
    """y has the bytes of x in another shape; nothing runs."""
    __slots__ = ("y", "x")

    def __init__(self, y: Value, x: Value) -> None:
        self.y = y
        self.x = x


class Constant:
    """y is known during lowering: `data` is an array of y's shape and dtype."""
    __slots__ = ("y", "data")

    def __init__(self, y: Value, data: "NDArray[Any]") -> None:
        self.y = y
        self.data = data


class FoldablePad:
    """y, which the preceding calls compute, is x with a border of `fill`; a reader may read x and add the border
    itself.

    pairs: (before, after) of each axis; fill: a number; folded: the nodes that read x instead.
    """
    __slots__ = ("y", "x", "pairs", "fill", "folded")

    def __init__(self, y: Value, x: Value, pairs: "Sequence[tuple[int, int]]", fill: float) -> None:
        self.y = y
        self.x = x
        self.pairs = pairs
        self.fill = fill
        self.folded: list[Node] = []


# Numbers of a node's Temporaries, below TEMPORARIES.  Its op uses 0 to HALVES - 1; compiler/float16.py uses
HALVES = 4          # and 5 for the operands as float16,
HALF_RESULT = 6     # and this for the result as float16


class Temporary(Value):
    """Arena memory that several calls of a node share.  number: distinguishes the node's Temporaries."""
    __slots__ = ()

    def __init__(self, node: "Node", shape: "Sequence[int]", dtype: str, number: int = 0) -> None:
        self.tensor = None  # type: ignore[assignment]
        self.data, self.fixed, self.quantization, self.quantized = None, False, None, False
        self.scale, self.zero_point = _NO_SCALE, 0
        self.index = -1 - TEMPORARIES * node.index - number     # no tensor has a negative index
        self.name, self.kind = "temporary", "temporary"
        self.shape, self.dtype, self.root, self.byte_offset, self.pad = tuple(shape), dtype, self, 0, None


class Node(NodeBase):
    """One operator during lowering.

    host: the host.Host, through which ops reach other subgraphs and state that outlives a run, or None; memo: data that
    `evaluate` keeps for its next run on the same arrays, None before the first.  inputs, outputs: lists of Value, with
    None for absent operands.
    """
    __slots__ = ()
    if TYPE_CHECKING:       # Typed without None, which most ops never meet; input() says that an operand may be absent.
        inputs: list[Value]
        outputs: list[Value]

    def __repr__(self) -> str:
        return f"node {self.index} {self.name}"

    def with_operands(self, inputs: "list[Value]", outputs: "list[Value]") -> "Node":
        """A copy of this node with other operands, for an op that is lowered to several nodes."""
        other = Node(self.index, self.operator, self.values, self.host)
        other.inputs, other.outputs = inputs, outputs
        return other

    @property
    def intermediates(self) -> "list[Value | None]":
        return [self.values[i] if i >= 0 else None for i in self.operator.intermediates]

    def error(self, text: str, value: object = None) -> "errors.OpError":
        """The exception for a node that cannot be prepared; it names the op and, if passed, the tensor."""
        return errors.OpError(f"{self}: {text}" if value is None else f"{self}: {value!r}: {text}")

    def wrapped(self, problem: Exception) -> "errors.OpError | errors.MemoryLimitError":
        """The exception to raise for `problem`, which occurred in a library or in Python while this node was
        prepared."""
        if isinstance(problem, MemoryError):
            return errors.MemoryLimitError(f"{self}: there is no memory for its results or its weights: {problem}. "
                                           "Make the inputs smaller")
        if isinstance(problem, RecursionError):
            return self.error("subgraphs call each other more deeply than Python's recursion limit of "
                              f"{sys.getrecursionlimit()} allows; sys.setrecursionlimit() raises it")
        kind = "" if isinstance(problem, (ValueError, ArithmeticError)) else f"{type(problem).__name__}: "
        return self.error(f"{kind}{problem}")

    def failure(self, why: str) -> "errors.ExecutionError":
        """The exception for a node that failed to run; it names the node's tensors."""
        delegation: Any = getattr(self.host, "delegation", None)
        whose = "" if delegation is None else delegation.described(self.index)
        tensors = [v for v in (*self.inputs, *self.outputs) if v is not None]
        shown = tensors if len(tensors) <= FEW else [v for v in tensors if v.data is None][:FEW]
        more = f" and {len(tensors) - len(shown)} more" if len(shown) < len(tensors) else ""
        return errors.ExecutionError(f"{self}{whose} failed: {why}; its tensors: {', '.join(map(repr, shown))}{more}")

    def check_memory(self, nbytes: int, what: str = "results") -> None:
        """Raise MemoryLimitError if `nbytes` outside of the arena exceed the interpreter's max_memory, or the machine's
        memory."""
        most = None if self.host is None else self.host.max_memory
        if most is not None and nbytes > most:
            raise errors.MemoryLimitError(f"{self}: its {what} take {nbytes} bytes; max_memory is {most}. Make the "
                                          "inputs smaller or raise max_memory")
        if nbytes > LARGE_ARENA and nbytes > memory_limit():
            raise errors.MemoryLimitError(f"{self}: its {what} take {nbytes} bytes and this machine has "
                                          f"{memory_limit()}. Make the inputs smaller")

    def input(self, i: int) -> "Value | None":
        """Input i, or None if it is absent or omitted."""
        return self.inputs[i] if i < len(self.inputs) else None

    def constant(self, i: int, what: str = "input") -> "NDArray[Any]":
        """The contents of input i, which must be known during lowering."""
        value = self.inputs[i]
        if value.data is None:
            raise errors.DataDependentError(f"{self}: {value!r}: its {what} is computed at run time", value)
        return known_array(value)


def as_list(emitted: "Any") -> "list[Any]":
    """The result of an op's lower(), as a list."""
    return emitted if isinstance(emitted, list) else [emitted]


def sizes(numbers: "Sequence[int]", dtype: str) -> "NDArray[Any]":
    """A vector of dimensions for a Constant; an array of objects if some of them are Dims."""
    return np.array(numbers, object if cells_in(numbers) else dtype)


def raw(array: "NDArray[Any] | None") -> "NDArray[np.uint8]":
    """The bytes of a contiguous array, (n,) uint8; empty for None."""
    return np.empty(0, np.uint8) if array is None else array.reshape(-1).view(np.uint8)
