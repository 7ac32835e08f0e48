"""Reads the attributes of a Flex op from a TensorFlow NodeDef, a protocol buffer in the operator's custom options."""
from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pylite.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Numbers of fields: NodeDef.attr, key and value of its entries, and the kinds of AttrValue.
_ATTR, _KEY, _VALUE = 5, 1, 2
_LIST, _TEXT, _INTEGER, _FLOAT, _BOOL, _TYPE, _SHAPE = range(1, 8)
_DIM, _SIZE, _UNKNOWN_RANK = 2, 1, 3
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5        # wire types
# DataType of TensorFlow -> the name of the type.
_TYPES = {1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64",
          9: "int64", 10: "bool", 14: "bfloat16", 17: "uint16", 18: "complex128", 19: "float16", 20: "resource",
          21: "variant", 22: "uint32", 23: "uint64"}


def attributes(custom_options: bytes, name: str) -> dict[str, Any]:
    """{attribute: value} of the operator `name`: str, int, float, bool, types by name, shapes as tuples, and lists.

    A shape is None if its rank is unknown; -1 is an unknown size.  Kinds that no op here has, such as tensors and
    functions, are skipped.  Raises ModelError naming the operator if the bytes are damaged.
    """
    from flatbuffers import flexbuffers
    try:
        node = flexbuffers.GetRoot(bytes(custom_options)).AsVector[1]
        encoded = bytes(node.AsStringBytes if node.IsString else node.AsBlob)
        return dict(_attribute(value) for field, value in _fields(encoded) if field == _ATTR)
    except Exception as error:
        # flexbuffers checks nothing: any exception, from IndexError to AssertionError, means damaged bytes.
        raise ModelError(f"operator {name!r}: its custom options ({len(custom_options)} bytes) are not a name and a "
                         f"NodeDef "
                         f"of TensorFlow in a FlexBuffer: {error}") from None


def _attribute(entry: Any) -> tuple[str, Any]:
    fields = dict(_fields(entry))
    return bytes(fields[_KEY]).decode(), _value(fields.get(_VALUE, b""))


def _value(encoded: Any) -> Any:
    """The value of an AttrValue."""
    for kind, raw in _fields(encoded):
        if kind == _LIST:
            return [_scalar(of, each) for of, packed in _fields(raw) for each in _unpacked(of, packed)]
        return _scalar(kind, raw)
    return None


def _unpacked(kind: int, raw: Any) -> list[Any]:
    """The elements of a list's field; numbers may be packed in bytes."""
    if kind in (_TEXT, _SHAPE) or isinstance(raw, int):
        return [raw]
    if kind == _FLOAT:
        return [raw[i:i + 4] for i in range(0, len(raw), 4)]
    numbers, position = [], 0
    while position < len(raw):
        number, position = _varint(raw, position)
        numbers.append(number)
    return numbers


def _scalar(kind: int, raw: Any) -> Any:
    if kind == _TEXT:
        return bytes(raw).decode("utf-8", "surrogateescape")
    if kind == _INTEGER:
        return raw - (1 << 64) if raw >> 63 else raw
    if kind == _FLOAT:
        return struct.unpack("<f", raw)[0]
    if kind == _BOOL:
        return bool(raw)
    if kind == _TYPE:
        return _TYPES.get(raw)
    return _shape(raw) if kind == _SHAPE else None


def _shape(encoded: Any) -> tuple[int, ...] | None:
    fields = list(_fields(encoded))
    if any(number == _UNKNOWN_RANK and raw for number, raw in fields):
        return None
    return tuple(_scalar(_INTEGER, dict(_fields(raw)).get(_SIZE, 0)) for number, raw in fields if number == _DIM)


def _fields(encoded: Any) -> Iterator[tuple[int, Any]]:
    """(number, raw value) of each field: an int for a varint, else bytes."""
    encoded, position = memoryview(encoded), 0
    while position < len(encoded):
        tag, position = _varint(encoded, position)
        wire = tag & 7
        if wire == _VARINT:
            raw, position = _varint(encoded, position)
            yield tag >> 3, raw
            continue
        if wire == _BYTES:
            size, position = _varint(encoded, position)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"the wire type {wire} is unknown")
        if size > len(encoded) - position:
            raise ValueError("it ends within a field")
        yield tag >> 3, encoded[position:position + size]
        position += size


def _varint(encoded: Any, position: int) -> tuple[int, int]:
    """(the integer at `position`, of at most 64 bits, the position after it)"""
    value = 0
    for shift in range(0, 70, 7):
        byte = encoded[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, position
    raise ValueError("an integer has more than 10 bytes")
