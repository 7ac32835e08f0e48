"""The graph of a .tflite model: frozen records without behaviour.

Records are tuples with named elements, created in one step, and equal only to themselves.  Dataclasses, which generate
code, would take half of the import time; setting slots one by one would take a third of the load time.

A data type is its name in lower case ("float32", "int8", ...); other enumerations of the file are their names as the
schema spells them ("SAME", "RELU6").  An index of -1 stands for an absent operand.
"""

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, dataclass_transform

from pylite.ir.dtypes import DTYPE_BITS as DTYPE_BITS  # others import them from here
from pylite.ir.dtypes import DTYPES as DTYPES
from pylite.ir.dtypes import NUMPY_DTYPES as NUMPY_DTYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, ClassVar, Self, TypeVar

    from numpy.typing import NDArray

    _Record = TypeVar("_Record", bound="Frozen")
    _tuplegetter: Callable[..., Any]
else:
    try:
        from _collections import _tuplegetter  # the attributes of namedtuples, in a third of the time
    except ImportError:
        from operator import itemgetter

        def _tuplegetter(index, doc):
            return property(itemgetter(index), doc=doc)

def packed_size(dtype: str, shape: "Sequence[int]") -> "int | None":
    """Bytes that a constant occupies in the file; None if they depend on the contents."""
    bits = DTYPE_BITS[dtype]
    return None if bits is None else (math.prod(shape) * bits + 7) // 8


_REQUIRED = object()


@dataclass_transform(frozen_default=True, eq_default=False)
class Frozen(tuple):  # type: ignore[type-arg]
    """The base of a record: its constructor takes the annotated names, in order.

    Values given in the class body are defaults, shared by all instances.  It needs `__slots__ = ()`.  Annotations are
    quoted, so that they are not evaluated; `replace` makes a changed copy.
    """
    __slots__ = ()
    _FIELDS: "ClassVar[tuple[tuple[str, Any], ...]]" = ()        # (name, default)
    _PLACES: "ClassVar[dict[str, int]]" = {}

    def __init_subclass__(cls) -> None:
        names = cls.__annotations__
        cls._FIELDS = tuple([(name, vars(cls).get(name, _REQUIRED)) for name in names])
        cls._PLACES = {name: i for i, name in enumerate(names)}
        for name, i in cls._PLACES.items():
            setattr(cls, name, _tuplegetter(i, None))

    # A record from a tuple of all its values, in half the time.
    of: "ClassVar[Callable[[Sequence[Any]], Self]]" = classmethod(tuple.__new__)  # type: ignore[assignment]

    def __new__(cls, *values: "Any", **named: "Any") -> "Self":
        if named or len(values) != len(cls._FIELDS):
            values = cls._completed(list(values), named)
        return tuple.__new__(cls, values)

    @classmethod
    def _completed(cls, values: "list[Any]", named: "dict[str, Any]") -> "Any":
        """All values in order: after those given by position, those given by name and the defaults."""
        if len(values) > len(cls._FIELDS):
            raise TypeError(f"{cls.__name__} takes {len(cls._FIELDS)} values, and {len(values)} were given")
        for name, default in cls._FIELDS[len(values):]:
            value = named.pop(name, default)
            if value is _REQUIRED:
                raise TypeError(f"{cls.__name__} needs a value for {name}")
            values.append(value)
        if named:
            raise TypeError(f"{cls.__name__} takes {', '.join(named)} twice or never")
        return values

    __eq__ = object.__eq__
    __ne__ = object.__ne__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n, _ in self._FIELDS)})"

    def __reduce__(self) -> "tuple[Any, ...]":
        return type(self), tuple(self)


def replace(frozen: "_Record", **changes: "Any") -> "_Record":
    """A copy of a record with changed fields.  KeyError for a field that it lacks."""
    kind, values = type(frozen), list(frozen)
    for name, value in changes.items():
        values[kind._PLACES[name]] = value
    return kind.of(values)


class Quantization(Frozen):
    """real = scale * (q - zero_point), with one scale for the tensor, or one per index along `axis`.

    scale: float32 (n,); zero_point: int64 (n,), zeros if the file has none.  In blockwise quantization `block_size`
    elements share a scale: the scales are another tensor, whose elements `scale` contains in order (it is empty if they
    are computed at run time), and `zero_point` is empty if there is no tensor for it.
    """
    __slots__ = ()
    scale: "NDArray[Any]"
    zero_point: "NDArray[Any]"
    axis: int = 0
    block_size: int = 0
    block_shape: "tuple[int, ...]" = ()     # blocks over several axes, one size per axis
    axes: "tuple[int, ...]" = ()            # multi-axis quantization: the axes along which scales vary
    scale_tensor: int = -1                  # index of the tensor that holds the scales
    zero_point_tensor: int = -1
    min: "NDArray[Any] | None" = None       # float32: the range observed by the converter; kernels do not use it
    max: "NDArray[Any] | None" = None
    custom: bytes = b""


class ExternalBuffer(Frozen):
    """The place of a constant outside the model: bytes [offset, offset + size) of the file `group`."""
    __slots__ = ()
    group: str
    offset: int
    size: int
    packing: str = ""


class Tensor(Frozen):
    """A tensor as the file declares it.

    shape: sizes, with 1 for an unknown size; shape_signature: the same, with -1 for an unknown size.
    data: the constant's bytes as the file packs them (uint8, read-only, aligned for dtype), or None.
    """
    __slots__ = ()
    index: int  # type: ignore[assignment]      # tuple.index()
    name: str
    dtype: str
    shape: "tuple[int, ...]"
    shape_signature: "tuple[int, ...]"
    data: "NDArray[Any] | None" = None
    quantization: "Quantization | None" = None
    is_variable: bool = False
    sparsity: "Any" = None              # a pylite.schema.sparse.Sparsity, or None
    has_rank: bool = False              # set: an empty shape is a scalar's; clear: it may mean an unknown rank
    variants: "tuple[tuple[str, tuple[int, ...]], ...]" = ()   # elements of a "variant": (dtype, shape)
    buffer: int = 0                     # number of the file's buffer, which several tensors may share
    external: "ExternalBuffer | None" = None


class Operator(Frozen):
    """One operator of a subgraph.

    name: "CONV_2D", or the custom code; options: the fields of its options table as attributes, with the schema's
    defaults for fields that the file omits, and no attributes for a custom op.
    """
    __slots__ = ()
    index: int  # type: ignore[assignment]      # tuple.index()
    name: str
    builtin_code: int
    custom: bool
    version: int
    inputs: "tuple[int, ...]"
    outputs: "tuple[int, ...]"
    options: object
    intermediates: "tuple[int, ...]" = ()
    custom_options: bytes = b""


class Subgraph(Frozen):
    """Operators in the order of execution, and the tensors that they read and write."""
    __slots__ = ()
    index: int  # type: ignore[assignment]      # tuple.index()
    name: str
    tensors: "tuple[Tensor, ...]"
    inputs: "tuple[int, ...]"
    outputs: "tuple[int, ...]"
    operators: "tuple[Operator, ...]"


class Signature(Frozen):
    """A named entry to a subgraph: names of its inputs and outputs -> tensor indices."""
    __slots__ = ()
    key: str
    subgraph: int
    inputs: "dict[str, int]"
    outputs: "dict[str, int]"


class Model(Frozen):
    """A whole file.  metadata: name -> bytes; contents: all its bytes."""
    __slots__ = ()
    subgraphs: "tuple[Subgraph, ...]"
    signatures: "tuple[Signature, ...]" = ()
    metadata: "Mapping[str, memoryview]" = MappingProxyType({})
    description: str = ""
    version: int = 3
    contents: memoryview = memoryview(b"")

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return len(self.contents)
