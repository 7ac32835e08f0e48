"""Measuring an interpreter: startup, invoke(), every kernel separately, and the timeline of one run."""
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from pylite.cli import _cost, _inputs, _signature
from pylite.cli._common import resize
from pylite.cli._facts import kernel_name
from pylite.errors import ExecutionError
from pylite.media.tensors import feed
from pylite.runtime.model import Model

LEAST_RUNS = 3          # least number of runs with timed steps; as many without precede each
TIMED_RUNS = 2000       # about the most runs with timed steps, since they take memory
BRIEF, REPEATS = 1e-3, 8        # seconds; runs one after another, so that Python's work before them is forgotten
LEAST_REST = 1e-9       # seconds; a smaller rest is a rounding error of the scaled times of nodes
ZEROS = "the inputs are zeros"      # begins the only doubt that does not concern the times
UNSTEADY = 0.1          # a spread, or a slow-down, above which times are unreliable
PARTS = 8               # a measurement is divided into as many; their differences are its noise


class Start(NamedTuple):
    """Seconds of the steps of a start: loading the file, allocate_tensors(), the first invoke()."""
    load: float
    allocate: float
    first: float


class Latency(NamedTuple):
    """Seconds of invoke(), and how reliable they are.

    spread: interquartile range divided by the median; noise: see noise(); runs: their number; slowed: the excess of
    the nodes' times over the median, as a share of it, 0 if there is none.
    """
    median: float
    p95: float
    least: float
    spread: float
    noise: float
    runs: int
    slowed: float


def started(path, threads, shapes, *, seed, delegates, precision=None, signature=None):
    """(Interpreter with random contents in its inputs, Start, doubts)

    If the model fails on random contents, such as token ids out of range, the inputs are zeros, and a doubt says so.
    shapes: {input name: shape}; UsageError names an input that the model does not have.
    """
    clock = time.perf_counter
    begin = clock()
    interpreter = _signature.opened(signature, model=Model(path), num_threads=threads, precision=precision,
                                    experimental_delegates=delegates)
    loaded = clock()
    if interpreter._main.plugin_structs:
        interpreter._main.plugin_structs.host.add_profiler()        # for what plug-ins report of their own parts
    resize(interpreter, shapes)
    begun = clock()
    interpreter.allocate_tensors()
    allocated = clock()
    doubts = []
    try:
        first = _first(interpreter, np.random.default_rng(seed))
    except ExecutionError as error:
        first = _first(interpreter, None)
        doubts.append(f"{ZEROS}: with random numbers, {str(error).partition(';')[0]}")
    return interpreter, Start(loaded - begin, allocated - begun, first), doubts


def _first(interpreter, rng):
    """The seconds of a run on random inputs, or on zeros if `rng` is None."""
    feed(interpreter, [_inputs.blank(detail, rng) for detail in interpreter.get_input_details()])
    begin = time.perf_counter()
    interpreter.invoke()
    return time.perf_counter() - begin


def measured(interpreter, seconds):
    """(Latency, nodes, rest): of invoke(), of each node, and the seconds of invoke() that no node takes.

    All nodes are scaled down by Latency.slowed, so that nodes and rest add up to the median, and the rest is not
    negative.
    nodes: one dictionary for each node that runs, in order: its seconds, noise, kernels, MACs, and the "events"
    that its plug-in reported, if any: the name of each, its calls and its seconds in a run.
    Runs whose steps are timed lie between the others; a node's time is its mean in the middle half of these runs.
    """
    clock, invoke, recorder = time.perf_counter, interpreter.invoke, _Recorder(interpreter._main)
    between, repeats = LEAST_RUNS, 1
    for limit in (seconds / 10, seconds):
        times, recorded, begin = [], [], clock()
        recorder.clear()
        while len(recorded) < LEAST_RUNS or clock() < begin + limit:
            for _ in range(between):
                start = clock()
                invoke()
                times.append(clock() - start)
            recorded.append(recorder.run(repeats))
        repeats = REPEATS if min(times) < BRIEF else 1
        between = max(LEAST_RUNS, round(seconds / min(times) / TIMED_RUNS))
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    nodes = _nodes(interpreter._main, recorded)
    slowed = max(0.0, sum(node["seconds"] for node in nodes) / median - 1)
    for node in nodes:
        node["seconds"] /= 1 + slowed
        node |= recorder.events(node["node"])
    rest = median - sum(node["seconds"] for node in nodes)
    rest = rest if rest >= LEAST_REST else 0.0
    latency = Latency(median, p95=statistics.quantiles(times, n=20, method="inclusive")[-1], least=min(times),
                      spread=(high - low) / median, noise=noise(np.array(times)), runs=len(times), slowed=slowed)
    return latency, nodes, rest


def calls(kernels):
    """Are these the kernels of a node that calls other subgraphs?"""
    return any(name.startswith("control.") for name in kernels)


def idle(interpreter, nodes):
    """[{"node", "name"}] of the nodes that are not among the `nodes` of measured(): they have no work at run time."""
    timed = {node["node"] for node in nodes}
    return [{"node": operator.index, "name": operator.name} for operator in interpreter._main.subgraph.operators
            if operator.index not in timed]


def noise(times, middle=np.median):
    """How far the middles of consecutive parts of `times` are apart: half their range, divided by their middle."""
    parts = [middle(part) for part in np.array_split(times, min(PARTS, len(times)))]
    return float((max(parts) - min(parts)) / 2 / np.median(parts)) if np.median(parts) else 0.0


def unsteady(latency):
    """Reasons to doubt a Latency, by its own variation."""
    if latency.spread > UNSTEADY:
        yield f"timings vary by {latency.spread:.0%}: other programs are running, or the CPU clock is changing"
    if latency.slowed > UNSTEADY:
        yield (f"the runs that timed nodes took {latency.slowed:.0%} longer than the others: other programs ran; the "
               "times of nodes are scaled down, so that they add up to the median")


def _kernel(name, delegate):
    """The name of a kernel for the table: a delegate's own is called as it is."""
    return delegate if delegate and name == "plug-in" else name


def _nodes(executor, recorded):
    """The nodes of measured(), from the results of _Recorder.run()."""
    delegated = {} if executor.delegation is None else executor.delegation.partitions
    cost = min(run.clock_cost for run in recorded)
    times = np.array([[step.end - step.begin for step in run.steps] for run in recorded]) - cost
    totals = times.sum(1)
    low, high = np.quantile(totals, (0.25, 0.75))
    middle = (totals >= low) & (totals <= high)
    nodes, columns = [], []
    for column, step in enumerate(recorded[0].steps):
        node = step.node
        if not nodes or nodes[-1]["node"] != node.index:
            own_name = executor.plugin_structs and executor.plugin_structs.host.profiling_string(node.index)
            nodes.append({"node": node.index, "name": own_name or node.name, "kernels": [], "macs": _cost.macs(node),
                          "outputs": [str(v) for v in node.outputs if v is not None]})
            columns.append([])
            if node.index in delegated:
                delegate, replaced = delegated[node.index]
                nodes[-1]["delegate"], nodes[-1]["replaces"] = delegate.name, list(replaced.nodes)
        nodes[-1]["kernels"].append(_kernel(step.kernel, nodes[-1].get("delegate")))
        columns[-1].append(column)
    for node, own in zip(nodes, columns, strict=True):
        of_node = np.maximum(times[:, own].sum(1), 0)
        node |= {"seconds": float(of_node[middle].mean()) / 1e9, "noise": noise(of_node)}
    return nodes


class Step(NamedTuple):
    """A step of a run: the nanoseconds of the clock when it began and ended."""
    node: Any
    kernel: str
    begin: int
    end: int


class Run(NamedTuple):
    """One run with the times of its steps; clock_cost: the nanoseconds that reading the clock takes."""
    begin: int
    end: int
    clock_cost: int
    steps: list[Step]


class _Recorder:
    """Runs an Executor and records the times of the steps, also of the nodes that are evaluated between segments."""

    def __init__(self, executor):
        self.executor = executor
        self.host = executor.plugin_structs and executor.plugin_structs.host
        self.runs = 0

    def clear(self):
        """Forget the events of plug-ins."""
        self.runs = 0
        if self.host:
            self.host.clear_events()

    def events(self, node):
        """{"events": what the plug-in of a node reported}, or {}; means of all runs since clear()."""
        entries = [{"name": name, "calls": calls / self.runs, "seconds": nanoseconds / self.runs / 1e9}
                   for index, name, calls, nanoseconds in (self.host.events() if self.host else []) if index == node]
        return {"events": entries} if entries else {}

    def run(self, repeats=1):
        """The Run of one invoke().

    repeats: invoke this number of times in a row and take the last one, if the interpreter's fast path allows that.
    """
        segments = self.executor.segments
        programs = [_Profiled(segment.program, repeats if self.executor.fast_program else 1) for segment in segments]
        evaluated = [segment.evaluate and _Evaluated(segment.evaluate) for segment in segments]
        try:
            for segment, program, timed in zip(segments, programs, evaluated, strict=True):
                segment.program, segment.evaluate = program, timed
            if self.host:
                self.host.record_events(True)
            begin = time.perf_counter_ns()
            self.executor.invoke()      # not of the interpreter: its fast path does not use the segments
            end = time.perf_counter_ns()
        finally:
            if self.host:
                self.host.record_events(False)
            for segment, program, timed in zip(segments, programs, evaluated, strict=True):
                segment.program, segment.evaluate = program.program, timed and timed.evaluate
        self.runs += max(len(program.clock) for program in programs)
        cost = min(int(program.clock[-1, 1] - program.clock[-1, 0]) for program in programs)
        return Run(begin, end, cost, _steps(segments, programs, evaluated))


def _steps(segments, programs, evaluated):
    """The Steps of a run: those of each program, and the function that is evaluated after it."""
    steps = []
    for segment, program, timed in zip(segments, programs, evaluated, strict=True):
        clock = program.clock[-1].tolist()
        steps += [Step(call.node, kernel_name(call), *times)
                  for call, *times in zip(segment.lowered.calls, clock[1:], clock[2:], strict=False)]
        if timed:
            steps.append(Step(segment.boundary, "evaluated", timed.begin, timed.end))
    return steps


class _Evaluated:
    """Calls the function that evaluates the boundary node of a segment, and records when."""

    def __init__(self, evaluate):
        self.evaluate = evaluate

    def __call__(self, node, *arrays):
        self.begin = time.perf_counter_ns()
        results = self.evaluate(node, *arrays)
        self.end = time.perf_counter_ns()
        return results


class _Profiled:
    """Runs the Program of a segment, and records when each step began and ended."""

    def __init__(self, program, repeats):
        self.program, self.size, self.kernels = program, program.size, program.kernels
        self.clock = np.zeros((repeats, program.size + 2), np.int64)

    def run(self):
        return self.program.profile(self.clock)


def timeline(interpreter, runs=21):
    """(Run, ranges): the Run of the median duration among some, and what threads did in it, as Pool.record() says."""
    recorder, pool = _Recorder(interpreter._main), interpreter._pool
    timed, room = [], 1 << 12
    while len(timed) < runs:
        ranges = np.zeros((room, 5), np.int64)
        pool.record(ranges)
        try:
            run = recorder.run()
        finally:
            pool.record(None)
        if pool.recorded > room:
            room = 2 * pool.recorded
        else:
            timed.append((run, ranges[:pool.recorded].copy()))
    return sorted(timed, key=lambda pair: pair[0].end - pair[0].begin)[runs // 2]


def memory(interpreter):
    """Bytes of the arena and of packed weights, and the peak resident memory of the process, None on Windows."""
    try:
        import resource  # not on Windows
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    except ImportError:
        peak = None
    return {"arena": sum(segment.placement.total for segment in interpreter._main.segments),
            "packed": interpreter._model.weights.packed_bytes,
            "peak_rss": peak}
