"""The parser of the command line: it suggests what a mistyped word may have meant, and shows the right usage line."""
import argparse
import difflib
import re


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
        super().error(message)

    def of_command(self, name):
        """The parser of a command, or this one where there is no such command."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                return action.choices[name]
        return self

    def options(self):
        """All options, such as "--input"."""
        return [option for action in self._actions for option in action.option_strings if option.startswith("--")]


def meant(word, known):
    """What to append to an error about `word`: the known word that is most like it, or nothing."""
    folded = {each.lower(): each for each in known}
    close = difflib.get_close_matches(word.partition("=")[0].lower(), folded, 1)
    return f"; did you mean {folded[close[0]]}?" if close else ""
