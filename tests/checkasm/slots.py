"""The dispatch table as its headers declare it: names, prototypes, structs, and each ISA level's functions."""
import ctypes
import importlib.util
import re
from pathlib import Path

from pylite._core import simd

TYPES = {"size_t": ctypes.c_size_t, "ptrdiff_t": ctypes.c_ssize_t, "int": ctypes.c_int, "float": ctypes.c_float,
         "double": ctypes.c_double, "uint8_t": ctypes.c_uint8, "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16,
         "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64}


def _declarations():
    """The script that reads the headers when pylite is built."""
    path = Path(__file__).resolve().parents[2] / "pylite" / "_core" / "simd" / "declarations.py"
    spec = importlib.util.spec_from_file_location("declarations", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _argument(text):
    return ctypes.c_void_p if "*" in text else TYPES[text.split()[-2]]


def _struct(name):
    """The ctypes.Structure of a struct whose members are numbers, arrays of them and pointers."""
    fields = []
    for member in STRUCTS[name]:
        kind, pointer, word, count = re.fullmatch(r"(?:const )?(\w+) ((?:\*|const |\s)*)(\w+)(?:\[(\w+)\])?",
                                                  member).groups()
        ctype = ctypes.c_void_p if "*" in pointer else TYPES[kind]
        fields.append((word, ctype * int(count) if count else ctype))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_script = _declarations()
_text = _script.headers()
SLOTS, STRUCTS = _script.slots(_text), _script.structs(_text)
PROTOTYPES = {name: ctypes.CFUNCTYPE(None, *map(_argument, arguments.split(","))) for name, arguments in SLOTS.items()}
(Tile, ALayout, Columns, Fit, Hybrid, Blocks, DepthwiseLines, Window, Reduction, Softmax8, Softmax16, Range,
 ErrorSums) = map(_struct, ("pl_tile", "pl_a_layout", "pl_columns", "pl_fit", "pl_hybrid", "pl_blocks", "pl_dw_lines",
                            "pl_window", "pl_reduction", "pl_softmax8", "pl_softmax16", "pl_range", "pl_error_sums"))


class Table(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_void_p) for name in SLOTS), ("q8", Tile), ("f32", Tile), ("f16", Tile), ("dw8", Tile),
                ("has_f16", ctypes.c_int), ("dw_f32_lines", ctypes.c_int)]


def _table():
    """The address of the table in use: Cython exports it as a capsule for other modules."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_void_p.from_address(get(simd.__pyx_capi__["slots"], b"pl_slots const *")).value


class IsaLevel:
    """One ISA level's table: `isa_level.gemm_q8(...)` calls its function, isa_level.q8 is its tile."""

    def __init__(self, name):
        self.name = name
        before = simd.current
        simd.use(name)
        self.table = Table.from_buffer_copy(Table.from_address(_table()))
        simd.use(before)
        self.q8, self.f32, self.dw8 = self.table.q8, self.table.f32, self.table.dw8
        self.dw_f32_lines = self.table.dw_f32_lines

    def __getattr__(self, slot):
        function = PROTOTYPES[slot](getattr(self.table, slot))
        setattr(self, slot, function)
        return function


ISA_LEVELS = {name: IsaLevel(name) for name in simd.available()}
