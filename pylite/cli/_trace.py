"""The timeline of a run in the Trace Event Format, which ui.perfetto.dev and chrome://tracing show."""
import bisect

from pylite.cli import _cost


def events(run, ranges, threads):
    """{"traceEvents": ...} of a Run and its ranges, as _timing.timeline() returns them; times in microseconds.

    Thread 0 is the caller: invoke(), in it a step for each kernel, and in these the ranges of shared loops that it ran.
    The workers have their ranges, each under the name of its step.
    """
    trace = [_metadata("process_name", 0, "pylite")]
    trace += [_metadata("thread_name", i, f"worker {i}" if i else "caller") for i in range(threads)]
    trace.append(_complete("invoke", "invoke", 0, run.begin, run.end, run.begin, {}))
    for step in run.steps:
        trace.append(_complete(_name(step), "node", 0, step.begin, step.end, run.begin, {
            "node": step.node.index, "kernel": step.kernel, "MACs": _cost.macs(step.node),
            "outputs": [str(value) for value in step.node.outputs if value is not None]}))
    begins = [step.begin for step in run.steps]
    for begin, end, first, last, thread in ranges.tolist():
        step = run.steps[bisect.bisect_right(begins, begin) - 1]
        trace.append(_complete(_name(step), "range", thread, begin, end, run.begin, {"items": [first, last]}))
    return {"traceEvents": trace, "displayTimeUnit": "ns"}


def _name(step):
    return f"{step.node.name} {step.node.index}"


def _metadata(name, thread, value):
    return {"name": name, "ph": "M", "pid": 1, "tid": thread, "args": {"name": value}}


def _complete(name, category, thread, begin, end, origin, args):
    return {"name": name, "cat": category, "ph": "X", "pid": 1, "tid": thread, "ts": (begin - origin) / 1e3,
            "dur": (end - begin) / 1e3, "args": args}
