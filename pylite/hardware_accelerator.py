"""HardwareAccelerator: the processors that a CompiledModel may use."""
from __future__ import annotations

import enum

__all__ = ["HardwareAccelerator"]


class HardwareAccelerator(enum.IntFlag):
    """Processors, combined by `|`.  pylite computes on the CPU; GPU and NPU are accepted only together with CPU."""
    CPU = 1
    GPU = 2
    NPU = 4
