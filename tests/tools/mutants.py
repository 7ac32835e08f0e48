"""Mutation testing: `python -m tests.tools.mutants MODULE [COUNT [SEED]]`, of a .py or .pyx below pylite/.

A mutant is the module with one token changed: a comparison, an operator, a number, a condition.  It is killed if the
tests of TESTS fail, crash or hang with it.  COUNT mutants are drawn (default: all); those that live are printed.
Mutants that Cython or C refuse do not count.  The module in the checkout stays as it is: each mutant has a process of
its own.  Import pylite once before, so that mutants of an editable install do not all rebuild it.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import random
import subprocess
import sys
import sysconfig
import tempfile
import tokenize
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "+", "//": "*",
         "%": "+", "<<": ">>", ">>": "<<", "|": "^", "+=": "-=", "-=": "+=", "//=": "*=", "and": "or", "or": "and",
         "not": "", "True": "False", "False": "True", "is": "is not", "in": "not in", "break": "pass",
         "continue": "pass"}
# Below tests/schema, by the module's name; the fastest ones first.
TESTS = {"decoder": ["test_decoder.py", "test_damage.py"], "loader": ["test_loader.py", "test_damage.py", ""], "": [""]}
INVALID, KILLED, ALIVE = 77, 1, 0


def mutations(text):
    """(start, end, replacement) of each token that can be changed; declarations, and what only type checkers read,
    have none."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    changes, level, typing = [], 0, None     # typing: the level of indentation of an `if TYPE_CHECKING`
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.line.strip()
        level += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
        if line == "if TYPE_CHECKING:":
            typing = level
        elif typing is not None and level <= typing and token.type == tokenize.DEDENT:
            typing = None
        if typing is not None:
            continue
        if line.startswith(("import", "from", "cimport", "@", "__slots__", "class")) or "def " in token.line:
            continue
        begin = starts[token.start[0] - 1] + token.start[1]
        end = starts[token.end[0] - 1] + token.end[1]
        if token.type == tokenize.NUMBER and token.string.isdigit():
            changes.append((begin, end, str(int(token.string) + 1)))
        elif token.type in (tokenize.OP, tokenize.NAME) and token.string in SWAPS:
            follows = text[end:end + 5]
            if not (token.string == "in" and line.startswith("for ")) and not (
                    token.string == "is" and follows.startswith(" not")):
                changes.append((begin, end, SWAPS[token.string]))
        if token.type == tokenize.NAME and token.string in ("if", "elif", "while") and line.startswith(token.string):
            changes.append((end, end, " not"))
    return changes


def mutated(text, number):
    begin, end, replacement = mutations(text)[number]
    return text[:begin] + replacement + text[end:]


def place(text, number):
    begin, end, replacement = mutations(text)[number]
    line = text.count("\n", 0, begin) + 1
    return f"{line}: {text.splitlines()[line - 1].strip()}   [{text[begin:end] or 'if'} -> {replacement.strip()}]"


# ---- one mutant ------------------------------------------------------------------------------------------------
class Finder(importlib.abc.MetaPathFinder):
    """Finds one module in a text."""

    def __init__(self, name, path, text):
        self.name, self.path, self.text = name, path, text

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.name else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(self.text, str(self.path), "exec"), module.__dict__)


def extension(name, text, folder):
    """The module that Cython and a C compiler make of a text."""
    source, library = Path(folder, name.rpartition(".")[2] + ".pyx"), Path(folder, "mutant.so")
    source.write_text(text)
    for command in ([sys.executable, "-m", "cython", "-3", "-I", str(ROOT), "--module-name", name, str(source),
                     "--shared=pylite._core._cyutility", "-Xfreethreading_compatible=True", "-Xboundscheck=False",
                     "-Xinitializedcheck=False", "-Xcdivision=True", "-Xauto_pickle=False", "-Xbinding=False"],
                    ["cc", "-O0", "-w", "-shared", "-fPIC", "-DPy_LIMITED_API=0x030b0000",
                     f"-I{sysconfig.get_path('include')}", str(source.with_suffix(".c")), "-o", str(library)]):
        if subprocess.run(command, capture_output=True).returncode:
            sys.exit(INVALID)
    importlib.import_module(name.rpartition(".")[0])
    loader = importlib.machinery.ExtensionFileLoader(name, str(library))
    module = sys.modules[name] = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)


def one(path, number):
    import pytest
    name, text = ".".join(path.relative_to(ROOT).with_suffix("").parts), path.read_text()
    changed = mutated(text, number)
    with tempfile.TemporaryDirectory() as folder:
        if path.suffix == ".pyx":
            extension(name, changed, folder)
        else:
            sys.meta_path.insert(0, Finder(name, path, changed))
        tests = TESTS.get(path.stem, TESTS[""])
        failed = pytest.main(["-q", "-x", "-p", "no:cacheprovider", *[str(ROOT / "tests/schema" / t) for t in tests]])
    os._exit(KILLED if failed else ALIVE)


# ---- all of them -----------------------------------------------------------------------------------------------
def main(module, count=None, seed="0"):
    path = (ROOT / module).resolve()
    text = path.read_text()
    numbers = list(range(len(mutations(text))))
    if count:
        numbers = sorted(random.Random(seed).sample(numbers, min(int(count), len(numbers))))

    def verdict(number):
        command = [sys.executable, "-m", "tests.tools.mutants", "--one", str(path), str(number)]
        try:
            return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120).returncode
        except subprocess.TimeoutExpired:
            return KILLED
    valid, alive = 0, 0
    with ThreadPoolExecutor(2) as pool:
        for number, outcome in zip(numbers, pool.map(verdict, numbers), strict=True):
            valid += outcome != INVALID
            alive += outcome == ALIVE
            if outcome == ALIVE:
                sys.stdout.write(f"{module}:{place(text, number)}\n")
                sys.stdout.flush()
    killed = valid - alive
    sys.stdout.write(f"{module}: {killed} of {valid} mutants killed, {killed / valid:.1%}\n")


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one((ROOT / sys.argv[2]).resolve(), int(sys.argv[3]))
    main(*sys.argv[1:])
