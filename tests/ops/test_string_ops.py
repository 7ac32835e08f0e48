"""All ops that take strings: results equal those of the same model on numbers, and reference counts are balanced."""
import gc
import sys

import numpy as np
import pytest

from pylite.errors import OpError
from pylite.interpreter import Interpreter
from pylite.ir import registry
from pylite.plugins.resolver import BuiltinOpResolver
from pylite.schema.builder import ModelBuilder
from tests.tools import op_models

RUNS = 20
CASES = [(line, choice) for line in op_models.lines() for choice in line.cases()
         if "string" in choice.values() and (op := registry.find(line.op)) and op.accepts(*line.types(choice))]
# Ops that take strings without a line in op_models; tests below and in other files cover them.
ELSEWHERE = {"ASSIGN_VARIABLE", "READ_VARIABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_LOOKUP", "IF",
             "WHILE", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "LSH_PROJECTION", "SKIP_GRAM", "UNIQUE", "RANK", "SHAPE"}


def words(numbers):
    """The string that stands for each number: none for 0, b"x" for 1, as op_models makes constants; new objects."""
    made = [b"", b"x", *[b"word %d" % i for i in range(2, 1 + max(2, int(numbers.max(initial=0))))]]
    found = np.empty(numbers.shape, object)
    found.reshape(-1)[:] = [made[int(n)] for n in numbers.reshape(-1)]
    return found


def allocated(model):
    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    return interpreter


def results(interpreter, inputs):
    for detail, x in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


@pytest.mark.parametrize(("line", "choice"), CASES, ids=lambda x: getattr(x, "op", ""))
def test_results_equal_those_on_numbers(line, choice):
    rng = np.random.default_rng(1)
    on_words = allocated(line.model(choice))
    on_numbers = allocated(line.model({letter: "int64" if t == "string" else t for letter, t in choice.items()}))
    numbers, given = [], []
    for ours, theirs in zip(on_words.get_input_details(), on_numbers.get_input_details(), strict=True):
        high = 40 if ours["dtype"] is np.object_ or ours["dtype"] is np.bytes_ else 2
        x = rng.integers(0, high, ours["shape"]).astype(theirs["dtype"])
        numbers.append(x)
        given.append(words(x) if high == 40 else x)
    counted = [word for x in given if x.dtype == object for word in x.reshape(-1) if len(word) > 1]     # not b"x"
    before = [sys.getrefcount(word) for word in counted]
    for _ in range(RUNS):
        got, want = results(on_words, given), results(on_numbers, numbers)
        for g, w in zip(got, want, strict=True):
            if g.dtype == object:
                assert {type(word) for word in g.reshape(-1)} <= {bytes}
                assert g.tolist() == words(w).tolist()
            else:
                np.testing.assert_array_equal(g, w)
    del on_words, got, g
    gc.collect()
    assert [sys.getrefcount(word) for word in counted] == before


def test_every_op_that_takes_strings_is_tested():
    taking = {name for name in registry.names()
              if any("string" in t or "any" in t for t in registry.find(name).types)}
    assert taking == {line.op for line, _ in CASES} | ELSEWHERE


@pytest.mark.parametrize("dtype", ["string", "variant"])
def test_variables(dtype):
    """A string variable returns the assigned strings; variants are refused."""
    m = ModelBuilder()
    handle = m.tensor("v", (1,), "resource")
    x, y = m.tensor("x", (3,), dtype), m.tensor("y", (3,), dtype)
    m.operator("VAR_HANDLE", [], [handle], shared_name="v")
    m.operator("ASSIGN_VARIABLE", [handle, x], [])
    m.operator("READ_VARIABLE", [handle], [y])
    m.inputs([x])
    m.outputs([y])
    if dtype == "variant":
        with pytest.raises(OpError, match=r"ASSIGN_VARIABLE: tensor \d+ 'x' .* no fixed size"):
            allocated(m.build())
        return
    interpreter = allocated(m.build())
    given = words(np.arange(10, 13))
    before = [sys.getrefcount(word) for word in given]
    for _ in range(RUNS):
        got, = results(interpreter, [given])
        assert got.tolist() == given.tolist()
    del interpreter, got
    gc.collect()
    assert [sys.getrefcount(word) for word in given] == before


def test_hashtable_lookup():
    m = ModelBuilder()
    wanted, table = m.tensor("wanted", (4,), "int32"), m.tensor("table", (3,), "string")
    y, hits = m.tensor("y", (4,), "string"), m.tensor("hits", (4,), "uint8")
    m.operator("HASHTABLE_LOOKUP", [wanted, m.constant("keys", np.array([1, 5, 9], np.int32)), table], [y, hits])
    m.inputs([wanted, table])
    m.outputs([y, hits])
    given = words(np.arange(20, 23))
    before = [sys.getrefcount(word) for word in given]
    interpreter = allocated(m.build())
    for _ in range(RUNS):
        got, found = results(interpreter, [np.array([5, 2, 9, 1], np.int32), given])
        assert got.tolist() == [given[1], b"", given[2], given[0]] and found.tolist() == [1, 0, 1, 1]
    del interpreter, got
    gc.collect()
    assert [sys.getrefcount(word) for word in given] == before


def test_reshape_copies_strings_if_all_tensors_are_preserved():
    """With experimental_preserve_all_tensors, an op that only changes the shape copies the strings."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3), "string"), m.tensor("y", (3, 2), "string")
    m.operator("RESHAPE", [x, m.constant("shape", np.array([3, 2], np.int32))], [y])
    m.inputs([x])
    m.outputs([x, y])
    given = words(np.arange(30, 36).reshape(2, 3))
    with pytest.warns(UserWarning, match="preserve"):
        interpreter = Interpreter(model_content=m.build(), experimental_preserve_all_tensors=True)
    interpreter.allocate_tensors()
    assert results(interpreter, [given])[1].tolist() == given.reshape(3, 2).tolist()


@pytest.mark.parametrize("declared", ["int64", "int32"])
def test_strings_of_a_custom_op_whose_output_is_declared_as_numbers(declared):
    class Word:
        def __init__(self, options):
            pass

        def prepare(self, node):
            node.outputs[0].dtype = "string"
            return (3,)

        def invoke(self, x, y):
            y[...] = words(x)

    resolver = BuiltinOpResolver()
    resolver.add_custom("Word", Word)
    m = ModelBuilder()
    x, y, z = m.tensor("x", (3,), "int64"), m.tensor("y", (3,), "int64"), m.tensor("z", (1,), declared)
    m.operator("Word", [x], [y], custom_options=b"")
    if declared == "int64":
        m.operator("TILE", [y, m.constant("n", np.array([2], np.int32))], [z])
    else:
        m.operator("SHAPE", [y], [z])
    m.inputs([x])
    m.outputs([z])
    interpreter = Interpreter(model_content=m.build(), op_resolver=resolver)
    if declared == "int64":
        with pytest.raises(OpError, match="TILE: cannot take string, int32 to give int64"):
            interpreter.allocate_tensors()
    else:
        interpreter.allocate_tensors()
        assert results(interpreter, [np.array([7, 8, 9], np.int64)])[0].tolist() == [3]
