"""The order of the C files of the host: each calls only functions of the files above it in the list in host.h."""
import graphlib
import re
from pathlib import Path

import pytest

CAPI = Path(__file__).parents[2] / "pylite" / "_core" / "capi"
LIST = re.compile(r"^//   (\w+\.c) +(\S.*)$", re.MULTILINE)
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A function's definition, or a variable's: both begin in the first column.
DEFINITION = re.compile(r"^(?!static|typedef|extern|#)\w[\w *]*?\b(pl_\w+)(?:\([^;{]*\) \{| =|;)", re.MULTILINE)
NAME = re.compile(r"\bpl_\w+")

pytestmark = pytest.mark.skipif(not CAPI.is_dir(), reason="needs the source tree")


def documented():
    """The files in the order that host.h documents, the lowest first."""
    return [name for name, _ in LIST.findall((CAPI / "host.h").read_text())]


def sources():
    """{file: its code without comments and strings} of the files that the list names."""
    return {name: NOT_CODE.sub("", (CAPI / name).read_text()) for name in documented()}


def definitions(code):
    """{name: file} of every function and variable with external linkage."""
    found = {}
    for file, text in code.items():
        for name in DEFINITION.findall(text):
            assert name not in found, f"{name} is defined in {found[name]} and in {file}"
            found[name] = file
    return found


def edges():
    """{file: {file that it uses: names}}."""
    code = sources()
    home = definitions(code)
    graph = {file: {} for file in code}
    for file, text in code.items():
        for name in set(NAME.findall(text)) & home.keys():
            if home[name] != file:
                graph[file].setdefault(home[name], []).append(name)
    return graph


def test_the_list_is_complete():
    files = documented()
    build = (CAPI / "meson.build").read_text()
    built = re.search(r"static_library\('host_tables', (.*?), capi_assertions", build, re.DOTALL)
    assert files == re.findall(r"'(\w+\.c)'", built[1])


def test_every_declared_function_is_found():
    """The parser sees each function that host.h declares, in the file under whose heading it stands."""
    home = definitions(sources())
    header, _, _ = (CAPI / "host.h").read_text().partition("// ---- For all files ----")
    sections = re.split(r"^// ---- (\w+\.c) ----$", header, flags=re.MULTILINE)
    declared = {}
    for file, text in zip(sections[1::2], sections[2::2], strict=True):
        text = re.sub(r"typedef struct.*?\} \w+;", "", NOT_CODE.sub("", text), flags=re.DOTALL)
        names = re.findall(r"\b(pl_\w+)(?:\([^*]|;)", text)
        declared.update(dict.fromkeys(names, file))
    assert declared == home


def test_no_cycles():
    order = graphlib.TopologicalSorter({file: used.keys() for file, used in edges().items()}).static_order()
    assert set(order) == set(documented())


def test_calls_go_down():
    files = documented()
    for file, used in edges().items():
        for other, names in used.items():
            assert files.index(other) < files.index(file), f"{file} uses {names} of {other}, which is above it"
