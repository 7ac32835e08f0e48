from collections.abc import Callable
from typing import Any

from pylite._core.run.program import Program
from pylite._core.simd import Pool

KINDS: dict[str, int]

def bind(body: bytes, regions: list[Any], dtypes: list[Any], resources: list[Any], kernel_class: Callable[[str], Any],
         pool: Pool | None, failure_of: Callable[[Program, int], Any]) -> tuple[list[Any], list[Program]]: ...
