"""The documents: links, paths and names exist, the picture of the layers is current; test_pages.py runs their code."""
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
INSIDE = [page for page in PAGES if page.parent.name == "decisions" or page.name in (
    "architecture.md", "where.md", "glossary.md", "adding-an-op.md", "adding-an-op-reference.md", "numerics.md",
    "CONTRIBUTING.md")]     # on code
BASES = ROOT, ROOT / "pylite", ROOT / "pylite" / "_core"
PATH = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*(?:/|\.(?:py|pyx|pxd|pxi|c|cc|h|md|toml|build|svg))")


def names(pages):
    return [page.relative_to(ROOT).as_posix() for page in pages]


def prose(page):
    """The page on one line, without its blocks of code."""
    return " ".join(re.sub(r"^\s*```.*?^\s*```", "", (ROOT / page).read_text(), flags=re.S | re.M).split())


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


def test_the_site_has_every_page_and_no_link_that_leads_nowhere(monkeypatch):
    """What `.ci/docs.py` collects for the site; it checks the built site itself."""
    monkeypatch.syspath_prepend(ROOT / ".ci")
    spec = importlib.util.spec_from_file_location("site_of_docs", ROOT / ".ci" / "docs.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    pages = (ROOT / ".ci" / "mkdocs.yml").read_text()
    listed = re.findall(r"- (?:[^\n:]+: )?([\w./-]+\.md|docs/decisions/)$", pages, re.M)
    assert {script.place(page).relative_to(script.SOURCE).as_posix() for page in PAGES if page not in script.LEFT_OUT
            and "decisions" not in page.parts} <= set(listed)
    for name, (_, objects) in script.API.items():
        assert f"api/{name}.md" in listed
        for each in objects.split():
            module, _, member = each.rpartition(".")
            assert importlib.util.find_spec(each) if not member[0].isupper() and member not in (
                "custom_op", "from_pointers", "load_delegate") else hasattr(importlib.import_module(module), member)
