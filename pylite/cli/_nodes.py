"""Single nodes as text: how an operator is set, its operands in full, and what differs between two models."""
import difflib
import itertools
import json

from pylite.cli import _format
from pylite.cli._common import UsageError

NAME = 32       # most characters of a tensor's name in a table


def settings(node):
    """Stride, dilation, window, padding and activation in a few words; other settings are in node_lines()."""
    o = node["options"]
    words = []
    for word, pair, usual in (("filter", ("filter_height", "filter_width"), None),
                              ("stride", ("stride_h", "stride_w"), 1),
                              ("dilation", ("dilation_h_factor", "dilation_w_factor"), 1)):
        sizes = [o[name] for name in pair if name in o]
        if sizes and any(size != usual for size in sizes):
            words.append(f"{word} {'x'.join(map(str, dict.fromkeys(sizes) if len(set(sizes)) == 1 else sizes))}")
    words += [str(o["padding"])] if "padding" in o else []
    activation = o.get("fused_activation_function", "NONE")
    return ", ".join(words + ([str(activation)] if activation != "NONE" else []))


def quantization(tensor):
    """The quantization of a tensor's facts in a few words."""
    q = tensor["quantization"]
    if q is None:
        return ""
    if q["scheme"] == "blockwise":
        block = q["block_size"] or "x".join(map(str, q["block_shape"]))
        return f"blocks of {block}"
    if q["scheme"] == "per channel":
        return f"{q['scales']} scales, axis {q['axis']}"
    zero_point = q["zero_point"][0] if q["zero_point"] else 0
    shifted = f"(q {'-' if zero_point > 0 else '+'} {abs(zero_point)})" if zero_point else "q"
    return f"{_format.number(q['scale'][0])} * {shifted}"


def _numbers(subgraph):
    """A clause that says which nodes a subgraph has."""
    last = len(subgraph["operators"]) - 1
    return f"its nodes are 0 to {last}" if last > 0 else "its only node is 0" if last == 0 else "it has no nodes"


def node_lines(subgraph, index):
    """Everything about the node with an index, as lines of text."""
    node = next((o for o in subgraph["operators"] if o["index"] == index), None)
    if node is None:
        raise UsageError(f"subgraph {subgraph['index']} has no node {index}; {_numbers(subgraph)}")
    kernels = "missing" if not node["supported"] else ", ".join(node["kernels"] or ["no work at run time"])
    lines = [f"node {index}: {node['name']}, version {node['version']}{', a custom op' if node['custom'] else ''}",
             f"  types    {node['dtype']}", f"  kernels  {kernels}",
             *(f"  chosen   {text}" for text in node["chosen"]),
             *([f"  MAC      {_format.scaled(node['macs'])}"] if node["macs"] else []),
             *(f"  option   {name} = {_plain(value)}" for name, value in node["options"].items())]
    for side in "inputs", "outputs":
        for position, tensor in enumerate(node[side]):
            lines.append(f"  {side[:-1]} {position}" + (": absent" if tensor < 0 else ""))
            lines += _tensor_lines(subgraph["tensors"][tensor], node["shapes"].get(tensor)) if tensor >= 0 else []
    return lines


def _tensor_lines(tensor, shape):
    lines = [f"    tensor {tensor['index']}  {tensor['name']}",
             f"      {tensor['dtype']}{_format.shape(shape or tensor['shape'])}"
             + ("" if tensor["bytes"] is None else f", {_format.nbytes(tensor['bytes'])}")
             + (", constant" if tensor["constant"] else ", variable" if tensor["variable"] else "")]
    q = tensor["quantization"]
    if q is not None:
        lines.append(f"      {quantization(tensor)}")
        if q["scales"] > 1:
            points = q["zero_point"] if any(q["zero_point"]) else q["zero_point"][:1]
            lines += [f"      scales {_format.few(list(map(_format.number, q['scale'])), q['scales'])}",
                      f"      zero points {_format.few(points, len(points) if len(points) == 1 else q['scales'])}"]
    return lines


def _plain(value):
    return value if isinstance(value, str) else json.dumps(value)


def difference(one, other):
    """The differences between the facts of two models: a list of {"change", "subgraph", "node", ...}.

    Nodes are matched in their order by operator; "change" is "removed", "added" or "changed", the last with
    {property: [before, after]}.
    """
    entries = []
    for before, after in itertools.zip_longest(one["subgraphs"], other["subgraphs"], fillvalue={"operators": []}):
        entries += _subgraph_difference(before, after)
    return entries


def _subgraph_difference(before, after):
    first, second = before["operators"], after["operators"]
    sources = [_sources(nodes) if len(first) == len(second) else {} for nodes in (first, second)]
    names = [[node["name"] for node in nodes] for nodes in (first, second)]
    entries = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, names[0], names[1], autojunk=False).get_opcodes():
        if kind == "equal":
            pairs = zip(first[a:b], second[c:d], strict=True)
            entries += [entry for x, y in pairs if (entry := _changed(before, after, x, y, sources))]
        else:
            entries += [_entry("removed", before, node) for node in first[a:b]]
            entries += [_entry("added", after, node) for node in second[c:d]]
    return entries


def _entry(change, subgraph, node):
    return {"change": change, "subgraph": subgraph["index"], "node": node["index"], "name": node["name"],
            "output": _output(subgraph, node)}


def _sources(nodes):
    """{tensor: the node that computes it}"""
    return {tensor: node["index"] for node in nodes for tensor in node["outputs"]}


def _output(subgraph, node):
    return subgraph["tensors"][node["outputs"][0]]["name"] if node["outputs"] else ""


def _changed(before, after, x, y, sources):
    """The entry of two nodes of the same operator, None if they are equal."""
    properties = {"version": (x["version"], y["version"]), "kernels": (x["kernels"], y["kernels"])}
    for name in {**x["options"], **y["options"]}:
        properties[name] = x["options"].get(name), y["options"].get(name)
    for side in "inputs", "outputs":
        for i in range(max(len(x[side]), len(y[side]))):
            facts = [_operand(s, node, side, i, known)
                     for s, node, known in ((before, x, sources[0]), (after, y, sources[1]))]
            for name in facts[0] | facts[1]:
                properties[f"{side[:-1]} {i} {name}"] = facts[0].get(name), facts[1].get(name)
    changes = {name: list(pair) for name, pair in properties.items() if pair[0] != pair[1]}
    return _entry("changed", before, x) | {"other_node": y["index"], "properties": changes} if changes else None


def _operand(subgraph, node, side, position, sources):
    if position >= len(node[side]) or node[side][position] < 0:
        return {}
    tensor = subgraph["tensors"][node[side][position]]
    return {"type": tensor["dtype"], "shape": list(node["shapes"].get(tensor["index"], tensor["shape"])),
            "quantization": tensor["quantization"], "contents": tensor["digest"],
            "source": sources.get(tensor["index"])}


def difference_lines(entries):
    """A difference as lines of text."""
    lines = []
    for entry in entries:
        sign = {"removed": "-", "added": "+", "changed": "~"}[entry["change"]]
        lines.append(f"{sign} node {entry['node']} {entry['name']}  {_format.shortened(entry['output'], NAME)}")
        for name, (before, after) in entry.get("properties", {}).items():
            if name.endswith(" contents") and before and after:
                lines.append(f"    {name}: other values")
            elif name.endswith(" quantization"):
                lines.append(f"    {name}: {_scales(before)} -> {_scales(after)}{_first_difference(before, after)}")
            else:
                lines.append(f"    {name}: {_plain(before)} -> {_plain(after)}")
    return lines or ["no node and no constant differs"]


def _first_difference(before, after):
    """The first differing scale or zero point that _scales() does not show; "" if there is none."""
    if before is None or after is None or len(before["scale"]) != len(after["scale"]):
        return ""
    for key, what in (("scale", "scale"), ("zero_point", "zero point")):
        for i, (a, b) in enumerate(zip(before[key], after[key], strict=False)):
            if a != b:
                return "" if i < 3 else f"; {what} {i}: {_format.number(a)} -> {_format.number(b)}"
    return ""


def _scales(q):
    """The quantization in facts with its first scales."""
    if q is None:
        return "none"
    shown = ", ".join(map(_format.number, q["scale"][:3])) + (", ..." if q["scales"] > 3 else "")
    points = ", ".join(map(str, q["zero_point"][:1] if not any(q["zero_point"][1:]) else q["zero_point"][:3]))
    return f"{q['scheme']}, scale {shown}, zero point {points}"
