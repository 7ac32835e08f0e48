from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from pylite._core.run.program import ExecutorBase, ReshaperBase

class Reshaper(ReshaperBase):
    def __init__(self, recorded: Any, history: Any, make: type[Any], kernel_class: Callable[[str], Any],
                 is_plain: Callable[[], bool]) -> None: ...
    def place(self) -> int: ...
    def bind(self, executor: ExecutorBase, arena: NDArray[Any]) -> Any: ...
