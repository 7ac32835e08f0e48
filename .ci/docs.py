"""Build the documents as a site in build/site, and check every link: python .ci/docs.py

The tools come with `pip install '.[docs]'`.  Pages keep their places in the repository; files that they link to come
along, and a folder is its README.md.  A page that nothing lists, a link or an anchor that leads nowhere, and whatever
would be fetched from elsewhere are errors.  Where Chromium, Playwright and axe are there, so are a search without an
answer, and whatever axe finds on pages of each kind, wide and narrow, light and dark; without a server.
"""
import os
import re
import shutil
import subprocess
import sys
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import site_browser
import site_finish

ROOT = Path(__file__).resolve().parents[1]
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
LEFT_OUT = {ROOT / "docs" / "package.md"}       # the page of package indexes
PLACES = {ROOT / "docs" / "index.md": "index.md", ROOT / "README.md": "overview.md"}   # others stay
KINDS = ("index.html", "overview.html", "docs/ops.html", "docs/validation.html", "docs/performance.html",
         "docs/tutorials/first-inference.html", "api/tasks.html")      # pages that a browser sees
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
CODE, BAR = re.compile(r"`([^`\n]*)`"), r"\|"      # in tables: the site would show the backslash of a bar in code
API = {
    "interpreter": ("Interpreter and Model", "pylite.interpreter.Interpreter pylite.runtime.model.Model "
                    "pylite.tflite.signature.SignatureRunner"),
    "compiled_model": ("CompiledModel", "pylite.compiled_model.CompiledModel pylite.tensor_buffer.TensorBuffer "
                       "pylite.options pylite.cpu_options pylite.hardware_accelerator pylite.cpu_kernel_mode "
                       "pylite.environment"),
    "plugins": ("Ops and delegates", "pylite.plugins.custom.custom_op pylite.plugins.python_ops.CustomOp "
                "pylite.plugins.pointers.from_pointers pylite.plugins.resolver pylite.plugins.capi pylite.flex "
                "pylite.plugins.delegates.load_delegate pylite.plugins.python_delegates.PythonDelegate"),
    "tasks": ("Tasks", "pylite.tasks.vision pylite.tasks.detection pylite.tasks.audio pylite.tasks.text "
              "pylite.tasks.task "
              "pylite.tasks.results"),
    "media": ("Pictures, sound, labels", "pylite.media.images pylite.media.audio pylite.media.labels "
              "pylite.media.tensors pylite.media.metadata pylite.media.models"),
    "validation": ("Validation", "pylite.validation"),
    "errors": ("Errors", "pylite.errors"),
}


def place(file):
    """Where a file of the repository is in the site's sources."""
    return SOURCE / PLACES.get(file, file.relative_to(ROOT))


def collect():
    """Copy the pages and what they link to; write those of the API."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    for page in PAGES:
        if page not in LEFT_OUT:
            target = place(page)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = CODE.sub(bars, page.read_text())
            target.write_text(LINK.sub(lambda link, page=page: linked(page, link), text))
    for name in ("search_worker.js", "site.css", "site.js"):
        shutil.copy(ROOT / ".ci" / name, SOURCE)
    folder = SOURCE / "api"
    folder.mkdir()
    for name, (title, objects) in API.items():
        (folder / f"{name}.md").write_text(f"# {title}\n\n" + "".join(f"::: {each}\n\n" for each in objects.split()))


def bars(code):
    """A span of code in Markdown, or in HTML if it has a bar."""
    return f"<code>{escape(code[1]).replace(BAR, '&#124;')}</code>" if BAR in code[1] else code[0]


def linked(page, link):
    """The link for the site, after copying the file that it leads to."""
    path, anchor = link[1], link[2] or ""
    target = (page.parent / path).resolve()
    if ":" in path or not target.is_relative_to(ROOT):
        return link[0]
    if target.is_dir():
        target /= "README.md"
        if not target.exists():         # a folder of sources: its name is all there is to show
            return "]"
    if target.is_file() and target.suffix != ".md":
        place(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, place(target))
    return f"]({os.path.relpath(place(target), place(page).parent)}{anchor})"


class Links(HTMLParser):
    """What a page of the site refers to, and the anchors that it has."""

    def __init__(self, page):
        super().__init__()
        self.links, self.fetched, self.anchors = [], [], set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        for key in ("href", "src"):
            link = values.get(key)
            if link:
                self.links.append(link)
                if tag != "a" and link.startswith(("http:", "https:", "//")):
                    self.fetched.append(link)


def faults():
    """What is wrong with the links of the built site, as lines."""
    pages = {page: Links(page) for page in SITE.rglob("*.html")}
    for page, found in pages.items():
        name = page.relative_to(SITE)
        yield from (f"{name}: fetches {link}" for link in found.fetched)
        for link in found.links:
            path, _, anchor = unquote(link).partition("#")
            if ":" in path or path.startswith("//") or name.name == "404.html":
                continue
            target = (page.parent / path.partition("?")[0]).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name}: nothing is at {link}"
            elif anchor and target in pages and anchor not in pages[target].anchors and anchor != "__top":
                yield f"{name}: no anchor {link}"


def add_index():
    """The index as a script, which pages that are files may load."""
    index = SITE / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text()}")


def browsed():
    """What a browser finds wrong with the site, as lines; None without one."""
    with site_browser.browser() as running:
        if running is None:
            return None
        titles = site_browser.searched(running, "camera loop", SITE / "docs" / "tutorials" / "first-inference.html")
        found = [] if any("camera loop" in title for title in titles) else [
            f"the search for 'camera loop' finds {titles}"]
        return found + [line for page in KINDS for line in site_browser.faults(running, SITE / page)]


def main():
    collect()
    subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", ROOT / ".ci" / "mkdocs.yml"],
                   check=True)
    add_index()
    for page in SITE.rglob("*.html"):
        page.write_text(site_finish.finished(page.read_text()))
    found = sorted(set(faults()))
    in_browser = browsed()
    if in_browser is None:
        sys.stdout.write("SKIPPED: no browser saw the site: no chromium, no playwright or no axe\n")
    found += in_browser or []
    sys.stdout.write("".join(f"{line}\n" for line in found))
    if found:
        raise SystemExit(f"{len(found)} faults")
    count = sum(1 for _ in SITE.rglob("*.html"))
    size = sum(file.stat().st_size for file in SITE.rglob("*") if file.is_file())
    sys.stdout.write(f"{count} pages, {size / 1e6:.1f} MB in {SITE.relative_to(ROOT)}; every link leads somewhere\n")


if __name__ == "__main__":
    main()
