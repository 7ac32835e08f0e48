"""Options of custom ops, read in C from their FlexBuffer by pylite/custom_options.h."""
import ctypes
import math
import mmap
from pathlib import Path

import numpy as np
import pytest
from flatbuffers import flexbuffers
from hypothesis import given
from hypothesis import strategies as st

import pylite
from pylite.schema.builder import ModelBuilder
from tests.capi.chains import X, interpreter, run
from tests.capi.compiling import build, compile_check

SOURCE = Path(__file__).parent / "plugins" / "options.c"
INTEGERS = st.integers(-2**63, 2**63 - 1)
REALS = st.floats(-3e38, 3e38)      # which the writer can pack in 32 bits
VALUES = st.one_of(INTEGERS, REALS, st.booleans(), st.text(), st.lists(INTEGERS), st.lists(REALS), st.none(),
                   st.lists(st.one_of(INTEGERS, REALS), max_size=5))
NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = build(SOURCE, tmp_path_factory.mktemp("options") / "options.so", "-std=c99")
    functions = ctypes.CDLL(path)
    functions.path = path
    for name, result, last in (("int", ctypes.c_int64, [ctypes.c_int64]), ("float", ctypes.c_double, [ctypes.c_double]),
                               ("string", ctypes.c_void_p, [ctypes.c_void_p]),
                               ("list", ctypes.c_int, [ctypes.c_void_p, ctypes.c_int])):
        function = getattr(functions, "read_" + name)
        function.restype, function.argtypes = result, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, *last]
    return functions


class Reader:
    """Reads bytes that end where a page without access begins."""
    memory = mmap.mmap(-1, 2 * mmap.PAGESIZE)
    behind = ctypes.addressof(ctypes.c_char.from_buffer(memory, mmap.PAGESIZE))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(behind), mmap.PAGESIZE, 0) == 0

    def __init__(self, library, data):
        self.library, self.size, self.data = library, len(data), self.behind - len(data)
        self.memory[mmap.PAGESIZE - len(data):mmap.PAGESIZE] = bytes(data)

    def int(self, name):
        return [self.library.read_int(self.data, self.size, name.encode(), each) for each in (0, 1)]

    def float(self, name):
        return [self.library.read_float(self.data, self.size, name.encode(), each) for each in (0, 1)]

    def string(self, name):
        length = ctypes.c_size_t()
        at = self.library.read_string(self.data, self.size, name.encode(), ctypes.byref(length))
        return None if at is None else ctypes.string_at(at, length.value)

    def list(self, name):
        values = (ctypes.c_double * 100)()
        count = self.library.read_list(self.data, self.size, name.encode(), values, len(values))
        return None if count < 0 else values[:count]


@given(st.dictionaries(NAMES, VALUES, max_size=8))
def test_what_was_written_is_read(library, options):
    read = Reader(library, flexbuffers.Dumps(options))
    for name, value in options.items():
        number = isinstance(value, (int, float))
        assert read.float(name) == ([float(value)] * 2 if number else [0, 1])
        if isinstance(value, int):
            assert read.int(name) == [value, value]
        elif isinstance(value, float) and abs(value) < 2**62:
            assert read.int(name) == [math.trunc(value)] * 2
        elif not number:
            assert read.int(name) == [0, 1]
        assert read.string(name) == (value.encode() if isinstance(value, str) else None)
        assert read.list(name) == ([float(each) for each in value] if isinstance(value, list) else None)
    assert read.int("no such name") == [0, 1] and read.list("no such name") is None


def tuples(builder):
    with builder.Map():
        builder.Key("three")
        builder.FixedTypedVectorFromElements([1.5, -2.0, 3.0])
        builder.Key("two")
        builder.FixedTypedVectorFromElements([7, -8])
        builder.IndirectFloat("far", 2.5)
        builder.IndirectInt("distant", -70000)
    return builder.Finish()


def test_tuples_and_values_elsewhere(library):
    read = Reader(library, tuples(flexbuffers.Builder()))
    assert (read.list("three"), read.list("two")) == ([1.5, -2, 3], [7, -8])
    assert (read.float("far"), read.int("distant")) == ([2.5] * 2, [-70000] * 2)


@given(st.data())
def test_damaged_bytes_are_read_inside_only(library, data):
    written = bytearray(flexbuffers.Dumps({"axis": 3, "names": "abc", "sizes": [1, 2, 300], "scale": 0.1}))
    for _ in range(data.draw(st.integers(1, 4))):
        written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    read = Reader(library, written[data.draw(st.integers(0, len(written))):])
    for name in "axis", "names", "sizes", "scale":
        read.int(name), read.float(name), read.string(name), read.list(name)


def test_an_op_reads_its_options(library):
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4)), m.tensor("y", (1, 4))
    m.operator("Scale", [x], [y], custom_options=bytes(flexbuffers.Dumps({"scale": 0.1, "shift": -3})))
    m.inputs([x])
    m.outputs([y])
    ops = pylite.load_custom_ops(library.path, ["Scale"], register=False)
    np.testing.assert_allclose(run(interpreter(m.build(), ops)), 0.1 * X - 3, rtol=1e-6)


@pytest.mark.parametrize(("language", "standard"), [("c", "-std=c99"), ("cc", "-std=c++11")])
def test_the_header_compiles_without_warnings(tmp_path, language, standard):
    source = tmp_path / f"one.{language}"
    source.write_text('#include "pylite/custom_options.h"\n')
    compile_check(source, standard, "-Wall", "-Wextra", "-Wshadow", "-Wno-unused-function", "-Werror")
