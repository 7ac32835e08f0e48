"""Programs from the bytes of a plan: arrays on their memory, and kernels constructed with them.

The arguments of kernels are coded without an object for each number.  Nested tuples by `marshal` take several times as
long to read, mainly because the garbage collector visits them.  runtime/plan_record.py writes the bytes.
"""
from cpython.bytes cimport PyBytes_AsString, PyBytes_FromStringAndSize, PyBytes_Size
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

import importlib

from numpy import ndarray

from pylite._core.run.program cimport Program
from pylite._core.simd cimport Pool

# The first byte of an item.
cdef enum:
    NONE, TRUE, FALSE, INTEGER, FLOAT, TEXT, BYTES, ARRAY, TUPLE, LIST, CALLEE, HELD, FUNCTION
    DEEPEST = 50        # tuples within tuples

KINDS = {"none": NONE, "true": TRUE, "false": FALSE, "integer": INTEGER, "float": FLOAT, "text": TEXT, "bytes": BYTES,
         "array": ARRAY, "tuple": TUPLE, "list": LIST, "callee": CALLEE, "held": HELD, "function": FUNCTION}


cdef class _Reader:
    """Reads the bytes of a plan from `at` on.  Raises ValueError for damaged bytes."""
    cdef bytes owner
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef list arrays, programs, held
    cdef object failure_of
    cdef int depth

    def __cinit__(self, bytes body):
        self.owner = body
        self.at = <const uint8_t *>PyBytes_AsString(body)
        self.end = self.at + PyBytes_Size(body)
        self.arrays, self.programs = [], []

    cdef uint64_t number(self) except? 0xFFFFFFFFFFFFFFFF:
        """An integer of at least 0: seven bits a byte, the lowest first."""
        cdef uint64_t found = 0
        cdef int shift = 0
        while self.at < self.end and shift < 64:
            found |= <uint64_t>(self.at[0] & 0x7F) << shift
            self.at += 1
            if self.at[-1] < 0x80:
                return found
            shift += 7
        raise ValueError("a plan ends within a number")

    cdef int64_t signed(self) except? -1:
        """An integer n, coded as 2 n if n >= 0, else as -2 n - 1."""
        cdef uint64_t found = self.number()
        return <int64_t>(found >> 1) ^ -<int64_t>(found & 1)

    cdef object entry(self, list table):
        """The entry of a table; its number follows."""
        cdef uint64_t number = self.number()
        if number >= <uint64_t>len(table):
            raise ValueError("a plan names an entry that a table does not have")
        return table[number]

    cdef bytes taken(self):
        """A string of bytes, after their number."""
        cdef uint64_t size = self.number()
        if size > <uint64_t>(self.end - self.at):
            raise ValueError("a plan ends early")
        found = PyBytes_FromStringAndSize(<const char *>self.at, <Py_ssize_t>size)
        self.at += size
        return found

    cdef list items(self):
        """A list of items, after their number."""
        cdef uint64_t _i, count = self.number()
        cdef list found = []
        if count > <uint64_t>(self.end - self.at):
            raise ValueError("a plan ends early")
        for _i in range(count):
            found.append(self.item())
        return found

    cdef object item(self):
        cdef double real
        cdef int kind
        if self.at >= self.end:
            raise ValueError("a plan ends early")
        kind = self.at[0]
        self.at += 1
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
            if self.end - self.at < 8:
                raise ValueError("a plan ends early")
            memcpy(&real, self.at, 8)
            self.at += 8
            return real
        if kind == BYTES:
            return self.taken()
        if kind == TEXT:
            return self.taken().decode()
        return self.composed(kind)

    cdef object composed(self, int kind):
        """An item that contains other items."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise ValueError("a plan is nested too deeply")
        if kind == TUPLE:
            found = tuple(self.items())
        elif kind == LIST:
            found = self.items()
        elif kind == CALLEE:
            program = self.entry(self.programs)
            found = program, self.failure_of(program, self.programs.index(program)), self.items(), self.items()
        elif kind == HELD:
            kept, name = self.entry(self.held), self.taken().decode()
            found = getattr(kept, name) if name else kept
        elif kind == FUNCTION:
            module, name = self.taken().decode(), self.taken().decode()
            found = getattr(importlib.import_module(module), name)
        else:
            raise ValueError(f"a plan has an item of the kind {kind}")
        self.depth -= 1
        return found

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


def bind(bytes body, list regions, list dtypes, list held, kernel_class, Pool pool, failure_of):
    """(the arrays, the Programs) of a plan; the last Program is that of the main subgraph.

    body: from plan_record.Writer; regions: the memory of arrays; dtypes: their types, by number; held: objects that ops
    keep for the interpreter; kernel_class(name): a class of kernels; failure_of(program, number): the function for
    failures of a program that kernels call.
    """
    cdef _Reader reader = _Reader(body)
    cdef uint64_t _i, count
    cdef list classes, kernels, args
    cdef Py_ssize_t named
    reader.held, reader.failure_of = held, failure_of
    classes = [(kernel_class(name), names) for name, names in reader.items()]
    reader.read_arrays(regions, dtypes)
    while reader.at < reader.end:
        count, kernels = reader.number(), []
        for _i in range(count):
            make, names = reader.entry(classes)
            args = reader.items()
            if names is None:
                kernels.append(make(*args))
            else:
                named = len(args) - len(names)
                kernels.append(make(*args[:named], **dict(zip(names, args[named:]))))
        reader.programs.append(Program(kernels, pool))
    return reader.arrays, reader.programs
