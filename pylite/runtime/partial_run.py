"""Runs part of a graph, starting from tensors that the caller has set."""
from typing import TYPE_CHECKING

from pylite import errors

if TYPE_CHECKING:
    from typing import Any

    Executor = Any      # it imports this module


def run(executor: "Executor", start: int, stop: "int | None") -> None:
    """Run the nodes from `start` to `stop`, both included, in the order of execution; stop: by default the last one.

    ExecutionError unless tensors are allocated and each has memory of its own; ValueError for other nodes.
    """
    if not executor.preserve:
        raise errors.ExecutionError("invoke_nodes needs every tensor in memory of its own: make the interpreter with "
                                    "experimental_preserve_all_tensors=True")
    if not executor.ready:
        raise errors.ExecutionError("invoke_nodes called on model that is not ready. Run allocate_tensors() first")
    count = len(executor.operators)
    last = count - 1 if stop is None else stop
    if not 0 <= start <= last < count:
        raise ValueError(f"nodes {start} to {last} are not nodes of the model, which has nodes 0 to {count - 1}")
    bound = executor.current
    if bound.boundary is not None:
        raise errors.ExecutionError("invoke_nodes cannot run a model whose shapes depend on data; use invoke()")
    for step, call in enumerate(bound.lowered.calls):
        if start <= call.node.index <= last:
            failed = bound.program.run(step, step + 1)
            if failed is not None:
                raise bound.failure(*failed)


def check_written(executor: "Any", index: int) -> None:
    """Raise TensorError if a node computes tensor `index`, because a run would overwrite the caller's data."""
    subgraph = executor.subgraph
    if executor.preserve or index in subgraph.inputs:
        return
    node = next((operator for operator in executor.operators if index in operator.outputs), None)
    if node is not None and not subgraph.tensors[index].is_variable:
        cure = ("To run the nodes after it, make the interpreter with experimental_preserve_all_tensors=True, set the "
                f"tensor, and call invoke_nodes({node.index + 1})" if node is not executor.operators[-1] else
                "No node comes after it: set the inputs of the model instead")
        raise errors.TensorError(
            f"Cannot set tensor: tensor {index} ({subgraph.tensors[index].name!r}) is a result of node {node.index} "
            f"{node.name}, and invoke() computes it again. {cure}")
