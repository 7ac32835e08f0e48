"""Reads a model's metadata about inputs and outputs: labels, normalization, calibration of scores, sample rate."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import ModelError
from pylite.media import labels
from pylite.media.files import lines_of
from pylite.schema.reader import read_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from numpy.typing import NDArray

    from pylite.runtime.model import Model

AXIS_LABELS, VALUE_LABELS, CALIBRATION, VOCABULARY = 2, 3, 4, 5      # AssociatedFileType
HIGHEST_RATE = 1_000_000        # samples of sound per second, beyond those of ultrasound; memory grows with it
LOG, INVERSE_LOGISTIC = 1, 2            # ScoreTransformationType
UNKNOWN, BOUNDARIES, RATIO = 0, 1, 0    # BoundingBoxType, CoordinateType


@dataclass
class Calibration:
    """Calibration of scores: parameters is (classes, 4): scale, slope, offset, least score; NaN for a class without."""
    transformation: int
    default_score: float
    parameters: NDArray[np.float64]

    def __call__(self, scores: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float32]:
        """Calibrated scores; classes: of each score."""
        x = scores.astype(np.float64)
        known = (classes >= 0) & (classes < len(self.parameters))
        scale, slope, offset, least = self.parameters[np.where(known, classes, 0)].T
        with np.errstate(all="ignore"):
            g = {LOG: lambda: np.log(x), INVERSE_LOGISTIC: lambda: np.log(x) - np.log1p(-x)}.get(
                self.transformation, lambda: x)()
            calibrated = scale / (1 + np.exp(-(slope * g + offset)))
        known &= ~np.isnan(scale) & ~(x < least)
        return np.where(known, calibrated, self.default_score).astype(np.float32)


@dataclass
class TensorInfo:
    """The metadata of an input or output.  Everything may be missing.

    labels: by locale, "" for none: of the classes along the last axis, or of the values; box_order: positions of left,
    top, right and bottom; vocabulary: the words of a tokenizer; separators: the expression between words, if the
    vocabulary has a number beside each word.
    """
    name: str = ""
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    labels: dict[str, labels.Labels] = field(default_factory=dict)
    calibration: Calibration | None = None
    score_threshold: float | None = None
    sample_rate: int | None = None
    channels: int | None = None
    box_order: tuple[int, ...] | None = None
    vocabulary: tuple[str, ...] | None = None
    separators: str | None = None


def read(model: Model) -> tuple[list[TensorInfo], list[TensorInfo]]:
    """(inputs, outputs): a TensorInfo for each of subgraph 0.

    Raises ModelError if the metadata are damaged, or name a file that the model does not have.
    """
    subgraph, files = model.graph.subgraphs[0], labels.Files(model)
    tensors = [TensorInfo() for _ in subgraph.inputs], [TensorInfo() for _ in subgraph.outputs]
    known = _main(model.graph.metadata)
    if known is not None:
        for infos, records in zip(tensors, (known.input_tensor_metadata, known.output_tensor_metadata), strict=True):
            for info, record in zip(infos, records or (), strict=False):
                _describe(info, record)
                _attach(info, record, files)
        for info in tensors[0][:1]:
            _process(info, known.input_process_units, known.associated_files, files)
    lists = labels.listed(model)
    if lists and not any(info.labels for info in tensors[1]):     # the file does not name their output
        for info in tensors[1]:
            info.labels[""] = labels.parse(files.text(lists[0]))
    return tensors


def of_input(metadata: Mapping[str, Any], position: int) -> dict[str, Any]:
    """{"mean", "std": lists of numbers for pixels, "rate": samples of sound per second} of the input at `position`.

    metadata: {name: bytes} of the file.  Absent and damaged entries are missing in the result.
    """
    info = TensorInfo()
    try:
        known = _main(metadata)
        for record in ((known and known.input_tensor_metadata) or ())[position:position + 1]:
            _describe(info, record)
    except ModelError:
        return {}
    facts = {"mean": info.mean and list(info.mean), "std": info.std and list(info.std), "rate": info.sample_rate}
    return {name: value for name, value in facts.items() if value}


def _main(metadata: Mapping[str, Any]) -> Any:
    """The table of subgraph 0, or None."""
    data = metadata.get("TFLITE_METADATA")
    return None if data is None else (read_metadata(data).subgraph_metadata or [None])[0]


def _describe(info: TensorInfo, record: Any) -> None:
    """Enter what the record says without files."""
    info.name = record.name or ""
    properties = record.content and record.content.content_properties
    kind = properties.TABLE.name if properties else ""
    if kind == "AudioProperties":
        if properties.sample_rate > HIGHEST_RATE:
            raise ModelError(f"the model's metadata give input {info.name!r} a sample rate of "
                             f"{properties.sample_rate} Hz; expected at most {HIGHEST_RATE}")
        info.sample_rate, info.channels = properties.sample_rate or None, properties.channels or None
    elif kind == "BoundingBoxProperties":
        if properties.type not in (UNKNOWN, BOUNDARIES) or properties.coordinate_type != RATIO:
            raise ModelError(f"the model's metadata give the boxes of output {info.name!r} by their centres, sizes "
                             "or pixels; expected their edges, from 0 to 1")
        info.box_order = _order(properties.index, info.name)
    for options in _options(record.process_units, "NormalizationOptions"):
        info.mean, info.std = _normalization(options, info.name)
    for options in _options(record.process_units, "ScoreThresholdingOptions"):
        info.score_threshold = options.global_score_threshold


def _order(given: Any, name: str) -> tuple[int, ...]:
    """The order of the edges of boxes."""
    order = tuple(given or range(4))
    if sorted(order) != [*range(4)]:
        raise ModelError(f"the model's metadata give the edges of the boxes of output {name!r} in the order {order}; "
                         "expected each of 0 to 3 once")
    return order


def _normalization(options: Any, name: str) -> tuple[Any, Any]:
    """(mean, std) of the pixels, None if they are missing."""
    if not np.isfinite([*(options.mean or ()), *(options.std or ())]).all() or 0 in (options.std or ()):
        raise ModelError(f"the model's metadata normalize input {name!r} by the mean {options.mean} and the deviation "
                         f"{options.std}; expected finite numbers, and no deviation of 0")
    return options.mean, options.std


def _attach(info: TensorInfo, record: Any, files: labels.Files) -> None:
    """Read the files that the record names."""
    for file in record.associated_files or ():
        if file.type in (AXIS_LABELS, VALUE_LABELS):
            info.labels[file.locale or ""] = labels.parse(files.text(file.name))
    _process(info, record.process_units, record.associated_files, files)


def _options(units: Any, kind: str) -> Iterator[Any]:
    return (unit.options for unit in units or () if unit.options is not None and unit.options.TABLE.name == kind)


def _process(info: TensorInfo, units: Any, associated: Any, files: labels.Files) -> None:
    """Enter the vocabulary and the calibration that are in files."""
    words = [file for file in associated or () if file.type == VOCABULARY]
    for options in _options(units, "BertTokenizerOptions"):
        words += options.vocab_file or ()
    for options in _options(units, "RegexTokenizerOptions"):
        info.separators = options.delim_regex_pattern or ""
        words += options.vocab_file or ()
    for file in words[:1]:
        info.vocabulary = tuple(lines_of(files.text(file.name)))
    for options in _options(units, "ScoreCalibrationOptions"):
        for file in associated or ():
            if file.type == CALIBRATION:
                info.calibration = Calibration(options.score_transformation, options.default_score,
                                               _parameters(files.text(file.name)))


def _parameters(text: str) -> NDArray[np.float64]:
    """The parameters of a Calibration: a line for each class, of three or four numbers, or empty."""
    rows = []
    lines = lines_of(text)
    if len(lines) > labels.MOST_LINES:
        raise ModelError(f"the model's score calibration has {len(lines)} lines; expected one for each class, at most "
                         f"{labels.MOST_LINES}")
    for number, line in enumerate(lines, 1):
        try:
            row = [float(part) for part in line.split(",")] if line.strip() else [np.nan] * 3
        except ValueError:
            row = []
        if len(row) not in (3, 4):
            raise ModelError(f"line {number} of the model's score calibration is {line!r}; expected scale, slope, "
                             "offset and optionally the least score")
        rows.append((row + [-np.inf])[:4])
    return np.array(rows or [[np.nan] * 4], np.float64)
