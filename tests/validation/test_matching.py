"""Tensors find their counterparts: by name, by a part of a fused name, by position, and through casts."""
import numpy as np

from pylite import Model
from pylite.schema.builder import ModelBuilder
from pylite.validation.matching import match
from tests.tools import resources
from tests.validation import planted


def graph(*nodes, dtype="int8"):
    """A chain of nodes (op, name of the result, options) on (1, 4); QUANTIZE and DEQUANTIZE change the type."""
    m = ModelBuilder()
    x = source = m.tensor("x", (1, 4), dtype, **({"scale": 0.1} if dtype == "int8" else {}))
    for op, name, options in nodes:
        dtype = {"QUANTIZE": "int8", "DEQUANTIZE": "float32"}.get(op, dtype)
        y = m.tensor(name, (1, 4), dtype, **({"scale": 0.1} if dtype == "int8" else {}))
        m.operator(op, [x, x] if op in ("ADD", "MUL") else [x], [y], **options)
        x = y
    m.inputs([source])
    m.outputs([x])
    return Model(m.build()).graph.subgraphs[0]


def names(ours, theirs):
    """{name: (counterpart's name, how)} of results."""
    found = match(ours, theirs)
    return {ours.tensors[i].name: (theirs.tensors[m.reference].name, m.how) for i, m in found.matches.items()
            if i not in ours.inputs}, found


def test_by_name_and_by_position():
    ours = graph(("RELU", "a", {}), ("NEG", "renamed", {}), ("ABS", "c", {}))
    theirs = graph(("RELU", "a", {}), ("NEG", "b", {}), ("ABS", "c", {}), dtype="float32")
    found, matching = names(ours, theirs)
    assert found == {"a": ("a", "name"), "renamed": ("b", "position"), "c": ("c", "name")}
    assert not matching.unmatched and not matching.unmatched_reference


def test_a_fused_activation_stands_for_the_node_after():
    ours = graph(("ADD", "add", {"fused_activation_function": "RELU"}))
    theirs = graph(("ADD", "add", {}), ("RELU", "relu", {}), dtype="float32")
    found, matching = names(ours, theirs)
    assert found == {"add": ("relu", "name")}
    assert [theirs.tensors[i].name for i in matching.unmatched_reference] == ["add"]


def test_a_part_of_a_fused_name():
    ours = graph(("ADD", "model/relu;model/add", {"fused_activation_function": "RELU"}))
    theirs = graph(("ADD", "model/add", {}), ("RELU", "model/relu", {}), dtype="float32")
    assert names(ours, theirs)[0] == {"model/relu;model/add": ("model/relu", "part of a name")}


def test_through_casts():
    ours = graph(("DEQUANTIZE", "d", {}), ("ELU", "e", {}), ("QUANTIZE", "q", {}), ("ABS", "f", {}))
    theirs = graph(("ELU", "e", {}), ("ABS", "f", {}), dtype="float32")
    found, _ = names(ours, theirs)
    assert found == {"d": ("x", "through DEQUANTIZE"), "e": ("e", "name"), "q": ("e", "through QUANTIZE"),
                     "f": ("f", "name")}


def test_what_has_no_counterpart_is_listed():
    ours = graph(("RELU", "a", {}), ("EXP", "lonely", {}))
    theirs = graph(("RELU", "a", {}), ("FLOOR", "other", {}), dtype="float32")
    found, matching = names(ours, theirs)
    assert found == {"a": ("a", "name")}
    assert [ours.tensors[i].name for i in matching.unmatched] == ["lonely"]
    assert [theirs.tensors[i].name for i in matching.unmatched_reference] == ["other"]


def test_real_pairs_match_in_full():
    for name, paths in planted.PAIRS.items():
        ours, theirs = (Model(str(resources.models() / (path + ".tflite"))).graph.subgraphs[0] for path in paths)
        matching = match(ours, theirs)
        assert not matching.unmatched, name
        assert not matching.unmatched_reference, name
        for found in matching.matches.values():
            assert np.prod(ours.tensors[found.tensor].shape) == np.prod(theirs.tensors[found.reference].shape)
