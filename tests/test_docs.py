"""The documents are true: links and paths lead somewhere, names exist, code runs, the picture is the drawn one."""
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.media import models
from pylite.schema.builder import ModelBuilder

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
INSIDE = [page for page in PAGES if page.parent.name == "decisions" or page.name in (
    "architecture.md", "where.md", "glossary.md", "adding-an-op.md", "numerics.md", "CONTRIBUTING.md")]    # on the code
BASES = ROOT, ROOT / "pylite", ROOT / "pylite" / "_core"
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:py|pyx|pxd|pxi|c|cc|h|md|toml|build|svg))")


def names(pages):
    return [page.relative_to(ROOT).as_posix() for page in pages]


def prose(page):
    """The page without its blocks of code, on one line."""
    return " ".join(re.sub(r"^\s*```.*?^\s*```", "", (ROOT / page).read_text(), flags=re.S | re.M).split())


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)


def found(path):
    """The files and folders that a path in a document may mean."""
    if "/" not in path.rstrip("/"):
        return [*ROOT.glob(path), *(ROOT / "pylite").rglob(path.rstrip("/")), *(ROOT / "tests").rglob(path.rstrip("/"))]
    return [file for base in BASES for file in base.glob(path)]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", names(PAGES))
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        path, _, anchor = target.partition("#")
        if path.startswith(("http:", "https:")):
            continue
        file = ((ROOT / page).parent / path) if path else ROOT / page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", names(INSIDE))
def test_paths(page):
    new = re.findall(r"^`([\w/.]+)`[^`]*:\n\n```python", (ROOT / page).read_text(), re.M)     # in worked examples
    spans = re.findall(r"`([^`]+)`", prose(page))
    for path in [span for span in spans if PATH.fullmatch(span) and span not in new and not span.startswith("../")]:
        assert found(path), path


@pytest.mark.parametrize("page", [page for page in names(INSIDE) if "decisions/" in page])
def test_names(page):
    """A name in brackets behind a file is in the file."""
    for path, listed in re.findall(r"`([\w/.]+\.\w+)` \(((?:`\w+`(?:, )?)+)\)", prose(page)):
        text = "".join(file.read_text() for file in found(path))
        for name in re.findall(r"\w+", listed):
            assert re.search(rf"\b{name}\b", text), f"{path}: {name}"


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}


def test_the_picture_of_the_layers_is_the_drawn_one():
    spec = importlib.util.spec_from_file_location("draw_layers", ROOT / "docs" / "draw_layers.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PICTURE.read_text() == script.draw(), "run: python docs/draw_layers.py"


@pytest.mark.parametrize("page", ["README.md", "docs/drop-in.md"])
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    """With a model that ships in place of the reader's own."""
    shutil.copy(models.path("digits"), tmp_path / "model.tflite")
    monkeypatch.chdir(tmp_path)
    assert blocks(page, "python")
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {"__name__": page})


def test_the_kernel_in_cython_runs(tmp_path, monkeypatch):
    """The one of docs/custom-ops.md, in a file of its own."""
    pytest.importorskip("Cython", reason="Cython is not installed")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    block, = blocks("docs/custom-ops.md", "cython")
    (tmp_path / "scaling.pyx").write_text(block)
    subprocess.run([sys.executable, "-m", "cython", "-I", str(Path(pylite.__file__).parents[1]), "scaling.pyx"],
                   cwd=tmp_path, check=True)
    library = tmp_path / f"scaling{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-w", f"-I{sysconfig.get_path('include')}",
                    f"-I{pylite.get_include()}/pylite", "scaling.c", "-o", str(library)], cwd=tmp_path, check=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    scaling = importlib.import_module("scaling")

    class Scale(pylite.CustomOp):
        kernel = scaling.Scale
    m = ModelBuilder()
    x, y = m.tensor("x", (3,)), m.tensor("y", (3,))
    m.operator("Scale", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    ops = pylite.BuiltinOpResolver()
    ops.add_custom("Scale", Scale)
    interpreter = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    interpreter.allocate_tensors()
    interpreter.set_tensor(x, np.array([2, 4, 6], np.float32))
    interpreter.invoke()
    assert interpreter.get_tensor(y).tolist() == [1, 2, 3]
