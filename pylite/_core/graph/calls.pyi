from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

TEMPORARIES: int

def enter_types(types: Mapping[str, Any]) -> None: ...

class ValueBase:
    tensor: Any
    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[Any] | None
    fixed: bool
    root: Any
    byte_offset: int
    pad: Any
    kind: str
    quantization: Any
    def copied(self) -> Any: ...
    quantized: bool
    scale: Any
    zero_point: int
    def __init__(self, tensor: Any, data: NDArray[Any] | None = None) -> None: ...
    @property
    def planned(self) -> bool: ...
    @property
    def size(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def flat(self) -> View: ...
    @property
    def bytes(self) -> View: ...
    def view(self, shape: tuple[int, ...] | None = None, strides: tuple[int, ...] | None = None, offset: int = 0,
             dtype: str | None = None) -> View: ...

def values_of(kind: type[Any], tensors: Sequence[Any], constant: Callable[[Any], Any]) -> list[Any]: ...

class NodeBase:
    operator: Any
    index: int
    name: str
    version: int
    options: Any
    inputs: list[Any]
    outputs: list[Any]
    values: Sequence[Any]
    host: Any
    memo: Any
    def __init__(self, index: int, operator: Any, values: Sequence[Any], host: Any = None) -> None: ...

class View:
    value: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    offset: int
    dtype: str
    def __init__(self, value: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int,
                 dtype: str) -> None: ...

class Scratch:
    shape: tuple[int, ...]
    dtype: str
    def __init__(self, shape: tuple[int, ...], dtype: str) -> None: ...

class Packed:
    function: str
    value: Any
    args: tuple[Any, ...]
    result: Any
    def __init__(self, function: str, value: Any, *args: Any) -> None: ...

class Call:
    kernel: str | Callable[..., Any]
    args: tuple[Any, ...]
    names: tuple[str, ...] | None
    inplace: tuple[Any, Any] | None
    node: Any
    note: str | None
    strided: Sequence[int]
    def __init__(self, kernel: str | Callable[..., Any], *args: Any, inplace: tuple[Any, Any] | None = None,
                 note: str | None = None, strided: Sequence[int] = (), **named: Any) -> None: ...
