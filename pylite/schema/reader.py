"""Checked reader: the bytes of a .tflite file -> Record of its Model table.

Nothing in the file is trusted.  Every position is checked before it is read, and since tables may be shared, so that
a small file could unfold into a huge graph, what is decoded is budgeted by the size of the file.
"""
import struct

import numpy as np

from pylite.errors import ModelError
from pylite.schema.tables import NUMBERS, enum, table, union

INVALID = "The model is not a valid Flatbuffer buffer"
IDENTIFIER = b"TFL3"
_MOST_TABLES = 1 << 19       # far more than any graph has; a hostile file then costs some 200 MB
_MOST_BYTES = 1 << 25        # of strings and tuples; arrays are views and cost nothing
_MOST_VTABLES = 10_000
_VTABLE_HEAD = struct.Struct("<HH")
_UNSIGNED, _SIGNED = struct.Struct("<I"), struct.Struct("<i")     # offsets
_OFFSET = ("I", 4)
_KNOWN_FILES = ((b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with `git lfs pull`"),
                (b"PK\3\4", "a zip archive, such as a .keras or .mar file"), (b"\x89HDF", "an HDF5 file"),
                (b"\x1f\x8b", "compressed with gzip"), (b"<", "a web page or XML"))


class _Damage(Exception):
    """Something wrong at `position`; `path` collects the fields that lead there, innermost first."""

    def __init__(self, text, position):
        self.text = text
        self.position = position
        self.path = []


def read(source):
    """The Record of the Model table in `source`, a bytes-like object; its arrays are views of `source`.

    Data that lies beyond the flatbuffer (a buffer's or a custom operator's offset and size) is put in its place, so
    `Buffer.data` and `Operator.custom_options` are always the data.  Raises ModelError (a ValueError) that says what
    is wrong and where.
    """
    return _Reader(source).read()


class _Reader:
    def __init__(self, source):
        self.buffer = memoryview(source).cast("B").toreadonly()
        self.size = len(self.buffer)
        self.bytes = np.frombuffer(self.buffer, np.uint8) if self.size else np.empty(0, np.uint8)
        self.misalignment = self.bytes.__array_interface__["data"][0] % 16
        self.tables_left = min(self.size // 8 + 1024, _MOST_TABLES)
        self.bytes_left = min(2 * self.size + 65536, _MOST_BYTES)
        self.vtables_left = _MOST_VTABLES
        self.decoders = {}

    def read(self):
        if self.size < 8:
            raise ModelError(f"{INVALID}: it has {self.size} bytes, too few for a model")
        identifier = bytes(self.buffer[4:8])
        if identifier != IDENTIFIER:
            for start, what in _KNOWN_FILES:
                if self.buffer[:len(start)] == start:
                    raise ModelError(f"{INVALID}: it is {what}")
            raise ModelError(f"{INVALID}: the identifier at byte 4 is {identifier!r} instead of {IDENTIFIER!r}")
        try:
            model = self.table("Model")(0, _UNSIGNED.unpack_from(self.buffer)[0])
            self.fetch_outside(model)
        except _Damage as damage:
            path = "".join(step if step[0] == "[" else "." + step for step in reversed(damage.path)).lstrip(".")
            raise ModelError(f"{INVALID}: {path or 'the model'}, at byte {damage.position}: {damage.text}") from None
        return model

    def fetch_outside(self, model):
        for i, buffer in enumerate(model.buffers or ()):
            if buffer.offset or buffer.size:
                data = self.outside(buffer.offset, buffer.size, f"buffers[{i}].data")
                if buffer.data is None or not len(buffer.data):
                    buffer.data = data
                buffer.__dict__.pop("offset", None)
                buffer.__dict__.pop("size", None)
        for s, subgraph in enumerate(model.subgraphs or ()):
            for i, op in enumerate(subgraph.operators or ()):
                if op.large_custom_options_offset or op.large_custom_options_size:
                    data = self.outside(op.large_custom_options_offset, op.large_custom_options_size,
                                        f"subgraphs[{s}].operators[{i}].custom_options")
                    if op.custom_options is None:
                        op.custom_options = data
                    op.__dict__.pop("large_custom_options_offset", None)
                    op.__dict__.pop("large_custom_options_size", None)

    def outside(self, offset, size, name):
        """Data in the file outside the flatbuffer; offsets 0 and 1 mean that there is none."""
        if offset <= 1 or size == 0:
            return None
        if offset + size > self.size:
            damage = _Damage(f"{size} bytes that reach beyond the end of the file ({self.size} bytes)", offset)
            damage.path.append(name)
            raise damage
        return self.bytes[offset:offset + size]

    def table(self, name):
        """The decoder of a table: (position of the offset, offset) -> Record.  So are all decoders below."""
        if name in self.decoders:
            return self.decoders[name]
        kind = table(name)
        new = kind.__new__
        plans = {}
        buffer = self.buffer
        vtable_offset = _SIGNED.unpack_from

        def decode(at, offset):
            position = at + offset
            key = None
            try:
                self.tables_left -= 1
                if self.tables_left < 0:
                    raise _Damage("more tables than a file of this size holds", position)
                if not offset:
                    raise _Damage("null offset", at)
                vtable = position - vtable_offset(buffer, position)[0]
                plan = plans.get(vtable)
                if plan is None:
                    plan = plans[vtable] = self.plan(kind, vtable, position)
                keys, unpack, deferred, unions = plan
                values = dict(zip(keys, unpack(buffer, position), strict=True))
                for key, where, field in deferred:
                    values[key] = field(position + where, values[key])
                for key, where, names in unions:
                    number = values.pop(key + " type")
                    offset = values.pop(key)
                    if 0 < number < len(names):
                        values[key] = self.table(names[number])(position + where, offset)
            except _Damage as damage:
                if key:
                    damage.path.append(key)
                raise
            except struct.error:
                raise _Damage(f"the table reaches beyond the end of the file ({self.size} bytes)", position) from None
            record = new(kind)
            record.__dict__ = values
            return record

        self.decoders[name] = decode
        return decode

    def plan(self, kind, vtable, position):
        """How to read the tables with this vtable: (keys, unpack of their values in the order they lie in the table,
        what else to do for strings, vectors, tables and enumerations, what to do for unions)."""
        self.vtables_left -= 1
        if self.vtables_left < 0:
            raise _Damage("more kinds of tables than a model has", position)
        if not 0 <= vtable <= self.size - 4:
            raise _Damage(f"its vtable lies outside the file, at {vtable}", position)
        vtable_size, size = _VTABLE_HEAD.unpack_from(self.buffer, vtable)
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > self.size or size < 4:
            raise _Damage(f"its vtable at {vtable} has the impossible sizes {vtable_size}, {size}", position)
        fields = kind.FIELDS
        slots = min((vtable_size - 4) // 2, fields[-1].slot + 2) if fields else 0
        where = struct.unpack_from(f"<{slots}H", self.buffer, vtable + 4) + (0,) * 20
        layout, deferred, unions = [], [], []
        for field in fields:
            offset = where[field.slot]
            if field.kind == "union":
                table_offset = where[field.slot + 1]
                if offset and table_offset:
                    layout.append((offset, *NUMBERS["u8"], field.name + " type"))
                    layout.append((table_offset, *_OFFSET, field.name))
                    unions.append((field.name, table_offset, union(field.type)))
            elif offset:
                stored = NUMBERS[field.number] if field.kind in ("number", "enum") else _OFFSET
                layout.append((offset, *stored, field.name))
                if field.kind != "number":
                    deferred.append((field.name, offset, self.decoder(field)))
        layout.sort()
        form, end = "<4x", 4
        for offset, code, width, name in layout:
            if offset < end or offset + width > size:
                raise _Damage(f"its vtable at {vtable} puts the field {name!r} at {offset}, over another field or "
                              f"outside the table's {size} bytes", position)
            form += f"{offset - end}x{code}"
            end = offset + width
        unpack = struct.Struct(form + f"{size - end}x").unpack_from
        return tuple(entry[3] for entry in layout), unpack, deferred, unions

    def decoder(self, field):
        if field.kind == "table":
            return self.table(field.type)
        if field.kind == "tables":
            return self.vector_of_tables(self.table(field.type))
        if field.kind == "string":
            return self.string
        if field.kind == "array":
            return self.array(field.number)
        if field.kind == "enum":
            names = dict(enumerate(enum(field.type)))
            return lambda at, number: names.get(number, number)
        return self.tuple(field.number, enum(field.type) if field.kind == "enums" else None)

    def span(self, at, offset, width):
        """Checked position and number of a vector's elements, each `width` bytes."""
        start = at + offset + 4
        if not offset or start > self.size:
            raise _Damage(f"the vector lies outside the file ({self.size} bytes)" if offset else "null offset", at)
        count, = _UNSIGNED.unpack_from(self.buffer, start - 4)
        if start + count * width > self.size:
            raise _Damage(f"the vector's {count} elements reach beyond the end of the file ({self.size} bytes)",
                          start - 4)
        return start, count

    def spend(self, count, position):
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise _Damage("more text and numbers than a file of this size holds", position)

    def string(self, at, offset):
        start, count = self.span(at, offset, 1)
        self.spend(count, start)
        end = start + count
        if end == self.size or self.buffer[end]:
            raise _Damage("the string does not end with a null byte", start)
        return str(self.buffer[start:end], "utf-8", "surrogateescape")

    def tuple(self, number, names):
        code, width = NUMBERS[number]

        def decode(at, offset):
            start, count = self.span(at, offset, width)
            self.spend(count * width, start)
            values = struct.unpack_from(f"<{count}{code}", self.buffer, start)
            if names is None:
                return values
            return tuple(names[v] if 0 <= v < len(names) else v for v in values)
        return decode

    def array(self, number):
        code, width = NUMBERS[number]
        dtype = np.dtype("<" + code)

        def decode(at, offset):
            start, count = self.span(at, offset, width)
            data = self.bytes[start:start + count * width]
            if width == 1:
                return data
            if (start + self.misalignment) % width:
                self.spend(count * width, start)
                data = data.copy()
                data.flags.writeable = False
            return data.view(dtype)
        return decode

    def vector_of_tables(self, element):
        def decode(at, offset):
            start, count = self.span(at, offset, 4)
            if count > self.tables_left:
                raise _Damage(f"{count} tables are more than a file of this size holds", start)
            records = []
            try:
                for offset in struct.unpack_from(f"<{count}I", self.buffer, start):
                    records.append(element(start + 4 * len(records), offset))
            except _Damage as damage:
                damage.path.append(f"[{len(records)}]")
                raise
            return records
        return decode
