"""Tables, enumerations and unions of the .tflite format, parsed from declarations.py on first use."""
from functools import cache

import numpy as np

from pylite.ir.graph import Frozen
from pylite.schema import declarations

# Number types: {name in the declarations: (struct code, bytes)}.
NUMBERS = {"bool": ("?", 1), "i8": ("b", 1), "u8": ("B", 1), "i16": ("h", 2), "u16": ("H", 2), "i32": ("i", 4),
           "u32": ("I", 4), "i64": ("q", 8), "u64": ("Q", 8), "f32": ("f", 4)}


MOST_SHOWN = 8      # elements of a field in the repr of a Record


class Field(Frozen):
    """A field of a table.

    kind: "number", "enum", "string", "table", "tables", "array", "tuple", "enums" or "union"; number: the type
    of the stored number, or of one element of a vector; type: the table, enumeration or union.
    """
    __slots__ = ()
    name: str
    slot: int
    kind: str
    number: str
    type: str
    default: "object"


class Table:
    """A kind of table: its name, its Fields, and the defaults of fields that a file omits.  Calling it makes a Record.

    The default of vectors, strings and tables is None.
    """
    __slots__ = ("name", "fields", "defaults")

    def __init__(self, name, fields):
        self.name = name
        self.fields = fields
        self.defaults = {field.name: field.default for field in fields}

    def __call__(self, **values):
        unknown = values.keys() - self.defaults.keys()
        if unknown:
            raise TypeError(f"{self.name} has no field {', '.join(sorted(unknown))}; it has "
                            f"{', '.join(self.defaults) or 'none'}")
        record = Record()
        record.TABLE = self
        record.__dict__.update(self.defaults, **values)
        return record


class Record:
    """A table of a file: its fields as attributes, and TABLE, its kind.

    Kinds of tables are not classes, because creating these would take longer than decoding most models.
    """
    __slots__ = ("TABLE", "__dict__")
    TABLE: Table

    def __eq__(self, other):
        if not isinstance(other, Record) or self.TABLE is not other.TABLE:
            return NotImplemented
        return all(_equal(getattr(self, name), getattr(other, name)) for name in self.TABLE.defaults)

    __hash__ = None

    def __repr__(self):
        values = ((name, getattr(self, name), default) for name, default in self.TABLE.defaults.items())
        shown = [f"{n}={_brief(v)}" for n, v, default in values if not _equal(v, default)]
        return f"{self.TABLE.name}({', '.join(shown)})"


def _brief(value):
    """The repr of a field, without most of a long one: a model has megabytes."""
    if isinstance(value, np.ndarray) and value.size > MOST_SHOWN:
        return f"<{value.dtype} {list(value.shape)}>"
    if isinstance(value, (list, tuple)) and len(value) > MOST_SHOWN:
        return f"[{value[0]!r}, ... {len(value)} in all]"
    return repr(value)


def _equal(a, b):
    if isinstance(a, np.ndarray):
        return (isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
                and a.tobytes() == b.tobytes())
    return not isinstance(b, np.ndarray) and a == b


@cache
def table(name):
    """The Table with this name."""
    return Table(name, _fields(_words(name)))


@cache
def enum(name):
    """The names of an enumeration's values, in the order of their numbers."""
    return tuple(_enums()[name][1].split())


@cache
def enum_numbers(name):
    """{name: number} of an enumeration."""
    return {value: number for number, value in enumerate(enum(name))}


@cache
def union(name):
    """The names of a union's tables, in the order of their numbers."""
    return tuple(_unions()[name].split())


@cache
def options_table(operator):
    """The name of the options table of a builtin operator, or None if it has none."""
    known = _options().get(operator)
    if known is None:
        name = (operator.replace("_", "") + "options").lower()
        for text, start in ((declarations.TABLES, "\n"), (_empty_tables(), " ")):
            position = _lower(text).find(f"{start}{name} ") + 1
            if position:
                return text[position:position + len(name)]
    return known


def default_options(operator):
    """The options of a builtin operator if the file has none."""
    name = options_table(operator)
    return table(name)() if name else NO_OPTIONS


def _fields(words):
    fields, slot = [], 0
    for word in words:
        if word != "-":
            name, declared = word.split(":")
            known = _declared(declared)
            fields.append(Field.of((name, slot, *known)))
            slot += known[0] == "union"
        slot += 1
    return tuple(fields)


@cache
def _declared(text):
    """(kind, number, type, default) of a field declared as `text`."""
    declared, _, default = text.partition("=")
    element = declared.strip("[]()")
    if element in NUMBERS:
        if declared[0] in "[(":
            return "array" if declared[0] == "[" else "tuple", element, "", None
        value = float(default or 0) if element == "f32" else int(default or 0)
        return "number", element, "", bool(value) if element == "bool" else value
    if element == "str":
        return "string", "", "", None
    if element in _enums():
        number = _enums()[element][0]
        if declared[0] == "(":
            return "enums", number, element, None
        return "enum", number, element, enum(element)[int(default or 0)]
    if element in _unions():
        return "union", "", element, None
    return "tables" if declared[0] == "[" else "table", "", element, None


def _words(name):
    """The words of a table's declaration, without its name."""
    text, start = declarations.TABLES, declarations.TABLES.find(f"\n{name} ")
    if start < 0:
        text, start = declarations.METADATA, declarations.METADATA.find(f"\n{name} ")
    if start < 0:
        if f" {name} " in _empty_tables():
            return []
        raise KeyError(f"no table {name}")
    end = text.find("\n", start + 1)
    while text[end + 1:end + 2] == " ":
        end = text.find("\n", end + 1)
    return text[start:end].split()[1:]


def _entries(text):
    """[(name, rest of the declaration)]; a declaration is a line at the margin and the indented lines after it."""
    return [entry.partition(" ")[::2] for entry in text.strip().replace("\n  ", " ").splitlines()]


@cache
def _lower(text):
    return text.lower()


@cache
def _empty_tables():
    return f" {' '.join(declarations.EMPTY_TABLES.split())} "


@cache
def _enums():
    """{enumeration: (its number type, the names of its values as text)}"""
    return {name.partition(":")[0]: (name.partition(":")[2], values) for name, values in _entries(declarations.ENUMS)}


@cache
def _unions():
    return dict(_entries(declarations.UNIONS))


@cache
def _options():
    return dict(pair.split(":") for pair in declarations.OPTIONS.split())


NO_OPTIONS = Table("", ())()
