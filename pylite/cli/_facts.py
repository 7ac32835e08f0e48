"""Everything that can be told of a model, as plain dictionaries: what `inspect` prints and others may build on."""
import os
from collections import Counter

from pylite._core import simd
from pylite.cli import _cost
from pylite.compiler.check import unsupported
from pylite.errors import PyliteError
from pylite.ir.graph import DTYPE_BITS
from pylite.ir.registry import default
from pylite.ir.values import Node, Value

FEW = 8         # scales, zero points and bytes shown of a longer list


def model_facts(path, model, subgraphs, delegates=()):
    """Facts of the file and of the subgraphs with the numbers `subgraphs`, parts of which go to `delegates`."""
    graph = model.graph
    facts = {"file": path, "bytes": os.path.getsize(path), "version": graph.version, "description": graph.description,
             "subgraph_count": len(graph.subgraphs), "weight_bytes": weight_bytes(graph.subgraphs),
             "signatures": [signature_facts(graph, s) for s in graph.signatures],
             "metadata": {name: len(data) for name, data in graph.metadata.items()},
             "associated_files": list(model.associated_files),
             "subgraphs": [subgraph_facts(model, graph.subgraphs[i], delegates) for i in subgraphs]}
    facts["packed_bytes"] = model.packed_bytes
    facts["runs"] = not any(s["missing"] or s["error"] for s in facts["subgraphs"])
    return facts


def weight_bytes(subgraphs):
    """Bytes of all constants, each buffer of the file counted once."""
    buffers = {}
    for subgraph in subgraphs:
        for tensor in subgraph.tensors:
            if tensor.data is not None:
                buffers[tensor.buffer or (subgraph.index, tensor.index)] = tensor.data.nbytes
    return sum(buffers.values())


def signature_facts(graph, signature):
    tensors = graph.subgraphs[signature.subgraph].tensors
    return {"key": signature.key, "subgraph": signature.subgraph,
            **{side: {name: {"tensor": i, "dtype": tensors[i].dtype, "shape": list(tensors[i].shape_signature)}
                      for name, i in getattr(signature, side).items()} for side in ("inputs", "outputs")}}


def subgraph_facts(model, subgraph, delegates=()):
    """Tensors, operators and, where pylite can run the subgraph, kernels and memory."""
    executor, error = _executor(model, subgraph, delegates)
    find = default.find if executor is None else executor.find
    operators = subgraph.operators if executor is None else executor.operators
    parts = {} if executor is None or executor.delegation is None else executor.delegation.partitions
    replaced = {i: index for index, (_, part) in parts.items() for i in part.nodes}
    reasons = [None if o.index in replaced else unsupported(subgraph, o, find) for o in operators]
    missing = {}
    for operator, reason in zip(operators, reasons, strict=True):
        if reason:
            missing.setdefault(reason, []).append(operator.index)
    allocation = None
    if not missing and error is None:
        try:
            executor.allocate()
            allocation = executor.current
        except PyliteError as problem:
            error = str(problem)
    kernels, chosen = _kernels(allocation)
    nodes = [_node_facts(node, reason, kernels.get(node.index, []) if allocation else None, chosen.get(node.index, []),
                         parts, replaced)
             for node, reason in zip(_nodes(subgraph, operators, allocation), reasons, strict=True)]
    facts = {"index": subgraph.index, "name": subgraph.name, "inputs": list(subgraph.inputs),
             "outputs": list(subgraph.outputs), "tensors": [tensor_facts(t) for t in subgraph.tensors],
             "operators": nodes, "counts": _counts(nodes), "macs": sum(o["macs"] for o in nodes),
             "missing": [{"reason": reason, "nodes": at} for reason, at in missing.items()], "error": error,
             "instruction_set": simd.current, "arena": _arena(allocation)}
    if executor is not None:
        executor.close()
    return facts


def _node_facts(node, reason, kernels, chosen, parts, replaced):
    """One operator, its kernels and why those; of delegates also what replaces it, or whose it is and what it replaces.
    """
    facts = {"index": node.index, "name": node.name, "version": node.version, "custom": node.operator.custom,
             "dtype": _dtype(node), "supported": reason is None, "macs": _cost.macs(node), "kernels": kernels,
             "chosen": chosen, "inputs": list(node.operator.inputs), "outputs": list(node.operator.outputs)}
    if node.index in replaced:
        facts["replaced_by"] = replaced[node.index]
    if node.index in parts:
        delegate, part = parts[node.index]
        facts["delegate"], facts["replaces"] = delegate.name, list(part.nodes)
    return facts


def tensor_facts(tensor):
    """One tensor as the file declares it."""
    facts = {"index": tensor.index, "name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape),
             "signature": list(tensor.shape_signature), "constant": tensor.data is not None or bool(tensor.external),
             "variable": tensor.is_variable, "bytes": _stored_bytes(tensor), "quantization": None, "sparsity": None}
    q = tensor.quantization
    if q is not None and (len(q.scale) or q.scale_tensor >= 0):
        facts["quantization"] = {
            "scheme": "blockwise" if q.block_size or q.block_shape or q.scale_tensor >= 0 else
                      "per channel" if len(q.scale) > 1 else "per tensor",
            "scales": len(q.scale), "scale": q.scale[:FEW].tolist(), "zero_point": q.zero_point[:FEW].tolist(),
            "axis": q.axis, "block_size": q.block_size, "block_shape": list(q.block_shape),
            "scale_tensor": q.scale_tensor}
    if tensor.sparsity is not None:
        facts["sparsity"] = {"dimensions": [d.format for d in tensor.sparsity.dimensions],
                             "block_map": list(tensor.sparsity.block_map),
                             "traversal_order": list(tensor.sparsity.traversal_order)}
    if tensor.external is not None:
        facts["external"] = {"group": tensor.external.group, "bytes": tensor.external.size}
    if tensor.variants:
        facts["variants"] = [{"dtype": dtype, "shape": list(shape)} for dtype, shape in tensor.variants]
    return facts


def _stored_bytes(tensor):
    """Bytes in the file of a constant; of another tensor those it needs at its declared shape, None when unknown."""
    if tensor.data is not None:
        return tensor.data.nbytes
    if tensor.external is not None:
        return tensor.external.size
    bits = DTYPE_BITS[tensor.dtype]
    return None if bits is None else Value(tensor).size * max(bits, 8) // 8


def _executor(model, subgraph, delegates):
    """(what runs the subgraph, None), or (what there is of it, why it or a delegate refuses)."""
    from pylite._core.simd import Pool
    from pylite.plugins.delegates import apply
    from pylite.runtime.executor import Executor
    executor = None
    try:
        executor = Executor(model, subgraph, Pool(1))
        if delegates:
            apply([executor], delegates)
    except PyliteError as problem:
        return executor, str(problem)
    return executor, None


def _nodes(subgraph, operators, allocation):
    """The operators as nodes with the shapes inferred for them, or those of the file."""
    values = [Value(tensor) for tensor in subgraph.tensors] if allocation is None else allocation.lowered.values
    return [Node(operator.index, operator, values) for operator in operators]


def _kernels(allocation):
    """({node index: its kernels}, {node index: what was chosen for it, in the words of those who chose})"""
    found, chosen = {}, {}
    if allocation is not None:
        chosen = {index: [note] for index, note in allocation.lowered.notes.items()}
        for call, kernel in zip(allocation.lowered.calls, allocation.program.kernels, strict=True):
            found.setdefault(call.node.index, []).append(kernel_name(call))
            y, x = call.inplace or (None, None)
            over = f"written over tensor {x.index}" if y is not None and y.root is x.root else None
            texts = chosen.setdefault(call.node.index, [])
            texts += [text for text in (call.note, kernel.path, over) if text and text not in texts]
    return found, chosen


def kernel_name(call):
    """What a Call runs: "family.Class", or the name of what a plug-in made."""
    return call.kernel if isinstance(call.kernel, str) else f"plug-in ({getattr(call.kernel, '__name__', call.kernel)})"


def _dtype(node):
    """The type that the node computes in: its first input's and, where another, its weights'."""
    types = [v.dtype for v in node.inputs[:1] + node.outputs[:1] if v is not None]
    weights = node.input(1)
    text = "->".join(dict.fromkeys(types))
    if node.name in _cost.WEIGHTED and weights is not None and weights.dtype not in types:
        text += f" x {weights.dtype}"
    return text


def _counts(operators):
    operators = [o for o in operators if "replaced_by" not in o]
    counts = Counter((o["name"], o["version"], o["dtype"], o["supported"]) for o in operators)
    totals = Counter()
    for o in operators:
        totals[o["name"], o["version"], o["dtype"], o["supported"]] += o["macs"]
    return [{"name": key[0], "version": key[1], "dtype": key[2], "supported": key[3], "count": count,
             "macs": totals[key]} for key, count in counts.most_common()]


def _arena(allocation):
    if allocation is None:
        return None
    plan, calls = allocation.plan, allocation.lowered.calls
    step, live = plan.peak()
    return {"bytes": plan.total, "bound": plan.bound, "peak_node": str(calls[step].node) if calls else None,
            "peak_bytes": live, "blocks": len(plan.blocks),
            "scratch_bytes": sum(b[2] for b in plan.blocks if b[0] in plan.scratch)}
