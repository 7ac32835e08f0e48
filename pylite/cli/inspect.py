"""Show what a model contains, its kernels and its memory."""
import argparse
import json
import os
import sys
import zipfile

from pylite.cli import _common, _format, _nodes, _plugins, _terminal

EPILOG = """
--compat, --shape and --delegate exit with 1 if pylite cannot run the model, --diff with 1 if the models differ.

examples:
  pylite inspect model.tflite
  pylite inspect model.tflite --tensors --subgraph 0
  pylite inspect model.tflite --node 12
  pylite inspect model.tflite --diff retrained.tflite
  pylite inspect model.tflite --graph model.svg
  pylite inspect model.tflite --compat && echo it runs
  pylite inspect model.tflite --ops my_ops.py --delegate my_delegate.py:MyDelegate
"""
USAGE = "pylite inspect MODEL [options]"


def configure(parser):
    _common.add_model(parser)
    parser.add_argument("--subgraph", type=_common.whole, metavar="N", help="show only this subgraph (default: all)")
    parser.add_argument("--tensors", action="store_true",
                        help="list all tensors, and the types, inputs and outputs of each operator")
    parser.add_argument("--node", type=_common.whole, metavar="N",
                        help="show everything about node N of subgraph 0, or of --subgraph")
    parser.add_argument("--diff", metavar="OTHER", help="show which nodes differ in another model, and how")
    parser.add_argument("--graph", metavar="OUT.svg", type=_picture,
                        help="draw the graph to an .svg file, or an .mmd file for Mermaid")
    _common.add_shape(parser)
    parser.add_argument("--compat", action="store_true",
                        help="only check whether pylite can run the model")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    _common.add_verbose(parser)
    _plugins.add(parser)


def _picture(text):
    if not text.endswith((".svg", ".mmd")):
        raise argparse.ArgumentTypeError(f"{text}: give a name that ends in .svg or .mmd")
    return text


def _check(args):
    """UsageError for options that ask for different things."""
    given = {"--compat": args.compat, "--node": args.node is not None, "--diff": args.diff, "--graph": args.graph}
    asked = [option for option, value in given.items() if value]
    if len(asked) > 1:
        raise _common.UsageError(f"{' and '.join(asked)} exclude each other; give one of them")
    if args.json and asked in (["--node"], ["--graph"]):
        raise _common.UsageError(f"{asked[0]} and --json exclude each other; --json alone prints every node")
    if args.tensors and asked:
        raise _common.UsageError(f"--tensors and {asked[0]} exclude each other; give one of them")


def run(args):
    _check(args)
    listed = _bundle(args.model)
    if listed:
        sys.stdout.write("\n".join(listed) + "\n")
        return 0
    facts = _facts_of(args, args.model)
    if args.diff:
        return _diff(args, facts)
    only = facts["subgraphs"][0]
    if args.graph:
        from pylite.cli import _graph, _outputs
        _outputs.write(args.graph, _graph.svg(only) if args.graph.endswith(".svg") else _graph.mermaid(only))
        return 0
    if args.node is not None:
        text = _nodes.node_lines(only, args.node)
    elif args.json:
        text = [json.dumps(facts, indent=2)]
    elif args.compat:
        text = _compat(facts, args.verbose)
    else:
        text = _file(facts, args.verbose)
        for subgraph in facts["subgraphs"]:
            text += ["", *_subgraph(subgraph, args.tensors, args.verbose)]
    sys.stdout.write("\n".join(text if args.json else _terminal.shown(text)) + "\n")
    return int(bool(args.compat or args.delegate or args.shape) and not facts["runs"])


def _facts_of(args, name):
    """The facts of the subgraphs that the options ask for."""
    from pylite.cli import _facts
    from pylite.runtime.model import Model
    path = _common.model_path(name)
    model = Model(path)
    count = len(model.graph.subgraphs)
    if args.subgraph is not None and not 0 <= args.subgraph < count:
        raise _common.UsageError(f"{path}: has {_format.counted(count, 'subgraph')}, and no subgraph {args.subgraph}")
    wanted = range(count) if args.subgraph is None else [args.subgraph]
    facts = _facts.model_facts(path, model, wanted, _plugins.load(args), (wanted[0], _common.shapes(args.shape)))
    if args.json or args.diff:
        _facts.add_digests(facts, model)
    return facts


def _bundle(path):
    """The lines for a bundle of several models, or None for another file."""
    from pylite.schema import bundle
    if not os.path.isfile(path) or not zipfile.is_zipfile(path):     # a pipe or a device may have no end
        return None
    with open(path, "rb") as file:
        if file.read(4) != bundle.MAGIC:        # a model with an archive at its end
            return None
    members = bundle.members(path)
    if len(members) < 2:
        return None
    return [f"{path}: a bundle of {len(members)} models; `pylite inspect` and the others take their paths",
            *[f"{_format.nbytes(size):>9}  {path}/{name}" for name, size in members.items()]]     # whole, to be pasted


def _diff(args, facts):
    entries = _nodes.difference(facts, _facts_of(args, args.diff))
    text = json.dumps(entries, indent=2) if args.json else "\n".join(_nodes.difference_lines(entries))
    sys.stdout.write(text + "\n")
    return int(bool(entries))


def _compat(facts, verbose):
    reasons = [line for s in facts["subgraphs"] for line in problems(s)]
    name = _format.file_name(facts["file"], verbose)
    return [f"{name}: {'pylite cannot run it' if reasons else 'pylite runs it'}", *reasons]


def problems(subgraph):
    """Lines that say why the subgraph of these facts cannot run; none if it can."""
    from pylite.compiler.check import located
    lines = [f"  missing: {_plugins.in_command(located(m['reason'], m['nodes']))}" for m in subgraph["missing"]]
    return lines + ([f"  cannot be prepared: {subgraph['error']}"] if subgraph["error"] else [])


def _file(facts, verbose):
    lines = [f"{_format.file_name(facts['file'], verbose)}: {_format.nbytes(facts['bytes'])}, "
             f"schema version {facts['version']}, {_format.counted(facts['subgraph_count'], 'subgraph')}"]
    if facts["description"]:
        lines.append(f"  description     {facts['description']}")
    weights, packed = _format.nbytes(facts["weight_bytes"]), _format.nbytes(facts["packed_bytes"])
    lines.append(f"  weights         {weights}, and {packed} packed for the kernels")
    if facts["metadata"]:
        sizes = [f"{name} ({_format.nbytes(n)})" for name, n in facts["metadata"].items()]
        lines.append("  metadata        " + ", ".join(sizes))
    if facts["associated_files"]:
        lines.append("  attached files  " + ", ".join(facts["associated_files"]))
    for s in facts["signatures"]:
        sides = [", ".join(f"{name}: {v['dtype']}{_format.shape(v['shape'])}" for name, v in s[side].items())
                 for side in ("inputs", "outputs")]
        lines.append(f"  signature       {s['key']}({sides[0]}) -> {sides[1]}"
                     + (f" (subgraph {s['subgraph']})" if s["subgraph"] else ""))
    return lines


def _subgraph(facts, everything, verbose):
    name = f" {facts['name']!r}" if facts["name"] else ""
    lines = [f"subgraph {facts['index']}{name}: {_format.counted(len(facts['operators']), 'operator')}, "
             f"{_format.counted(len(facts['tensors']), 'tensor')}, {_format.scaled(facts['macs'])} MAC"
             + " per iteration" * facts["repeated"]]
    ends = {"inputs": "input", "outputs": "output"}
    lines += [f"  {word:<6}  {_tensor_line(facts['tensors'][i])}" for side, word in ends.items()
              for i in facts[side] if i >= 0]
    arena = facts["arena"]
    if arena:
        lines.append(f"  arena   {_format.nbytes(arena['bytes'])} (lower bound {_format.nbytes(arena['bound'])}), "
                     f"peak at {arena['peak_node']}")
        lines.append(f"  kernels for {facts['instruction_set']}")
    rows = [(c["name"], c["count"], c["version"], c["dtype"], _format.scaled(c["macs"]) if c["macs"] else "",
             "" if c["supported"] else "missing") for c in facts["counts"]]
    headers = ("operator", "count", "version", "types", "MAC", "")
    lines += ["", *_format.table(headers, rows, ("count", "version", "MAC"))]
    delegated = [*(_format.replacement(o["index"], o["delegate"], o["replaces"]) for o in facts["operators"]
                   if "replaces" in o), *facts["unclaimed"]]
    lines += [""] if delegated else []
    lines += [f"  {line}" for line in delegated]
    reasons = problems(facts)
    lines += ["", *reasons] if reasons else []
    lines += ["", *_operators(facts, everything, verbose)]
    if everything:
        lines += ["", *_tensors(facts)]
    return lines


def _tensor_line(t):
    kind = f"{t['dtype']}{_format.shape(t['signature'])}"
    return f"{t['index']:>3}  {t['name'] or _format.NAMELESS}  {kind}  {_nodes.quantization(t)}".rstrip()


def _operators(facts, everything, verbose):
    """Each operator with its first result and settings, its kernels, and why these.

    everything: with its types, inputs and outputs.
    """
    rows = []
    for o in facts["operators"]:
        kernels = "missing" if not o["supported"] else "" if o["kernels"] is None else (
            _repeated(o["kernels"]) or "no work at run time")
        if "replaced_by" in o:
            kernels = f"replaced by {o['replaced_by']}"
        elif "replaces" in o:
            kernels = f"{o['delegate']} for {_operands(o['replaces'])}"
        operands = (o["dtype"], _operands(o["inputs"]), _operands(o["outputs"])) if everything else ()
        result = ("", "", "")
        if o["outputs"]:
            tensor = facts["tensors"][o["outputs"][0]]
            result = (_format.shortened(tensor["name"], _nodes.NAME), _format.shape(o["shapes"][tensor["index"]]),
                      _nodes.quantization(tensor))
        rows.append((o["index"], o["name"], *result, _nodes.settings(o), *operands,
                     _format.scaled(o["macs"]) if o["macs"] else "", kernels, "; ".join(o["chosen"])))
    operands = ("types", "inputs", "outputs") if everything else ()
    headers = ("node", "operator", "result", "shape", "quantization", "settings", *operands, "MAC", "kernels",
               "algorithm")
    return _format.table(headers, rows, ("node", "MAC"),
                         ("algorithm", "kernels", "quantization", "settings", *operands, "MAC", "result"),
                         verbose or everything)


def _repeated(names):
    """["a", "b", "b"] -> "a, 2 x b" """
    counts = {name: names.count(name) for name in names}
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in counts.items())


def _operands(indices):
    return " ".join("-" if i < 0 else str(i) for i in indices)


def _tensors(facts):
    rows = []
    for t in facts["tensors"]:
        shape = _format.shape(t["shape"])
        if t["signature"] != t["shape"]:
            shape += " of " + _format.shape(t["signature"])
        kind = "variable" if t["variable"] else "constant" if t["constant"] else ""
        if t["sparsity"]:
            kind += ", sparse"
        if "external" in t:
            kind += ", external"
        rows.append((t["index"], _format.shortened(t["name"], 48), t["dtype"], shape,
                     "" if t["bytes"] is None else _format.nbytes(t["bytes"]), kind, _nodes.quantization(t)))
    headers = ("tensor", "name", "type", "shape", "bytes", "kind", "quantization")
    return _format.table(headers, rows, ("tensor", "bytes"), ("quantization", "kind", "bytes", "name"), verbose=True)
