"""The functions that a shared library exports, read from its ELF file, and those among them that register ops."""
import mmap
import os
import re
import struct

from pylite.errors import PluginError

_REGISTERER = re.compile(r"_Z\w+PN6tflite17MutableOpResolverE")
_LIKELY = re.compile("[Rr]egist(er|ration)|^Add[A-Z]")
_MACHINES = {3: "x86", 62: "x86", 40: "Arm", 183: "Arm", 243: "RISC-V"}
_DYNSYM, _GLOBAL, _FUNCTION = 11, (1, 2), 2      # of ELF


def registerers(path):
    """The functions of a library that take a tflite::MutableOpResolver *; PluginError with a hint if it has none."""
    names = exported(path)
    if not names and not _is_library(path):
        raise PluginError(f"{os.fspath(path)} is not a shared library; compile its source with cc -shared -fPIC")
    matches = [name for name in names if _REGISTERER.fullmatch(name)]
    if matches:
        return matches
    raise PluginError(f"{os.fspath(path)}: name the functions that return the registrations; {hint(path)}")


def hint(path):
    """The functions of a library that may register ops, as the end of an error."""
    names = exported(path)
    likely = sorted(word for name in names if _LIKELY.search(word := _plain(name)) and not word.startswith("_Z"))
    return (f"it exports {', '.join(likely[:20])}{', ...' if len(likely) > 20 else ''}" if likely else
            "it exports no function whose name says that it registers ops" if names else
            "it exports no functions; declare them with TFL_CAPI_EXPORT, and not static" if machine(path) else
            "its exports cannot be read")


def _is_library(path):
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return True         # loading it says more


def machine(path):
    """The kind of CPU that an ELF file is for, such as "64-bit Arm"; None for any other file."""
    try:
        with open(path, "rb") as file:
            start = file.read(20)
    except OSError:
        return None
    if len(start) < 20 or start[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(start[18:20], "little" if start[5] == 1 else "big")
    return f"{32 if start[4] == 1 else 64}-bit {_MACHINES.get(number, f'machines of number {number} in ELF')}"


def exported(path):
    """Names of the functions that the library exports; none if it is not an ELF file."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return list(_functions(content))
    except (OSError, ValueError, struct.error, IndexError):
        return []


def mentions(path, name):
    """True if the file contains these bytes."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return content.find(name) >= 0
    except (OSError, ValueError):
        return False


def _functions(content):
    """Names of the functions in the dynamic symbol table of an ELF file."""
    if content[:4] != b"\x7fELF":
        return
    wide, order = content[4] == 2, "<" if content[5] == 1 else ">"
    at, = struct.unpack_from(order + ("Q" if wide else "I"), content, 40 if wide else 32)
    size, count = struct.unpack_from(order + "HH", content, 58 if wide else 46)
    header = struct.Struct(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"))
    sections = [header.unpack_from(content, at + size * i) for i in range(count)]
    for section in sections:
        if section[1] != _DYNSYM:
            continue
        start = sections[section[6]][4]     # of the string table
        for i in range(section[4], section[4] + section[5], section[9]):
            name, info, _, where = struct.unpack_from(order + "IBBH", content, i) if wide else struct.unpack_from(
                order + "I8xBBH", content, i)
            if where and info & 15 == _FUNCTION and info >> 4 in _GLOBAL:
                yield content[start + name:content.find(b"\0", start + name)].decode("utf-8", "replace")


def _plain(name):
    """`space::f` for the mangled name of a C++ function without parameters; other names as they are."""
    mangled = re.fullmatch(r"_ZN(\w+)Ev|_Z(\w+)v", name)
    rest, parts = mangled and (mangled[1] or mangled[2]), []
    while rest:
        number = re.match(r"\d+", rest)
        if number is None:
            return name
        begin, end = len(number[0]), len(number[0]) + int(number[0])
        parts.append(rest[begin:end])
        rest = rest[end:]
    return "::".join(parts) or name
