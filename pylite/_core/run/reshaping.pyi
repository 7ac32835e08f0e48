from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from pylite._core.run.program import ExecutorBase, ShapeCache

class Reshaper:
    def __init__(self, recorded: Any, history: Any, make: type[Any], kernel_class: Callable[[str], Any],
                 is_plain: Callable[[], bool]) -> None: ...
    def bound(self, executor: Any, arena: NDArray[Any]) -> Any: ...
    def activate(self, executor: ExecutorBase, cache: ShapeCache) -> bool: ...
