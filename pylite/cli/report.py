"""Show the graph, the memory over time, and the time of each node."""
import json

from pylite.cli import _common, _format, _nodes, _outputs, _plugins, _terminal, bench

EPILOG = """
Times are measured on random inputs.  The arena is the memory that the tensors of a run share.  Its map has one line for
each block and one column for each step, or for several steps if there are many.

examples:
  pylite report model.tflite
  pylite report model.tflite --html report.html
  pylite report model.tflite --explorer times.json      for Model Explorer
"""
USAGE = "pylite report MODEL [options]"
LEAST, WIDEST = 10, 60      # columns of the arena's map
BESIDE = 70                 # characters of the other columns of its table
NUMBERS = 24                # characters of its offsets and sizes


def configure(parser):
    _common.add_model(parser)
    _common.add_threads(parser)
    _common.add_signature(parser)
    _common.add_shape(parser)
    parser.add_argument("--seconds", type=bench.duration, default=0.5, metavar="S",
                        help="how long to measure (default: 0.5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _common.add_verbose(parser)
    _outputs.add(parser, "the time of each node")
    _plugins.add(parser)


def run(args):
    from pylite.cli import _overview
    _outputs.check(args)
    report = _overview.overview(_common.model_path(args.model), args.threads, args.seconds, _plugins.load(args),
                                args.signature, _common.shapes(args.shape))
    with _outputs.Attempts() as attempt:
        text = json.dumps(report, indent=2) if args.json else "\n".join(_lines(report, args.verbose))
        attempt(_outputs.show, text + "\n")
        if args.html:
            attempt(_outputs.write_page, args, {"graph": report})
        if args.explorer:
            times = {n["node"]: n["seconds"] * 1e6 for n in report["nodes"] if n["seconds"] is not None}
            attempt(lambda: _outputs.write_overlay(args.explorer, report["file"], "microseconds", times,
                                                   gradient=_outputs.GRADIENT))
    return int(bool(args.delegate and report["problems"]))


def _lines(report, verbose):
    nbytes = _format.nbytes
    lines = [*(f"warning: {doubt}" for doubt in report["doubts"]),
             f"{_format.file_name(report['file'], verbose)}: {nbytes(report['bytes'])}, "
             f"{_format.counted(len(report['nodes']), 'node')}, {_format.scaled(report['macs'])} MAC"
             f"{' (of each loop one iteration)' if report['loops'] else ''}, kernels for "
             f"{report['instruction_set']}", *report["problems"]]
    if report["latency"]:
        times, threads = report["latency"], _format.counted(report["threads"], "thread")
        lines.append(f"median {_format.seconds(times['median'])} of {times['runs']} runs, {threads}; "
                     f"{_format.seconds(report['rest'])} outside the nodes")
    lines += (["", *_graph(report["nodes"], verbose), "", *_by_op(report["by_op"], verbose)] if report["nodes"] else
              ["the model has no operators"])
    lines += ["", *(f"note: {note}" for note in report["notes"])] if report["notes"] else []
    for arena in report["arena"]:
        lines += ["", *_arena(arena, verbose)]
    return _terminal.shown(lines)


def _seconds(value):
    return "" if value is None else _format.seconds(value)


def _share(value):
    return "" if value is None else f"{value:.1%}"


def _times(node):
    """The time of a node and its share; a dash if it has no work at run time."""
    from pylite.cli._overview import IDLE
    return ("-", "-") if node["kernels"] == IDLE else (_seconds(node["seconds"]), _share(node["share"]))


def _graph(nodes, verbose):
    several = any(n["subgraph"] for n in nodes)
    rows = [(*([n["subgraph"]] if several else []), n["node"], n["op"], _format.shortened(n["name"], _nodes.NAME),
             _format.shape(n["shape"]), n["settings"], _format.scaled(n["macs"]) if n["macs"] else "",
             _format.nbytes(n["weight_bytes"]) if n["weight_bytes"] else "", *_times(n), n["kernels"]) for n in nodes]
    headers = (*(["subgraph"] if several else []), "node", "op", "result", "shape", "settings", "MAC", "weights",
               "time", "share", "kernels")
    return _format.table(headers, rows, ("subgraph", "node", "MAC", "weights", "time", "share"),
                         ("kernels", "settings", "weights", "MAC", "result"), verbose)


def _by_op(entries, verbose):
    rows = [(e["op"], e["count"], _format.scaled(e["macs"]) if e["macs"] else "", _format.nbytes(e["weight_bytes"]),
             _format.nbytes(e["result_bytes"]), _time_of(e), _share(e["share"])) for e in entries]
    headers = ("op", "nodes", "MAC", "weights", "results", "time", "share")
    return _format.table(headers, rows, headers[1:], ("results", "weights", "MAC"), verbose)


def _time_of(entry):
    """The time of an op's nodes, and how many of them have one, if not all."""
    some = f" ({entry['timed']} of {entry['count']} timed)" if entry["timed"] < entry["count"] else ""
    return "" if entry["seconds"] is None else _seconds(entry["seconds"]) + some


def _arena(arena, verbose):
    steps, space = len(arena["steps"]), _terminal.table_width()
    wide = max(1, min(steps, WIDEST, max(LEAST, space - BESIDE)))
    name = max(LEAST, min(_nodes.NAME, space - NUMBERS - wide))
    rows = []
    for b in arena["blocks"]:
        first, last = (b[end] * wide // max(steps, 1) for end in ("first", "last"))
        rows.append((b["offset"], _format.nbytes(b["bytes"]), "." * first + "#" * (last - first + 1)
                     + "." * (wide - last - 1), f"{b['first']}-{b['last']}", b["kind"],
                     _format.shortened(b["name"], name)))
    return [f"arena: {_format.nbytes(arena['bytes'])} (lower bound {_format.nbytes(arena['bound'])}), "
            + _format.counted(steps, "step"),
            *_format.table(("offset", "size", "when", "steps", "kind", "tensor"), rows, ("offset", "size"),
                            ("kind", "steps"), verbose)]
