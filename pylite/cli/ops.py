"""Show which ops run, in which versions and with which types, beside LiteRT's."""
import os
import sys

EPILOG = """
Each op is followed by its versions, and by a line for each signature that was compared: T and U stand for the types
that are listed.  "+" marks what only pylite takes, "-" what only LiteRT takes.  LiteRT's side was found out by running
small models (tests/probe_ops.py).  "*" marks signatures that were not compared: those of ops that need more than one
node, and types that are met together only there; "a?" may be absent, "a*" is any number of operands, "a|b" one of both.

examples:
  pylite ops
  pylite ops CONV_2D ADD
  pylite ops --markdown > docs/ops.md
"""
# The types that T and U are tried with.
TYPES = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
         "uint64", "bool", "int4", "uint4", "int2", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "string")


def configure(parser):
    parser.add_argument("ops", metavar="OP", nargs="*", help="only these")
    parser.add_argument("--markdown", action="store_true", help="a page for the documentation")


def run(args):
    from pylite.cli._common import UsageError
    table = rows()
    unknown = [name for name in args.ops if name not in table]
    if unknown:
        raise UsageError(f"there is no op {' or '.join(unknown)}")
    chosen = {name: table[name] for name in args.ops or table}
    sys.stdout.write(_markdown(chosen) if args.markdown else _text(chosen))


class Row:
    """One op: its versions here and in LiteRT (None: not there); {signature: [(types of T and U, ours, theirs)]}; the
    registry's signatures that were not compared, [(signature, types of T or "")].
    """

    def __init__(self, name, ours, theirs):
        self.name = name
        self.ours = ours
        self.theirs = theirs
        self.signatures = {}
        self.uncompared = []

    @property
    def missing(self):
        """What only LiteRT has, as a list of words."""
        words = []
        if self.theirs and (not self.ours or self.ours[1] < self.theirs[1]):
            words.append(f"version {self.theirs[1]}")
        for signature, cells in self.signatures.items():
            words += [f"{signature}: {types}" for types, ours, theirs in cells if theirs and not ours]
        return words


def rows():
    """{op: Row} of the registry and LiteRT."""
    import pylite.ops  # noqa: F401  enters its index in the registry
    from pylite.ir import registry
    table: dict[str, Row] = {}
    with open(os.path.join(os.path.dirname(__file__), "litert.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            if not line.startswith(" "):
                name, versions = line.split()
                op = registry.find(name)
                versions = tuple(int(v) for v in versions.split("-")) if versions != "none" else None
                row = table[name] = Row(name, op and op.versions, versions)
                continue
            signature, _, types = line.strip().partition(": ")
            theirs = types.split()
            ours = [case for case in _cases(signature) if op is not None and op.accepts(*_types(signature, case))]
            order = {case: i for i, case in enumerate(_cases(signature))}
            row.signatures[signature] = [(case, case in ours, case in theirs)
                                         for case in sorted({*ours, *theirs}, key=lambda c: order.get(c, 0))]
    for name in registry.names():
        op = registry.find(name)
        row = table.setdefault(name, Row(name, op.versions, None))
        compared = [_types(s, case) for s, cells in row.signatures.items() for case, ours, _ in cells if ours]
        row.uncompared = _joined([s for s in op.types if not (compared and "resource" in s) and not any(
            registry.matches(s, *types) for types in compared)])
    return table


def _joined(signatures):
    """[(signature, types)]: those that differ in one type become one with a T in its place."""
    words = [signature.split() for signature in dict.fromkeys(signatures)]
    if len({len(each) for each in words}) == 1 and len(words) > 1:
        varied = [i for i, column in enumerate(zip(*words, strict=True)) if len(set(column)) > 1]
        if all(len({each[i] for i in varied}) == 1 for each in words):
            template = " ".join("T" if i in varied else word for i, word in enumerate(words[0]))
            return [(template, " ".join(each[varied[0]] for each in words))]
    return [(" ".join(each), "") for each in words]


def _cases(signature):
    """What T and U may be: "yes" without either, else types, joined by "/" where there are both."""
    letters = [letter for letter in "TU" if letter in signature.split()]
    if len(letters) == 2:
        return [f"{t}/{u}" for t in TYPES for u in TYPES]
    return list(TYPES) if letters else ["yes"]


def _types(signature, case):
    letters = dict(zip([letter for letter in "TU" if letter in signature.split()], case.split("/"), strict=False))
    takes, _, gives = signature.partition("->")
    return tuple(tuple(letters.get(word, word) for word in side.split()) for side in (takes, gives))


def _span(versions):
    if versions is None:
        return "-"
    return f"{versions[0]}-{versions[1]}" if versions[0] < versions[1] else str(versions[0])


def _cells(cells):
    """The types, marked where only one side takes them; pairs are grouped by the first."""
    words = {}
    for case, ours, theirs in cells:
        first, _, second = case.rpartition("/")
        words.setdefault(first, []).append(("" if ours and theirs else "+" if ours else "-") + second)
    return "; ".join(f"{first} -> {' '.join(rest)}" if first else " ".join(rest) for first, rest in words.items())


def _text(table):
    lines = []
    for row in table.values():
        lines.append(f"{row.name}  versions {_span(row.ours)}, LiteRT {_span(row.theirs)}")
        lines += [f"    {signature}:  {_cells(cells)}" for signature, cells in row.signatures.items()]
        lines += [f"  * {signature}" + (f":  {types}" if types else "") for signature, types in row.uncompared]
    return "\n".join([*lines, ""])


def _markdown(table):
    lines = ["# Ops", "",
             "Written by `pylite ops --markdown` from the registry, beside what LiteRT takes, found out by running",
             "small models (`python -m tests.probe_ops`).  `+`: only pylite takes the type; `-`: only LiteRT does.",
             "Signatures in _slanted_ type were not compared: those of ops that need more than one node, and types",
             "that are met together only there.  `a?` may be absent, `a*` is any number of operands, `a|b` either.",
             "",
             "| op | versions | LiteRT's | signature: types |", "| --- | --- | --- | --- |"]
    for row in table.values():
        signatures = [f"`{s}`: {_cells(cells)}" for s, cells in row.signatures.items()]
        for signature, types in row.uncompared:
            shown = signature.replace("|", "\\|").replace("*", "\\*")
            signatures.append(f"_{shown}_" + (f": {types}" if types else ""))
        lines.append(f"| {row.name} | {_span(row.ours)} | {_span(row.theirs)} | {'<br>'.join(signatures)} |")
    return "\n".join([*lines, ""])
