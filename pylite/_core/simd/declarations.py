"""Writes simd_declarations.pxi: the declarations of simd.h and the headers that it includes, for Cython.

python declarations.py OUTPUT, run by meson.  simd.pxd includes the result, so each slot, member and constant is written
once, in its header.  The headers keep to a few forms, which the patterns below know: `typedef struct name {...}
name;`, `struct name {...};`, `enum {...};`, `#define PL_NAME number`, and functions that begin at the margin.
"""
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
INDENT = "    "

_DECLARATION = re.compile(r"""
    ^(?:typedef\ )?struct\ (?P<struct>\w+)\ \{(?P<members>.*?)^\}.*?;
  | ^typedef\ struct\ (?P<opaque>\w+)\ (?P=opaque);
  | ^typedef\ (?P<result>\w+)\ \(\*(?P<pointer>\w+)\)\ *\((?P<takes>.*?)\);
  | ^enum\ \{(?P<enum>.*?)\};
  | ^\#define\ (?P<constant>PL_\w+)\ \d+\b
  | ^extern\ (?P<variable>[^;]*);
  | ^(?:static\ inline\ )?(?P<function>\w[\w ]*[ *]+pl_\w+)\((?P<arguments>[^)]*)\)\s*[;{]
""", re.X | re.M | re.S)


def headers(folder=FOLDER):
    """The text of simd.h and the headers that it includes, without comments, with the slots written out."""
    def read(name):
        text = re.sub(r"/\*.*?\*/", "", (folder / name).read_text(), flags=re.S).replace("\\\n", " ")
        return re.sub(r'^#include "(\w+\.h)"', lambda match: read(match[1]), text, flags=re.M)
    text = read("simd.h")
    body = "".join(f"  void (*{name})({arguments});\n" for name, arguments in slots(text).items())
    text = re.sub(r"^#define X\(.*?^#undef X$", lambda _: body, text, flags=re.S | re.M)
    for macro, arguments in re.findall(r"^#define (\w+) +(\([^()]*\))", text, re.M):
        text = re.sub(rf"\b{macro};", lambda _, arguments=arguments: arguments + ";", text)
    return text


def slots(text):
    """{name: arguments} of PL_SLOTS, in order."""
    macros = dict(re.findall(r"^#define (\w+)(?:\(X\))? +(.*)$", text, re.M))
    result = {}

    def walk(body):
        for part, name, arguments in re.findall(r"\b(?:(PL_\w*SLOTS\w*)\(X\)|X\((\w+), (\([^()]*\)|\w+)\))", body):
            if part:
                walk(macros[part])
            else:
                result[name] = macros.get(arguments, arguments).strip()[1:-1]
    walk(macros["PL_SLOTS"])
    return {name: " ".join(arguments.split()) for name, arguments in result.items()}


def members(body):
    """The members of a struct, each declared on its own: `const int32_t *mult`, `ptrdiff_t n[3]`."""
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        if "(" in declaration:
            yield " ".join(declaration.split())
            continue
        kind, rest = re.fullmatch(r"((?:const |struct )?\w+) (.*)", declaration, re.S).groups()
        for member in rest.split(","):
            yield f"{kind} {' '.join(member.split())}"


def structs(text):
    """{name: members} of the structs, in order."""
    return {match["struct"]: list(members(match["members"])) for match in _DECLARATION.finditer(text)
            if match["struct"]}


def _cython(match):
    """The declaration in Cython, as lines."""
    if match["struct"]:
        yield f"ctypedef struct {match['struct']}:"
        for member in members(match["members"]):
            yield INDENT + (f"{member} noexcept nogil" if "(*" in member else member)
    elif match["opaque"]:
        yield f"ctypedef struct {match['opaque']}"
    elif match["pointer"]:
        yield f"ctypedef {match['result']} (*{match['pointer']})({' '.join(match['takes'].split())}) noexcept nogil"
    elif match["enum"]:
        yield "enum: " + ", ".join(name.split("=")[0].strip() for name in match["enum"].split(",") if name.strip())
    elif match["constant"]:
        yield f"enum: {match['constant']}"
    elif match["variable"]:
        yield match["variable"]
    else:
        yield f"{match['function']}({' '.join(match['arguments'].split())})"


def declarations(text):
    """The file that simd.pxd includes."""
    lines = ["# Made by simd/declarations.py from simd.h and the headers that it includes.",
             "from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t", "",
             'cdef extern from "simd.h" nogil:']
    for match in _DECLARATION.finditer(text):
        lines += (INDENT + line.rstrip() for line in _cython(match))
    return re.sub(r"\bstruct (?=pl_\w+ \*)", "", "\n".join(lines)).replace("(void)", "()") + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(declarations(headers()))
