import os
from typing import Any

from numpy.typing import NDArray

from pylite.ir import graph as _graph

class Model:
    graph: _graph.Model
    folded: dict[tuple[int, int], NDArray[Any]]
    def __init__(self, source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> None: ...
    def constant(self, tensor: _graph.Tensor) -> NDArray[Any] | None: ...
    def pack(self, packed: Any) -> Any: ...
    @property
    def packed_bytes(self) -> int: ...
