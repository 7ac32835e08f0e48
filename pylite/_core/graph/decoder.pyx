"""Checked decoding of a flatbuffer's tables, driven by declarations.  It knows nothing of any schema.

Every position is checked before it is read.  Tables may be shared, so a small file could unfold into a huge graph; a
budget limits decoding.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_Copy
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SetItem
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

import numpy as np


cdef extern from "Python.h":
    object PyType_GenericNew(PyTypeObject *type, PyObject *args, PyObject *named)
    int PyObject_GenericSetDict(object record, object values, void *context) except -1

cdef enum:
    MAX_FIELDS = 32             # most fields of a table
cdef enum How:                  # how a field is decoded
    NUMBER, ENUM, STRING, TABLE, TABLES, ARRAY, TUPLE, ENUMS, UNION
cdef dict HOW = {"number": NUMBER, "enum": ENUM, "string": STRING, "table": TABLE, "tables": TABLES, "array": ARRAY,
                 "tuple": TUPLE, "enums": ENUMS, "union": UNION}


class Damage(Exception):
    """An error in the file at `position`; `path` collects the fields that lead there, innermost first."""

    def __init__(self, text, position):
        self.text = text
        self.position = position
        self.path = []


cdef class Field:
    """How to decode one field of a table."""
    cdef str name
    cdef int slot, how, width   # width: bytes of a number, or of an element
    cdef Py_UCS4 code           # of a number, as in `struct`
    cdef tuple names            # of an enumeration's values or a union's tables
    cdef object dtype           # of an array
    cdef object file            # the file as one array of this type, whose slices are made in half the time
    cdef Table table


cdef class Layout:
    """The positions of the fields in tables with one vtable."""
    cdef Py_ssize_t size
    cdef list fields
    cdef uint16_t offsets[MAX_FIELDS]
    cdef uint16_t kind[MAX_FIELDS]      # of unions: the position of the number of the table's type
    cdef dict known             # {bytes: record} of tables of unions that hold only numbers, or None


cdef class Table:
    """One kind of table: its declaration, its fields, and the layouts met so far, by the position of the vtable."""
    cdef str name
    cdef object declared        # this and `fields` are looked up when the first such table is decoded
    cdef list fields
    cdef dict defaults
    cdef dict layouts
    cdef Py_ssize_t vtable      # position of the vtable of the last decoded table
    cdef Layout layout
    cdef bint shared            # does a union hold it?


cdef uint64_t unsigned_at(const uint8_t *at, int width) noexcept:
    """A little-endian number, on any machine."""
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value |= <uint64_t>at[i] << 8 * i
    return value


cdef uint32_t offset_at(const uint8_t *at) noexcept:
    return at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24


cdef object number_at(const uint8_t *at, Py_UCS4 code):
    cdef uint32_t bits
    cdef float real
    if code == u"i":
        return <int32_t>offset_at(at)
    if code == u"I":
        return offset_at(at)
    if code == u"b":
        return <int8_t>at[0]
    if code == u"B":
        return at[0]
    if code == u"?":
        return at[0] != 0
    if code == u"q":
        return <int64_t>unsigned_at(at, 8)
    if code == u"Q":
        return unsigned_at(at, 8)
    if code == u"h":
        return <int16_t>unsigned_at(at, 2)
    if code == u"H":
        return <uint16_t>unsigned_at(at, 2)
    bits = offset_at(at)
    memcpy(&real, &bits, 4)
    return real


cdef class Decoder:
    """Decodes the tables in `source`, a uint8 array, into records.

    schema: has `NUMBERS`, `Record` and the functions `table`, `enum` and `union` (pylite.schema.tables).
    tables, numbers, layouts: the budget in tables, bytes of text and numbers, and vtables; share: may tables of unions
    that are equal be one record?
    """
    cdef const uint8_t[::1] view
    cdef const uint8_t *data
    cdef readonly Py_ssize_t size
    cdef readonly object bytes
    cdef object schema, record
    cdef int misalignment
    cdef int64_t tables_left, numbers_left, layouts_left
    cdef dict tables
    cdef bint share

    def __init__(self, source, schema, tables, numbers, layouts, share=False):
        self.share = share
        self.view = self.bytes = source
        self.size = self.view.shape[0]
        self.data = &self.view[0] if self.size else NULL
        self.schema, self.record = schema, schema.Record
        self.misalignment = <size_t>self.data % 16
        self.tables_left, self.numbers_left, self.layouts_left = tables, numbers, layouts
        self.tables = {}

    def root(self, str name):
        """The record of the table `name` that the file's first offset points to.  Raises Damage."""
        if self.size < 4:
            raise Damage(f"the table reaches beyond the end of the file ({self.size} bytes)", 0)
        return self.decode_table(self.table(name), 0, offset_at(self.data))

    cdef Table table(self, str name):
        found = self.tables.get(name)
        if found is not None:
            return found
        cdef Table table = Table()
        table.name = name
        table.layouts = {}
        table.vtable = -1
        self.tables[name] = table
        return table

    cdef list fields(self, Table table):
        """The Fields of a table."""
        if table.fields is not None:
            return table.fields
        cdef list fields = []
        cdef Field field
        table.declared = self.schema.table(table.name)
        table.defaults = table.declared.defaults
        for declared in table.declared.fields:
            field = Field()
            field.name, field.slot, field.how = declared.name, declared.slot, HOW[declared.kind]
            if declared.number:
                code, field.width = self.schema.NUMBERS[declared.number]
                field.code = code[0]
                if field.how == ARRAY:
                    field.dtype = np.dtype("<" + code)
            if field.how in (ENUM, ENUMS):
                field.names = self.schema.enum(declared.type)
            elif field.how == UNION:
                field.names = self.schema.union(declared.type)
            elif field.how in (TABLE, TABLES):
                field.table = self.table(declared.type)
            fields.append(field)
        if len(fields) > MAX_FIELDS:
            raise ValueError(f"{table.name} has {len(fields)} fields; {MAX_FIELDS} are the most")
        table.fields = fields
        return fields

    cdef Layout layout(self, Table table, Py_ssize_t vtable, Py_ssize_t position):
        """The checked Layout of the table at `position`."""
        cdef Layout layout = Layout()
        cdef Field field
        cdef Py_ssize_t vtable_size, slots, offset, type_offset, end, width
        cdef int count = 0
        cdef list fields = self.fields(table), spans = []
        self.layouts_left -= 1
        if self.layouts_left < 0:
            raise Damage("more kinds of tables than a model has", position)
        if not 0 <= vtable <= self.size - 4:
            raise Damage(f"its vtable lies outside the file, at {vtable}", position)
        vtable_size, layout.size = unsigned_at(self.data + vtable, 2), unsigned_at(self.data + vtable + 2, 2)
        if vtable_size < 4 or vtable_size % 2 or vtable + vtable_size > self.size or layout.size < 4:
            raise Damage(f"its vtable at {vtable} has the impossible sizes {vtable_size}, {layout.size}", position)
        slots = (vtable_size - 4) // 2
        layout.fields = []
        for field in fields:
            if field.slot + (field.how == UNION) >= slots:
                continue
            offset = unsigned_at(self.data + vtable + 4 + 2 * field.slot, 2)
            if field.how == UNION:
                type_offset = offset
                offset = unsigned_at(self.data + vtable + 6 + 2 * field.slot, 2)
                if type_offset == 0 or offset == 0:
                    continue
                layout.kind[count] = <uint16_t>type_offset
                spans.append((type_offset, 1, field.name))
            elif offset == 0:
                continue
            spans.append((offset, field.width if field.how in (NUMBER, ENUM) else 4, field.name))
            layout.offsets[count] = <uint16_t>offset
            layout.fields.append(field)
            count += 1
        end = 4
        for offset, width, name in sorted(spans):
            if offset < end or offset + width > layout.size:
                raise Damage(f"its vtable at {vtable} puts the field {name!r} at {offset}, over another field or "
                             f"outside the table's {layout.size} bytes", position)
            end = offset + width
        table.layouts[vtable] = layout
        if self.share and table.shared and all([(<Field>field).how in (NUMBER, ENUM) for field in layout.fields]):
            layout.known = {}
        return layout

    cdef object decode_table(self, Table table, Py_ssize_t at, Py_ssize_t offset):
        """The record of the table that the `offset` at position `at` points to; the methods below read such offsets."""
        cdef Py_ssize_t position = at + offset, vtable
        cdef Layout layout
        cdef Field field = None
        cdef int i = 0, kind
        cdef dict values
        cdef Table member
        cdef bytes content = None
        self.tables_left -= 1
        if self.tables_left < 0:
            raise Damage("more tables than a file of this size holds", position)
        if offset == 0:
            raise Damage("null offset", at)
        if position + 4 > self.size:
            raise Damage(f"the table reaches beyond the end of the file ({self.size} bytes)", position)
        vtable = position - <int32_t>offset_at(self.data + position)
        if vtable != table.vtable or table.layout is None:
            found = table.layouts.get(vtable)
            table.layout = self.layout(table, vtable, position) if found is None else found
            table.vtable = vtable
        layout = table.layout
        if position + layout.size > self.size:
            raise Damage(f"the table reaches beyond the end of the file ({self.size} bytes)", position)
        if layout.known is not None:
            content = PyBytes_FromStringAndSize(<const char *>self.data + position + 4, layout.size - 4)
            record = layout.known.get(content)
            if record is not None:
                return record
        values = PyDict_Copy(table.defaults)
        try:
            for field in layout.fields:
                at = position + layout.offsets[i]
                if field.how == UNION:
                    kind = self.data[position + layout.kind[i]]
                    if 0 < kind < len(field.names):
                        member = self.table(field.names[kind])
                        member.shared = True
                        values[field.name] = self.decode_table(member, at, offset_at(self.data + at))
                else:
                    values[field.name] = self.decode(field, at)
                i += 1
        except Damage as damage:
            damage.path.append(field.name)
            raise
        record = PyType_GenericNew(<PyTypeObject *>self.record, NULL, NULL)
        PyObject_GenericSetDict(record, values, NULL)
        record.TABLE = table.declared
        if layout.known is not None:
            layout.known[content] = record
        return record

    cdef object decode(self, Field field, Py_ssize_t at):
        cdef Py_ssize_t offset
        cdef int how = field.how
        if how == NUMBER:
            return number_at(self.data + at, field.code)
        if how == ENUM:
            return named(field.names, number_at(self.data + at, field.code))
        offset = offset_at(self.data + at)
        if how == STRING:
            return self.string(at, offset)
        if how == TABLE:
            return self.decode_table(field.table, at, offset)
        if how == TABLES:
            return self.records(field.table, at, offset)
        if how == ARRAY:
            return self.array(field, at, offset)
        return self.numbers(field, at, offset)

    cdef Py_ssize_t span(self, Py_ssize_t at, Py_ssize_t offset, int width, Py_ssize_t *count) except -1:
        """The checked position of a vector's elements of `width` bytes each; sets their number."""
        cdef Py_ssize_t start = at + offset + 4
        if offset == 0 or start > self.size:
            raise Damage(f"the vector lies outside the file ({self.size} bytes)" if offset else "null offset", at)
        count[0] = offset_at(self.data + start - 4)
        if start + count[0] * <int64_t>width > self.size:
            raise Damage(f"the vector's {count[0]} elements reach beyond the end of the file ({self.size} bytes)",
                         start - 4)
        return start

    cdef int spend(self, Py_ssize_t count, Py_ssize_t position) except -1:
        self.numbers_left -= count
        if self.numbers_left < 0:
            raise Damage("more text and numbers than a file of this size holds", position)
        return 0

    cdef object string(self, Py_ssize_t at, Py_ssize_t offset):
        cdef Py_ssize_t count = 0, start = self.span(at, offset, 1, &count)
        self.spend(count, start)
        if start + count == self.size or self.data[start + count]:
            raise Damage("the string does not end with a null byte", start)
        return PyUnicode_DecodeUTF8(<const char *>self.data + start, count, "surrogateescape")

    cdef tuple numbers(self, Field field, Py_ssize_t at, Py_ssize_t offset):
        cdef Py_ssize_t count = 0, start = self.span(at, offset, field.width, &count), i
        self.spend(count * field.width, start)
        cdef tuple values = PyTuple_New(count)
        for i in range(count):
            value = number_at(self.data + start + i * field.width, field.code)
            if field.names is not None:
                value = named(field.names, value)
            Py_INCREF(value)
            PyTuple_SetItem(values, i, value)
        return values

    cdef object array(self, Field field, Py_ssize_t at, Py_ssize_t offset):
        cdef Py_ssize_t count = 0, start = self.span(at, offset, field.width, &count)
        if field.width == 1:
            return self.bytes[start:start + count]
        if self.misalignment % field.width == 0 and start % field.width == 0:
            if field.file is None:
                field.file = self.bytes[:self.size // field.width * field.width].view(field.dtype)
            start //= field.width
            return field.file[start:start + count]
        data = self.bytes[start:start + count * field.width]
        if (start + self.misalignment) % field.width:
            self.spend(count * field.width, start)
            data = data.copy()
            data.flags.writeable = False
        return data.view(field.dtype)

    cdef list records(self, Table table, Py_ssize_t at, Py_ssize_t offset):
        cdef Py_ssize_t count = 0, start = self.span(at, offset, 4, &count), i
        cdef list records = []
        if count > self.tables_left:
            raise Damage(f"{count} tables are more than a file of this size holds", start)
        try:
            for i in range(count):
                records.append(self.decode_table(table, start + 4 * i, offset_at(self.data + start + 4 * i)))
        except Damage as damage:
            damage.path.append(f"[{len(records)}]")
            raise
        return records


cdef object named(tuple names, int64_t number):
    """The name of an enumeration's value; the number if it has none."""
    return names[number] if 0 <= number < len(names) else number
