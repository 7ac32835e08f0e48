"""Runs the code in a document as a reader would: in a fresh folder, block by block, and compares what it prints.

Blocks of a page, in their order:

- A block after a line "`name`:" is the file `name`.
- Any other ```python runs at once, in one namespace for the page.
- ```sh runs in a shell, and must succeed.
- ```console has commands after "$ ", each with the output it must have.
- ```text directly after a block of ```python or ```sh is the output that the block must have.

In an output "..." stands for anything within a line, and alone on a line for any number of lines: figures that vary
from run to run are written so.  A comment `<!-- not run: REASON -->` before a block leaves it out.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

import pylite
from tests.tools import programs

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = Path(pylite.__file__).parents[1]
LIMIT = 300     # seconds for one block
BLOCK = re.compile(r"(?:^`(?P<name>[\w./]+)`:\n\n)?(?P<skip>^<!-- not run: [^\n]+ -->\n+)?"
                   r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.S | re.M)
CODE = ("python", "sh", "console")
PROGRAMS = {            # `pip` and `python3 -m venv` would fetch packages: they stand for what is installed
    "python3": '[ "$1 $2" = "-m venv" ] && exit 0\nexec {python} "$@"', "pip": "exit 0",
    "python": 'exec {python} "$@"', "pylite": 'exec {python} -m pylite "$@"'}
DONE = "----- done -----\n"
SESSION = f"""
import ast, sys
names = {{"__name__": "__main__"}}
for line in sys.stdin:
    exec(compile(ast.literal_eval(line), "the page", "exec"), names)
    print({DONE!r}, end="", flush=True)
"""


class Reader:
    """A reader with a shell and a Python in a fresh folder."""

    def __init__(self, scratch):
        programs, self.folder = scratch / "programs", scratch / "folder"
        for folder in (programs, self.folder / ".venv" / "bin"):
            folder.mkdir(parents=True)
        (self.folder / ".venv" / "bin" / "activate").write_text("")
        for name, text in PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{text.format(python=sys.executable)}\n")
            (programs / name).chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "100", "PYTHONHASHSEED": "0",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(INSTALLED), os.environ.get("PYTHONPATH")]))}
        self.session = None         # the Python of the unnamed blocks, which share their names

    def shell(self, command, ends_well=True):
        """What a command prints; ends_well: must it succeed?"""
        done = programs.run(["bash", "-euc", command], seconds=LIMIT, cwd=self.folder, env=self.environment,
                            stderr=subprocess.STDOUT)
        assert done.returncode == 0 or not ends_well, f"{command}\n{done.stdout}"
        return done.stdout

    def python(self, text):
        """What statements print in the session of Python that earlier blocks have used."""
        if self.session is None:
            self.session = subprocess.Popen([sys.executable, "-c", SESSION], cwd=self.folder, env=self.environment,
                                            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT)
        self.session.stdin.write(f"{text!r}\n")
        self.session.stdin.flush()
        printed = ""
        for line in self.session.stdout:
            if line == DONE:
                return printed
            printed += line
        raise AssertionError(f"{text}\n{printed}")

    def close(self):
        if self.session is not None:
            self.session.stdin.close()
            self.session.wait(LIMIT)
            self.session.stdout.close()


def run(page, scratch, files=()):
    """Run the blocks of a page, and return how many there are.  files: (name, path) of files that the reader has."""
    reader = Reader(scratch)
    for name, path in files:
        (reader.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (reader.folder / name).write_bytes(Path(path).read_bytes())
    try:
        return sum(1 for _ in steps(reader, (ROOT / page).read_text()))
    finally:
        reader.close()


def steps(reader, text):
    """Run block by block."""
    printed, end = None, 0
    for block in BLOCK.finditer(text):
        language, code = block["language"], block["text"]
        follows = not text[end:block.start()].strip()
        end = block.end()
        if language == "text" and follows and printed is not None:
            compare(code, printed)
            continue
        printed = None
        if block["skip"] or not (block["name"] or language in CODE):
            continue
        if block["name"]:
            (reader.folder / block["name"]).write_text(code)
        elif language == "console":
            for command, expected in commands(code):
                compare(expected, reader.shell(command, ends_well=False), command)
        elif language == "sh":
            printed = reader.shell(code)
        else:
            printed = reader.python(code)
        yield block


def blocks(page, language):
    """The texts of a page's blocks in one language."""
    return [block["text"] for block in BLOCK.finditer((ROOT / page).read_text()) if block["language"] == language]


def commands(text):
    """(command, output) of a block of console; a command goes on in the next line after a backslash."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n", text, flags=re.M)
    assert not parts[0], "a block of console begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def compare(expected, printed, command=""):
    """Fail unless the output is what the page shows; spaces at the ends of lines and runs of spaces do not count."""
    lines = [" ".join(line.split()) for line in expected.splitlines()]
    pattern = "".join(r"(?:[^\n]*\n)*?" if line == "..." else
                      ".*?".join(map(re.escape, line.split("..."))) + r"\n" for line in lines)
    shown = "".join(" ".join(line.split()) + "\n" for line in printed.splitlines())
    assert re.fullmatch(pattern, shown), f"{command}\nthe page shows:\n{expected}\nbut this is printed:\n{printed}"
