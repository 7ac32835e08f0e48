"""Writes the Record of a Model table as a .tflite file."""
import copy
import struct

import flatbuffers
import numpy as np
from flatbuffers import number_types

from pylite.schema.reader import IDENTIFIER
from pylite.schema.tables import NUMBERS, enum_numbers, union

ALIGNMENT = 16      # bytes, for constants in the file
_FLAGS = {"bool": number_types.BoolFlags, "i8": number_types.Int8Flags, "u8": number_types.Uint8Flags,
          "i16": number_types.Int16Flags, "u16": number_types.Uint16Flags, "i32": number_types.Int32Flags,
          "u32": number_types.Uint32Flags, "i64": number_types.Int64Flags, "u64": number_types.Uint64Flags,
          "f32": number_types.Float32Flags}


def write(model, outside=False):
    """The bytes of a file with `model`, the Record of a Model table, as read() returns it.

    outside: write constants after the flatbuffer, as files beyond 2 GB need; buffers then have their offset and size.
    Enumerations may be names or numbers.  Raises ValueError or TypeError for data that the format cannot hold.
    """
    if not outside:
        return _flatbuffer(model)
    buffers = model.buffers or []
    model = copy.copy(model)
    model.buffers = [_moved(buffer) for buffer in buffers]
    end = -(-len(_flatbuffer(model)) // ALIGNMENT) * ALIGNMENT
    moved = [(buffer, original) for buffer, original in zip(model.buffers, buffers, strict=True)
             if buffer is not original]
    for buffer, _ in moved:
        buffer.offset = end
        end += -(-buffer.size // ALIGNMENT) * ALIGNMENT
    contents = bytearray(end)
    head = _flatbuffer(model)
    contents[:len(head)] = head
    for buffer, original in moved:
        contents[buffer.offset:buffer.offset + buffer.size] = bytes(original.data)
    return bytes(contents)


def _moved(buffer):
    """A buffer for data outside the flatbuffer, with a placeholder as offset: 0 and 1 would mean that there is none."""
    if buffer.data is None or not len(buffer.data):
        return buffer
    return buffer.TABLE(offset=2, size=len(buffer.data))


def _flatbuffer(model):
    data = sum(len(buffer.data) + ALIGNMENT for buffer in model.buffers or () if buffer.data is not None)
    builder = flatbuffers.Builder(data + 4096)
    builder.Finish(_table(builder, model), IDENTIFIER)
    return bytes(builder.Output())


def _table(builder, record):
    """Write a record, after all strings, vectors and tables that it points to; returns its position."""
    positions = {}
    fields = record.TABLE.fields
    for field in fields:
        if field.kind not in ("number", "enum"):
            value = getattr(record, field.name)
            if value is not None:
                positions[field.name] = _target(builder, field, value, record.TABLE.name)
    builder.StartObject(fields[-1].slot + 1 + (fields[-1].kind == "union") if fields else 0)
    for field in fields:
        if field.name in positions:
            slot = field.slot
            if field.kind == "union":
                number = union(field.type).index(getattr(record, field.name).TABLE.name)
                builder.PrependUint8Slot(slot, number, 0)
                slot += 1
            builder.PrependUOffsetTRelativeSlot(slot, positions[field.name], 0)
        elif field.kind in ("number", "enum"):
            value = _number(field, getattr(record, field.name))
            builder.PrependSlot(_FLAGS[field.number], field.slot, value, _number(field, field.default))
    return builder.EndObject()


def _number(field, value):
    if field.kind == "enum" and isinstance(value, str):
        numbers = enum_numbers(field.type)
        if value not in numbers:
            raise ValueError(f"{field.name} has no value {value!r}; known: {', '.join(numbers)}")
        return numbers[value]
    return value


def _target(builder, field, value, owner):
    """Write the string, vector or table that a field of the table `owner` points to; returns its position."""
    if field.kind == "string":
        return builder.CreateString(value.encode("utf-8", "surrogateescape"))
    if field.kind in ("table", "union"):
        return _table(builder, value)
    if field.kind == "tables":
        positions = [_table(builder, record) for record in value]
        builder.StartVector(4, len(positions), 4)
        for position in reversed(positions):
            builder.PrependUOffsetTRelative(position)
        return builder.EndVector()
    code, width = NUMBERS[field.number]
    if field.kind == "enums":
        numbers = enum_numbers(field.type)
        value = [numbers.get(v, v) for v in value]
    if field.kind == "array":
        data = np.ascontiguousarray(value, "<" + code).tobytes()
    else:
        data = struct.pack(f"<{len(value)}{code}", *value)
    builder.StartVector(width, len(value), ALIGNMENT if owner == "Buffer" else width)
    builder.head -= len(data)
    builder.Bytes[builder.head:builder.head + len(data)] = data
    return builder.EndVector()
