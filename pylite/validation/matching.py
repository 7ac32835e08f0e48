"""Which tensor of the reference model each tensor of a model stands for.

Converters keep the names of most tensors, but fuse nodes (a batch normalization into its convolution, an activation
into what comes before) and insert others (QUANTIZE, DEQUANTIZE).  So tensors are matched by name, by a part of a fused
name ("a;b;c"), then by their position among the nodes of the same kind and shape, and through inserted nodes.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from pylite.errors import ComparisonError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pylite.ir.graph import Operator, Subgraph, Tensor

CASTS = ("QUANTIZE", "DEQUANTIZE")      # nodes that change only how numbers are stored
ACTIVATIONS = {"RELU": "RELU", "RELU6": "RELU6", "RELU_N1_TO_1": "RELU_N1_TO_1", "TANH": "TANH"}
QUANTIZED = ("int8", "uint8", "int16")


@dataclass(frozen=True)
class Match:
    """Tensor `tensor` of the model stands for tensor `reference`; how: "input", "name", "part of a name", "position"
    or "through QUANTIZE" and the like."""
    tensor: int
    reference: int
    how: str


@dataclass(frozen=True)
class Matching:
    """matches: {tensor of the model: its Match}; the rest: results of nodes without one, of the model and of the
    reference."""
    matches: dict[int, Match]
    unmatched: list[int]
    unmatched_reference: list[int]


class _Side:
    """One of the two graphs.

    producer, readers: {tensor: the Operator that writes it, the Operators that read it}; results: the tensors to match,
    which are written by an operator and can be measured
    """

    def __init__(self, subgraph: Subgraph) -> None:
        self.subgraph = subgraph
        self.tensors = subgraph.tensors
        self.producer: dict[int, Operator] = {}
        self.readers: dict[int, list[Operator]] = {}
        for operator in subgraph.operators:
            for index in operator.outputs:
                self.producer[index] = operator
            for index in operator.inputs:
                self.readers.setdefault(index, []).append(operator)
        self.results = [i for o in subgraph.operators for i in o.outputs if _measured(self.tensors[i])]

    def by_name(self) -> dict[str, int]:
        """{name: the result of this name}, without names that several results share."""
        names: dict[str, list[int]] = {}
        for index in self.results:
            names.setdefault(self.tensors[index].name, []).append(index)
        return {name: indices[0] for name, indices in names.items() if len(indices) == 1}


def _measured(tensor: Tensor) -> bool:
    if tensor.dtype == "float32":
        return True
    return tensor.dtype in QUANTIZED and tensor.quantization is not None and tensor.quantization.scale.size == 1


def _same_size(a: Tensor, b: Tensor) -> bool:
    """Do a and b have equally many elements and channels?  Dimensions of -1 count as 1 here and may differ later."""
    return math.prod(a.shape) == math.prod(b.shape) and (a.shape[-1:] == b.shape[-1:] or not (a.shape and b.shape))


def check_inputs(subgraph: Subgraph, other: Subgraph) -> None:
    """ComparisonError if the two models cannot take the same samples; batches may differ, since they are resized."""
    sides = [[graph.tensors[i] for i in graph.inputs] for graph in (subgraph, other)]
    if len(sides[0]) != len(sides[1]):
        raise ComparisonError(f"the model has {len(sides[0])} inputs and the reference {len(sides[1])}; is it the same "
                              "model in float?")
    for mine, theirs in zip(*sides, strict=True):
        shapes = mine.shape_signature, theirs.shape_signature
        if len(shapes[0]) != len(shapes[1]) or any(
                a != b and -1 not in (a, b) for a, b in list(zip(*shapes, strict=True))[1:]):
            raise ComparisonError(f"input {mine.name!r} of the model takes {list(shapes[0])}, and the reference's "
                                  f"input {theirs.name!r} {list(shapes[1])}; is it the same model in float?")


def match(model: Subgraph, reference: Subgraph) -> Matching:
    """The Matching of two graphs.  Inputs are matched by their order.  ComparisonError: see check_inputs()."""
    check_inputs(model, reference)
    ours, theirs = _Side(model), _Side(reference)
    matches: dict[int, Match] = {}
    for mine, other in zip(model.inputs, reference.inputs, strict=False):
        if _same_size(model.tensors[mine], reference.tensors[other]):
            matches[mine] = Match(mine, other, "input")
    _match_names(ours, theirs, matches)
    _match_positions(ours, theirs, matches)
    _match_casts(ours, theirs, matches)
    taken = {m.reference for m in matches.values()}
    return Matching(matches, [i for i in ours.results if i not in matches],
                    [i for i in theirs.results if i not in taken])


def _match_names(ours: _Side, theirs: _Side, matches: dict[int, Match]) -> None:
    names = theirs.by_name()
    taken = {m.reference for m in matches.values()}
    for name, index in ours.by_name().items():
        for part, how in [(name, "name"), *((p, "part of a name") for p in name.split(";") if p != name)]:
            other = names.get(part)
            if other is None:
                continue
            other = _fused(ours, index, theirs, other)
            if other not in taken and _plausible(ours, index, theirs, other):
                matches[index] = Match(index, other, how)
                taken.add(other)
                break


def _fused(ours: _Side, index: int, theirs: _Side, other: int) -> int:
    """`other`, or the result of the activation after it that the model's node has fused."""
    wanted = getattr(ours.producer[index].options, "fused_activation_function", "NONE")
    if wanted not in ACTIVATIONS or getattr(
            theirs.producer[other].options, "fused_activation_function", "NONE") == wanted:
        return other
    readers = theirs.readers.get(other, [])
    if len(readers) == 1 and readers[0].name == ACTIVATIONS[wanted]:
        return readers[0].outputs[0]
    return other


def _plausible(ours: _Side, index: int, theirs: _Side, other: int) -> bool:
    """May two tensors of the same name be counterparts?  They have the same size, and both or neither come from a cast.
    """
    return _same_size(ours.tensors[index], theirs.tensors[other]) and (
        (ours.producer[index].name in CASTS) == (theirs.producer[other].name in CASTS))


def _match_positions(ours: _Side, theirs: _Side, matches: dict[int, Match]) -> None:
    """Match by position: align the two sequences of nodes, in which matched nodes are fixed points."""
    theirs_by_reference = {m.reference: m.tensor for m in matches.values()}
    mine, other = list(_nodes(ours, matches)), list(_nodes(theirs, theirs_by_reference))
    aligner = SequenceMatcher(None, [key for _, key in mine], [key for _, key in other], autojunk=False)
    for block in aligner.get_matching_blocks():
        for i in range(block.size):
            a, b = mine[block.a + i][0], other[block.b + i][0]
            for result, expected in zip(a.outputs, b.outputs, strict=False):
                if result not in matches and expected not in theirs_by_reference and _measured(
                        ours.tensors[result]) and _measured(theirs.tensors[expected]) and _same_size(
                        ours.tensors[result], theirs.tensors[expected]):
                    matches[result] = Match(result, expected, "position")
                    theirs_by_reference[expected] = result


def _nodes(side: _Side, matched: dict[int, Match] | dict[int, int]) -> Iterator[tuple[Operator, object]]:
    """(node, the key by which it is aligned) in order, without casts.

    The key is the match, or else the op and the shapes of the results.
    """
    for operator in side.subgraph.operators:
        if operator.name in CASTS:
            continue
        known = next((matched[i] for i in operator.outputs if i in matched), None)
        if known is not None:
            yield operator, ("matched", known.tensor if isinstance(known, Match) else known)
        else:
            yield operator, (operator.name, *(side.tensors[i].shape for i in operator.outputs))


def _match_casts(ours: _Side, theirs: _Side, matches: dict[int, Match]) -> None:
    """Match the input and the output of each cast with the same tensor, since a cast changes no value."""
    for operators, source, target in ((ours.subgraph.operators, 0, 1), (ours.subgraph.operators[::-1], 1, 0)):
        for operator in operators:
            if operator.name not in CASTS:
                continue
            pair = operator.inputs[0], operator.outputs[0]
            known, other = matches.get(pair[source]), pair[target]
            if known is not None and other not in matches and _measured(ours.tensors[other]) and (
                    other in ours.producer):
                matches[other] = Match(other, known.reference, f"through {operator.name}")
