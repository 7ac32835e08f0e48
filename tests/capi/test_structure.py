"""The order of the C files of the host: each uses only files before it in the list of its header."""
import graphlib
import re
from pathlib import Path

import pytest

CAPI = Path(__file__).parents[2] / "pylite" / "_core" / "capi"
LIST = re.compile(r"^//   (\w+\.c) +(\S.*)$", re.MULTILINE)
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
NAME = r"(?:pl_|TfLite)\w+"
# The definition of a function or a variable begins in the first column.
DEFINITION = re.compile(rf"^(?!static|typedef|extern|struct|#)\w[\w *]*?\b({NAME})(?:\([^;{{]*\) \{{| =|;)",
                        re.MULTILINE)
HOST, OPAQUE = "host.h", "opaque.h"
BUILT = {HOST: r"static_library\('host_tables', (.*?), capi_assertions", OPAQUE: r"'opaque': \[(.*?)\]"}

pytestmark = pytest.mark.skipif(not CAPI.is_dir(), reason="needs the source tree")


def documented(header):
    """The files in the order that a header documents."""
    return [name for name, _ in LIST.findall((CAPI / header).read_text())]


def sources(header):
    """{file: its code without comments and strings} of the files that a header lists."""
    return {name: NOT_CODE.sub("", (CAPI / name).read_text()) for name in documented(header)}


def definitions(code):
    """{name: file} of every function and variable with external linkage."""
    found = {}
    for file, text in code.items():
        for name in DEFINITION.findall(text):
            assert name not in found, f"{name} is defined in {found[name]} and in {file}"
            found[name] = file
    return found


def uses(code):
    """{file: {file that it uses: names}}."""
    home = definitions(code)
    graph = {file: {} for file in code}
    for file, text in code.items():
        for name in sorted(set(re.findall(rf"\b{NAME}", text)) & home.keys()):
            if home[name] != file:
                graph[file].setdefault(home[name], []).append(name)
    return graph


def test_the_lists_are_complete():
    build = (CAPI / "meson.build").read_text()
    for header, pattern in BUILT.items():
        built = re.search(pattern, build, re.DOTALL)
        assert documented(header) == re.findall(r"'(\w+\.c)'", built[1])


def test_every_declared_function_is_found():
    """Each function that host.h declares is defined in the file under whose heading it stands."""
    header, _, _ = (CAPI / HOST).read_text().partition("// ---- For all files ----")
    sections = re.split(r"^// ---- (\w+\.c) ----$", header, flags=re.MULTILINE)
    declared = {}
    for file, text in zip(sections[1::2], sections[2::2], strict=True):
        text = re.sub(r"typedef struct.*?\} \w+;", "", NOT_CODE.sub("", text), flags=re.DOTALL)
        declared.update(dict.fromkeys(re.findall(r"\b(pl_\w+)(?:\([^*]|;)", text), file))
    assert declared == definitions(sources(HOST))


@pytest.mark.parametrize("header", [HOST, OPAQUE])
def test_no_cycles(header):
    graph = uses(sources(header))
    assert any(graph.values())
    assert set(graphlib.TopologicalSorter(graph).static_order()) == set(documented(header))


@pytest.mark.parametrize("header", [HOST, OPAQUE])
def test_files_use_those_before(header):
    files = documented(header)
    for file, used in uses(sources(header)).items():
        for other, names in used.items():
            assert files.index(other) < files.index(file), f"{file} uses {names} of {other}, which comes later"


def test_the_opaque_library_uses_no_file_of_the_host():
    home = definitions(sources(HOST))
    for file, text in sources(OPAQUE).items():
        assert not set(re.findall(rf"\b{NAME}", text)) & home.keys(), file


def test_a_cycle_is_found():
    code = {"a.c": "void pl_f(int x) {\n  pl_g();\n}\n", "b.c": "int pl_g(void) {\n  pl_f(1);\n}\n"}
    assert uses(code) == {"a.c": {"b.c": ["pl_g"]}, "b.c": {"a.c": ["pl_f"]}}
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(uses(code)).prepare()
