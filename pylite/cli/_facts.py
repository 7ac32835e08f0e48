"""The facts of a model as plain dictionaries, which `inspect` prints as text or JSON."""
import hashlib
import math
from collections import Counter

import numpy as np

from pylite._core import simd
from pylite.cli import _common, _cost, _plugins
from pylite.compiler.check import Operands, unsupported
from pylite.errors import PyliteError
from pylite.ir.graph import DTYPE_BITS
from pylite.ir.registry import default
from pylite.ir.values import Node, Value

LOOPS = ("WHILE", "STABLEHLO_WHILE")
_FEW = 8        # scales and zero points of blockwise quantization in the facts: there may be millions


def model_facts(path, model, subgraphs, delegates=(), resized=(0, {})):
    """Facts of the file and of the subgraphs with the indices `subgraphs`, after applying `delegates`.

    resized: (index of a subgraph, {name of an input: its shape}).
    """
    graph = model.graph
    facts = {"file": path, "bytes": graph.size, "version": graph.version, "description": graph.description,
             "subgraph_count": len(graph.subgraphs), "weight_bytes": weight_bytes(graph.subgraphs),
             "signatures": [signature_facts(graph, s) for s in graph.signatures],
             "metadata": {name: len(data) for name, data in graph.metadata.items()},
             "associated_files": list(model.associated_files),
             "subgraphs": [subgraph_facts(model, graph.subgraphs[i], delegates, resized[1] if i == resized[0] else {})
                           for i in subgraphs]}
    loops = repeated(graph)
    for subgraph in facts["subgraphs"]:
        subgraph["repeated"] = subgraph["index"] in loops
    facts["packed_bytes"] = model.weights.packed_bytes
    facts["runs"] = not any(s["missing"] or s["error"] for s in facts["subgraphs"])
    return facts


def repeated(graph):
    """The indices of the subgraphs that a WHILE runs, directly or not: their cost is that of one iteration."""
    called = set()
    for _ in graph.subgraphs:
        called |= {i for s in graph.subgraphs for o in s.operators if o.name in LOOPS or s.index in called
                   for name, i in getattr(o.options, "__dict__", {}).items() if name.endswith("subgraph_index")}
    return called


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


def subgraph_facts(model, subgraph, delegates, shapes):
    """Tensors and operators, and kernels and memory if pylite can run the subgraph, with inputs of these `shapes`."""
    executor, error = _executor(model, subgraph, delegates, shapes)
    find, operators, partitions = default.find, subgraph.operators, {}
    if executor is not None:
        find, operators = executor.find, executor.operators
        if executor.delegation is not None:
            partitions = executor.delegation.partitions
    unclaimed = [] if executor is None or error is not None else _plugins.unclaimed(executor, delegates)
    replaced_by = {i: index for index, (_, partition) in partitions.items() for i in partition.nodes}
    operands = Operands(subgraph)
    reasons = [None if o.index in replaced_by else unsupported(operands, o, find) for o in operators]
    missing = _missing(operators, reasons)
    program = None
    if not missing and error is None:
        program, error = _allocated(executor)
    nodes = [_node_facts(node, reason) for node, reason in zip(_nodes(subgraph, operators, program), reasons,
                                                               strict=True)]
    _add_kernels(nodes, program)
    _add_delegates(nodes, partitions, replaced_by)
    facts = {"index": subgraph.index, "name": subgraph.name, "inputs": list(subgraph.inputs),
             "outputs": list(subgraph.outputs), "tensors": [tensor_facts(t) for t in subgraph.tensors],
             "operators": nodes, "counts": _counts(nodes), "macs": sum(o["macs"] for o in nodes),
             "missing": missing, "error": error, "instruction_set": simd.current, "arena": _arena(program),
             "unclaimed": unclaimed}
    if executor is not None:
        executor.close()
    return facts


def _missing(operators, reasons):
    """The operators that cannot run, by reason."""
    nodes = {}
    for operator, reason in zip(operators, reasons, strict=True):
        if reason:
            nodes.setdefault(reason, []).append(operator.index)
    return [{"reason": reason, "nodes": indices} for reason, indices in nodes.items()]


def _allocated(executor):
    """(the BoundProgram, None), or (None, why the executor cannot allocate)."""
    try:
        executor.allocate()
    except PyliteError as error:
        return None, str(error)
    return executor.current, None


def _node_facts(node, reason):
    """One operator; reason: why it cannot run, or None."""
    return {"index": node.index, "name": node.name, "version": node.version, "custom": node.operator.custom,
            "dtype": _dtype(node), "supported": reason is None, "macs": _cost.macs(node),
            "inputs": list(node.operator.inputs), "outputs": list(node.operator.outputs),
            "shapes": {v.index: list(v.shape) for v in node.inputs + node.outputs if v is not None},
            "options": {name: _plain(value) for name, value in getattr(node.options, "__dict__", {}).items()}}


def _plain(value):
    """An option for JSON: nested tables are dictionaries, bytes are hexadecimal."""
    if isinstance(value, (bytes, memoryview)):
        return value.hex()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return {k: _plain(v) for k, v in vars(value).items()} if hasattr(value, "__dict__") else value


def add_digests(facts, model):
    """Add to each tensor the digest of its contents, None if it is not a constant; large models take a while."""
    for subgraph in facts["subgraphs"]:
        tensors = model.graph.subgraphs[subgraph["index"]].tensors
        for entry, tensor in zip(subgraph["tensors"], tensors, strict=True):
            entry["digest"] = None if tensor.data is None else hashlib.blake2b(tensor.data, digest_size=16).hexdigest()


def _add_kernels(nodes, program):
    """Add the kernels of each node, None if nothing is bound, and "chosen", why these kernels."""
    kernels, chosen = _kernels(program)
    for node in nodes:
        node["kernels"] = None if program is None else kernels.get(node["index"], [])
        node["chosen"] = chosen.get(node["index"], [])


def _add_delegates(nodes, partitions, replaced_by):
    """Add to delegates' nodes the nodes that they replace, and to those nodes the delegate's."""
    for node in nodes:
        index = node["index"]
        if index in replaced_by:
            node["replaced_by"] = replaced_by[index]
        if index in partitions:
            delegate, partition = partitions[index]
            node["delegate"], node["replaces"] = delegate.name, list(partition.nodes)


def tensor_facts(tensor):
    """One tensor as the file declares it."""
    facts = {"index": tensor.index, "name": tensor.name, "dtype": tensor.dtype, "shape": list(tensor.shape),
             "signature": list(tensor.shape_signature), "constant": tensor.data is not None or bool(tensor.external),
             "variable": tensor.is_variable, "bytes": _stored_bytes(tensor), "quantization": None, "sparsity": None}
    q = tensor.quantization
    if q is not None and (len(q.scale) or q.scale_tensor >= 0):
        blockwise = bool(q.block_size or q.block_shape or q.scale_tensor >= 0)
        shown = _FEW if blockwise else None
        facts["quantization"] = {
            "scheme": "blockwise" if blockwise else "per channel" if len(q.scale) > 1 else "per tensor",
            "scales": len(q.scale), "scale": q.scale[:shown].tolist(), "zero_point": q.zero_point[:shown].tolist(),
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
    """Bytes of a constant in the file; of another tensor, bytes at its declared shape, None if unknown."""
    if tensor.data is not None:
        return tensor.data.nbytes
    if tensor.external is not None:
        return tensor.external.size
    return bytes_of(tensor.dtype, Value(tensor).shape)


def bytes_of(dtype, shape):
    """Bytes of a tensor that is not constant, None if unknown."""
    bits = DTYPE_BITS[dtype]
    return None if bits is None else math.prod(shape) * max(bits, 8) // 8


def _executor(model, subgraph, delegates, shapes):
    """(Executor, None), or (Executor or None, why it or a delegate refuses the subgraph or the shapes)."""
    from pylite._core.simd import Pool
    from pylite.plugins.delegates import apply
    from pylite.runtime.executor import Executor
    executor, names = None, _common.names_of(model.graph, subgraph)
    positions = {_common.position_of(name, names): tuple(shape) for name, shape in shapes.items()}
    try:
        executor = Executor(model, subgraph, Pool(1))
        for position, shape in positions.items():
            executor.resize(position, shape)
        if delegates:
            apply([executor], delegates)
    except PyliteError as problem:
        return executor, str(problem)
    return executor, None


def _nodes(subgraph, operators, program):
    """The operators as Nodes, with inferred shapes if the subgraph is lowered, else the file's."""
    values = [Value(tensor) for tensor in subgraph.tensors] if program is None else program.lowered.values
    return [Node(operator.index, operator, values) for operator in operators]


def _kernels(program):
    """({node index: names of its kernels}, {node index: notes of the lowering and the kernels on how it runs})"""
    kernels, chosen = {}, {}
    if program is not None:
        chosen = {index: [note] for index, note in program.lowered.notes.items()}
        for call, kernel in zip(program.lowered.calls, program.program.kernels, strict=True):
            kernels.setdefault(call.node.index, []).append(kernel_name(call))
            y, x = call.inplace or (None, None)
            in_place = f"in place in tensor {x.index}" if y is not None and y.root is x.root else None
            texts = chosen.setdefault(call.node.index, [])
            texts += [text for text in (call.note, kernel.algorithm, in_place) if text and text not in texts]
    return kernels, chosen


def kernel_name(call):
    """The name of the kernel of a Call: "family.Class", or a plug-in's."""
    if isinstance(call.kernel, str):
        return call.kernel
    name = getattr(call.kernel, "__name__", call.kernel)
    return {"Plugin": "plug-in", "ReadBack": "reads back"}.get(name, f"plug-in ({name})")


def _dtype(node):
    """The data types of a node: of its first input, of its first output if another, and of its weights."""
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


def _arena(program):
    if program is None:
        return None
    placement, calls = program.placement, program.lowered.calls
    step, live = placement.peak()
    return {"bytes": placement.total, "bound": live,
            "peak_node": str(calls[step].node) if calls else "no node",
            "peak_bytes": live, "blocks": len(placement.blocks),
            "scratch_bytes": sum(b[2] for b in placement.blocks if b[0] in placement.scratch)}
