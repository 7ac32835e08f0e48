"""List the supported ops, their versions and types."""
import os
import sys

EPILOG = """
The first line of an op has its versions.  The other lines are its signatures, where T and U stand for the listed types:
  + TYPE     only pylite takes the type
  - TYPE     only LiteRT takes it
  * ...      not compared: the op needs more than one node, or the types occur only there
  a?, a*     an operand that may be absent, any number of operands

LiteRT's types were determined by running small models (tests/tools/probe_ops.py).  TensorFlow's own ops, which
pylite.flex adds on request, come last.

examples:
  pylite ops
  pylite ops CONV_2D ADD
  pylite ops --markdown > docs/ops.md
"""
USAGE = "pylite ops [OP ...] [options]"
# The types of T and U.
TYPES = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
         "uint64", "bool", "int4", "uint4", "int2", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128", "string")


def configure(parser):
    parser.add_argument("ops", metavar="OP", nargs="*", default=[], help="show only these ops")
    parser.add_argument("--markdown", action="store_true", help="print the list as Markdown, as in docs/ops.md")


def run(args):
    from pylite.cli import _terminal
    from pylite.cli._common import UsageError
    table, on_request = rows(), flex_types()
    folded = {name.lower(): name for name in (*table, *on_request)}
    unknown = [name for name in args.ops if name.lower() not in folded]
    if unknown:
        raise UsageError(f"there is no op {' or '.join(unknown)} (`pylite ops` lists all)"
                         f"{_meant(unknown[0], folded.values())}")
    wanted = [folded[name.lower()] for name in args.ops] or list(folded.values())
    chosen = {name: table[name] for name in wanted if name in table}
    on_request = {name: on_request[name] for name in wanted if name in on_request}
    write, write_flex = (_markdown, _flex_markdown) if args.markdown else (_text, _flex_text)
    lines = [*(write(chosen) if chosen else ()), *(write_flex(on_request) if on_request else ())]
    sys.stdout.write("\n".join([*_terminal.folded(lines, None if args.markdown else _terminal.table_width()), ""]))


def _meant(word, names):
    """The end of an error about `word`: the ops that have it in their names, or else the one that is most like it."""
    from pylite.cli._parser import meant
    within = [name for name in names if len(word) > 2 and word.upper() in name.upper()]
    return f"; these have it in their names: {', '.join(within)}" if within else meant(word, names)


class Row:
    """One op.

    conditions: its demands on scales and zero points, see ir/conditions.py.

    ours, theirs: the versions in pylite and in LiteRT, or None; signatures: {signature: [(types of T and U, whether
    pylite takes them, whether LiteRT does)]}; uncompared: the other signatures of pylite, [(signature, types of T)].
    """

    def __init__(self, name, ours, theirs):
        self.name = name
        self.ours = ours
        self.theirs = theirs
        self.signatures = {}
        self.uncompared = []
        self.conditions = ()

    @property
    def missing(self):
        """Versions and types that only LiteRT has, as a list of texts."""
        texts = []
        if self.theirs and (not self.ours or self.ours[1] < self.theirs[1]):
            texts.append(f"version {self.theirs[1]}")
        for signature, cells in self.signatures.items():
            texts += [f"{signature}: {types}" for types, ours, theirs in cells if theirs and not ours]
        return texts


def rows():
    """{op: Row} for all ops of pylite and LiteRT."""
    from pylite.ir import registry
    table: dict[str, Row] = {}
    for name, versions, signatures in _litert():
        op = registry.find(name)
        row = table[name] = Row(name, op and op.versions, versions)
        for signature, theirs in signatures:
            row.signatures[signature] = _compared(op, signature, theirs)
    for name in registry.names():
        op = registry.find(name)
        row = table.setdefault(name, Row(name, op.versions, None))
        compared = [_types(s, case) for s, cells in row.signatures.items() for case, ours, _ in cells if ours]
        row.conditions = op.conditions
        row.uncompared = _joined([s for s in op.types if not (compared and "resource" in s) and not any(
            registry.matches(s, *types) for types in compared)])
    return dict(sorted(table.items()))


def flex_types():
    """{custom code: signatures} of the ops of pylite.flex."""
    from pylite import flex
    return {name: _joined(op.types) for name, op in sorted(flex.ops().items())}


def _litert():
    """[(op, LiteRT's versions or None, [(signature, LiteRT's types of T and U)])] of litert.txt."""
    table = []
    with open(os.path.join(os.path.dirname(__file__), "litert.txt"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            if line.startswith(" "):
                signature, _, types = line.strip().partition(": ")
                table[-1][2].append((signature, types.split()))
            else:
                name, versions = line.split()
                table.append((name, None if versions == "none" else tuple(int(v) for v in versions.split("-")), []))
    return table


def _compared(op, signature, theirs):
    """[(types of T and U, whether `op` takes them, whether they are in `theirs`)]"""
    cases = _cases(signature)
    ours = [case for case in cases if op is not None and op.accepts(*_types(signature, case))]
    order = {case: i for i, case in enumerate(cases)}
    return [(case, case in ours, case in theirs)
            for case in sorted({*ours, *theirs}, key=lambda case: order.get(case, 0))]


def _joined(signatures):
    """[(signature, types)]: signatures that differ in one type become one, with a T for that type."""
    words = [signature.split() for signature in dict.fromkeys(signatures)]
    if len({len(each) for each in words}) == 1 and len(words) > 1:
        varied = [i for i, column in enumerate(zip(*words, strict=True)) if len(set(column)) > 1]
        if all(len({each[i] for i in varied}) == 1 for each in words):
            template = " ".join("T" if i in varied else word for i, word in enumerate(words[0]))
            return [(template, " ".join(each[varied[0]] for each in words))]
    return [(" ".join(each), "") for each in words]


def _cases(signature):
    """The types that T and U may be: joined by "/" if the signature has both, "yes" if it has neither."""
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
    """The types of T and U as text, marked if only one side takes them; pairs are grouped by T."""
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
        lines += [f"    demands {condition}" for condition in row.conditions]
    return lines


def _markdown(table):
    lines = ["# Ops", "",
             "The ops of pylite, with their versions and types, beside LiteRT's. `pylite ops --markdown` writes this",
             "page; LiteRT's types were determined by running small models (`python -m tests.tools.probe_ops`).",
             "",
             "| mark | meaning |", "| --- | --- |",
             "| `+`, `-` | only pylite takes the type; only LiteRT does |",
             "| _italics_ | not compared: ops that need more than one node, and types that only occur in these |",
             "| `a?`, `a*`, `a\\|b` | may be absent; any number of operands; a or b |",
             "| demands | of scales and zero points: x or a is the first input, b the second, y the output |",
             "",
             "| op | versions | LiteRT's | types |", "| --- | --- | --- | --- |"]
    for row in table.values():
        signatures = [f"`{s}`: {_cells(cells)}" for s, cells in row.signatures.items()]
        for signature, types in row.uncompared:
            shown = signature.replace("|", "\\|").replace("*", "\\*")
            signatures.append(f"_{shown}_" + (f": {types}" if types else ""))
        signatures += [f"demands {condition}" for condition in row.conditions]
        lines.append(f"| {row.name} | {_span(row.ours)} | {_span(row.theirs)} | {'<br>'.join(signatures)} |")
    return lines


def _flex_text(on_request):
    lines = []
    for name, signatures in on_request.items():
        lines.append(f"{name}  by pylite.flex.register(), or --ops flex")
        lines += [f"    {signature}" + (f":  {types}" if types else "") for signature, types in signatures]
    return lines


def _flex_markdown(on_request):
    lines = ["", "## Flex ops", "",
             "TensorFlow's own ops, which a converter leaves in a model with `SELECT_TF_OPS`. They run after",
             "`pylite.flex.register()`, or with `--ops flex` on the command line ([how](custom-ops.md#flex-ops)).",
             "", "| op | types |", "| --- | --- |"]
    for name, signatures in on_request.items():
        shown = [f"`{signature.replace('|', chr(92) + '|')}`" + (f": {types}" if types else "")
                 for signature, types in signatures]
        lines.append(f"| {name} | {'<br>'.join(shown)} |")
    return lines
