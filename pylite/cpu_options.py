"""CpuOptions: how a CompiledModel uses the CPU."""
from __future__ import annotations

import dataclasses

from pylite.cpu_kernel_mode import CpuKernelMode

__all__ = ["CpuKernelMode", "CpuOptions"]


FORCE_FP16 = 4      # in xnnpack_flags: TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16


@dataclasses.dataclass
class CpuOptions:
    """Options for the CPU.

    num_threads: threads for one run; 1 if it is 0 or less.
    kernel_mode: a CpuKernelMode; results are the same with each.
    xnnpack_flags: XNNPACK's; FORCE_FP16 (4) computes float32 products in float16 where the CPU does so, as
    Interpreter(precision="prefer_float16"); the other flags have no effect, nor have the other options.
    """
    num_threads: int = 0
    kernel_mode: CpuKernelMode | None = None
    enable_ynnpack: bool = False
    xnnpack_flags: int | None = None
    xnnpack_weight_cache_path: str = ""
