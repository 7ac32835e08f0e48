"""Reads a plan: creates the arrays and kernels of its programs.

A compact code for the arguments of kernels avoids an object per number.  `marshal` with nested tuples takes several
times as long to read, mainly because the garbage collector visits them.  runtime/plan_record.py writes plans.
"""
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

import importlib

from numpy import ndarray

from pylite._core.run.program cimport Callee, Program
from pylite._core.simd cimport Pool

from pylite._core.run.kernel import construct

# The first byte of an item.
cdef enum:
    NONE, TRUE, FALSE, INTEGER, FLOAT, TEXT, BYTES, ARRAY, TUPLE, LIST, CALLEE, RESOURCE, FUNCTION
    MAX_DEPTH = 50      # of nested tuples

KINDS = {"none": NONE, "true": TRUE, "false": FALSE, "integer": INTEGER, "float": FLOAT, "text": TEXT, "bytes": BYTES,
         "array": ARRAY, "tuple": TUPLE, "list": LIST, "callee": CALLEE, "resource": RESOURCE, "function": FUNCTION}


cdef class _Reader:
    """Reads the bytes of a plan at `cursor`.  Raises ValueError if they are damaged."""
    cdef bytes owner
    cdef const uint8_t *cursor
    cdef const uint8_t *end
    cdef list arrays, programs, resources
    cdef object failure_of
    cdef int depth

    def __cinit__(self, bytes body):
        self.owner = body
        self.cursor = <const uint8_t *>PyBytes_AsString(body)
        self.end = self.cursor + PyBytes_Size(body)
        self.arrays, self.programs = [], []

    cdef uint64_t number(self) except? 0xFFFFFFFFFFFFFFFF:
        """An integer of at least 0: seven bits per byte, the lowest first."""
        cdef uint64_t value = 0
        cdef int shift = 0
        while self.cursor < self.end and shift < 64:
            value |= <uint64_t>(self.cursor[0] & 0x7F) << shift
            self.cursor += 1
            if self.cursor[-1] < 0x80:
                return value
            shift += 7
        raise ValueError("a plan ends within a number")

    cdef int64_t signed(self) except? -1:
        """An integer n, coded as 2 n if n >= 0 and as -2 n - 1 otherwise."""
        cdef uint64_t code = self.number()
        return <int64_t>(code >> 1) ^ -<int64_t>(code & 1)

    cdef object entry(self, list table):
        """The entry of `table` whose number comes next."""
        cdef uint64_t number = self.number()
        if number >= <uint64_t>len(table):
            raise ValueError("a plan names an entry that a table does not have")
        return table[number]

    cdef bytes read_bytes(self):
        """A byte string, preceded by its length."""
        cdef uint64_t size = self.number()
        if size > <uint64_t>(self.end - self.cursor):
            raise ValueError("a plan ends early")
        content = PyBytes_FromStringAndSize(<const char *>self.cursor, <Py_ssize_t>size)
        self.cursor += size
        return content

    cdef list items(self):
        """A list of items, preceded by its length."""
        cdef uint64_t _i, count = self.number()
        cdef list items = []
        if count > <uint64_t>(self.end - self.cursor):
            raise ValueError("a plan ends early")
        for _i in range(count):
            items.append(self.item())
        return items

    cdef object item(self):
        cdef double real
        cdef int kind
        if self.cursor >= self.end:
            raise ValueError("a plan ends early")
        kind = self.cursor[0]
        self.cursor += 1
        if kind == INTEGER:
            return self.signed()
        if kind == ARRAY:
            return self.entry(self.arrays)
        if kind == FALSE:
            return False
        if kind == TRUE:
            return True
        if kind == NONE:
            return None
        if kind == FLOAT:
            if self.end - self.cursor < 8:
                raise ValueError("a plan ends early")
            memcpy(&real, self.cursor, 8)
            self.cursor += 8
            return real
        if kind == BYTES:
            return self.read_bytes()
        if kind == TEXT:
            return self.read_bytes().decode()
        return self.composed(kind)

    cdef object composed(self, int kind):
        """An item that contains other items."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError("a plan is nested too deeply")
        if kind == TUPLE:
            item = tuple(self.items())
        elif kind == LIST:
            item = self.items()
        elif kind == CALLEE:
            program = self.entry(self.programs)
            item = Callee(program, self.failure_of(program, self.programs.index(program)), self.items(), self.items())
        elif kind == RESOURCE:
            resource, name = self.entry(self.resources), self.read_bytes().decode()
            item = getattr(resource, name) if name else resource
        elif kind == FUNCTION:
            module, name = self.read_bytes().decode(), self.read_bytes().decode()
            item = getattr(importlib.import_module(module), name)
        else:
            raise ValueError(f"a plan has an item of the kind {kind}")
        self.depth -= 1
        return item

    cdef int read_arrays(self, list regions, list dtypes) except -1:
        cdef uint64_t _i, _k, count = self.number(), ndim
        cdef list shape, strides
        cdef int64_t offset
        for _i in range(count):
            region, dtype = self.entry(regions), self.entry(dtypes)
            offset, ndim = self.number(), self.number()
            shape, strides = [], None
            for _k in range(ndim >> 1):
                shape.append(self.number())
            if ndim & 1:
                strides = []
                for _k in range(ndim >> 1):
                    strides.append(self.signed())
            self.arrays.append(ndarray(shape, dtype, region, offset, strides))
        return 0


def bind(bytes body, list regions, list dtypes, list resources, kernel_class, Pool pool, failure_of):
    """(arrays, Programs) of a plan; the last Program is the main subgraph's.

    body: bytes from plan_record.RecordBuilder; regions: the memory of arrays; dtypes: the arrays' types, by number;
    resources: objects that ops keep for the interpreter, by number; kernel_class(name): a class of kernels;
    failure_of(program, number): the function that explains failures of a program that kernels call.
    """
    cdef _Reader reader = _Reader(body)
    cdef uint64_t _i, count
    cdef list classes, kernels
    reader.resources, reader.failure_of = resources, failure_of
    classes = [(kernel_class(name), names) for name, names in reader.items()]
    reader.read_arrays(regions, dtypes)
    while reader.cursor < reader.end:
        count, kernels = reader.number(), []
        for _i in range(count):
            make, names = reader.entry(classes)
            kernels.append(construct(make, reader.items(), names))
        reader.programs.append(Program(kernels, pool))
    return reader.arrays, reader.programs
