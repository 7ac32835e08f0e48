"""Arena sizes: pylite's, its lower bound, and LiteRT's for the same model.

    python benchmarks/arena.py [MODEL.tflite ...]      (default: every model under ../shared/models)

LiteRT's arena is measured: the span of the addresses that its reference interpreter gives the tensors.  It is also
computed by the rules of LiteRT's planner.  The computed size checks the measured one, and counts where the measured one
is larger because some tensors are not in the arena.  Exit code 1 if pylite's arena is larger for any model.
"""
import collections
import json
import os
import subprocess
import sys

import _common
import numpy as np

# Ops that LiteRT lets overwrite an input: positions of such inputs; and those among them that do not change the bytes.
IN_PLACE = {"ADD": (0, 1), "SUB": (0, 1), "MUL": (0, 1), "DIV": (0, 1), "SOFTMAX": (0,), "RESHAPE": (0,),
            "SQUEEZE": (0,), "EXPAND_DIMS": (0,), "BITCAST": (0,)}
SAME_BYTES = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST"}
FOREVER = 1 << 30


def litert_plan(nodes, inputs, outputs, nbytes):
    """LiteRT's greedy plan: ({tensor: offset}, arena bytes).

    nodes: [(op name, input tensors, output tensors)]; nbytes: {tensor in the arena: bytes}.
    """
    roots = _in_place(nodes, inputs, outputs, nbytes)
    first, last = _lifetimes(nodes, inputs, outputs, nbytes, roots)
    alive = [t for t in first if t not in roots]
    permanent = [t for t in alive if first[t] == 0 and t not in last]
    others = sorted((t for t in alive if t not in permanent), key=lambda t: (-nbytes[t], first[t]))
    placed, offsets, total = [], {}, 0
    for tensor in sorted(permanent) + others:
        size, begin, end = nbytes[tensor], first[tensor], last.get(tensor, FOREVER)
        offsets[tensor] = _best_fit(placed, size, begin, end)
        if size:
            placed.append((offsets[tensor], size, begin, end))
            placed.sort(key=lambda block: block[0])
        total = max(total, offsets[tensor] + size)
    for tensor, root in roots.items():
        if root in offsets:
            offsets[tensor] = offsets[root]
    return offsets, total


def _lifetimes(nodes, inputs, outputs, nbytes, roots):
    """({tensor: the step that computes it}, {tensor: the step that reads it last}); the second has no graph outputs."""
    references = collections.Counter((*inputs, *outputs, *(roots.get(t, t) for _, takes, _ in nodes for t in takes)))
    first, last = {t: 0 for t in inputs if t in nbytes}, {}
    for step, (_, takes, gives) in enumerate(nodes):
        for tensor in gives:
            if tensor in nbytes:
                first.setdefault(tensor, step)
        for tensor in takes:
            root = roots.get(tensor, tensor)
            references[root] -= 1
            if root in nbytes and references[root] == 0:
                last[root] = step
    return first, last


def _best_fit(placed, size, begin, end):
    """The offset of the smallest gap for `size` bytes from step `begin` to `end`; placed: (offset, size, begin, end)"""
    best, best_gap, free = None, 1 << 60, 0
    for offset, other, other_begin, other_end in placed:
        if other_end < begin or other_begin > end:
            continue
        aligned = -(-free // 64) * 64
        if aligned + size <= offset and offset - aligned < best_gap:
            best, best_gap = aligned, offset - free
        free = max(free, offset + other)
    return -(-free // 64) * 64 if best is None else best


def _in_place(nodes, inputs, outputs, nbytes):
    """{output tensor: the tensor whose memory it takes over}"""
    counts = collections.Counter((*inputs, *outputs, *(t for _, takes, _ in nodes for t in takes)))
    candidates = nbytes.keys() - {*inputs, *outputs}
    roots = {}
    for name, takes, gives in nodes:
        if not gives or gives[0] not in candidates:
            continue
        x = _overwritten(name, [t if t in candidates else None for t in takes], gives[0], nbytes, counts)
        root = roots.get(x, x)
        if x is not None and (name in SAME_BYTES or counts[root] == 1):
            roots[gives[0]] = root
    return roots


def _overwritten(name, takes, y, nbytes, counts):
    """The first input of an op that its output `y` may overwrite, or None; takes: the inputs, some of them None."""
    for position in IN_PLACE.get(name, ()):
        x = takes[position] if position < len(takes) else None
        if x is not None and (name in SAME_BYTES or (nbytes[x] == nbytes[y] > 4 and counts[x] == 1)):
            return x
    return None


def litert_measured(path):
    """(subgraph, {tensor: (address or None, bytes)}) of LiteRT's arena, without constants and variables."""
    from pylite.schema import load
    interpreter = _common.peer_interpreter(path, reference=True)
    interpreter.allocate_tensors()
    subgraph = load(path).subgraphs[0]
    fixed = {t.index for t in subgraph.tensors if t.data is not None or t.is_variable} | {-1}
    for operator in subgraph.operators:     # tensors computed from constants only are not in the arena
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
                raise       # a dynamic tensor, which is not in the arena: nothing to compare
            continue
        if array.nbytes:        # of a scalar numpy makes a copy, so its address is unknown
            found[tensor.index] = array.ctypes.data if array.ndim else None, array.nbytes
    return subgraph, found


def litert(path):
    """(arena bytes by LiteRT's rules, bytes that the addresses span)

    The two differ by the temporary tensors of its kernels, which only the addresses show.
    """
    subgraph, found = litert_measured(path)
    nodes = [(o.name, o.inputs, o.outputs) for o in subgraph.operators]
    offsets, total = litert_plan(nodes, subgraph.inputs, subgraph.outputs, {i: n for i, (_, n) in found.items()})
    known = [found[t] for t in offsets if found[t][0] is not None]
    span = max(map(sum, known)) - min(address for address, _ in known) if known else 0
    return total, span


def litert_in_subprocess(paths):
    """litert() of each path in another process, since some models crash it; None for models that it cannot load."""
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
    except (ValueError, RuntimeError):      # LiteRT does not have an operator, or cannot prepare it
        return None


def pylite(path):
    """(arena bytes, lower bound) of a model's first subgraph, or None when an operator is missing."""
    from pylite import Model
    from pylite.compiler import lowering, memory_planner
    from pylite.compiler.check import check
    from pylite.errors import PyliteError
    model = Model(path)
    subgraph = model.graph.subgraphs[0]
    try:
        check(model, model.graph.subgraphs)
        lowered = lowering.lower(model, subgraph, [subgraph.tensors[i].shape for i in subgraph.inputs])
    except PyliteError:
        return None
    if any(v.block_size for v in lowered.values):
        return None     # LiteRT's reference kernels do not support blockwise weights: their result is zeros
    placement = memory_planner.placement_of(lowered)
    return placement.total, placement.peak()[1]


def compare(paths):
    """[(path, pylite's bytes, lower bound, LiteRT's bytes by its rules, by its addresses)] for models that both run"""
    ours = {path: found for path in paths if (found := pylite(path))}
    theirs = litert_in_subprocess(list(ours))
    return [(path, *found, *other) for (path, found), other in zip(ours.items(), theirs, strict=True) if other]


def larger(rows):
    """The rows of models for which pylite's arena is larger."""
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
