"""CpuKernelMode: which kernels a CompiledModel of LiteRT runs; pylite's compute the reference results in each."""
from __future__ import annotations

import enum

__all__ = ["CpuKernelMode"]


class CpuKernelMode(enum.IntEnum):
    """Kernels for the CPU.

    Results do not depend on it: they are those of the reference kernels.  A CompiledModel with REFERENCE or BUILTIN
    says that it is not accelerated.
    """
    DELEGATE = 0
    XNNPACK = 0
    REFERENCE = 1
    BUILTIN = 2
