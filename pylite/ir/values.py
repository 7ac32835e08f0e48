"""What ops see of a graph while it is lowered: values, nodes, and the calls that they are lowered to."""
import math
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import DataDependentError, ExecutionError, OpError
from pylite.ir.graph import NUMPY_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Operator, Quantization, Tensor
    from pylite.ir.host import Host

    Shape = tuple[int, ...]
    Kernel = str | Callable[..., Any]

_NO_SCALE = np.float32(0)
_EMPTY_F32 = np.empty(0, np.float32)
_EMPTY_I64 = np.empty(0, np.int64)


class Value:
    """A tensor while its graph is lowered: what the file says of it, and what is known of it so far.

    shape: tuple of int, current after infer; data: typed read-only array when the contents are known, else None;
    fixed: the contents come from the file alone and so are the same whatever the input shapes; pad: the FoldablePad
    that computes it, for readers that add the border by themselves; root, byte_offset: the value whose memory this one
    shares, and where in it; kind: "temporary", "input", "variable" or "carried" (computed by an earlier segment).
    quantization: the file's, or None; quantized: has it scales?  scale, zero_point: the (first) scale as np.float32, 0
    when there is none, and the (first) zero point as int.
    """
    __slots__ = ("tensor", "index", "name", "dtype", "shape", "data", "fixed", "root", "byte_offset", "pad", "kind",
                 "quantization", "quantized", "scale", "zero_point")
    tensor: "Tensor"        # None for a Temporary
    index: int
    name: str
    dtype: str
    shape: "Shape"
    data: "NDArray[Any] | None"
    quantization: "Quantization | None"
    pad: "FoldablePad | None"

    def __init__(self, tensor: "Tensor", data: "NDArray[Any] | None" = None) -> None:
        self.tensor = tensor
        self.index, self.name, self.dtype, self.shape = tensor[:4]      # in a fifth of the time
        self.data = data
        self.fixed = data is not None
        self.root: Value = self
        self.byte_offset = 0
        self.pad = None
        self.kind = "variable" if tensor.is_variable else "temporary"
        self.quantization = q = tensor.quantization
        self.scale, self.zero_point, self.quantized = _NO_SCALE, 0, False
        if q is not None:
            if len(q.scale):
                self.scale, self.quantized = q.scale[0], True
            if len(q.zero_point):
                self.zero_point = q.zero_point.item(0)

    @property
    def planned(self) -> bool:
        """Does the planner place it?  Not constants, variables, and what an earlier segment computed."""
        return self.data is None and self.kind not in ("variable", "carried")

    def __repr__(self) -> str:
        return f"{self.name!r} (tensor {self.index}, {self.dtype} {list(self.shape)})"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes that the elements occupy unpacked."""
        return math.prod(self.shape) * NUMPY_DTYPES[self.dtype].itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element, unpacked."""
        return NUMPY_DTYPES[self.dtype].itemsize

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
        """The axis that the scales run along."""
        q = self.quantization
        return q.axis if q is not None else 0

    @property
    def block_size(self) -> int:
        """Elements that share one scale in blockwise quantisation, else 0."""
        q = self.quantization
        return q.block_size if q is not None else 0

    def view(self, shape: "Shape | None" = None, strides: "Shape | None" = None, offset: int = 0,
             dtype: "str | None" = None) -> "View":
        """A window on this value: shape, strides and offset in elements of `dtype`; contiguous by default."""
        return View(self, self.shape if shape is None else shape, strides, offset, dtype or self.dtype)

    @property
    def flat(self) -> "View":
        """This value as one row, shape (size,)."""
        return View(self, (math.prod(self.shape),), None, 0, self.dtype)

    @property
    def bytes(self) -> "View":
        """This value as one row of its bytes, for kernels of several types."""
        return View(self, (self.nbytes,), None, 0, "uint8")


class View:
    """A strided window on a Value; strides and offset count elements."""
    __slots__ = ("value", "shape", "strides", "offset", "dtype")

    def __init__(self, value: Value, shape: "Shape", strides: "Shape | None", offset: int, dtype: str) -> None:
        self.value = value
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.dtype = dtype


BAND = 64           # bytes behind a Banded value


class Banded:
    """A value's bytes and BAND more behind them that nothing else uses: for kernels that are not trusted."""
    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class Scratch:
    """Arena memory for the duration of one call."""
    __slots__ = ("shape", "dtype")

    def __init__(self, shape: "Shape", dtype: str) -> None:
        self.shape = shape
        self.dtype = dtype


class Packed:
    """`pylite._core.kernels.<function>(array of value, *args)`, computed once per model and shared.

    made: the result, once Model.pack() has been asked for it.
    """
    __slots__ = ("function", "value", "args", "made")

    def __init__(self, function: str, value: Value, *args: "Any") -> None:
        self.function = function
        self.value = value
        self.args = args
        self.made: Any = None


class Call:
    """One kernel to run: `kernel` is "family.Class" under pylite._core.kernels, or a callable; it gets `args`.

    inplace: (y, x) when the kernel may write y over x, should x be needed no more; note: why this one, in a few words;
    strided: which of the args may be a View of any strides whose last axis is contiguous (or not, for movement.Copy).
    """
    __slots__ = ("kernel", "args", "inplace", "node", "note", "strided")

    def __init__(self, kernel: "Kernel", *args: "Any", inplace: "tuple[Value, Value] | None" = None,
                 note: "str | None" = None, strided: "Sequence[int]" = ()) -> None:
        self.kernel = kernel
        self.args = args
        self.inplace = inplace
        self.note = note
        self.strided = strided
        self.node: Node = None  # type: ignore[assignment]      # set when it is lowered


def roots(call: Call) -> "list[Value]":
    """The values whose memory `call` sees, one for each argument."""
    return [a.root if type(a) is Value else a.value.root for a in call.args if type(a) in (Value, View, Banded)]


class Alias:
    """y is x's bytes under another shape: nothing to run."""
    __slots__ = ("y", "x")

    def __init__(self, y: Value, x: Value) -> None:
        self.y = y
        self.x = x


class Constant:
    """y is known while lowering: `data`, an array of y's shape and dtype."""
    __slots__ = ("y", "data")

    def __init__(self, y: Value, data: "NDArray[Any]") -> None:
        self.y = y
        self.data = data


class FoldablePad:
    """y, which the calls before compute, is x with borders of `fill`: a reader of y may read x and add the borders.

    pairs: (before, after) of each axis; fill: a number; folded: the nodes that read x instead.
    """
    __slots__ = ("y", "x", "pairs", "fill", "folded")

    def __init__(self, y: Value, x: Value, pairs: "Sequence[tuple[int, int]]", fill: float) -> None:
        self.y = y
        self.x = x
        self.pairs = pairs
        self.fill = fill
        self.folded: list[Node] = []


class Temporary(Value):
    """Arena memory that several calls of one node share; number: which of the node's."""
    __slots__ = ()

    def __init__(self, node: "Node", shape: "Sequence[int]", dtype: str, number: int = 0) -> None:
        self.tensor = None  # type: ignore[assignment]
        self.data, self.fixed, self.quantization, self.quantized = None, False, None, False
        self.scale, self.zero_point = _NO_SCALE, 0
        self.index = -1 - 8 * node.index - number       # no tensor's
        self.name, self.kind = "temporary", "temporary"
        self.shape, self.dtype, self.root, self.byte_offset, self.pad = tuple(shape), dtype, self, 0, None


class Node:
    """One operator while it is lowered.

    host: what it is lowered for, a host.Host, through which ops reach other subgraphs and what outlives a run; or None.
    kept: what `evaluate` wants to find again, in the next run on the same arrays; None before the first.
    """
    __slots__ = ("operator", "index", "name", "version", "options", "inputs", "outputs", "values", "host", "kept")

    def __init__(self, index: int, operator: "Operator", values: "Sequence[Any]", host: "Host | None" = None) -> None:
        self.operator = operator
        self.index = index
        self.name = operator.name
        self.version = operator.version
        self.options = operator.options
        self.values = values
        self.host = host
        self.kept: Any = None
        # Typed without None, which most ops never meet; input() says that an operand may be absent.
        self.inputs: list[Value] = [values[i] if i >= 0 else None for i in operator.inputs]  # type: ignore[misc]
        self.outputs: list[Value] = [values[i] if i >= 0 else None for i in operator.outputs]  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"node {self.index} {self.name}"

    def over(self, inputs: "list[Value]", outputs: "list[Value]") -> "Node":
        """This node over other values: for an op that is lowered to several."""
        other = Node(self.index, self.operator, self.values, self.host)
        other.inputs, other.outputs = inputs, outputs
        return other

    @property
    def intermediates(self) -> "list[Value | None]":
        return [self.values[i] if i >= 0 else None for i in self.operator.intermediates]

    def error(self, text: str, value: object = None) -> OpError:
        """The exception to raise when this node cannot be prepared: names the op and, when given, the tensor."""
        return OpError(f"{self}: {text}" if value is None else f"{self}: tensor {value!r}: {text}")

    def failure(self, why: str) -> ExecutionError:
        """The exception to raise when this node could not run: names its tensors."""
        return ExecutionError(f"{self} failed: {why}; its tensors: "
                              f"{', '.join(repr(v) for v in (*self.inputs, *self.outputs) if v is not None)}")

    def input(self, i: int) -> "Value | None":
        """Input i, or None when it is absent or left out."""
        return self.inputs[i] if i < len(self.inputs) else None

    def constant(self, i: int, what: str = "input") -> "NDArray[Any]":
        """The contents of input i, which must be known while lowering."""
        value = self.inputs[i]
        if value.data is None:
            raise DataDependentError(f"{self}: tensor {value!r}: its {what} is computed at run time", value)
        return value.data
