"""The declared tables, enumerations and unions against the peer's generated schema."""
import importlib
import inspect
import re
from types import SimpleNamespace

import pytest

from pylite.ir.graph import DTYPES
from pylite.schema import declarations, tables
from tests.tools.resources import lack

TYPES = {"Bool": "bool", "Int8": "i8", "Uint8": "u8", "Int16": "i16", "Uint16": "u16", "Int32": "i32",
         "Uint32": "u32", "Int64": "i64", "Uint64": "u64", "Float32": "f32"}
OURS = [line.split()[0] for line in (declarations.TABLES + declarations.EMPTY_TABLES.replace(" ", "\n")).splitlines()
        if line.strip() and line[0] != " "]


@pytest.fixture(scope="module")
def peer():
    """The peer's classes, by name: tables, enums (with unions), and its source."""
    try:
        module = importlib.import_module("ai_edge_litert.schema_py_generated")
    except ImportError:
        lack("the peer (ai-edge-litert) is not installed")
    classes = {n: c for n, c in vars(module).items() if inspect.isclass(c) and c.__module__ == module.__name__}
    found = {n: c for n, c in classes.items() if hasattr(c, "GetRootAs")}
    enums = {n: c for n, c in classes.items() if not any(callable(v) for k, v in vars(c).items() if k[:2] != "__")}
    return SimpleNamespace(tables=found, enums=enums, source=inspect.getsource(module))


def test_no_table_is_missing(peer):
    assert sorted(OURS) == sorted(peer.tables)


def test_enumerations(peer):
    assert peer.enums
    for name, values in peer.enums.items():
        theirs = {k: v for k, v in vars(values).items() if not k.startswith("_")}
        if name in tables._unions():
            ours = tables.union(name)
        else:
            ours = tables.enum(name)
            if name == "TensorType":
                assert ours == DTYPES
                theirs = {k.lower(): v for k, v in theirs.items()}
        assert dict(enumerate(ours)) == {v: k for k, v in theirs.items()}, name


@pytest.mark.parametrize("name", OURS)
def test_fields(peer, name):
    theirs = list(_fields(peer, name))
    ours = []
    for field in tables.table(name).fields:
        slot, kind, default = field.slot, field.kind, field.default
        if kind == "union":
            ours.append((slot, field.name + "_type", "u8", 0))
            slot += 1
        elif kind == "enum":
            default = tables.enum(field.type).index(default)
        ours.append((slot, field.name, {
            "number": field.number, "enum": field.number, "string": "str", "table": field.type, "union": "union",
            "tables": f"[{field.type}]"}.get(kind) or f"[{field.number}]", default or 0))
    assert ours == theirs
    slots = int(re.search(rf"def {name}Start\(builder\):\n    builder.StartObject\((\d+)\)", peer.source).group(1))
    assert max((slot for slot, *_ in ours), default=-1) < slots


def _fields(peer, name):
    """(slot, name, type, default) of each field of a generated table, from its accessors' source."""
    pattern = rf"def {name}Add(\w+)\(builder, \w+\):\n    builder\.Prepend(\w+)Slot\((\d+), .*, ([-\w.]+)\)"
    for camel, stored, slot, default in re.findall(pattern, peer.source):
        body = inspect.getsource(getattr(peer.tables[name], camel))
        element = re.search(r"number_types\.(\w+)Flags, a \+", body)
        inner = re.search(r"obj = (\w+)\(\)", body)
        if stored != "UOffsetTRelative":
            kind = TYPES[stored]
        elif element:
            kind = f"[{TYPES[element[1]]}]"
        elif "String(" in body:
            kind = "str"
        elif "Union(" in body:
            kind = "union"
        else:
            kind = f"[{inner[1]}]" if "(self, j)" in body else inner[1]
        snake = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", camel).lower()
        yield int(slot), re.sub(r"_([dwh])factor", r"_\1_factor", snake), kind, float(default)


def test_every_options_table_belongs_to_an_operator():
    used = {tables.options_table(name) for name in tables.enum("BuiltinOperator")}
    known = {*tables.union("BuiltinOptions"), *tables.union("BuiltinOptions2")} - {"NONE"}
    assert used - {None} == known


def test_errors_list_the_fields_of_a_table():
    conv = tables.table("Conv2DOptions")
    assert conv().dilation_w_factor == 1 and conv(stride_w=2) == conv(stride_w=2) != conv()
    assert repr(conv(stride_w=2)) == "Conv2DOptions(stride_w=2)"
    with pytest.raises(TypeError, match="Conv2DOptions has no field stride; it has padding, stride_w"):
        conv(stride=1)
    with pytest.raises(KeyError, match="no table Conv4D"):
        tables.table("Conv4D")
