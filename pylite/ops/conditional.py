"""IF, STABLEHLO_CASE and STABLEHLO_COMPOSITE: one of several subgraphs, or the only one."""
from pylite.errors import OpError
from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.ops.callees import byte_views, callee, constants, kernels_can_run, lower_call, result_shapes
from pylite.ops.moves import require_present


def branches(node):
    """(the selecting Value or None, the inputs of the callees, their subgraphs)"""
    o = node.options
    if node.name == "STABLEHLO_COMPOSITE":
        return None, node.inputs, [o.decomposition_subgraph_index]
    return node.inputs[0], node.inputs[1:], (
        [o.then_subgraph_index, o.else_subgraph_index] if node.name == "IF" else o.branch_subgraph_indices)


def hosts_of(node):
    """The Hosts of the branches."""
    selector, inputs, indices = branches(node)
    if selector is not None and selector.size != 1:
        raise node.error("selects the branch, so it must hold one value", selector)
    require_present(node, inputs)
    return [callee(node, i, inputs, node.outputs) for i in indices]


def taken(selector, contents, count):
    """The index of the branch that the selector's `contents` choose; an index out of range is the last branch's."""
    index = contents.item()
    if selector.dtype == "bool":
        return int(not index)
    return index if 0 <= index < count else count - 1


def infer_branch(node):
    """The shapes of the outputs; if the branches differ, those of the branch that is taken.

    None also if a branch cannot take these inputs: that is an error only if the branch is taken.
    """
    selector, inputs, _ = branches(node)
    hosts, results, problems = hosts_of(node), [], []
    for host in hosts:
        try:
            results.append(result_shapes(host, [x.shape for x in inputs], constants(inputs)))
        except OpError as problem:
            problems.append(problem)
    if len(problems) == len(hosts):
        raise problems[0]
    if problems or None in results:
        return None
    if all(r == results[0] for r in results):
        return results[0]
    return results[taken(selector, node.constant(0), len(hosts))] if kernels_can_run(node, hosts) else None


def lower_branch(node):
    selector, inputs, _ = branches(node)
    hosts = hosts_of(node)
    if selector is not None and selector.data is not None:
        hosts = [hosts[taken(selector, selector.data, len(hosts))]]
        selector = None

    def make():
        arrays = byte_views([*inputs, *node.outputs])
        if selector is None:
            return Call("control.Invocation", hosts[0].entry(), *arrays)
        return Call("control.Branch", [host.entry() for host in hosts], selector.flat, *arrays)
    return lower_call(node, hosts, make, evaluate_branch, [x.shape for x in inputs], constants(inputs))


def evaluate_branch(node, *arrays):
    selector, inputs, indices = branches(node)
    branch = 0
    if selector is not None:
        branch = taken(selector, arrays[0], len(indices))
    return node.host.callee(indices[branch]).call(arrays[len(arrays) - len(inputs):])


for _name, _signature in (("IF", "bool any* -> any*"), ("STABLEHLO_CASE", "int32 any* -> any*"),
                          ("STABLEHLO_COMPOSITE", "any* -> any*")):
    register(_name, types=[_signature], infer=infer_branch, lower=lower_branch, evaluate=evaluate_branch,
             stateful=True)
