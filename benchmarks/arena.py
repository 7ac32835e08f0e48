"""Arena sizes: pylite's, its lower bound, and LiteRT's for the same model.

    python benchmarks/arena.py [MODEL.tflite ...]      (default: every model under ../shared/models)

LiteRT's is measured: the span of the addresses that its reference interpreter gives the tensors of its arena.  It is
also computed anew by its planner's rules, which checks the measurement and is what stands where they differ because
tensors live elsewhere.  Exit code 1 when pylite's arena is the larger for any model.
"""
import json
import os
import subprocess
import sys

import _common
import numpy as np

# Ops that LiteRT lets write over an input (by position), and of them those that leave the bytes as they are.
IN_PLACE = {"ADD": (0, 1), "SUB": (0, 1), "MUL": (0, 1), "DIV": (0, 1), "SOFTMAX": (0,), "RESHAPE": (0,),
            "SQUEEZE": (0,), "EXPAND_DIMS": (0,), "BITCAST": (0,)}
SAME_BYTES = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST"}
FOREVER = 1 << 30


def litert_plan(nodes, inputs, outputs, nbytes):
    """LiteRT's greedy plan: ({tensor: offset}, arena bytes).

    nodes: [(op name, input tensors, output tensors)]; nbytes: {tensor in the arena: bytes}.
    """
    owner = _shared(nodes, inputs, outputs, nbytes)
    references = dict.fromkeys(nbytes, 0)
    for tensor in (*inputs, *outputs):
        if tensor in references:
            references[tensor] += 1
    for _, takes, _ in nodes:
        for tensor in takes:
            if tensor in nbytes:
                references[owner.get(tensor, tensor)] += 1
    first, last = {t: 0 for t in inputs if t in nbytes}, {}
    for step, (_, takes, gives) in enumerate(nodes):
        for tensor in gives:
            if tensor in nbytes:
                first.setdefault(tensor, step)
        for tensor in takes:
            tensor = owner.get(tensor, tensor)
            if tensor in nbytes:
                references[tensor] -= 1
                if references[tensor] == 0:
                    last[tensor] = step
    alive = [t for t in first if t not in owner]
    whole = [t for t in alive if first[t] == 0 and t not in last]
    others = sorted((t for t in alive if t not in whole), key=lambda t: (-nbytes[t], first[t]))
    placed, offsets, total = [], {}, 0
    for tensor in sorted(whole) + others:
        size, begin, end = nbytes[tensor], first[tensor], last.get(tensor, FOREVER)
        offsets[tensor] = _best_fit(placed, size, begin, end)
        if size:
            placed.append((offsets[tensor], size, begin, end))
            placed.sort(key=lambda block: block[0])
        total = max(total, offsets[tensor] + size)
    for tensor, other in owner.items():
        if other in offsets:
            offsets[tensor] = offsets[other]
    return offsets, total


def _best_fit(placed, size, begin, end):
    best, best_gap, at = None, 1 << 60, 0
    for offset, other, other_begin, other_end in placed:
        if other_end < begin or other_begin > end:
            continue
        aligned = -(-at // 64) * 64
        if aligned + size <= offset and offset - aligned < best_gap:
            best, best_gap = aligned, offset - at
        at = max(at, offset + other)
    return -(-at // 64) * 64 if best is None else best


def _shared(nodes, inputs, outputs, nbytes):
    """{output tensor: the tensor whose memory it takes over}"""
    counts = {}
    for tensor in (*inputs, *outputs, *(t for _, takes, _ in nodes for t in takes)):
        counts[tensor] = counts.get(tensor, 0) + 1
    owner = {}
    for name, takes, gives in nodes:
        changed = name not in SAME_BYTES
        for position in IN_PLACE.get(name, ()):
            if position >= len(takes) or takes[position] not in nbytes or not gives or gives[0] not in nbytes:
                continue
            x, y = takes[position], gives[0]
            if x in inputs or x in outputs or y in outputs:
                continue
            if changed and (nbytes[x] != nbytes[y] or nbytes[x] <= 4 or counts[x] > 1):
                continue
            root = owner.get(x, x)
            if not (changed and counts[root] > 1):
                owner[y] = root
            break
    return owner


def litert_measured(path):
    """(subgraph, {tensor: (address or None, bytes)}) of LiteRT's arena; constants and variables left out."""
    from pylite.schema import load
    interpreter = _common.peer_interpreter(path, reference=True)
    interpreter.allocate_tensors()
    subgraph = load(path).subgraphs[0]
    fixed = {t.index for t in subgraph.tensors if t.data is not None or t.is_variable} | {-1}
    for operator in subgraph.operators:     # what comes of constants alone is kept elsewhere
        if fixed.issuperset(operator.inputs):
            fixed.update(operator.outputs)
    used = {t for operator in subgraph.operators for t in (*operator.inputs, *operator.outputs)}
    found = {}
    for tensor in subgraph.tensors:
        if tensor.index in fixed:
            continue
        try:
            array = np.asarray(interpreter.tensor(tensor.index)())
        except (ValueError, RuntimeError):
            if tensor.index in used:
                raise       # it is made only when the model runs, outside the arena: nothing to compare
            continue
        if array.nbytes:        # a scalar comes as a copy, so its address is unknown
            found[tensor.index] = array.ctypes.data if array.ndim else None, array.nbytes
    return subgraph, found


def litert(path):
    """(arena bytes by LiteRT's rules, bytes that the addresses span)

    The two are equal but for what its kernels take beside the file's tensors, which only the addresses show.
    """
    subgraph, found = litert_measured(path)
    nodes = [(o.name, o.inputs, o.outputs) for o in subgraph.operators]
    offsets, total = litert_plan(nodes, subgraph.inputs, subgraph.outputs, {i: n for i, (_, n) in found.items()})
    known = [found[t] for t in offsets if found[t][0] is not None]
    span = max(map(sum, known)) - min(address for address, _ in known) if known else 0
    return total, span


def litert_apart(paths):
    """litert() of each path, from a process that some models bring down; None for those that it cannot load."""
    found = []
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    while len(found) < len(paths):
        rest = [str(path) for path in paths[len(found):]]
        done = subprocess.run([sys.executable, __file__, "--litert", *rest], capture_output=True, text=True,
                              env=environment)
        found += [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode:
            found.append(None)
    return found


def litert_or_none(path):
    try:
        return litert(path)
    except (ValueError, RuntimeError):      # the peer lacks an operator, or cannot prepare one
        return None


def pylite(path):
    """(arena bytes, lower bound) of a model's first subgraph, or None when an operator is missing."""
    from pylite.compiler import lowering, memory_planner
    from pylite.compiler.check import check
    from pylite.errors import PyliteError
    from pylite.model import Model
    model = Model(path)
    subgraph = model.graph.subgraphs[0]
    try:
        check(model, model.graph.subgraphs)
        lowered = lowering.lower(model, subgraph, [subgraph.tensors[i].shape for i in subgraph.inputs])
    except PyliteError:
        return None
    if any(v.block_size for v in lowered.values):
        return None     # the reference kernels answer zeros for blockwise weights and plan no temporaries
    plan = memory_planner.plan(lowered)
    return plan.total, plan.bound


def compare(paths):
    """[(path, pylite's bytes, lower bound, LiteRT's bytes by its rules, by its addresses)] for models that both run"""
    ours = {path: found for path in paths if (found := pylite(path))}
    theirs = litert_apart(list(ours))
    return [(path, *found, *other) for (path, found), other in zip(ours.items(), theirs, strict=True) if other]


def larger(rows):
    """The models for which pylite's arena is the larger."""
    return [row for row in rows if row[1] > row[3] and not row[3] < row[1] <= row[4] < 4 * row[3]]


def main(arguments):
    if arguments[:1] == ["--litert"]:
        for path in arguments[1:]:
            _common.say(json.dumps(litert_or_none(path)))
        return 0
    rows = compare(arguments or _common.models())
    _common.print_table(("model", "pylite", "lower bound", "LiteRT, by rule", "LiteRT, measured"),
                        [(_common.short(row[0]), *row[1:]) for row in rows])
    worse = [_common.short(row[0]) for row in larger(rows)]
    tight = sum(row[1] == row[2] for row in rows)
    _common.say(f"\n{len(rows)} models, {tight} at the lower bound; larger than LiteRT's: {', '.join(worse) or 'none'}")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
