"""Measuring an interpreter: startup, invoke(), and every kernel separately."""
import resource
import statistics
import time

import numpy as np

from pylite.cli import _cost, _inputs
from pylite.cli._common import UsageError
from pylite.cli._facts import kernel_name
from pylite.interpreter import Interpreter
from pylite.runtime.model import Model

LEAST_RUNS = 5


def started(path, threads, shapes, seed, delegates):
    """(Interpreter with random contents in its inputs, {"load", "allocate", "first": seconds})

    shapes: {input name: shape}; UsageError names an input that the model does not have.
    """
    clock = time.perf_counter
    begin = clock()
    interpreter = Interpreter(model=Model(path), num_threads=threads, experimental_delegates=delegates)
    loaded = clock()
    details = {detail["name"]: detail for detail in interpreter.get_input_details()}
    for name, shape in shapes.items():
        if name not in details:
            raise UsageError(f"no input is called {name!r}; the model has {', '.join(map(repr, details))}")
        interpreter.resize_tensor_input(details[name]["index"], shape)
    begun = clock()
    interpreter.allocate_tensors()
    allocated = clock()
    rng = np.random.default_rng(seed)
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], _inputs.blank(detail, rng))
    filled = clock()
    interpreter.invoke()
    return interpreter, {"load": loaded - begin, "allocate": allocated - begun, "first": clock() - filled}


def latency(interpreter, seconds):
    """Seconds of invoke(): median, p95, least, and the spread (interquartile range divided by the median)."""
    clock, invoke = time.perf_counter, interpreter.invoke
    times = []
    for limit in (seconds / 10, seconds):
        times.clear()
        end = clock() + limit
        while len(times) < LEAST_RUNS or clock() < end:
            start = clock()
            invoke()
            times.append(clock() - start)
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return {"median": median, "p95": statistics.quantiles(times, n=20, method="inclusive")[-1], "least": min(times),
            "spread": (high - low) / median, "runs": len(times)}


def nodes(interpreter, seconds):
    """One dictionary per node that runs, in order: its median seconds, kernels, MACs and start time."""
    main = interpreter._main
    segments = _profile(main, seconds)
    delegated = {} if main.delegation is None else main.delegation.partitions
    found = []
    start = 0.0
    for segment, medians, evaluation in segments:
        steps = [(call.node, kernel_name(call), taken)
                 for call, taken in zip(segment.lowered.calls, medians.tolist(), strict=True)]
        if evaluation is not None:
            steps.append((segment.boundary, "evaluated", evaluation))
        for node, kernel, taken in steps:
            if not found or found[-1]["node"] != node.index:
                found.append({"node": node.index, "name": node.name, "kernels": [], "seconds": 0.0, "start": start,
                              "macs": _cost.macs(node), "outputs": [str(v) for v in node.outputs if v is not None]})
                if node.index in delegated:
                    delegate, replaced = delegated[node.index]
                    found[-1]["delegate"], found[-1]["replaces"] = delegate.name, list(replaced.nodes)
            found[-1]["kernels"].append(kernel)
            found[-1]["seconds"] += taken
            start += taken
    return found


def _profile(executor, seconds):
    """Run for some seconds: [(segment, median seconds of its steps, those of its boundary node if it is evaluated)]"""
    segments = executor.segments
    profiled = [_Profiled(segment) for segment in segments]
    evaluated = {segment: _Evaluated(segment) for segment in segments if segment.evaluate is not None}
    try:
        end = time.perf_counter() + seconds
        while len(profiled[0].runs) < LEAST_RUNS or time.perf_counter() < end:
            executor.invoke()       # not of the interpreter: its fast path does not use the segments
    finally:
        for segment, timed in evaluated.items():
            segment.evaluate = timed.evaluate
        for segment, program in zip(segments, profiled, strict=True):
            segment.program = program.program
    return [(segment, np.median(program.runs, axis=0) / 1e9,
             statistics.median(evaluated[segment].runs) / 1e9 if segment in evaluated else None)
            for segment, program in zip(segments, profiled, strict=True)]


class _Evaluated:
    """Replaces the function that evaluates the boundary node of a segment: calls it and records the nanoseconds."""

    def __init__(self, segment):
        self.evaluate, self.runs = segment.evaluate, []
        segment.evaluate = self

    def __call__(self, node, *arrays):
        begin = time.perf_counter_ns()
        results = self.evaluate(node, *arrays)
        self.runs.append(time.perf_counter_ns() - begin)
        return results


class _Profiled:
    """Replaces the Program of a segment: runs it and records the nanoseconds of its steps."""

    def __init__(self, segment):
        self.program, self.runs = segment.program, []
        self.size, self.kernels = segment.program.size, segment.program.kernels
        segment.program = self

    def run(self):
        self.runs.append(np.zeros(self.size, np.int64))
        return self.program.profile(self.runs[-1])


def memory(interpreter):
    """Bytes of the arena and of packed weights, and the peak resident memory of the process."""
    return {"arena": sum(segment.plan.total for segment in interpreter._main.segments),
            "packed": interpreter._model.packed_bytes,
            "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def trace(report):
    """The nodes of one run as trace events, times in microseconds."""
    events = [{"name": f"{node['name']} {node['node']}", "cat": "node", "ph": "X", "pid": 1, "tid": 1,
               "ts": node["start"] * 1e6, "dur": node["seconds"] * 1e6,
               "args": {"kernels": node["kernels"], "MACs": node["macs"], "outputs": node["outputs"]}}
              for node in report["nodes"]]
    return {"traceEvents": events, "displayTimeUnit": "ns",
            "otherData": {"model": report["model"], "threads": report["threads"], **report["machine"]}}
