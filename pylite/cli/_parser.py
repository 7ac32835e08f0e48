"""The parser of the command line: its errors suggest a correction of a mistyped word, and name the command's help."""
import argparse
import difflib
import errno
import os
import re
import sys
import textwrap

from pylite.cli._terminal import failed, say
from pylite.errors import DelegateError, clipped, looked_for

ALIKE = 0.8         # a file whose name shares at least this part of its letters may be meant
PATHS = re.compile("FILE|OUT|DIR|FOLDER|PATH|OLD|OTHER")       # how the help calls values that are paths
MANY = ("*", "+")   # nargs of arguments that take any number of words
# Commands and options of benchmark_model, label_image, Analyzer and others -> pylite's, or what to do without one.
FOREIGN = {"benchmark_model": "bench", "label_image": "run", "analyze": "inspect", "analyzer": "inspect",
           "visualize": "report", "netron": "report", "inference_diff": "validate", "image": "--input",
           "num_runs": "--seconds", "input_layer_shape": "--shape", "external_delegate_path": "--delegate",
           "label_file": "--labels", "input_mean": "--mean", "input_std": "--std", "allow_fp16": "--precision",
           "float_model": "--reference", "profiling_output_csv_file": "--json"}
NO_OPTION = "give the model without an option"
FOREIGN |= dict.fromkeys(("graph", "model", "model_file", "model_path", "tflite_model", "m"), NO_OPTION)
FOREIGN |= dict.fromkeys(("warmup_runs", "use_xnnpack", "enable_op_profiling", "report_peak_memory_footprint"),
                         "leave it out: pylite bench always warms up, times each node and measures the memory")


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs and entries of lists that are wider than the terminal, and leaves others as they are."""

    def _format_action(self, action):
        if not isinstance(action, argparse._SubParsersAction):
            return super()._format_action(action)
        commands = action._choices_actions
        margin = 4 + max(len(each.dest) for each in commands)
        return "".join(textwrap.fill(f"  {each.dest:{margin - 2}}{each.help}", max(self._width, margin + 11),
                                     subsequent_indent=" " * margin) + "\n" for each in commands)

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
    """A parser whose errors name the option or value that the user probably meant."""

    def __init__(self, **options):
        super().__init__(**options, add_help=False)
        self._positionals.title = "arguments"
        self.add_argument("--help", "-h", action="help", help="show this help")

    words = []      # of the command line that is parsed

    def parse_args(self, args=None, namespace=None):
        Parser.words = [str(word) for word in (sys.argv[1:] if args is None else args)]
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            command = self.of_command(getattr(parsed, "command", None))
            option = next((word for word in unknown if word.startswith("-")), None)
            if option is not None:
                command.error(f"there is no option {option}{corrected(option, command.options())}")
            many = next((action for action in command._actions if action.nargs in MANY and not action.option_strings),
                        None)
            if many is None:
                command.error(f"{command.flag_before(unknown[0])}{unknown[0]!r} is one argument too many")
            # argparse takes them in one place only, but they may stand before and after options.
            setattr(parsed, many.dest, [*getattr(parsed, many.dest), *unknown])
        return parsed

    def _get_value(self, action, arg_string):
        if not arg_string and action.option_strings and PATHS.match(str(action.metavar)):
            raise argparse.ArgumentError(action, "the name is empty; is a variable of the shell unset?")
        return super()._get_value(action, arg_string)

    def error(self, message):
        failed(self.prog, clipped(self._in_words(message)))
        say(f"`{self.prog} --help` shows how to use it")
        self.exit(2)

    def _in_words(self, message):
        """argparse's `message` as a sentence about the option or the argument."""
        missing = re.fullmatch(r"the following arguments are required: (.*)", message)
        if missing:
            option = next((word for word in self.words if word.startswith("-")
                           and FOREIGN.get(foreign_name(word)) == NO_OPTION), None)
            if option is not None:
                return f"there is no option {option.partition('=')[0]}; {NO_OPTION}"
            return f"{missing[1]} is missing; the usage is {self.format_usage().split(': ', 1)[1].splitlines()[0]}"
        ambiguous = re.fullmatch(r"ambiguous option: (\S+) could match (.*)", message)
        if ambiguous:
            return f"{ambiguous[1]} may be short for {ambiguous[2]}; write the whole name"
        about = re.fullmatch(r"argument ([^\s:]+): (.*)", message, re.DOTALL)
        if not about:
            return message
        name, rest = about[1].split("/")[0], about[2]
        choice = re.fullmatch(r"invalid choice: '?(.*?)'? \(choose from (.*)\)", rest)
        if choice:
            choices = re.findall(r"[^, ]+", choice[2].replace("'", ""))
            return (f"{f'{name}: ' if name.startswith('-') else ''}{choice[1]!r} is not "
                    f"{' or '.join(filter(None, [', '.join(choices[:-1]), choices[-1]]))}{meant(choice[1], choices)}")
        if re.fullmatch(r"expected (one|at least one|\d+) arguments?", rest):
            return f"{name} needs a value: {name} {self._value_of(name)}"
        excluded = re.fullmatch(r"not allowed with argument (\S+)", rest)
        if excluded:
            return f"{name} and {excluded[1].split('/')[0]} exclude each other; give one of them"
        if rest.startswith("ignored explicit argument"):
            return f"{name} takes no value, and {rest.removeprefix('ignored explicit argument ')} was given"
        return f"{name}: {rest}"

    def _value_of(self, option):
        """How the help calls the value of an option."""
        action = self._option_string_actions[option]
        return action.metavar or " or ".join(action.choices or [action.dest.upper()])

    def of_command(self, name):
        """The parser of a command, or this one if there is no such command."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and name in action.choices:
                return action.choices[name]
        return self

    def flag_before(self, word):
        """What an error about `word` begins with if it follows an option that takes no value, or is a part of one."""
        before = self.words[self.words.index(word) - 1] if word in self.words[1:] else ""
        return next((f"{option} takes no value, and " for option in self.options()
                     if before.startswith("--") and option.startswith(before)), "")

    def options(self):
        """All options, such as "--input"."""
        return [option for action in self._actions for option in action.option_strings if option.startswith("--")]


def meant(word, known, least=0.6):
    """The end of an error about `word`: "; did you mean ...?" with the known word most like it, or "".

    least: the share of letters, 0 to 1, that they must have in common, without the dashes of options.
    """
    folded = {each.lower().removeprefix("--"): each for each in known}
    close = difflib.get_close_matches(word.partition("=")[0].lower().removeprefix("--"), folded, 1, least)
    return f"; did you mean {folded[close[0]]}?" if close else ""


def corrected(word, known):
    """meant() for a command or an option, which may also be another tool's."""
    other = FOREIGN.get(foreign_name(word), "")
    if " " in other:
        return f"; {other}"
    return f"; did you mean {other}?" if other in known else meant(word, known)


def foreign_name(word):
    """A command or option as FOREIGN has it."""
    return word.partition("=")[0].lower().lstrip("-")


def explained(docstring):
    """What the docstring of a command's module says after its first line; nothing under python -OO."""
    return (docstring or "\n\n").split("\n\n", 1)[1]


def sentence(error, files=()):
    """The message of `error`; if its file or one of `files` is missing, also where it was looked for."""
    text = str(error) or type(error).__name__
    if isinstance(error, DelegateError):        # the first line says which library, as in LiteRT
        text = ": ".join(text.splitlines())
    if isinstance(error, OSError):
        if error.strerror:
            text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        files = [error.filename] if error.errno == errno.ENOENT else []
    added = next(filter(None, map(missing, files)), "")
    return clipped(text) + ("" if added in text else added)


def missing(path):
    """The end of an error about the file `path`: where it was looked for, and a file with a similar name.

    "" if the file exists, or if the text cannot be a path, such as the name of a bundled model.
    """
    if not isinstance(path, str) or os.path.exists(path) or not (os.sep in path or "." in path):
        return ""
    folder = os.path.dirname(path)
    if os.path.isfile(folder):
        return ""       # a bundle; the text lists its models
    hint = ""
    if os.path.isdir(folder or "."):
        with os.scandir(folder or ".") as entries:
            hint = meant(os.path.basename(path), [entry.name for entry in entries], ALIKE)
    return hint or looked_for(path)
