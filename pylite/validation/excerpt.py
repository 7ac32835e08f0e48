"""Cuts nodes and their inputs out of a model, as a model of their own: small enough for a bug report."""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError
from pylite.schema import read, write
from pylite.schema.tables import table
from pylite.validation.activations import Activations
from pylite.validation.requantizing import drop_unread

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite.ir.graph import Subgraph
    from pylite.runtime.model import Model


def excerpt(model: Model, first: int, last: int, sample: Sequence[NDArray[Any]],
            threads: int = 1) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """(the .tflite file of the nodes `first` to `last` of a model's main subgraph, {input: its contents}).

    Its inputs are the results of other nodes, and inputs of the model, that these nodes read; its outputs are their
    results that other nodes or no node reads.  Tensors keep their indices.  sample: for the model's inputs, as
    `Samples` gives it; the contents are as tensors store them.  Raises ComparisonError if there are no such nodes.
    """
    graph = model.graph.subgraphs[0]
    if not 0 <= first <= last < len(graph.operators):
        raise ComparisonError(f"there are no nodes {first} to {last}; the model has nodes 0 to "
                              f"{len(graph.operators) - 1}")
    inputs, outputs = _ends(graph, range(first, last + 1))
    activations = Activations(model, inputs, threads)
    activations.run(sample)
    names = [graph.tensors[i].name for i in inputs]
    given = {name if name and names.count(name) == 1 else f"tensor {i}": activations.array(i).copy()
             for i, name in zip(inputs, names, strict=True)}
    return _written(model, range(first, last + 1), inputs, outputs), given


def _ends(graph: Subgraph, numbers: range) -> tuple[list[int], list[int]]:
    """(tensors of others that these nodes read, their results that other nodes or no node reads)"""
    nodes = graph.operators[numbers.start:numbers.stop]
    made = dict.fromkeys(i for o in nodes for i in o.outputs)
    taken = dict.fromkeys(i for o in nodes for i in o.inputs if i >= 0)
    elsewhere = set(graph.outputs).union(*(o.inputs for o in graph.operators if o.index not in numbers))
    return ([i for i in taken if i not in made and graph.tensors[i].data is None and not graph.tensors[i].is_variable],
            [i for i in made if i in elsewhere or i not in taken])


def _written(model: Model, nodes: range, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
    """The file of these nodes, without signatures, metadata and the constants that they do not read."""
    file, tensors = read(model.graph.contents), model.graph.subgraphs[0].tensors
    graph = file.subgraphs[0] = copy.copy(file.subgraphs[0])
    graph.operators = [graph.operators[i] for i in nodes]
    used = {i for o in graph.operators for i in (*(o.inputs or ()), *(o.outputs or ()), *(o.intermediates or ()))}
    for index in sorted(used):
        quantization = tensors[index].quantization if index >= 0 else None
        if quantization is not None:
            used |= {quantization.scale_tensor, quantization.zero_point_tensor}
    records = [copy.copy(record) for record in graph.tensors]
    for index, record in enumerate(records):
        if index not in used:
            record.buffer = 0
    graph.tensors, graph.inputs, graph.outputs = records, tuple(inputs), tuple(outputs)
    file.signature_defs, file.metadata, file.metadata_buffer = None, None, None
    file.buffers = [table("Buffer")(), *file.buffers[1:]]
    drop_unread(file)
    return bytes(write(file))
