from typing import Any

from numpy.typing import NDArray

from pylite._core.run.kernel import Kernel

COUNTS: int
SUMS: int
EXTREMES: int
LIMBS: int
BINS: int

class Observe(Kernel):
    def __init__(self, dtype: str, values: NDArray[Any], reference: NDArray[Any], grid: tuple[float, int],
                 limits: tuple[float, float, float, float], counts: NDArray[Any], limbs: NDArray[Any],
                 extremes: NDArray[Any]) -> None: ...

class Count(Kernel):
    def __init__(self, observed: Observe, inverse: float, offset: float, counts: NDArray[Any],
                 exponents: NDArray[Any]) -> None: ...

def add_exactly(addends: NDArray[Any], limbs: NDArray[Any], too_large: NDArray[Any]) -> None: ...
