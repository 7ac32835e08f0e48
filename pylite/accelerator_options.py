"""Options for GPUs and NPUs, which CompiledModel takes so that programs that set them run; they have no effect."""
from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GpuOptions", "IntelOpenVinoGraphBackend", "IntelOpenVinoOptions", "IntelOpenVinoPerformanceMode",
           "QualcommBackend", "QualcommDspPerformanceMode", "QualcommGraphIOTensorMemType", "QualcommGraphPriority",
           "QualcommHtpPerformanceMode", "QualcommLogLevel", "QualcommOptimizationLevel", "QualcommOptions",
           "QualcommProfiling"]


@dataclasses.dataclass
class GpuOptions:
    """Options for GPUs, without effect."""
    enforce_f32: bool = False
    constant_tensor_sharing: bool = False
    infinite_float_capping: bool = False
    benchmark_mode: bool = False
    allow_src_quantized_fc_conv_ops: bool = False
    hint_waiting_for_completion: bool = False


IntelOpenVinoGraphBackend = enum.IntEnum("IntelOpenVinoGraphBackend", "CPU GPU NPU", start=0)
IntelOpenVinoPerformanceMode = enum.IntEnum("IntelOpenVinoPerformanceMode",
                                            "LATENCY THROUGHPUT CUMULATIVE_THROUGHPUT", start=0)


@dataclasses.dataclass
class IntelOpenVinoOptions:
    """Options for Intel's NPUs, without effect."""
    GRAPH_BACKEND = IntelOpenVinoGraphBackend
    PERFORMANCE_MODE = IntelOpenVinoPerformanceMode

    graph_backend: IntelOpenVinoGraphBackend | None = None
    performance_mode: IntelOpenVinoPerformanceMode | None = None
    configs_map: dict[str, str] = dataclasses.field(default_factory=dict)
    enable_weight_sharing: bool | None = None


QualcommLogLevel = enum.IntEnum("QualcommLogLevel", "OFF ERROR WARN INFO VERBOSE DEBUG", start=0)
QualcommHtpPerformanceMode = enum.IntEnum(
    "QualcommHtpPerformanceMode",
    "DEFAULT SUSTAINED_HIGH_PERFORMANCE BURST HIGH_PERFORMANCE POWER_SAVER LOW_POWER_SAVER HIGH_POWER_SAVER "
    "LOW_BALANCED BALANCED EXTREME_POWER_SAVER", start=0)
QualcommDspPerformanceMode = enum.IntEnum(
    "QualcommDspPerformanceMode",
    "DEFAULT SUSTAINED_HIGH_PERFORMANCE BURST HIGH_PERFORMANCE POWER_SAVER LOW_POWER_SAVER HIGH_POWER_SAVER "
    "LOW_BALANCED BALANCED", start=0)
QualcommProfiling = enum.IntEnum("QualcommProfiling", "OFF BASIC DETAILED LINTING OPTRACE", start=0)
QualcommOptimizationLevel = enum.IntEnum(
    "QualcommOptimizationLevel", "OPTIMIZE_FOR_INFERENCE OPTIMIZE_FOR_PREPARE OPTIMIZE_FOR_INFERENCE_O3", start=0)
QualcommGraphPriority = enum.IntEnum("QualcommGraphPriority", "DEFAULT LOW NORMAL NORMAL_HIGH HIGH", start=0)
QualcommBackend = enum.IntEnum("QualcommBackend", "UNDEFINED GPU HTP DSP IR", start=0)
QualcommGraphIOTensorMemType = enum.IntEnum("QualcommGraphIOTensorMemType", "RAW MEM_HANDLE", start=0)


@dataclasses.dataclass
class QualcommOptions:
    """Options for Qualcomm's NPUs, without effect."""
    LOG_LEVEL = QualcommLogLevel
    HTP_PERFORMANCE_MODE = QualcommHtpPerformanceMode
    DSP_PERFORMANCE_MODE = QualcommDspPerformanceMode
    PROFILING = QualcommProfiling
    OPTIMIZATION_LEVEL = QualcommOptimizationLevel
    GRAPH_PRIORITY = QualcommGraphPriority
    BACKEND = QualcommBackend
    GRAPH_IO_TENSOR_MEM_TYPE = QualcommGraphIOTensorMemType

    log_level: QualcommLogLevel | None = None
    htp_performance_mode: QualcommHtpPerformanceMode | None = None
    dsp_performance_mode: QualcommDspPerformanceMode | None = None
    use_int64_bias_as_int32: bool | None = None
    enable_weight_sharing: bool | None = None
    use_conv_hmx: bool | None = None
    use_fold_relu: bool | None = None
    profiling: QualcommProfiling | None = None
    dump_tensor_ids: Sequence[int] | None = None
    ir_json_dir: str = ""
    dlc_dir: str = ""
    vtcm_size: int | None = None
    num_hvx_threads: int | None = None
    optimization_level: QualcommOptimizationLevel | None = None
    graph_priority: QualcommGraphPriority | None = None
    backend: QualcommBackend | None = None
    saver_output_dir: str = ""
    graph_io_tensor_mem_type: QualcommGraphIOTensorMemType | None = None
