"""Tables, enumerations and unions of the .tflite format, parsed from their declarations when first asked for."""
from functools import cache

import numpy as np

from pylite.schema import declarations

# Number types: name in the declarations -> struct code, bytes.
NUMBERS = {"bool": ("?", 1), "i8": ("b", 1), "u8": ("B", 1), "i16": ("h", 2), "u16": ("H", 2), "i32": ("i", 4),
           "u32": ("I", 4), "i64": ("q", 8), "u64": ("Q", 8), "f32": ("f", 4)}


class Field:
    """A field of a table.

    kind: "number", "enum", "string", "table", "tables", "array", "tuple", "enums" or "union"; number: the number type
    of what is stored (of one element, in vectors); type: the table, enumeration or union.
    """
    __slots__ = ("name", "slot", "kind", "number", "type", "default")

    def __init__(self, name, slot, kind, number, type, default):
        self.name = name
        self.slot = slot
        self.kind = kind
        self.number = number
        self.type = type
        self.default = default


class Record:
    """A table of a file, its fields as attributes; a field that the file leaves out has the schema's default.

    Vectors, strings and tables that are left out are None.
    """
    FIELDS = ()

    def __init__(self, **values):
        unknown = set(values).difference(field.name for field in self.FIELDS)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}; it has "
                            f"{', '.join(field.name for field in self.FIELDS) or 'none'}")
        self.__dict__.update(values)

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in self.FIELDS)

    __hash__ = None

    def __repr__(self):
        given = (f"{f.name}={getattr(self, f.name)!r}" for f in self.FIELDS if f.name in self.__dict__)
        return f"{type(self).__name__}({', '.join(given)})"


def _equal(a, b):
    if isinstance(a, np.ndarray):
        return (isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
                and a.tobytes() == b.tobytes())
    return not isinstance(b, np.ndarray) and a == b


@cache
def table(name):
    """The Record class of a table."""
    fields = tuple(_fields(_words(name)))
    return type(name, (Record,), {"FIELDS": fields, "__module__": __name__, **{f.name: f.default for f in fields}})


@cache
def enum(name):
    """The names of an enumeration's values, by number."""
    return tuple(_enums()[name][1].split())


@cache
def enum_numbers(name):
    """An enumeration's numbers by name."""
    return {value: number for number, value in enumerate(enum(name))}


@cache
def union(name):
    """The names of a union's tables, by number."""
    return tuple(_unions()[name].split())


@cache
def options_table(operator):
    """The name of the options table of a builtin operator, or None when it has none."""
    known = _options().get(operator)
    if known is None:
        wanted = (operator.replace("_", "") + "options").lower()
        for text, start in ((declarations.TABLES, "\n"), (_empty_tables(), " ")):
            at = _lower(text).find(f"{start}{wanted} ") + 1
            if at:
                return text[at:at + len(wanted)]
    return known


def default_options(operator):
    """Options of a builtin operator as they are when a file gives none."""
    name = options_table(operator)
    return table(name)() if name else Record()


def _fields(words):
    slot = 0
    for word in words:
        if word != "-":
            yield (field := _field(word, slot))
            slot += field.kind == "union"
        slot += 1


def _field(word, slot):
    name, declared = word.split(":")
    declared, _, default = declared.partition("=")
    element = declared.strip("[]()")
    if element in NUMBERS:
        if declared[0] in "[(":
            return Field(name, slot, "array" if declared[0] == "[" else "tuple", element, "", None)
        value = float(default or 0) if element == "f32" else int(default or 0)
        return Field(name, slot, "number", element, "", bool(value) if element == "bool" else value)
    if element == "str":
        return Field(name, slot, "string", "", "", None)
    if element in _enums():
        number = _enums()[element][0]
        if declared[0] == "(":
            return Field(name, slot, "enums", number, element, None)
        return Field(name, slot, "enum", number, element, enum(element)[int(default or 0)])
    if element in _unions():
        return Field(name, slot, "union", "", element, None)
    return Field(name, slot, "tables" if declared[0] == "[" else "table", "", element, None)


def _words(name):
    """The words of a table's declaration."""
    text = declarations.TABLES
    start = text.find(f"\n{name} ")
    if start < 0:
        if f" {name} " in _empty_tables():
            return []
        raise KeyError(f"no table {name}")
    end = text.find("\n", start + 1)
    while text[end + 1:end + 2] == " ":
        end = text.find("\n", end + 1)
    return text[start:end].split()[1:]


def _entries(text):
    """Declarations by name, as text: a line that starts at the margin and the indented ones after it."""
    return [entry.partition(" ")[::2] for entry in text.strip().replace("\n  ", " ").splitlines()]


@cache
def _lower(text):
    return text.lower()


@cache
def _empty_tables():
    return f" {' '.join(declarations.EMPTY_TABLES.split())} "


@cache
def _enums():
    """Of each enumeration the number type and its values' names, as text."""
    return {name.partition(":")[0]: (name.partition(":")[2], values) for name, values in _entries(declarations.ENUMS)}


@cache
def _unions():
    return dict(_entries(declarations.UNIONS))


@cache
def _options():
    return dict(pair.split(":") for pair in declarations.OPTIONS.split())
