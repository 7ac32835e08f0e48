from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from pylite._core.graph.tapes import Tape
from pylite._core.run.program import ExecutorBase, ReshaperBase

class Reshaper(ReshaperBase):
    def __init__(self, recorded: Any, history: Any, make: type[Any], kernel_class: Callable[[str], Any],
                 is_plain: Callable[[], bool]) -> None: ...
    def place(self) -> int: ...
    def bind(self, executor: ExecutorBase, arena: NDArray[Any]) -> Any: ...

class CalledProgram:
    boundary: None
    executor: Any
    shapes: Sequence[tuple[int, ...]]
    known_inputs: Mapping[int, NDArray[Any]]
    lowered: Any
    bound: Any
    entry: Any
    whole: bool
    def __init__(self, executor: ExecutorBase, shapes: Sequence[tuple[int, ...]],
                 known_inputs: Mapping[int, NDArray[Any]], lowered: Any, whole: bool = False,
                 absent: list[int] | None = None) -> None: ...
    def renew(self, tape: Tape) -> bool: ...
    def entering(self, whole: bool, absent: list[int]) -> CalledProgram: ...
    def shape(self, index: int) -> tuple[int, ...]: ...
