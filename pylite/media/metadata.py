"""What the metadata that converters attach to a model say about its inputs: normalization of pixels, rate of sound."""
from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

# Slots of tables in the metadata's schema, and numbers in its unions.
_SUBGRAPHS, _INPUTS, _CONTENT, _PROCESS_UNITS = 3, 2, 3, 4
_NORMALIZATION, _AUDIO = 1, 4


def of_input(metadata: Mapping[str, Any], position: int) -> dict[str, Any]:
    """{"mean", "std": lists of numbers for pixels, "rate": samples of sound per second} of the input at `position`.

    metadata: {name: bytes} of the file.  What they leave out, or are too damaged for, is missing in the result.
    """
    found: dict[str, Any] = {}
    if "TFLITE_METADATA" in metadata:
        try:
            for subgraph in list(_tables(_root(bytes(metadata["TFLITE_METADATA"])), _SUBGRAPHS))[:1]:
                for tensor in list(_tables(subgraph, _INPUTS))[position:position + 1]:
                    _read(tensor, found)
        except (struct.error, ValueError, IndexError, TypeError, OverflowError):
            return {}
    return found


def _read(tensor: Any, found: dict[str, Any]) -> None:
    for unit in _tables(tensor, _PROCESS_UNITS):
        options = _union(unit, 0, _NORMALIZATION)
        if options is not None:
            for slot, name in enumerate(("mean", "std")):
                at = _offset(options, slot)
                if at:
                    count = options.VectorLen(at)
                    found[name] = np.frombuffer(options.Bytes, "<f4", count, options.Vector(at)).tolist()
    at = _offset(tensor, _CONTENT)
    if at:
        audio = _union(_table(tensor.Bytes, tensor.Indirect(at + tensor.Pos)), 0, _AUDIO)
        if audio is not None and _offset(audio, 0):
            found["rate"], = struct.unpack_from("<I", audio.Bytes, audio.Pos + _offset(audio, 0))


def _table(data: bytes, position: int) -> Any:
    from flatbuffers.table import Table  # type: ignore[import-untyped,unused-ignore]  # models load without it
    return Table(data, position)


def _root(data: bytes) -> Any:
    return _table(data, *struct.unpack_from("<I", data))


def _offset(table: Any, slot: int) -> int:
    offset: int = table.Offset(4 + 2 * slot)
    return offset


def _tables(table: Any, slot: int) -> Iterator[Any]:
    """The tables of the vector in a slot."""
    at = _offset(table, slot)
    if at:
        start = table.Vector(at)
        for i in range(table.VectorLen(at)):
            yield _table(table.Bytes, table.Indirect(start + 4 * i))


def _union(table: Any, slot: int, wanted: int) -> Any:
    """The table of a union if it is of the wanted kind, else None."""
    kind, at = _offset(table, slot), _offset(table, slot + 1)
    if not kind or not at or table.Bytes[table.Pos + kind] != wanted:
        return None
    return _table(table.Bytes, table.Indirect(at + table.Pos))
