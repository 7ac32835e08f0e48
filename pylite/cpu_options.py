"""CpuOptions: how a CompiledModel uses the CPU."""
from __future__ import annotations

import dataclasses

from pylite.cpu_kernel_mode import CpuKernelMode

__all__ = ["CpuKernelMode", "CpuOptions"]


@dataclasses.dataclass
class CpuOptions:
    """Options for the CPU.

    num_threads: threads for one run; 1 where it is 0 or less.
    kernel_mode: a CpuKernelMode; results are the same with each.
    The others are XNNPACK's and have no effect.
    """
    num_threads: int = 0
    kernel_mode: CpuKernelMode | None = None
    enable_ynnpack: bool = False
    xnnpack_flags: int | None = None
    xnnpack_weight_cache_path: str = ""
