"""Time a model and each of its nodes, and measure its memory.

The inputs are random numbers, or zeros if the model fails on these.  After a warm-up, invoke() runs repeatedly; some of
the runs also time each node.  The times of the nodes, and a row for the rest (the cost of the call itself), add up to
the median.
"""
import json
import sys

from pylite.cli import _common, _format, _outputs, _plugins, _terminal
from pylite.cli._parser import explained
from pylite.errors import ComparisonError

EPILOG = explained(__doc__) + """
The spread is the interquartile range divided by the median.  Open a --trace file in ui.perfetto.dev or
chrome://tracing: it shows one run on all its threads.  --against compares with an earlier report; ignore ratios
within the noise: the spread between parts of one measurement, but at least 0.03.

examples:
  pylite bench digits
  pylite bench model.tflite --threads 2 --seconds 5
  pylite bench model.tflite --shape input=1,320,320,3 --trace out.json
  pylite bench model.tflite --compare litert
  pylite bench model.tflite --json > old.json
  pylite bench model.tflite --against old.json
  pylite bench new.json --against old.json
"""
USAGE = "pylite bench MODEL [options]"


def configure(parser):
    parser.add_argument("model", metavar="MODEL",
                        help="a .tflite file, the name of a bundled model, or a report (.json) for --against")
    _common.add_threads(parser)
    _common.add_precision(parser)
    _common.add_signature(parser)
    parser.add_argument("--seconds", type=duration, default=2.0, metavar="S", help="how long to measure (default: 2)")
    _common.add_shape(parser)
    parser.add_argument("--seed", type=_common.not_negative, default=0, metavar="N",
                        help="seed of the random inputs (default: 0)")
    parser.add_argument("--top", type=_common.positive, metavar="N", help="list only the N slowest nodes")
    parser.add_argument("--trace", metavar="OUT.json", help="write the timeline of one run")
    parser.add_argument("--compare", type=peer, metavar="litert",
                        help="time LiteRT in turn with pylite; needs ai-edge-litert")
    parser.add_argument("--against", metavar="OLD.json", help="compare with a report that --json printed earlier")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _common.add_verbose(parser)
    _plugins.add(parser)


@_common.written_as("a number of seconds above 0 and up to 3600")
def duration(text):
    """`text` as seconds; for argparse."""
    value = float(text)
    if not 0 < value <= 3600:
        raise ValueError
    return value


@_common.written_as("litert; to compare two models, store the report of one with --json > OLD.json, and give the other "
                    "--against OLD.json")
def peer(text):
    """The runtime to compare with; for argparse."""
    if text != "litert":
        raise ValueError
    return text


def run(args):
    from pylite.cli import _against
    old = _against.load(args.against) if args.against else None
    if args.model.endswith(".json"):
        if old is None:
            raise _common.UsageError(f"{args.model} is a report: give --against OLD.json to compare it with another")
        report = _against.load(args.model)
    else:
        report = _measured(args)
    if old is not None:
        report["against"] = _against.compared(report, old)
    try:
        text = json.dumps(report, indent=2) if args.json else "\n".join(_lines(report, args.top, args.verbose))
    except (KeyError, TypeError, ValueError, AttributeError):
        if args.model.endswith(".json"):
            raise _common.UsageError(f"{args.model}: not a report of pylite bench --json") from None
        raise
    sys.stdout.write(text + "\n")
    if "problem" in report.get("litert", ()):
        raise ComparisonError(report["litert"]["problem"])


def _measured(args):
    """The report of a model."""
    from pylite.cli import _against, _board, _signature, _timing, _trace
    path = _common.model_path(args.model)
    if args.trace:
        _outputs.check_writable(args.trace)     # before the measurement
    if args.compare and args.signature:
        raise _common.UsageError("--compare and --signature exclude each other; LiteRT runs the model's first subgraph")
    if args.compare:
        from pylite.validation import litert
        litert.module()         # if it is missing, fail before the measurement
    before = _board.state()
    delegates = _plugins.load(args)
    interpreter, start, doubts = _timing.started(
        path, args.threads, _common.shapes(args.shape), seed=args.seed, delegates=delegates, precision=args.precision,
        signature=args.signature)
    memory = _timing.memory(interpreter)        # before measured() fills memory with times
    latency, nodes, rest = _timing.measured(interpreter, args.seconds)
    doubts += [*_board.doubts(before, _board.state(), args.threads), *_timing.unsteady(latency)]
    report = {"model": path, "threads": args.threads, "machine": _board.machine(), "start": start._asdict(),
              "latency": latency._asdict(), "memory": memory, "nodes": nodes,
              "idle": _timing.idle(interpreter, nodes), "rest": rest, "doubts": doubts,
              "notes": [*_plugins.unclaimed(interpreter._main, delegates),
                        *_signature.notes(interpreter._model, interpreter._main.subgraph.index)]}
    if args.trace:
        timed, ranges = _timing.timeline(interpreter)
        trace = _trace.events(timed, ranges, args.threads)
        about = {"model": path, "threads": args.threads, **report["machine"]}
        _outputs.write(args.trace, json.dumps(trace | {"otherData": about}))
    if args.compare:
        try:
            report["litert"] = _against.with_litert(path, interpreter, args.threads, args.seconds)
        except ComparisonError as error:        # pylite's own measurement is shown before it
            report["litert"] = {"problem": str(error)}
    return report


def _lines(report, top, verbose):
    from pylite.cli import _against
    lines = [*(f"warning: {doubt}" for doubt in report["doubts"]),
             *(f"note: {note}" for note in report.get("notes", ())), *_facts(report, verbose),
             *([] if report["nodes"] or report.get("idle") else ["the model has no operators"]), "",
             *_node_lines(report, top, verbose)]
    if "problem" not in report.get("litert", {"problem": None}):
        lines += ["", *_against.litert_lines(report["litert"], report["latency"]["median"])]
    if "against" in report:
        lines += ["", *_against.lines(report["against"])]
    return _terminal.shown(lines)


def _facts(report, verbose):
    seconds, nbytes = _format.seconds, _format.nbytes
    machine, times, start, memory = (report[key] for key in ("machine", "latency", "start", "memory"))
    return [f"{_format.file_name(report['model'], verbose)}, {_format.counted(report['threads'], 'thread')}",
            ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in machine.items() if value is not None),
            f"median {seconds(times['median'])}, p95 {seconds(times['p95'])}, minimum {seconds(times['least'])}, "
            f"spread {times['spread']:.1%} of {times['runs']} runs",
            f"load {seconds(start['load'])}, allocate {seconds(start['allocate'])}, "
            f"first invoke {seconds(start['first'])}",
            f"arena {nbytes(memory['arena'])}, packed weights {nbytes(memory['packed'])}"
            + (f", peak memory of the process {nbytes(memory['peak_rss'])}" if memory["peak_rss"] else "")]


def _node_lines(report, top, verbose):
    """The table of nodes, whose times add up to the median; top: only so many of the slowest."""
    from pylite.cli import _timing
    nodes, total = report["nodes"], report["latency"]["median"]
    shown = nodes if top is None else sorted(nodes, key=lambda node: -node["seconds"])[:top]
    rows = []
    for node in shown:
        rows.append(_row(node["node"], node["name"], node["seconds"], total, " ".join(dict.fromkeys(node["kernels"])),
                         node["macs"]))
        rows += [_row("", f"  {event['name']}, {_calls(event['calls'])}", event["seconds"], total)
                 for event in node.get("events", [])]
    if len(shown) < len(nodes):
        others = sum(node["seconds"] for node in nodes) - sum(node["seconds"] for node in shown)
        rows.append(_row("", f"{len(nodes) - len(shown)} others", others, total))
    rows.append(_row("", "rest", report["rest"], total))
    lines = _format.table(["node", "op", "kernels", "time", "share", "GMAC/s"], rows,
                          ["node", "time", "share", "GMAC/s"], ("kernels", "GMAC/s"), verbose)
    notes = [_format.replacement(node["node"], node["delegate"], node["replaces"])
             for node in nodes if "replaces" in node]
    notes += [f"the time of node {node['node']} ({node['name']}) includes the nodes of the subgraphs that it calls; "
              "`pylite report` lists them" for node in nodes if _timing.calls(node["kernels"])]
    idle = report.get("idle", [])
    if idle:
        names = ", ".join(dict.fromkeys(node["name"] for node in idle))
        notes.append(f"{_format.counted(len(idle), 'node')} {'have' if len(idle) > 1 else 'has'} no work at run time "
                     f"({names})")
    return [*lines, "", *notes] if notes else lines


def _calls(count):
    return "1 call" if count == 1 else f"{count:g} calls"


def _row(index, name, seconds, total, kernels="", macs=0):
    return (index, name, kernels, _format.seconds(seconds), f"{seconds / total:.1%}",
            f"{macs / seconds / 1e9:.1f}" if macs and seconds else "")
