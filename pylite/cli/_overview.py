"""The data of `pylite report`: the facts of `inspect`, the times of `bench`, and the arena."""
from pylite._core import simd
from pylite.cli import _board, _facts, _nodes, _signature, _timing
from pylite.cli.inspect import problems
from pylite.ir.values import Value
from pylite.runtime.model import Model

IDLE = "no work at run time"


def overview(path, threads=1, seconds=0.0, delegates=(), signature=None, shapes=()):
    """The model as a dictionary.  seconds: how long to measure, 0 for no times; signature: the key of the one that
    runs, by default the first subgraph; shapes: {name of an input of that: shape}.

    "nodes": a dictionary for each, in order; "ends": inputs and outputs of each subgraph; "by_op": sums over the nodes
    of an op, with the time of those "timed", None if there are none; "notes": what the times leave out; "arena": a map
    for each segment, {"bytes", "bound", "steps": node of each step, "blocks"}; "rest": seconds of a run that no node
    takes; "problems": why it cannot run, as lines.
    """
    model = Model(path)
    main = _signature.subgraph_of(model, signature)
    facts = _facts.model_facts(path, model, range(len(model.graph.subgraphs)), delegates, (main, dict(shapes)))
    report = {"version": 1, "file": path, "machine": _board.machine(), "bytes": facts["bytes"],
              "weight_bytes": facts["weight_bytes"], "packed_bytes": facts["packed_bytes"],
              "macs": sum(s["macs"] for s in facts["subgraphs"]),
              "loops": any(s["repeated"] for s in facts["subgraphs"]),
              "instruction_set": simd.current, "threads": threads, "arena": [], "latency": None, "rest": None,
              "doubts": [], "notes": [],
              "problems": [line.strip() for s in facts["subgraphs"] for line in problems(s)]}
    times = {}
    if not facts["subgraphs"][main]["missing"] and facts["subgraphs"][main]["error"] is None:
        before = _board.state()
        interpreter, _, doubts = _timing.started(path, threads, dict(shapes), seed=0, delegates=delegates,
                                                 signature=signature)
        if seconds:
            latency, nodes, report["rest"] = _timing.measured(interpreter, seconds)
            report["latency"] = latency._asdict()
            times = {node["node"]: node["seconds"] for node in nodes}
            report["doubts"] = [*doubts, *_board.doubts(before, _board.state(), threads),
                                *_timing.unsteady(latency)]
            report["notes"] = _notes(model, facts["subgraphs"], main)
        report["arena"] = [_arena(segment) for segment in interpreter._main.segments]
    total = report["latency"]["median"] if times else 0
    report["nodes"] = [_node(model, subgraph, node, times if subgraph["index"] == main else {}, total)
                       for subgraph in facts["subgraphs"] for node in subgraph["operators"]]
    report["ends"] = list(map(_ends, facts["subgraphs"]))
    report["by_op"] = _by_op(report["nodes"])
    return report


def _notes(model, subgraphs, main):
    """Notes on what the times of subgraph `main` do not show: nodes of called subgraphs, and other signatures."""
    entered = {signature.subgraph for signature in model.signatures} | {main, 0}
    called = [str(s["index"]) for s in subgraphs if s["index"] not in entered and s["operators"]]
    callers = [f"{o['index']} ({o['name']})" for o in subgraphs[main]["operators"] if _timing.calls(o["kernels"] or ())]
    notes = _signature.notes(model, main)
    return [f"the nodes of subgraph{'s' * (len(called) > 1)} {', '.join(called)} are not timed one by one: their time "
            f"is that of the node{'s' * (len(callers) > 1)} that call{'s' * (len(callers) < 2)} them, "
            f"{', '.join(callers)}", *notes] if called and callers else notes


def _ends(subgraph):
    """The inputs and outputs of a subgraph."""
    return {side: [{"tensor": i, **{key: subgraph["tensors"][i][key] for key in ("name", "dtype", "shape")}}
                   for i in subgraph[side]] for side in ("inputs", "outputs")}


def _node(model, subgraph, node, times, total):
    tensors = model.graph.subgraphs[subgraph["index"]].tensors
    results = [subgraph["tensors"][i] for i in node["outputs"] if i >= 0]
    taken = times.get(node["index"])
    first = {"name": "", "shape": [], "quantization": ""}
    if results:
        first = {"name": results[0]["name"], "shape": node["shapes"][results[0]["index"]],
                 "quantization": _nodes.quantization(results[0])}
    return {"subgraph": subgraph["index"], "node": node["index"], "op": node["name"], "dtype": node["dtype"], **first,
            "settings": _nodes.settings(node), "inputs": node["inputs"], "outputs": node["outputs"],
            "macs": node["macs"], "seconds": taken,
            "share": taken / total if taken is not None and total else None,
            "weight_bytes": sum(tensors[i].data.nbytes for i in set(node["inputs"]) - {-1}
                                if tensors[i].data is not None),
            "result_bytes": sum(_facts.bytes_of(result["dtype"], node["shapes"][result["index"]]) or 0
                                for result in results), "kernels": _kernels(node)}


def _kernels(node):
    if "replaced_by" in node:
        return f"replaced by {node['replaced_by']}"
    if not node["supported"]:
        return "missing"
    return ", ".join(dict.fromkeys(node["kernels"] or [])) or ("" if node["kernels"] is None else IDLE)


def _by_op(nodes):
    by_op = {}
    for node in nodes:
        entry = by_op.setdefault(node["op"], {"op": node["op"], "count": 0})
        entry["count"] += 1
        for key in ("macs", "weight_bytes", "result_bytes", "seconds", "share"):
            known = entry.setdefault(key, None)
            entry[key] = known if node[key] is None else node[key] + (known or 0)
        entry["timed"] = entry.get("timed", 0) + (node["seconds"] is not None or node["kernels"] == IDLE)
    return sorted(by_op.values(), key=lambda entry: (-(entry["seconds"] or 0), -entry["macs"], -entry["result_bytes"]))


def _arena(segment):
    """The place and lifetime of each tensor in the arena: blocks in the order of their offsets."""
    lowered, placement = segment.lowered, segment.placement
    sharing = {}
    for value in lowered.values:
        sharing.setdefault(value.root, []).append(value)
    ends = {"input": lowered.subgraph.inputs, "output": lowered.subgraph.outputs}
    blocks = []
    for owner, offset, nbytes, first, last in placement.blocks:
        values = sharing.get(owner, []) if isinstance(owner, Value) else []
        kinds = [kind for kind, indices in ends.items() if any(value.index in indices for value in values)]
        last = min(last, max(len(lowered.calls) - 1, 0))
        step = lowered.calls[first].node if first < len(lowered.calls) else None
        blocks.append({"tensors": [value.index for value in values],
                       "name": ", ".join(value.name for value in values) or f"scratch of node {step and step.index}",
                       "kind": kinds[0] if kinds else "temporary" if values else "scratch", "offset": offset,
                       "bytes": nbytes, "first": min(first, last), "last": last})
    blocks.sort(key=lambda block: (block["offset"], block["first"]))
    _, live = placement.peak()
    return {"bytes": placement.total, "bound": live, "steps": [call.node.index for call in lowered.calls],
            "blocks": blocks}
