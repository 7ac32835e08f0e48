"""The documents: links, paths and names exist, code runs, the picture of the layers is current."""
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pylite
from pylite.media import models

ROOT = Path(__file__).resolve().parents[1]
INSTALLED = Path(pylite.__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
INSIDE = [page for page in PAGES if page.parent.name == "decisions" or page.name in (
    "architecture.md", "where.md", "glossary.md", "adding-an-op.md", "numerics.md", "CONTRIBUTING.md")]    # on code
BASES = ROOT, ROOT / "pylite", ROOT / "pylite" / "_core"
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:py|pyx|pxd|pxi|c|cc|h|md|toml|build|svg))")


def names(pages):
    return [page.relative_to(ROOT).as_posix() for page in pages]


def prose(page):
    """The page on one line, without its blocks of code."""
    return " ".join(re.sub(r"^\s*```.*?^\s*```", "", (ROOT / page).read_text(), flags=re.S | re.M).split())


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)


def found(path):
    """The files and folders that a path in a document may refer to."""
    if "/" not in path.rstrip("/"):
        return [*ROOT.glob(path), *(ROOT / "pylite").rglob(path.rstrip("/")), *(ROOT / "tests").rglob(path.rstrip("/"))]
    return [file for base in BASES for file in base.glob(path)]


def anchors(page):
    """The anchors that GitHub generates for a page's headings."""
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


@pytest.mark.parametrize("page", names(INSIDE))
def test_names(page):
    """A name in brackets after a file occurs in the file."""
    for path, listed in re.findall(r"`([\w/.]+\.\w+)` \(((?:`\w+`(?:, )?)+)\)", prose(page)):
        text = "".join(file.read_text() for file in found(path))
        for name in re.findall(r"\w+", listed):
            assert re.search(rf"\b{name}\b", text), f"{path}: {name}"


def test_every_decision_is_in_the_index():
    folder = ROOT / "docs" / "decisions"
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "README.md").read_text()))
    assert listed == {page.name for page in folder.glob("*.md")} - {"README.md"}


def test_the_picture_of_the_layers_is_current():
    spec = importlib.util.spec_from_file_location("draw_layers", ROOT / "docs" / "draw_layers.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PICTURE.read_text() == script.draw(), "run: python docs/draw_layers.py"


def test_the_page_of_measurements_is_current():
    spec = importlib.util.spec_from_file_location("measurements", ROOT / "benchmarks" / "measurements.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page(), "run: python benchmarks/measurements.py"


@pytest.mark.parametrize("page", ["README.md", "docs/drop-in.md", "docs/validation.md", "docs/tasks.md"])
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    """The reader's own model is replaced by a bundled one."""
    shutil.copy(models.path("digits"), tmp_path / "model.tflite")
    monkeypatch.chdir(tmp_path)
    assert blocks(page, "python")
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), {"__name__": page})


TUTORIALS = [page for page in names(PAGES) if page.startswith("docs/tutorials/")]


@pytest.mark.parametrize("page", TUTORIALS)
def test_tutorials_run_as_printed(page, tmp_path):
    """In a fresh folder: a block of Python after a file's name is that file, a block of sh is run by a shell.

    Programs `pip` and `python3 -m venv` stand in for those that would fetch packages.
    """
    programs = tmp_path / "programs"
    programs.mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "activate").write_text("")
    for name, text in {
            "python3": f'[ "$1 $2" = "-m venv" ] && exit 0\nexec {sys.executable} "$@"', "pip": '[ "$1" = install ]',
            "python": f'exec {sys.executable} "$@"', "pylite": f'exec {sys.executable} -m pylite "$@"'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}",
                   "PYTHONPATH": os.pathsep.join(filter(None, [str(INSTALLED), os.environ.get("PYTHONPATH")]))}
    parts = re.findall(r"(?:^`([\w.]+)`:\n\n)?^```(\w+)\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
    assert {language for _, language, _ in parts} == {"sh", "python"}
    for name, language, text in parts:
        if language == "python":
            assert name.endswith(".py")
            (folder / name).write_text(text)
        else:
            done = subprocess.run(["bash", "-euc", text], cwd=folder, env=environment, capture_output=True, text=True,
                                  timeout=300, check=False)
            assert done.returncode == 0, text + done.stderr
            promised = re.search(r"^It prints `(.*?)`", (ROOT / page).read_text().partition(text)[2].lstrip("`\n"))
            assert not promised or promised[1] in done.stdout


def test_the_site_has_every_page_and_no_link_that_leads_nowhere():
    """What `.ci/docs.py` collects for the site; it checks the built site itself."""
    spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / ".ci" / "docs.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    pages = (ROOT / ".ci" / "mkdocs.yml").read_text()
    listed = re.findall(r"- (?:[^\n:]+: )?([\w./-]+\.md|docs/decisions/)$", pages, re.M)
    assert {page.relative_to(ROOT).as_posix() for page in PAGES if page not in script.LEFT_OUT
            and "decisions" not in page.parts} <= set(listed)
    for name, (_, objects) in script.API.items():
        assert f"api/{name}.md" in listed
        for each in objects.split():
            module, _, member = each.rpartition(".")
            assert importlib.util.find_spec(each) if not member[0].isupper() and member not in (
                "custom_op", "from_pointers", "load_delegate") else hasattr(importlib.import_module(module), member)
