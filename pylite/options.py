"""Options: how a CompiledModel runs."""
from __future__ import annotations

from typing import TYPE_CHECKING

from pylite.accelerator_options import (
    GpuOptions,
    IntelOpenVinoGraphBackend,
    IntelOpenVinoOptions,
    IntelOpenVinoPerformanceMode,
    QualcommBackend,
    QualcommDspPerformanceMode,
    QualcommGraphIOTensorMemType,
    QualcommGraphPriority,
    QualcommHtpPerformanceMode,
    QualcommLogLevel,
    QualcommOptimizationLevel,
    QualcommOptions,
    QualcommProfiling,
)
from pylite.cpu_options import CpuKernelMode, CpuOptions
from pylite.hardware_accelerator import HardwareAccelerator

if TYPE_CHECKING:
    from typing import Self

__all__ = ["CpuKernelMode", "CpuOptions", "GpuOptions", "HardwareAccelerator", "IntelOpenVinoGraphBackend",
           "IntelOpenVinoOptions", "IntelOpenVinoPerformanceMode", "Options", "QualcommBackend",
           "QualcommDspPerformanceMode", "QualcommGraphIOTensorMemType", "QualcommGraphPriority",
           "QualcommHtpPerformanceMode", "QualcommLogLevel", "QualcommOptimizationLevel", "QualcommOptions",
           "QualcommProfiling"]


class Options:
    """Options of one CompiledModel; groups that are not given are made when they are asked for.

    hardware_accelerators: the processors that may compute; see HardwareAccelerator.
    """

    def __init__(self, hardware_accelerators: HardwareAccelerator = HardwareAccelerator.CPU,
                 cpu_options: CpuOptions | None = None, gpu_options: GpuOptions | None = None,
                 qualcomm_options: QualcommOptions | None = None,
                 intel_openvino_options: IntelOpenVinoOptions | None = None) -> None:
        self.hardware_accelerators = hardware_accelerators
        self._cpu_options = cpu_options
        self._gpu_options = gpu_options
        self._qualcomm_options = qualcomm_options
        self._intel_openvino_options = intel_openvino_options

    @classmethod
    def create(cls) -> Self:
        """Options with the defaults."""
        return cls()

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]     # options can change

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def cpu_options(self) -> CpuOptions:
        """Options for the CPU."""
        if self._cpu_options is None:
            self._cpu_options = CpuOptions()
        return self._cpu_options

    @property
    def gpu_options(self) -> GpuOptions:
        """Options for GPUs, without effect."""
        if self._gpu_options is None:
            self._gpu_options = GpuOptions()
        return self._gpu_options

    @property
    def qualcomm_options(self) -> QualcommOptions:
        """Options for Qualcomm's NPUs, without effect."""
        if self._qualcomm_options is None:
            self._qualcomm_options = QualcommOptions()
        return self._qualcomm_options

    @property
    def intel_openvino_options(self) -> IntelOpenVinoOptions:
        """Options for Intel's NPUs, without effect."""
        if self._intel_openvino_options is None:
            self._intel_openvino_options = IntelOpenVinoOptions()
        return self._intel_openvino_options
