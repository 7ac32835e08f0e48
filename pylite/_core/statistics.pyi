from typing import Any

from numpy.typing import NDArray

SUMS: int
EXTREMES: int
LIMBS: int
BINS: int

def observe(values: NDArray[Any], reference: NDArray[Any], scale: float, zero_point: int, low: float, high: float,
            lowest: float, highest: float, sums: NDArray[Any], extremes: NDArray[Any]) -> None: ...
def round_trip(real: NDArray[Any], quantized: NDArray[Any], scale: float, zero_point: int) -> None: ...
def add_exactly(addends: NDArray[Any], limbs: NDArray[Any]) -> bool: ...
def count(values: NDArray[Any], inverse: float, offset: float, factor: float, counts: NDArray[Any]) -> None: ...
