"""The decoder alone, on files of a few bytes and a schema of the test's: each limit is hit and missed by one."""
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from pylite._core.graph.decoder import Damage, Decoder
from pylite.schema.tables import NUMBERS, Record

EMPTY = 1 << 20     # a budget that no test uses up


def field(name, slot, kind, number="", type="", default=None):
    return SimpleNamespace(name=name, slot=slot, kind=kind, number=number, type=type, default=default)


def schema(**tables):
    made = {name: SimpleNamespace(name=name, fields=fields, defaults={f.name: f.default for f in fields})
            for name, fields in tables.items()}
    names = {"Colour": ("RED", "GREEN"), "Thing": ("NONE", "Leaf", "Other")}
    return SimpleNamespace(NUMBERS=NUMBERS, Record=Record, table=made.__getitem__, enum=names.__getitem__,
                           union=names.__getitem__)


def table(slots, inline):
    """A vtable and its table, whose position is 4 + 2 * len(slots) after the start."""
    vtable = struct.pack(f"<HH{len(slots)}H", 4 + 2 * len(slots), 4 + len(inline), *slots)
    return vtable + struct.pack("<i", len(vtable)) + inline


def file(slots, inline, body=b""):
    """The bytes of a file whose root is this table; `body` follows it."""
    return struct.pack("<I", 8 + 2 * len(slots)) + table(slots, inline) + body


def decoder(data, declared, tables=EMPTY, numbers=EMPTY, layouts=EMPTY, share=False):
    return Decoder(np.frombuffer(data, np.uint8), declared, tables, numbers, layouts, share)


def decode(data, declared, **budget):
    return decoder(data, declared, **budget).root("T")


def damage(data, declared, **budget):
    with pytest.raises(Damage) as info:
        decode(data, declared, **budget)
    return info.value


# ---- numbers ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("number", "values"), [
    ("bool", (False, True)), ("i8", (-128, 127)), ("u8", (0, 255)), ("i16", (-32768, 32767, 0x1234)),
    ("u16", (0, 65535, 0x1234)), ("i32", (-2**31, 2**31 - 1, 0x12345678)), ("u32", (0, 2**32 - 1, 0x12345678)),
    ("i64", (-2**63, 2**63 - 1, 0x123456789ABCDEF0)), ("u64", (0, 2**64 - 1, 0x123456789ABCDEF0)),
    ("f32", (-1.5, 3e38))])
def test_numbers(number, values):
    code, width = NUMBERS[number]
    declared = schema(T=[field("x", 0, "number", number)])
    many = schema(T=[field("x", 0, "tuple", number)])
    for value in values:
        stored = struct.pack("<" + code, value)
        found = decode(file([4], stored), declared).x
        assert struct.pack("<" + code, found) == stored and type(found) is type(value)
    packed = struct.pack(f"<{len(values)}{code}", *values)
    found = decode(file([4], struct.pack("<II", 4, len(values)) + packed), many).x
    assert struct.pack(f"<{len(values)}{code}", *found) == packed and len(packed) == width * len(values)


def test_any_other_byte_is_true():
    assert decode(file([4], b"\x02"), schema(T=[field("x", 0, "number", "bool")])).x is True


def test_fields_that_a_file_leaves_out_have_their_defaults():
    declared = schema(T=[field("a", 0, "number", "u8", default=7), field("b", 1, "number", "u8", default=8),
                         field("c", 2, "number", "u8", default=9)])
    found = decode(file([0, 4], b"\x01"), declared)
    assert (found.a, found.b, found.c) == (7, 1, 9) and found.TABLE.name == "T"
    assert decode(file([], b""), declared).a == 7
    assert (decode(file([4], b"\x05"), declared).a, declared.table("T").defaults["a"]) == (5, 7)


def test_names_of_enumerations():
    one, many = schema(T=[field("x", 0, "enum", "i8", "Colour")]), schema(T=[field("x", 0, "enums", "i8", "Colour")])
    for number, name in ((0, "RED"), (1, "GREEN"), (2, 2), (-1, -1), (-2, -2), (127, 127)):
        assert decode(file([4], struct.pack("<b", number)), one).x == name
    assert decode(file([4], struct.pack("<II4b", 4, 4, 0, 1, 2, -1)), many).x == ("RED", "GREEN", 2, -1)


# ---- tables ----------------------------------------------------------------------------------------------------
BYTE = schema(T=[field("x", 0, "number", "u8")])


@pytest.mark.parametrize("size", range(4))
def test_files_without_room_for_the_first_offset(size):
    found = damage(bytes(size), BYTE)
    assert found.text == f"the table reaches beyond the end of the file ({size} bytes)" and found.position == 0


def test_the_first_offset():
    data = file([4], b"\x07")
    assert damage(struct.pack("<I", 0) + data[4:], BYTE).text == "null offset"
    for offset in (len(data) - 3, len(data), 2**32 - 1):
        found = damage(struct.pack("<I", offset) + data[4:], BYTE)
        assert found.text.startswith("the table reaches beyond the end") and found.position == offset
    made = decoder(data, BYTE)
    assert (made.size, bytes(made.bytes)) == (len(data), data)


def test_a_table_that_ends_with_the_file_and_one_that_does_not():
    declared = schema(T=[field("x", 0, "number", "u32")])
    assert decode(file([4], struct.pack("<I", 9)), declared).x == 9
    found = damage(file([4], struct.pack("<I", 9))[:-1], declared)
    assert found.text == "the table reaches beyond the end of the file (17 bytes)" and found.position == 10
    assert decode(struct.pack("<I", 8) + struct.pack("<HHi", 4, 4, 4), declared).x is None      # four bytes of it


def test_positions_of_vtables():
    """Behind the table, down to the last four bytes of the file; before it, down to the first byte."""
    ends = struct.pack("<Ii", 4, -4) + struct.pack("<HH", 4, 4)
    assert decode(ends, BYTE).x is None
    for data in (struct.pack("<Ii", 4, -4) + b"\x04\x00\x04", struct.pack("<Ii", 4, 5), struct.pack("<Ii", 4, -2**31)):
        found = damage(data, BYTE)
        assert found.text.startswith("its vtable lies outside the file, at ") and found.position == 4


@pytest.mark.parametrize(("vtable", "root", "size"), [(0, 6 | 5 << 16, 5), (1, 6 << 8, 256)])
def test_vtables_in_the_first_offset(vtable, root, size):
    """Its bytes are those of a vtable, too."""
    data = bytearray(root + size)
    struct.pack_into("<HHH", data, vtable, 6, size, 4)
    assert struct.unpack_from("<I", data) == (root,)
    struct.pack_into("<iB", data, root, root - vtable, 7)
    assert decode(bytes(data), BYTE).x == 7


@pytest.mark.parametrize(("vtable_size", "size", "right"), [
    (6, 5, True), (4, 5, True), (5, 5, False), (3, 5, False), (2, 5, False), (0, 5, False), (6, 4, False),
    (6, 3, False), (6, 0, False), (11, 5, False), (12, 5, False)])
def test_sizes_of_vtables_and_tables(vtable_size, size, right):
    data = bytearray(file([4], b"\x07"))
    struct.pack_into("<HH", data, 4, vtable_size, size)
    if right:
        assert decode(bytes(data), BYTE).x == (7 if vtable_size == 6 else None)
    else:
        assert damage(bytes(data), BYTE).text.startswith("its vtable at 4 ")


def test_a_vtable_that_ends_with_the_file():
    data = struct.pack("<Ii", 4, -5) + b"\x07" + struct.pack("<HHH", 6, 5, 4)
    assert decode(data, BYTE).x == 7
    longer = bytearray(data)
    struct.pack_into("<H", longer, 9, 8)
    assert "impossible sizes 8, 5" in damage(bytes(longer), BYTE).text


PAIR = schema(T=[field("a", 0, "number", "u16"), field("b", 1, "number", "u32"), field("c", 2, "string")])


@pytest.mark.parametrize("slots", [(4, 6), (8, 4), (4, 8), (10, 4), (4, 0), (0, 8), (8, 0)])
def test_fields_side_by_side(slots):
    decode(file(slots, bytes(range(8))), PAIR)


@pytest.mark.parametrize(("slots", "name"), [((3, 6), "a"), ((2, 0), "a"), ((1, 0), "a"), ((4, 5), "b"), ((4, 4), "b"),
                                             ((11, 4), "a"), ((0, 9), "b"), ((7, 4), "a"), ((0, 0, 9), "c"),
                                             ((0, 0, 65535), "c")])
def test_fields_over_another_or_outside(slots, name):
    found = damage(file(slots, bytes(8)), PAIR)
    at = slots["abc".index(name)]
    assert f"puts the field '{name}' at {at}, over another" in found.text
    assert found.position == 8 + 2 * len(slots) and found.path == []


def test_tables_with_one_vtable_and_with_several():
    declared = schema(T=[field("all", 0, "tables", type="U")], U=[field("x", 0, "number", "u8", default=0)])
    vtables = struct.pack("<HHH", 6, 8, 4) + struct.pack("<HHH", 6, 8, 5)
    data = file([4], struct.pack("<I", 4))
    start = len(data)
    order, rows = (0, 0, 1, 0, 1, 1), b""
    at = start + 4 + 4 * len(order)
    first = at + len(vtables)
    offsets = [first + 8 * i - (start + 4 + 4 * i) for i in range(len(order))]
    for i, which in enumerate(order):
        rows += struct.pack("<iBB2x", first + 8 * i - (at + 6 * which), 10 + i, 20 + i)
    data += struct.pack(f"<I{len(order)}I", len(order), *offsets) + vtables + rows
    for layouts in (3, 2):
        if layouts == 3:
            found = [u.x for u in decode(data, declared, layouts=3).all]
            assert found == [10 + i if which == 0 else 20 + i for i, which in enumerate(order)]
        else:
            assert damage(data, declared, layouts=2).text == "more kinds of tables than a model has"
    assert len(decode(data, declared, tables=7).all) == 6
    found = damage(data, declared, tables=6)
    assert found.text == "6 tables are more than a file of this size holds" and found.path == ["all"]
    bad = bytearray(data)
    struct.pack_into("<I", bad, start + 4 + 4 * 2, 0)
    found = damage(bytes(bad), declared)
    assert (found.text, found.path, found.position) == ("null offset", ["[2]", "all"], start + 12)


def test_a_table_within_a_table():
    declared = schema(T=[field("u", 0, "table", type="U")], U=[field("x", 0, "number", "u8")])
    inner = table([4], b"\x09")
    data = file([4], struct.pack("<I", 4 + 6), inner)
    assert decode(data, declared).u.x == 9 and decode(data, declared).u.TABLE.name == "U"
    found = damage(data[:-2], declared)
    assert found.path == ["u"] and found.position == len(data) - 5
    assert decode(data, declared, tables=2).u.x == 9
    found = damage(data, declared, tables=1)
    assert found.text == "more tables than a file of this size holds" and found.position == len(data) - 5


@pytest.mark.parametrize(("count", "right"), [(32, True), (33, False)])
def test_the_most_fields(count, right):
    declared = schema(T=[field(f"x{i}", i, "number", "u8") for i in range(count)])
    data = file([4 + i for i in range(count)], bytes(range(count)))
    if right:
        assert [getattr(decode(data, declared), f"x{i}") for i in range(count)] == list(range(count))
    else:
        with pytest.raises(ValueError, match="T has 33 fields; 32 are the most"):
            decode(data, declared)


# ---- vectors ---------------------------------------------------------------------------------------------------
def vector(kind, number, count, body, offset=4):
    declared = schema(T=[field("v", 0, kind, number)])
    return file([4], struct.pack("<I", offset), struct.pack("<I", count) + body), declared


@pytest.mark.parametrize("kind", ["tuple", "array", "string"])
def test_vectors_that_end_with_the_file_and_those_that_do_not(kind):
    number, end = ("u8", b"\0" if kind == "string" else b"") if kind != "tuple" else ("u16", b"")
    width = 2 if kind == "tuple" else 1
    data, declared = vector(kind, number, 3, b"a" * 3 * width + end)
    assert len(decode(data, declared).v) == 3
    found = damage(data[:-1], declared)
    assert found.path == ["v"]
    found = damage(vector(kind, number, 4, b"a" * (4 * width - 1))[0], declared)
    assert found.text.startswith("the vector's 4 elements reach beyond the end of the file")
    assert "reach beyond" in damage(vector(kind, number, 2**32 - 1, b"aaa")[0], declared).text
    assert len(decode(vector(kind, number, 0, end)[0], declared).v) == 0
    assert damage(vector(kind, number, 3, b"aaaaaa", offset=0)[0], declared).text == "null offset"
    for offset in (7, 2**32 - 1):       # the elements begin beyond the end, by one byte
        found = damage(vector(kind, number, 0, b"aa", offset=offset)[0], declared)
        assert found.text == "the vector lies outside the file (24 bytes)" and found.position == 14
    assert damage(vector(kind, number, 9, b"a")[0], declared).position == 18


def test_an_empty_vector_at_the_end():
    for kind in ("tuple", "array"):
        data, declared = vector(kind, "u8", 0, b"")
        assert len(decode(data, declared).v) == 0


def test_strings():
    declared = schema(T=[field("v", 0, "string")])
    for text in ("", "a", "\u00e4\u4e00", "a\udcff"):
        stored = text.encode(errors="surrogateescape")
        assert decode(vector("string", "", len(stored), stored + b"\0")[0], declared).v == text
    for body in (b"abc", b"abcd", b"abc\x01"):
        found = damage(vector("string", "", 3, body)[0], declared)
        assert found.text == "the string does not end with a null byte" and found.position == 22


@pytest.mark.parametrize(("kind", "number", "bytes_"), [("string", "", 3), ("tuple", "u16", 6), ("tuple", "u8", 3)])
def test_the_budget_of_text_and_numbers(kind, number, bytes_):
    data, declared = vector(kind, number, 3, bytes(7))
    assert len(decode(data, declared, numbers=bytes_).v) == 3
    found = damage(data, declared, numbers=bytes_ - 1)
    assert found.text == "more text and numbers than a file of this size holds" and found.position == 22


@pytest.mark.parametrize("shift", range(5))
@pytest.mark.parametrize("lead", range(4))
def test_arrays(shift, lead):
    """Views of the file where its elements are aligned in memory, else copies, which count."""
    values = np.array([1, 2**31, 3], "<u4")
    data, declared = vector("array", "u32", 3, b"?" * 4 + values.tobytes(), offset=4)
    start = 14 + lead
    data = file([4], struct.pack("<I", 4 + lead), b"?" * lead + struct.pack("<I", 3) + values.tobytes() + b"!" * shift)
    memory = np.zeros(len(data) + 80, np.uint8)
    at = -memory.ctypes.data % 16 + shift
    source = memory[at:at + len(data)]
    source[:] = np.frombuffer(data, np.uint8)
    source.flags.writeable = False
    is_view = (shift + start + 4) % 4 == 0
    for budget in ((0, 11) if is_view else (12,)):
        made = Decoder(source, declared, EMPTY, budget, EMPTY)
        found = made.root("T").v
        np.testing.assert_array_equal(found, values)
        assert found.dtype == np.dtype("<u4") and found.flags.aligned and not found.flags.writeable
        assert np.shares_memory(found, source) == is_view
    if not is_view:
        with pytest.raises(Damage):
            Decoder(source, declared, EMPTY, 11, EMPTY).root("T")


def test_arrays_of_bytes_are_views_and_free():
    data, declared = vector("array", "u8", 3, b"abc")
    source = np.frombuffer(data, np.uint8)
    found = Decoder(source, declared, EMPTY, 0, EMPTY).root("T").v
    assert bytes(found) == b"abc" and np.shares_memory(found, source)


# ---- unions ----------------------------------------------------------------------------------------------------
UNION = schema(T=[field("u", 0, "union", "u8", "Thing")], Leaf=[field("x", 0, "number", "u8", default=0)],
               Other=[field("s", 0, "tuple", "u8")])
LEAF = table([4], b"\x09")


def union(kind, slots=(8, 4), inner=LEAF):
    return file(slots, struct.pack("<I", 4 + 1 + 6) + bytes([kind]), inner)


def test_unions():
    assert decode(union(1), UNION).u.x == 9 and decode(union(1), UNION).u.TABLE.name == "Leaf"
    for kind in (0, 3, 255):        # none, and such that the schema lacks
        assert decode(union(kind), UNION).u is None
    for slots in ((8, 0), (0, 4), (8,), ()):
        assert decode(file(slots, struct.pack("<I", 11) + b"\x01", LEAF), UNION).u is None
    for slots in ((7, 4), (9, 4), (8, 5), (8, 3), (3, 4)):
        assert "'u'" in damage(union(1, slots), UNION).text
    found = damage(union(1)[:-2], UNION)
    assert found.path == ["u"]


def many(inner, count=3, name="Leaf", share=True, kind=1, **budget):
    """The members of `count` unions, each with a table of its own."""
    declared = schema(T=[field("all", 0, "tables", type="H")], H=[field("u", 0, "union", "u8", "Thing")],
                      Leaf=[field("x", 0, "number", "u8", default=0)], Other=[field("s", 0, "tuple", "u8")])
    data = file([4], struct.pack("<I", 4))
    start = len(data) + 4
    blocks, offsets = b"", []
    for i in range(count):
        body = inner[i % len(inner)]
        vtable = 6                              # bytes before the member's table
        block = table([8, 4], struct.pack("<I", 4 + 1 + vtable) + bytes([kind])) + body
        offsets.append(start + 4 * count + len(blocks) + 8 - (start + 4 * i))
        blocks += block
    data += struct.pack(f"<I{count}I", count, *offsets) + blocks
    return [h.u for h in decode(data, declared, share=share, **budget).all]


def shared(inner, **options):
    """The same with one vtable for all members, which layouts need to be shared."""
    declared = schema(T=[field("all", 0, "tables", type="H")], H=[field("u", 0, "union", "u8", "Thing")],
                      Leaf=[field("x", 0, "number", "u8", default=0), field("e", 1, "enum", "i8", "Colour")],
                      Other=[field("s", 0, "tuple", "u8")])
    kind, slots, rows = options.pop("kind", 1), options.pop("slots", (4, 5)), b""
    head = file([4], struct.pack("<I", 4))
    start = len(head) + 4
    count = len(inner)
    vtables = struct.pack("<HHHH", 8, 9, 8, 4) + struct.pack(f"<HH{len(slots)}H", 4 + 2 * len(slots), 4 + len(inner[0]),
                                                            *slots)
    place = start + 4 * count
    first = place + len(vtables)
    width = 9 + 4 + len(inner[0])
    offsets = [first + i * width - (start + 4 * i) for i in range(count)]
    for i, body in enumerate(inner):
        at = first + i * width
        rows += struct.pack("<iIB", at - place, 9 - 4, kind) + struct.pack("<i", at + 9 - (place + 8)) + body
    data = head + struct.pack(f"<I{count}I", count, *offsets) + vtables + rows
    return [h.u for h in decode(data, declared, **options).all]


def test_equal_tables_of_unions_are_one_record():
    a, b, c, d = shared([b"\x05\x01", b"\x06\x01", b"\x05\x01", b"\x05\x00"], share=True)
    assert a is c and a is not b and a is not d
    assert [(r.x, r.e) for r in (a, b, c, d)] == [(5, "GREEN"), (6, "GREEN"), (5, "GREEN"), (5, "RED")]
    a, _, c, _ = shared([b"\x05\x01", b"\x06\x01", b"\x05\x01", b"\x05\x00"], share=False)
    assert a is not c and (a.x, c.x) == (5, 5)
    a, b = shared([struct.pack("<IIB", 4, 1, 7)] * 2, share=True, kind=2, slots=(4,))       # they hold a vector
    assert a is not b and a.s == b.s == (7,)


def test_unions_of_members_with_vtables_of_their_own():
    assert [u.x for u in many([LEAF, table([4], b"\x08")])] == [9, 8, 9]
