"""Colours and progress bars for terminals.  Without a terminal the words are the same.

Everything that depends on a terminal is decided here.  Colours need a terminal that is not "dumb", and NO_COLOR unset
or empty; rich draws the bars if it is installed.
"""
import contextlib
import os
import re
import shutil
import sys
import textwrap
import time

STYLES = {"bold": 1, "red": 31, "green": 32, "yellow": 33}
# Words and phrases that begin a line or cell.
COLOURED = {"warning:": "yellow", "faster": "green", "slower": "red",
            "Good:": "green", "Look closer:": "yellow", "Poor:": "red"}
WIDTH = 100         # characters of a table's lines in a file or a pipe
NARROW = 6          # least number of characters in a line, even if the terminal has fewer
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Other styles are not pylite's own, but a name's in a model: it could hide the rest of the text.
_COLOUR_OR_CONTROL = re.compile(rf"(\x1b\[(?:0|{'|'.join(map(str, STYLES.values()))})m)|{_CONTROL.pattern}")


def printable(text):
    """`text` with escapes such as \\x1b in place of control characters, which names in models may have."""
    return _CONTROL.sub(_escape, text)


def _escape(match):
    return f"\\x{ord(match[0]):02x}"


class Guarded:
    """A terminal that gets no control characters but tabs, ends of lines and colours."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, text):
        return self._stream.write(_COLOUR_OR_CONTROL.sub(lambda match: match[1] or _escape(match), text))

    def __getattr__(self, name):
        return getattr(self._stream, name)


def interactive(stream):
    """Is `stream` a terminal on which a line can be written again?"""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width(stream):
    """The columns of a terminal; None if the stream is not a terminal."""
    return shutil.get_terminal_size().columns if stream.isatty() else None


def table_width():
    """The columns for a table: those of a terminal; for a file or a pipe COLUMNS, or 100."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if width(sys.stdout) is None else width(sys.stdout)


def coloured(stream):
    return interactive(stream) and not os.environ.get("NO_COLOR")


def styled(text, style, stream):
    """`text` in a style, one of STYLES, if the stream takes colours."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if coloured(stream) else text


def coloured_end(line, word):
    """A line for the standard output; a word of COLOURED at its end has its colour."""
    if word not in COLOURED or not line.endswith(word):
        return line
    return line.removesuffix(word) + styled(word, COLOURED[word], sys.stdout)


def shown(lines):
    """Lines for the standard output, wrapped for a terminal; a word of COLOURED at the beginning colours its line."""
    for line in wrapped(lines, sys.stdout):
        style = next((style for word, style in COLOURED.items() if line.startswith(word)), None)
        yield styled(line, style, sys.stdout) if style else line


def wrapped(lines, stream):
    """Lines for a stream; on a terminal, lines that are too wide are broken between words."""
    return folded(lines, width(stream))


def folded(lines, space):
    """Lines; lines longer than `space` are broken between words.  None for `space` leaves all as they are."""
    for line in lines:
        if space is None or len(line) <= space or "\x1b" in line:      # a coloured row of a table fits as it is
            yield line
        else:
            column = re.match(r"\s+(\S+ )*\S+\s{2,}", line)      # where the explanation of a first word begins
            indent = " " * (column.end() if column and column.end() < space // 2 else len(line) - len(line.lstrip()))
            yield from textwrap.wrap(line, max(space, NARROW), subsequent_indent=indent, break_long_words=False,
                                     break_on_hyphens=False, drop_whitespace=True, replace_whitespace=False)


def complain(line):
    """Write a line to the standard error stream; no error if its reader, such as `2>&1 | head`, has ended."""
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(line + "\n")


def discard_output():
    """Discard the output that could not be written, and all later output, so that Python does not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text):
    """Write a sentence to the standard error stream."""
    complain("\n".join(wrapped([printable(text)], sys.stderr)))


def failed(program, text):
    """Write to the standard error stream, in one paragraph, why a program such as "pylite run" failed."""
    name = f"{program}:"
    first, *more = wrapped([f"{name} {printable(' '.join(text.split()))}"], sys.stderr)
    complain("\n".join([styled(name, "red", sys.stderr) + first.removeprefix(name), *more]))


class Progress:
    """Shows on the standard error stream how many of `what` are done, and how long the rest will take.

    Nothing if that stream is no terminal, or, unless `beside`, if the standard output is one, too.
    """

    def __init__(self, what, beside=True):
        self.what, self.begun, self.bar = what, None, None
        self.shown = interactive(sys.stderr) and (beside or not sys.stdout.isatty())

    def __enter__(self):
        if self.shown:
            try:
                from rich.console import Console
                from rich.progress import BarColumn, TextColumn
                from rich.progress import Progress as Bar
            except ImportError:
                return self
            words = TextColumn("{task.description}", markup=False)
            self.bar = Bar(BarColumn(), words, transient=True, auto_refresh=False,      # no thread, as processes fork
                           redirect_stdout=False, redirect_stderr=False,
                           console=Console(stderr=True, no_color=not coloured(sys.stderr)))
            self.bar.start()
            self.task = self.bar.add_task("", total=None)
        return self

    def __exit__(self, *_):
        if self.bar:
            self.bar.stop()
        elif self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, done, total, note=""):
        """`done` of `total`; note: what is being done now."""
        if not self.shown:
            return
        now = time.monotonic()
        self.begun = self.begun or (now, done)
        start, first = self.begun
        left = f", {(now - start) / (done - first) * (total - done):.0f} s left" if done > first else ""
        text = f"{done} of {total} {self.what}{left}{'  ' if note else ''}{note}"
        if self.bar:
            self.bar.update(self.task, completed=done, total=total, description=text, refresh=True)
        else:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
