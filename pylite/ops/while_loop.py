"""WHILE: a subgraph that runs on the loop's variables as long as another one, the condition, gives True."""
from math import prod

from pylite.ir.registry import register
from pylite.ir.values import Call, Constant
from pylite.ops.callees import byte_views, callee, constants, kernels_can_run, lower_call, result_shapes
from pylite.ops.moves import require_present


def hosts_of(node):
    """The Hosts of the condition and the body."""
    values = node.inputs
    require_present(node, values)
    condition = callee(node, node.options.cond_subgraph_index, values, [None])
    body = callee(node, node.options.body_subgraph_index, values, values)
    if len(node.outputs) != len(values):
        raise node.error(f"has {len(values)} inputs and {len(node.outputs)} outputs; both are the loop's variables")
    if condition.subgraph.tensors[condition.subgraph.outputs[0]].dtype != "bool":
        raise node.error(f"the condition, subgraph {condition.subgraph.index}, must give one bool")
    return condition, body


def invariants(node, body):
    """{position: contents} of the loop's variables that are constant and that the body returns unchanged."""
    same = [x == y for x, y in zip(body.subgraph.inputs, body.subgraph.outputs, strict=True)]
    return {i: data for i, data in constants(node.inputs).items() if same[i]}


def infer_while(node):
    """The inputs' shapes, or None if the shapes of the variables change or depend on data."""
    condition, body = hosts_of(node)
    shapes, given = [x.shape for x in node.inputs], invariants(node, body)
    verdict = result_shapes(condition, shapes, given)
    if verdict is not None and prod(verdict[0]) != 1:
        raise node.error(f"the condition, subgraph {condition.subgraph.index}, gives {prod(verdict[0])} values, not "
                         "one")
    return shapes if verdict is not None and result_shapes(body, shapes, given) == shapes else None


def lower_while(node):
    condition, body = hosts_of(node)
    given = invariants(node, body)

    def make():
        outputs = [None if i in given else y for i, y in enumerate(byte_views(node.outputs))]
        return [Call("control.While", condition.entry(), body.entry(whole=True), *byte_views(node.inputs), *outputs),
                *[Constant(node.outputs[i], data) for i, data in given.items() if node.outputs[i] is not None]]
    return lower_call(node, [condition, body], make, evaluate_while, [x.shape for x in node.inputs], given)


def evaluate_while(node, *arrays):
    condition = node.host.callee(node.options.cond_subgraph_index)
    body = node.host.callee(node.options.body_subgraph_index)
    return node.host.run_loop(node, condition, body, arrays, kernels=kernels_can_run(node, [condition, body]))


register("WHILE", types=["any* -> any*"], infer=infer_while, lower=lower_while, evaluate=evaluate_while, stateful=True)
