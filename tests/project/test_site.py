"""What the pages of the site get after they are built; `.ci/docs.py` itself shows them to a browser and to axe."""
import importlib

import pytest

from tests.project.pages import ROOT

TABLE = """<table>
<thead>
<tr>
<th>op</th>
<th></th>
<th>what &quot;it&quot; does</th>
</tr>
</thead>
<tbody>
<tr>
<td>ADD</td>
<td>1</td>
<td>{}</td>
</tr>
</tbody>
</table>"""


@pytest.fixture
def finished(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / ".ci")
    return importlib.import_module("site_finish").finished


def test_a_table_with_sentences_has_headers_beside_its_cells(finished):
    html = finished(TABLE.format("<a href='x'>adds</a>" + " numbers" * 10))
    assert html.startswith('<table data-stacked="">')
    assert '<td data-label="op">ADD</td>' in html and '<td data-label="what it does"><a' in html
    assert '<td data-label="">1</td>' in html


def test_a_table_of_short_cells_stays_a_table(finished):
    assert "data-" not in finished(TABLE.format("adds"))


def test_what_is_no_header_and_no_landmark_is_none(finished):
    assert "<td></td>" in finished(TABLE.format("adds")) and "<th></th>" not in finished(TABLE.format("adds"))
    assert finished('<nav class="md-nav" aria-label="Task">') == '<nav class="md-nav" role="none">'
    assert 'aria-label="Search"' in finished('<div class="md-search" data-md-component="search" role="dialog">')


def test_a_page_without_all_that_stays_as_it_is(finished):
    page = '<nav class="md-nav md-nav--primary" aria-label="Navigation"><p>text</p><ul><li>dialog</li></ul>'
    assert finished(page) == page
