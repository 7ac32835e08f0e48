from collections.abc import Callable, Iterable, Sequence
from typing import Any

class OpResolver:
    def __init__(self) -> None: ...
    def find_op(self, name: str, version: int = 1) -> Any | None: ...
    def find(self, operator: Any) -> Any | None: ...
    def names(self) -> list[str]: ...
    def plugs(self) -> bool: ...

class MutableOpResolver(OpResolver):
    def add_builtin(
        self,
        name: str,
        registration: Any = None,
        min_version: int | None = None,
        max_version: int | None = None,
        *,
        shapes: Callable[..., Sequence[Any]] | None = None,
    ) -> None: ...
    def add_custom(
        self,
        name: str,
        registration: Any = None,
        min_version: int | None = None,
        max_version: int | None = None,
        *,
        shapes: Callable[..., Sequence[Any]] | None = None,
    ) -> None: ...
    def add_all(self, other: OpResolver) -> None: ...
    def remove(self, name: str) -> None: ...

class BuiltinOpResolver(MutableOpResolver): ...

registered: MutableOpResolver

def filled_by(
    registerers: Iterable[Callable[[MutableOpResolver], None]], op_resolver: OpResolver | None
) -> MutableOpResolver: ...
