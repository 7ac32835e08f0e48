from collections.abc import Mapping, Sequence
from typing import Any, Final

from pylite.interpreter import Interpreter

ENTRY_POINTS: Final[tuple[str, ...]]

class Delegate:
    def __init__(self, library: str, options: Mapping[Any, Any] | None = None) -> None: ...

def load_delegate(library: str, options: Mapping[Any, Any] | None = None) -> Delegate: ...
def apply(interpreter: Interpreter, delegates: Sequence[Delegate]) -> None: ...
