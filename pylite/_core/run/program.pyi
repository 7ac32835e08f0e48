from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylite._core.run.kernel import Kernel
from pylite._core.simd import Pool

class Program:
    def __new__(cls, kernels: list[Kernel], pool: Pool | None = None) -> Program: ...
    @property
    def size(self) -> int: ...
    @property
    def kernels(self) -> list[Kernel]: ...
    @property
    def pool(self) -> Pool | None: ...
    def run(self, start: int = 0, stop: int = -1) -> tuple[int, int] | None: ...
    def profile(self, clock: NDArray[np.int64]) -> tuple[int, int] | None: ...

class Callee:
    def __init__(self, program: Program, failure: Callable[[int, int], Exception],
                 inputs: list[NDArray[Any] | None], outputs: list[NDArray[Any]],
                 segment: Segment | None = None) -> None: ...
    @property
    def inputs(self) -> int: ...
    @property
    def arrays(self) -> list[NDArray[Any] | None] | None: ...
    @property
    def segment(self) -> Segment | None: ...

class IOBytes:
    def callee(self, segment: Segment, inputs: int, absent: list[int]) -> Callee: ...

class Memory:
    def __init__(self, array: NDArray[Any]) -> None: ...
    @property
    def array(self) -> NDArray[Any]: ...

class Segment:
    program: Any
    boundary: Any
    watched: Any
    evaluate: Any
    evaluated: Any
    next: dict[Any, Any]
    readable: dict[int, Memory]
    writable: dict[int, Memory]
    used: bool
    arena: NDArray[Any]
    iterations: dict[Any, Any]
    def start(self, program: Any, arena: NDArray[Any], boundary: Any = None) -> None: ...

class ExecutorBase:
    readable: dict[int, Memory]
    writable: dict[int, Memory]
    fast_program: Program | None
    first_segment: Segment | None
    segments: list[Any]         # BoundPrograms
    dynamic_shapes: Any         # the module, or None
    guard: bool
    def enter(self, bound: Segment) -> None: ...
    def run(self, segment: Segment) -> None: ...

class ReshaperBase: ...

class ShapeCache:
    capacity: int
    reshaper: ReshaperBase | None
    def __init__(self, capacity: int) -> None: ...
    def clear(self) -> None: ...
    def get(self, key: Any) -> Any: ...
    def add(self, key: Any, program: Any) -> None: ...
    def activate(self, executor: ExecutorBase) -> bool: ...
