"""Print a script that completes pylite's commands, options and files in your shell.

Add the line for your shell to its start-up file:
  bash, in ~/.bashrc                    eval "$(pylite completion bash)"
  zsh, in ~/.zshrc                      eval "$(pylite completion zsh)"
  fish, in ~/.config/fish/config.fish   pylite completion fish | source
"""
import argparse
import sys

from pylite.cli._parser import explained

EPILOG = explained(__doc__)
USAGE = "pylite completion bash|zsh|fish"
BASH = """_pylite() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    COMPREPLY=($(compgen -W "{commands} --help --version" -- "$word"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{cases}
  esac
  case $word in -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;; esac
}}
complete -o default -F _pylite pylite
"""


def configure(parser):
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run(args):
    from pylite import cli
    commands = next(action for action in cli.parser_of([])._actions if isinstance(action, argparse._SubParsersAction))
    options = {name: [action for action in parser._actions if action.option_strings]
               for name, parser in commands.choices.items()}
    if args.shell == "fish":
        sys.stdout.write(_fish(commands, options))
        return
    cases = "\n".join(f'    {name}) words="{" ".join(word for action in each for word in action.option_strings)}" ;;'
                      for name, each in options.items())
    head = "autoload -U +X bashcompinit && bashcompinit\n" if args.shell == "zsh" else ""
    sys.stdout.write(head + BASH.format(commands=" ".join(options), cases=cases))


def _fish(commands, options):
    lines = [f"complete -c pylite -n __fish_use_subcommand -f -a {action.dest} -d {_quoted(action.help)}"
             for action in commands._choices_actions]
    for name, each in options.items():
        for action in each:
            words = " ".join(f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
                             for word in action.option_strings)
            value = " -r" if action.nargs != 0 else ""
            lines.append(f'complete -c pylite -n "__fish_seen_subcommand_from {name}" {words}{value} '
                         f"-d {_quoted(action.help)}")
    return "\n".join([*lines, ""])


def _quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
