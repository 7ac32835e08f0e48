from collections.abc import Mapping, Sequence
from typing import Any, Final

ENTRY_POINTS: Final[tuple[str, ...]]

class Delegate:
    def __init__(self, library: str, options: Mapping[Any, Any] | None = None) -> None: ...

def load_delegate(library: str, options: Mapping[Any, Any] | None = None) -> Delegate: ...
def apply(executors: Sequence[Any], delegates: Sequence[Any], greedy: bool = True, fuse: bool = True) -> None: ...
