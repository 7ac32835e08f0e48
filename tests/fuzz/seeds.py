"""The seed models of mutations: one for every line of tests/tools/op_models.py, and other small models."""
import functools
from pathlib import Path

import numpy as np

from pylite.ir import registry
from pylite.schema.builder import ModelBuilder
from pylite.schema.reader import read
from tests.schema.sparse_models import sparse_constant
from tests.tools import op_models, small_models

TESTS = Path(__file__).parents[1]
CONVERTED = sorted((TESTS / "models" / "converted").glob("*.tflite"))


def variables():
    """A resource that is assigned and read, and a table of strings."""
    m = ModelBuilder()
    handle, x, y = m.tensor("v", (1,), "resource"), m.tensor("x", (3,)), m.tensor("y", (3,))
    table, keys, found = m.tensor("t", (1,), "resource"), m.tensor("keys", (2,), "int64"), m.tensor("found", (2,),
                                                                                                    "string")
    m.operator("VAR_HANDLE", [], [handle], shared_name="v")
    m.operator("ASSIGN_VARIABLE", [handle, x], [])
    m.operator("READ_VARIABLE", [handle], [y])
    m.operator("HASHTABLE", [], [table], table_id=1, key_dtype="int64", value_dtype="string")
    m.operator("HASHTABLE_IMPORT", [table, m.constant("k", np.arange(3)), m.constant("w", np.array([b"a", b"b", b"c"],
                                                                                                  object))], [])
    m.operator("HASHTABLE_FIND", [table, keys, m.constant("none", np.array([b"none"], object))], [found])
    m.inputs([x, keys])
    m.outputs([y, found])
    return m.build()


def sparse():
    """A FULLY_CONNECTED with sparse weights."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 4)), m.tensor("y", (2, 3))
    w = sparse_constant(m, "w", np.eye(3, 4, dtype=np.float32), (0, 1), (1,))
    m.operator("FULLY_CONNECTED", [x, w, -1], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


@functools.cache
def seeds():
    """The Records of all seeds, in a deterministic order."""
    contents = [small_models.reshape(), small_models.two_signatures(), small_models.variable(), variables(),
                sparse(), *[path.read_bytes() for path in CONVERTED]]
    for line in op_models.lines():
        op = registry.find(line.op)
        contents += [line.model(choice) for choice in line.cases() if op and op.accepts(*line.types(choice))]
    return [read(content) for content in contents]
