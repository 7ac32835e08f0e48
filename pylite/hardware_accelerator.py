"""HardwareAccelerator: the processors that a CompiledModel may use."""
from __future__ import annotations

import enum

__all__ = ["HardwareAccelerator"]


class HardwareAccelerator(enum.IntFlag):
    """Processors, to be combined by `|`.  pylite computes on the CPU: GPU and NPU need CPU beside them."""
    CPU = 1
    GPU = 2
    NPU = 4
