"""Measure a model: latency, time per node, memory, and warnings if the machine was not idle.

The inputs are random numbers.  After a warm-up of a tenth of the time, invoke() is timed repeatedly, and then each
kernel separately for the table of nodes.
"""
import json
import sys

from pylite.cli import _common, _format, _plugins

EPILOG = __doc__.split("\n\n", 1)[1] + """
The spread is the interquartile range divided by the median.  --trace writes a file for ui.perfetto.dev or
chrome://tracing.

examples:
  pylite bench digits
  pylite bench model.tflite --threads 2 --seconds 5
  pylite bench model.tflite --shape input=1,320,320,3 --trace out.json
"""
NOISE = 0.1         # the spread above which times are unreliable


def configure(parser):
    _common.add_model(parser)
    parser.add_argument("--threads", type=_common.positive, default=1, metavar="N",
                        help="threads of invoke() (default: 1)")
    parser.add_argument("--seconds", type=_seconds, default=2.0, metavar="S", help="how long to measure (default: 2)")
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=N,N,...", help="resize an input")
    parser.add_argument("--seed", type=_common.not_negative, default=0, metavar="N",
                        help="seed of the random inputs (default: 0)")
    parser.add_argument("--top", type=_common.positive, metavar="N", help="list only the N slowest nodes")
    parser.add_argument("--trace", metavar="OUT.json", help="write the times of the nodes as a trace")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _plugins.add(parser)


def _seconds(text):
    value = float(text)
    if not 0 < value <= 3600:
        raise ValueError
    return value


def run(args):
    from pylite.cli import _board, _timing
    path = _common.model_path(args.model)
    if args.trace:
        open(args.trace, "a").close()       # a wrong path is an error before the measurement
    before = _board.state()
    interpreter, start = _timing.started(path, args.threads, _shapes(args.shape), args.seed, _plugins.load(args))
    memory = _timing.memory(interpreter)        # before latency() fills memory with times
    times = _timing.latency(interpreter, args.seconds)
    nodes = _timing.nodes(interpreter, args.seconds / 4)
    doubts = _board.doubts(before, _board.state(), args.threads)
    if times["spread"] > NOISE:
        doubts.append(f"the times vary by {times['spread']:.0%}: other programs run, or the clock changes")
    report = {"model": path, "threads": args.threads, "machine": _board.machine(), "start": start, "latency": times,
              "memory": memory, "nodes": nodes, "doubts": doubts}
    if args.trace:
        with open(args.trace, "w") as file:
            json.dump(_timing.trace(report), file)
    if args.json:
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(report, args.top)) + "\n")


def _shapes(given):
    """{input name: shape}"""
    found = {}
    for text in given:
        name, equals, sizes = text.rpartition("=")
        try:
            found[name] = [int(size) for size in sizes.split(",")]
        except ValueError:
            equals = ""
        if not equals:
            raise _common.UsageError(f"--shape {text}: expected INPUT=N,N,... such as image=1,224,224,3")
    return found


def _lines(report, top):
    seconds, nbytes = _format.seconds, _format.nbytes
    machine, times, start, memory = (report[key] for key in ("machine", "latency", "start", "memory"))
    lines = [f"{report['model']}, {report['threads']} thread(s)",
             ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in machine.items() if value is not None),
             f"median {seconds(times['median'])}, p95 {seconds(times['p95'])}, minimum {seconds(times['least'])}, "
             f"spread {times['spread']:.1%} of {times['runs']} runs",
             f"load {seconds(start['load'])}, allocate {seconds(start['allocate'])}, "
             f"first invoke {seconds(start['first'])}",
             f"arena {nbytes(memory['arena'])}, packed weights {nbytes(memory['packed'])}, "
             f"peak memory of the process {nbytes(memory['peak_rss'])}", ""]
    total = sum(node["seconds"] for node in report["nodes"]) or 1.0
    shown = report["nodes"]
    if top is not None:
        shown = sorted(shown, key=lambda node: -node["seconds"])[:top]
    rows = [(node["node"], node["name"], " ".join(dict.fromkeys(node["kernels"])), seconds(node["seconds"]),
             f"{node['seconds'] / total:.1%}",
             f"{node['macs'] / node['seconds'] / 1e9:.1f}" if node["macs"] and node["seconds"] else "")
            for node in shown]
    lines += _format.table(["node", "op", "kernels", "time", "share", "GMAC/s"], rows,
                           ["node", "time", "share", "GMAC/s"])
    delegated = [_format.replacement(node["node"], node["delegate"], node["replaces"])
                 for node in report["nodes"] if "replaces" in node]
    lines += ["", *delegated] if delegated else []
    return lines + ["", *(f"warning: {doubt}" for doubt in report["doubts"])]
