"""Ops that run other subgraphs: IF, WHILE, CALL_ONCE, STABLEHLO_CASE, STABLEHLO_COMPOSITE.

Where every shape is known, a kernel holds the Program of the callee and runs it inside the caller's loop.  Where it is
not, or what the callee holds forbids it, the node is evaluated: Python runs the callee.
"""
from math import prod

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call, Constant


def callee(node, index, inputs, outputs):
    """The Executor of subgraph `index`, once it takes the `inputs` and gives the `outputs` (Values)."""
    if node.host is None:
        raise node.error("calls another subgraph, which only an interpreter has")
    other = node.host.callee(index)
    called = other.subgraph
    for what, values, wanted in (("inputs", inputs, called.inputs), ("outputs", outputs, called.outputs)):
        if len(values) != len(wanted):
            raise node.error(f"calls subgraph {index}, which has {len(wanted)} {what}, with {len(values)}")
        for value, i in zip(values, wanted, strict=True):
            if value is not None and value.dtype != called.tensors[i].dtype:
                raise node.error(f"calls subgraph {index}, which has {called.tensors[i].dtype} in its place", value)
    return other


def constants(inputs):
    """{position: contents} of the inputs that are the same in every run; the callee is lowered with them."""
    return {i: x.data for i, x in enumerate(inputs) if x.data is not None and (x.fixed or x.dtype == "resource")}


def result_shapes(other, shapes, given):
    """The shapes that a callee gives for those of its inputs; None where they depend on data."""
    bound = other.prepared(shapes, given)
    if bound.boundary is not None:
        return None
    return [bound.lowered.values[i].shape for i in other.subgraph.outputs]


def in_loop(node, others):
    """Can kernels run these callees?  Not with strings, plug-ins that are prepared anew, or guard bands to look at."""
    values = node.inputs + node.outputs
    return not (node.host.guard or any(other.plugins for other in others)
                or any(value is not None and value.dtype in ("string", "variant") for value in values))


def calling(node, others, make, shapes, given):
    """What make() gives, once the callees are prepared for inputs of these `shapes`, some of them `given`; or a Call
    that lets Python evaluate the node.
    """
    if in_loop(node, others):
        for other in others:
            other.prepared(shapes, given)
        return make()
    evaluate, count = EVALUATE[node.name], len(node.inputs)

    def run(*arrays):
        for y, result in zip(arrays[count:], evaluate(node, *arrays[:count]), strict=True):
            if y is not None:
                y[...] = result
    return Call("python_op.PythonOp", run, count, len(node.outputs), *node.inputs, *node.outputs)


def operands(values):
    return [None if value is None else value.bytes for value in values]


# ---- IF, STABLEHLO_CASE, STABLEHLO_COMPOSITE: one of several callees, or the only one ---------------------------
def branches(node):
    """(the selecting Value or None, the inputs for the callees, their subgraphs)"""
    o = node.options
    if node.name == "STABLEHLO_COMPOSITE":
        return None, node.inputs, [o.decomposition_subgraph_index]
    return node.inputs[0], node.inputs[1:], (
        [o.then_subgraph_index, o.else_subgraph_index] if node.name == "IF" else o.branch_subgraph_indices)


def callees(node):
    """The Executors that `node` chooses from."""
    which, inputs, indices = branches(node)
    if which is not None and which.size != 1:
        raise node.error("chooses what to run, and must be one value", which)
    if any(value is None for value in inputs):
        raise node.error("an input is missing")
    return [callee(node, i, inputs, node.outputs) for i in indices]


def infer_branch(node):
    """The outputs' shapes; where they differ with the branch, what is chosen is waited for."""
    which, inputs, _ = branches(node)
    others = callees(node)
    results = [result_shapes(other, [x.shape for x in inputs], constants(inputs)) for other in others]
    if None in results:
        return None
    if all(r == results[0] for r in results):
        return results[0]
    return results[chosen(which, node.constant(0), len(others))] if in_loop(node, others) else None


def chosen(which, contents, count):
    """The number of the branch to take, the last one for a number that there is not."""
    at = contents.item()
    if which.dtype == "bool":
        return int(not at)
    return at if 0 <= at < count else count - 1


def lower_branch(node):
    which, inputs, _ = branches(node)
    others = callees(node)
    if which is not None and which.data is not None:
        others = [others[chosen(which, which.data, len(others))]]
        which = None

    def make():
        arrays = operands([*inputs, *node.outputs])
        if which is None:
            return Call("control.Block", others[0].entry(), *arrays)
        return Call("control.Branch", [other.entry() for other in others], which.flat, *arrays)
    return calling(node, others, make, [x.shape for x in inputs], constants(inputs))


def evaluate_branch(node, *arrays):
    which, inputs, indices = branches(node)
    at = 0
    if which is not None:
        at = chosen(which, arrays[0], len(indices))
    return node.host.callee(indices[at]).call(arrays[len(arrays) - len(inputs):])


# ---- WHILE ---------------------------------------------------------------------------------------------------
def loop(node):
    """The Executors of the condition and the body."""
    values = node.inputs
    if any(value is None for value in values):
        raise node.error("an input is missing")
    test = callee(node, node.options.cond_subgraph_index, values, [None])
    body = callee(node, node.options.body_subgraph_index, values, values)
    if len(node.outputs) != len(values):
        raise node.error(f"has {len(values)} inputs and {len(node.outputs)} outputs; both are the loop's variables")
    if test.subgraph.tensors[test.subgraph.outputs[0]].dtype != "bool":
        raise node.error(f"the condition, subgraph {test.subgraph.index}, must give one bool")
    return test, body


def invariants(node, body):
    """The constants among the loop's variables that the body hands on as they are."""
    same = [x == y for x, y in zip(body.subgraph.inputs, body.subgraph.outputs, strict=True)]
    return {i: data for i, data in constants(node.inputs).items() if same[i]}


def infer_while(node):
    test, body = loop(node)
    shapes, given = [x.shape for x in node.inputs], invariants(node, body)
    going_on = result_shapes(test, shapes, given)
    if going_on is not None and prod(going_on[0]) != 1:
        raise node.error(f"the condition, subgraph {test.subgraph.index}, gives {prod(going_on[0])} values, not one")
    return shapes if going_on is not None and result_shapes(body, shapes, given) == shapes else None


def lower_while(node):
    test, body = loop(node)
    given = invariants(node, body)

    def make():
        arrays = operands(node.inputs) + [None if i in given else y for i, y in enumerate(operands(node.outputs))]
        return [Call("control.While", test.entry(), body.entry(whole=True), *arrays),
                *[Constant(node.outputs[i], data) for i, data in given.items() if node.outputs[i] is not None]]
    return calling(node, [test, body], make, [x.shape for x in node.inputs], given)


def evaluate_while(node, *arrays):
    test = node.host.callee(node.options.cond_subgraph_index)
    body = node.host.callee(node.options.body_subgraph_index)
    return node.host.run_loop(node, test, body, arrays, kernels=in_loop(node, [test, body]))


# ---- CALL_ONCE -----------------------------------------------------------------------------------------------
def initializer(node):
    """(the Executor, its flag: has it run in this interpreter?)"""
    index = node.options.init_subgraph_index
    other = callee(node, index, [], [])
    return other, node.host.shared.setdefault("once", {}).setdefault(index, np.zeros(1, np.uint8))


def infer_once(node):
    other, _ = initializer(node)
    return None if other.prepared([], {}).boundary is not None else []


def lower_once(node):
    other, flag = initializer(node)
    return calling(node, [other], lambda: Call("control.Once", other.entry(), flag), [], {})


def evaluate_once(node):
    other, flag = initializer(node)
    if not flag[0]:
        other.call([])
        flag[0] = 1
    return []


EVALUATE = {"IF": evaluate_branch, "STABLEHLO_CASE": evaluate_branch, "STABLEHLO_COMPOSITE": evaluate_branch,
            "WHILE": evaluate_while, "CALL_ONCE": evaluate_once}

for name, signature in (("IF", "bool any* -> any*"), ("STABLEHLO_CASE", "int32 any* -> any*"),
                        ("STABLEHLO_COMPOSITE", "any* -> any*")):
    register(name, types=[signature], infer=infer_branch, lower=lower_branch, evaluate=evaluate_branch, stateful=True)
register("WHILE", types=["any* -> any*"], infer=infer_while, lower=lower_while, evaluate=evaluate_while, stateful=True)
register("CALL_ONCE", types=["->"], infer=infer_once, lower=lower_once, evaluate=evaluate_once, stateful=True)
