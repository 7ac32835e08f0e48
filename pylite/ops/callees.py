"""Helpers of the ops that run other subgraphs: which they call, on which shapes, and by a kernel or in Python.

If every shape is known, a kernel holds the Program of the callee and runs it inside the caller's loop.  If a shape is
unknown, or a kernel cannot run a part of the callee, the node is evaluated: Python calls the callee.
"""
from pylite.ir.values import Call


def callee(node, index, inputs, outputs):
    """The Host of subgraph `index`, if it takes the `inputs` and gives the `outputs` (Values)."""
    if node.host is None:
        raise node.error("calls another subgraph, which only an interpreter has")
    host = node.host.callee(index)
    called = host.subgraph
    for what, values, wanted in (("inputs", inputs, called.inputs), ("outputs", outputs, called.outputs)):
        if len(values) != len(wanted):
            raise node.error(f"calls subgraph {index}, which has {len(wanted)} {what}, with {len(values)}")
        for value, i in zip(values, wanted, strict=True):
            if what == "inputs" and called.tensors[i].data is not None:
                raise node.error(f"calls subgraph {index}, whose input {i} is a constant", value)
            if value is not None and value.dtype != called.tensors[i].dtype:
                verb = "takes" if what == "inputs" else "returns"
                raise node.error(f"calls subgraph {index}, which {verb} {called.tensors[i].dtype} there", value)
    return host


def constants(inputs):
    """{position: contents} of the inputs that are the same in every run; the callee is lowered with them."""
    return {i: x.data for i, x in enumerate(inputs) if x.data is not None and (x.fixed or x.dtype == "resource")}


def result_shapes(host, shapes, given):
    """The shapes of a callee's outputs for inputs of these `shapes`, or None if they depend on data.

    given: {position: contents} of inputs that are constant.
    """
    bound = host.prepared(shapes, given)
    if bound.boundary is not None:
        return None
    return [bound.shape(i) for i in host.subgraph.outputs]


def kernels_can_run(node, hosts):
    """Can kernels run these callees?  Not with strings, with plug-ins, which prepare for each run, or guard bands."""
    values = node.inputs + node.outputs
    return not (node.host.guard or any(host.plugins for host in hosts)
                or any(value is not None and value.dtype in ("string", "variant") for value in values))


def lower_call(node, hosts, make, evaluate, shapes, given):
    """make(), the calls of kernels, once the callees are prepared; else the Call by which Python evaluates the node.

    shapes: of the callees' inputs; given: contents of some, see result_shapes; evaluate: as it is registered.
    """
    if kernels_can_run(node, hosts):
        for host in hosts:
            host.prepared(shapes, given)
        return make()
    count = len(node.inputs)

    def run(*arrays):
        for y, result in zip(arrays[count:], evaluate(node, *arrays[:count]), strict=True):
            if y is not None:
                y[...] = result
    return Call("python_op.PythonOp", run, count, len(node.outputs), *node.inputs, *node.outputs)


def byte_views(values):
    """The values' bytes, None if one is absent."""
    return [None if value is None else value.bytes for value in values]
