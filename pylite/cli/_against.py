"""Compares two measurements: reports of other models or releases, or pylite and LiteRT run alternately."""
import json
import statistics
import time

import numpy as np

from pylite.cli import _format, _timing
from pylite.cli._common import UsageError
from pylite.media.tensors import feed

PAIRS = 5           # least number of turns for each runtime
LEAST_NOISE = 0.03  # least noise of two measurements, which also differ by chance, such as in addresses


def load(path):
    """The report of `pylite bench --json` in a file."""
    with open(path, encoding="utf-8") as file:
        try:
            report = json.load(file)
            compared(report, report)
            if not report["latency"]["median"] > 0:
                raise ValueError
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):      # the latter for nested JSON
            raise UsageError(f"{path}: not a report of pylite bench --json") from None
    return report


def compared(new, old):
    """{"ratio", "noise", "verdict", "nodes", "differences", "doubts"} of two reports.

    A ratio is new / old, and its noise that of both; "nodes": [{"node", "name", "old", "new", "ratio", "noise",
    "verdict"}], where "old" or "new" is None for a node that only one has; "differences": what else differs; "doubts":
    what makes the times of either doubtful.  A verdict is "same", "slower" or "faster", or, with doubts, None.
    """
    doubts = [f"{when}: {doubt}" for when, report in (("before", old), ("now", new))
              for doubt in report.get("doubts", ()) if not doubt.startswith(_timing.ZEROS)]
    comparison = _judged(new["latency"]["median"], old["latency"]["median"],
                         new["latency"]["noise"] + old["latency"]["noise"], doubts)
    earlier = {(node["node"], node["name"]): node for node in old["nodes"]}
    rows = []
    for node in new["nodes"]:
        other = earlier.pop((node["node"], node["name"]), None)
        rows.append({"node": node["node"], "name": node["name"], "new": node["seconds"],
                     "old": other and other["seconds"]}
                    | (_judged(node["seconds"], other["seconds"], node["noise"] + other["noise"], doubts)
                       if other else {}))
    rows += [{"node": index, "name": name, "new": None, "old": node["seconds"]}
             for (index, name), node in earlier.items()]
    differences = [f"{key}: {old.get(key)} before, {new.get(key)} now" for key in ("model", "threads")
                   if old.get(key) != new.get(key)]
    differences += [f"{key.replace('_', ' ')}: {old['machine'].get(key)} before, {value} now"
                    for key, value in new["machine"].items() if old["machine"].get(key) != value]
    return comparison | {"nodes": rows, "differences": differences, "doubts": doubts}


def _judged(new, old, noise, doubts):
    noise = max(noise, LEAST_NOISE)
    if not old:
        return {"ratio": None, "noise": noise, "verdict": "same"}
    ratio = new / old
    return {"ratio": ratio, "noise": noise, "verdict": None if doubts else
            "same" if abs(ratio - 1) <= noise else "slower" if ratio > 1 else "faster"}


def lines(comparison):
    """The text of a comparison."""
    rows = [(row["node"], row["name"], *("" if row[key] is None else _format.seconds(row[key])
                                         for key in ("old", "new")),
             *((f"{row['ratio']:.2f}", f"{row['noise']:.2f}", "" if row["verdict"] == "same" else row["verdict"] or "")
               if row.get("ratio") is not None else ("", "", "only before" if row["new"] is None else "only now"
                                                     if row["old"] is None else "")))
            for row in comparison["nodes"]]
    return [*_format.table(["node", "op", "before", "now", "ratio", "noise", "verdict"], rows,
                           ["node", "before", "now", "ratio", "noise"]), "",
            *(f"not the same {text}" for text in comparison["differences"]), verdict(comparison)]


def verdict(comparison):
    """The verdict of a comparison as a sentence."""
    if comparison["verdict"] is None:
        return (f"no verdict, since times are in doubt ({'; '.join(comparison['doubts'])}): "
                f"{comparison['ratio']:.3f} of the time before, noise {comparison['noise']:.3f}. "
                "Measure both again when the machine is idle")
    if comparison["verdict"] == "same":
        return f"no difference beyond the noise: ratio {comparison['ratio']:.3f}, noise {comparison['noise']:.3f}"
    return (f"{comparison['verdict']}: {comparison['ratio']:.3f} of the time before, noise {comparison['noise']:.3f}")


def with_litert(path, interpreter, threads, seconds):
    """{"version", "median", "ratio", "noise", "outputs"}: LiteRT on the interpreter's inputs, alternately with it.

    ratio: pylite's time divided by LiteRT's; outputs: the largest difference of each from LiteRT's.
    ComparisonError if LiteRT is not installed, refuses the model, or fails.
    """
    from pylite.validation import litert
    inputs = [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_input_details()]
    other = litert.prepared(path, inputs, threads)
    with litert.failures("LiteRT fails"):
        turns = _turns(interpreter.invoke, other.invoke, seconds)
        interpreter.reset_all_variables()
        other.reset_all_variables()
        feed(interpreter, inputs)
        interpreter.invoke()
        other.invoke()
    ratios = turns[:, 0] / turns[:, 1]
    low, _, high = statistics.quantiles(ratios.tolist(), n=4, method="inclusive")
    outputs = [_difference(detail["name"], interpreter.get_tensor(detail["index"]), other.get_tensor(theirs["index"]))
               for detail, theirs in zip(interpreter.get_output_details(), other.get_output_details(), strict=True)]
    return {"version": litert.version(), "median": float(np.median(turns[:, 1])), "ratio": float(np.median(ratios)),
            "quartiles": [low, high], "noise": _timing.noise(ratios), "outputs": outputs}


def _turns(one, other, seconds):
    """Seconds of runs alternately: (n, 2)."""
    clock, times, end = time.perf_counter, [], time.perf_counter() + seconds
    one()
    other()
    while len(times) < PAIRS or clock() < end:
        start = clock()
        one()
        middle = clock()
        other()
        times.append((middle - start, clock() - middle))
    return np.array(times)


def _difference(name, ours, theirs):
    if ours.shape != theirs.shape or ours.dtype == object:
        return {"name": name, "equal": ours.shape == theirs.shape and bool((ours == theirs).all())}
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    equal = bool(np.array_equal(ours, theirs, equal_nan=ours.dtype.kind in "fc"))
    return {"name": name, "equal": equal, "integer": ours.dtype.kind in "iu",
            "largest_difference": 0.0 if equal else float(np.abs(ours.astype(wide) - theirs.astype(wide)).max())}


def litert_lines(comparison, own):
    """The text of with_litert(); own: pylite's median seconds."""
    judged = comparison["ratio"]
    outputs = ", ".join(o["name"] + (" is equal" if o["equal"] else f" differs by up to {o['largest_difference']:.3g}"
                                     + " steps" * o.get("integer", False) if "largest_difference" in o else " differs")
                        for o in comparison["outputs"])
    return [*_format.table(["", "median"], [("pylite", _format.seconds(own)),
                                            (f"LiteRT {comparison['version']}", _format.seconds(comparison["median"]))],
                           ["median"]),
            f"in interleaved runs pylite takes {judged:.3f} of LiteRT's time (quartiles "
            f"{comparison['quartiles'][0]:.3f} to {comparison['quartiles'][1]:.3f}); "
            f"{outputs or 'there are no outputs'}"]
