"""What the built pages of the site get that Markdown and the theme do not give them: names for screen readers, and the
headers of columns beside the cells, for phones.
"""
import re
from html import unescape

STACKED = 60        # characters of a cell from which on a phone shows each row of its table as a card
TABLE = re.compile(r"<table>\n<thead>(.*?)</thead>(.*?)</table>", re.S)
HEADER, ROW, CELL = (re.compile(pattern, re.S) for pattern in
                     (r"<th[^>]*>(.*?)</th>", r"<tr>.*?</tr>", r"<td([^>]*)>(.*?)</td>"))
TAG = re.compile(r"<[^>]+>")
INSTEAD = [
    (' role="dialog">', ' role="dialog" aria-label="Search">'),
    (re.compile(r'<nav class="md-nav" aria-label="[^"]*">'), '<nav class="md-nav" role="none">'),  # in another list
    (re.compile(r"<th([^>]*)></th>"), r"<td\1></td>"),         # nothing to read: no header
]


def finished(html):
    """The text of a page, finished."""
    html = TABLE.sub(_labelled, html)
    for old, new in INSTEAD:
        html = html.replace(old, new) if isinstance(old, str) else old.sub(new, html)
    return html


def _labelled(table):
    """A table with sentences beside other columns: each cell has the header of its column as data-label."""
    headers = [_words(text) for text in HEADER.findall(table[1])]
    if len(headers) < 3 or all(len(_words(text)) < STACKED for _, text in CELL.findall(table[2])):
        return table[0]
    rows = ROW.sub(lambda row: _with_labels(row[0], iter(headers)), table[2])
    return f'<table data-stacked="">\n<thead>{table[1]}</thead>{rows}</table>'


def _with_labels(row, headers):
    return CELL.sub(lambda cell: f'<td{cell[1]} data-label="{next(headers)}">{cell[2]}</td>', row)


def _words(html):
    return unescape(TAG.sub("", html)).replace('"', "").strip()
