from typing import Any

from numpy.typing import NDArray

class Damage(Exception):
    text: str
    position: int
    path: list[Any]
    def __init__(self, text: str, position: int) -> None: ...

class Decoder:
    def __init__(self, source: NDArray[Any], schema: Any, tables: int, numbers: int, layouts: int,
                 share: bool = False) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def bytes(self) -> NDArray[Any]: ...
    def root(self, name: str) -> Any: ...

