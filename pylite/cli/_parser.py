"""The parser of the command line: it suggests what a mistyped word may have meant, and names the command's help."""
import argparse
import difflib
import os
import re
import textwrap

from pylite.cli._terminal import failed, say
from pylite.errors import clipped, shortened

ALIKE = 0.8         # share of letters in common from which on another file may have been meant


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs and entries of lists that are wider than the terminal, and leaves others as they are."""

    def _fill_text(self, text, width, indent):
        return "\n\n".join(self._filled(part, width, indent) for part in text.split("\n\n"))

    def _filled(self, part, width, indent):
        lines = part.strip("\n").splitlines()
        if max(map(len, lines), default=0) <= width:
            return super()._fill_text(part, width, indent)
        if any(line.startswith(" ") for line in lines):     # a list, whose long entries go on further in
            return "\n".join(self._wrapped(line, width, indent, " " * (len(line) - len(line.lstrip()) + 4)) for line
                             in lines)
        return self._wrapped(" ".join(lines), width, indent, "")

    @staticmethod
    def _wrapped(text, width, indent, more):
        return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent + more,
                             break_long_words=False, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """A parser whose errors name the option or the value that was probably meant."""

    def parse_args(self, args=None, namespace=None):
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self.of_command(getattr(found, "command", None))
            command.error(f"unrecognized arguments: {' '.join(unknown)}{meant(unknown[0], command.options())}")
        return found

    def error(self, message):
        wrong = re.search(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", message)
        if wrong:
            message = f"{message}{meant(wrong[1], re.findall(r'[^, ]+', wrong[2].replace(chr(39), '')))}"
        failed(self.prog, clipped(message))
        say(f"`{self.prog} --help` shows how to use it")
        self.exit(2)

    def of_command(self, name):
        """The parser of a command, or this one where there is no such command."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                return action.choices[name]
        return self

    def options(self):
        """All options, such as "--input"."""
        return [option for action in self._actions for option in action.option_strings if option.startswith("--")]


def meant(word, known, least=0.6):
    """What to append to an error about `word`: the known word that is most like it, or nothing.

    least: how much of them is the same, of 1.
    """
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.partition("=")[0].lower(), folded, 1, least)
    return f"; did you mean {folded[close[0]]}?" if close else ""


def missing(path):
    """What to append to an error about the file `path`: where it was looked for, and what is called almost the same.

    Nothing where there is such a file, or where the text names no file, as that of a bundled model.
    """
    if not isinstance(path, str) or os.path.exists(path) or not (os.sep in path or "." in path):
        return ""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        return f"; there is no folder {shortened(folder)}"
    with os.scandir(folder or ".") as entries:
        hint = meant(os.path.basename(path), [entry.name for entry in entries], ALIKE)
    return hint or f"; it was looked for in {shortened(os.path.abspath(folder))}"
