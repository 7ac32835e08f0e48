"""The numpy reference of each op that moves elements equals its kernel; ops without a reference are skipped."""
import importlib

import numpy as np
import pytest

from pylite import Model
from pylite.ir import registry
from tests.tools.oneop import draw, run_pylite

MODULES = ("argminmax", "filling", "gather", "indexing", "joining", "padding", "reshape", "slicing", "space")
CASES = 8


def drawn():
    for module in MODULES:
        for name, test in vars(importlib.import_module(f"tests.ops.test_{module}")).items():
            if hasattr(test, "drawn") and "float32" in test.drawn[1] and name != "test_special_floats":
                data, _ = draw(test.drawn[0], "float32", 0)
                if registry.find(Model(data).graph.subgraphs[0].operators[0].name).reference:
                    yield pytest.param(test.drawn[0], id=name)


FUNCTIONS = list(drawn())


def test_functions_are_found():
    assert len(FUNCTIONS) > 25


@pytest.mark.parametrize("function", FUNCTIONS)
def test_reference(function):
    for case in range(CASES):
        data, inputs = draw(function, "float32", case)
        model = Model(data)
        subgraph = model.graph.subgraphs[0]
        operator, = subgraph.operators
        given = dict(zip(subgraph.inputs, inputs, strict=True))
        operands = [given.get(i, model.weights.constant(subgraph.tensors[i])) for i in operator.inputs]
        want = registry.find(operator.name).reference(*operands, operator.options)
        got = run_pylite(data, inputs)
        for g, w in zip(got, want if isinstance(want, list) else [want], strict=True):
            np.testing.assert_array_equal(g, w)
