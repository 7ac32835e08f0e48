"""The code in the documents runs as printed, and prints what the documents show."""
import pytest

from pylite.media import models
from tests.project import pages
from tests.tools.resources import peer

MODELS = [("model.tflite", models.path("digits")),       # stands for the reader's own
          ("atan.tflite", pages.ROOT / "examples" / "custom_op_python" / "atan.tflite")]
NAMES = ("index", "c-library", "compiled-model", "custom-ops", "cython-kernels", "delegates", "drop-in", "extensions",
         "from-tflite", "plugins-c", "tasks", "validation", "validation-data")
PAGES = [pages.ROOT / "README.md", *(pages.ROOT / "docs" / f"{name}.md" for name in NAMES),
         *sorted((pages.ROOT / "docs" / "tutorials").glob("*.md"))]


@pytest.mark.parametrize("page", [page.relative_to(pages.ROOT).as_posix() for page in PAGES])
def test_a_page_runs_as_printed(page, tmp_path):
    if "--against litert" in (pages.ROOT / page).read_text():
        peer()
    assert pages.run(page, tmp_path, MODELS)


def test_the_page_of_the_examples_runs_as_printed(tmp_path):
    folder = pages.ROOT / "examples" / "raspberry_pi"
    files = [(path.relative_to(folder).as_posix(), path) for path in folder.rglob("*.*") if path.is_file()]
    assert pages.run("examples/raspberry_pi/README.md", tmp_path, files)


def test_output_that_differs_is_found():
    pages.compare("a ... c\n...\nlast\n", "a  b c\n1\n2\nlast\n")
    for shown in ("a\n", "a\nb\nc\n", "b\na\n", "a\nb...c\n"):
        with pytest.raises(AssertionError):
            pages.compare(shown, "a\nb\n")
