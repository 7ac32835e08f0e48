"""Determine which versions and types of each op the installed peer supports: `python -m tests.tools.probe_ops`.

Writes pylite/cli/litert.txt, which `pylite ops` shows beside the registry.  Some questions crash the peer: a child
process asks them, and after a crash another child continues with the next question.
"""
import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np

from pylite.schema.builder import ModelBuilder
from tests.tools import op_models

FILE = Path(__file__).resolve().parents[2] / "pylite" / "cli" / "litert.txt"
HEAD = """\
# Which versions of its ops LiteRT {version} knows, and for each signature the types for which it runs a small model.
# Written by `python -m tests.tools.probe_ops`.
"""
HIGHEST = 20


def questions():
    """All questions as tuples of kind, line number or name of the op, and details."""
    for number, line in enumerate(op_models.lines()):
        for case in range(len(line.cases())):
            yield "run", number, case
    for name in names():
        for version in range(1, HIGHEST):
            yield "version", name, version


def names():
    return list(dict.fromkeys([line.op for line in op_models.lines()] + op_models.MORE.split()))


def resolvers(litert):
    kinds = litert.OpResolverType
    return kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES, kinds.BUILTIN_REF


def answer(litert, kind, what, detail):
    """Does the peer support it, with any of its resolvers?"""
    if kind == "version":
        m = ModelBuilder()
        m.operator(what, [], [], version=detail)
        return any(_succeeds(lambda r=r: litert.Interpreter(model_content=m.build(), experimental_op_resolver_type=r),
                             "op for builtin opcode") for r in resolvers(litert))
    line = op_models.lines()[what]
    return any(_succeeds(lambda r=r, q=q: run(litert, line.model(line.cases()[detail], q), r))
               for q in (True, False) for r in resolvers(litert))


def run(module, model, resolver=None):
    """One run on zeros."""
    options = {} if resolver is None else {"experimental_op_resolver_type": resolver}
    interpreter = module.Interpreter(model_content=model, **options)
    interpreter.allocate_tensors()
    with contextlib.suppress(ValueError):       # types that only the peer's Python interface lacks
        for detail in interpreter.get_input_details():
            zeros = np.zeros(detail["shape"], detail["dtype"])
            if zeros.dtype.kind in "OSU":
                zeros = np.full(detail["shape"], b"", object)
            interpreter.set_tensor(detail["index"], zeros)
    interpreter.invoke()


def _succeeds(f, unless=""):
    """f raises nothing, or nothing that mentions `unless`."""
    try:
        f()
    except (RuntimeError, ValueError) as error:
        return bool(unless) and unless not in str(error)
    return True


def child(start):
    import ai_edge_litert.interpreter as litert
    for i, question in enumerate(questions()):
        if i >= start:
            sys.stdout.write(f"{i} ")
            sys.stdout.flush()
            sys.stdout.write(f"{int(answer(litert, *question))}\n")
            sys.stdout.flush()


def answers(asked):
    """For each of `asked`, whether the peer supports it; asked in subprocesses, since some questions crash it."""
    supported = {}
    while len(supported) < len(asked):
        done = subprocess.run([sys.executable, "-P", "-m", "tests.tools.probe_ops", str(len(supported))],
                              capture_output=True, text=True, check=False)
        for text in done.stdout.splitlines():
            i, *result = text.split()
            supported[int(i)] = result == ["1"]
        if not done.stdout:
            raise SystemExit(done.stderr)
    return [supported[i] for i in range(len(asked))]


def rows(name, yes):
    """The lines of an op; yes: the questions that the peer answered with yes."""
    versions = [v for kind, what, v in yes if (kind, what) == ("version", name)]
    yield f"{name} {min(versions)}-{max(versions)}\n" if versions else f"{name} none\n"
    for number, line in enumerate(op_models.lines()):
        cases = [line.cases()[c] for kind, what, c in yes if (kind, what) == ("run", number)]
        if line.op == name and cases:
            yield f"  {line.signature}: {' '.join('/'.join(case.values()) or 'yes' for case in cases)}\n"


def main():
    import importlib.metadata
    asked = list(questions())
    yes = [question for question, answered in zip(asked, answers(asked), strict=True) if answered]
    head = HEAD.format(version=importlib.metadata.version("ai-edge-litert"))
    FILE.write_text(head + "".join(row for name in names() for row in rows(name, yes)))


if __name__ == "__main__":
    child(int(sys.argv[1])) if sys.argv[1:] else main()
