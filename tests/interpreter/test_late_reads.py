"""Variables are read immediately before their first use; assignments in between do not change the results."""
import numpy as np
import pytest

from pylite.interpreter import Interpreter
from pylite.schema.builder import ModelBuilder

COLUMNS = 3
pytestmark = pytest.mark.filterwarnings("ignore:experimental_preserve_all_tensors")


def streaming(rng):
    """A random graph that reads and assigns three variables in any order, with concats and splits of their values."""
    m = ModelBuilder()
    x = m.tensor("x", (4, COLUMNS))
    axis = m.constant("axis", np.array(0, np.int32))
    m.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    handles = [m.tensor(f"h{i}", (), "resource") for i in range(3)]
    for i, h in enumerate(handles):
        m.operator("VAR_HANDLE", [], [h], shared_name=str(i), container="")
    known = [x]
    for at in range(rng.integers(4, 16)):
        kind, h = rng.choice(["read", "read", "assign", "add", "join"]), handles[rng.integers(3)]
        a, b = (int(known[i]) for i in rng.integers(len(known), size=2))
        y = m.tensor(f"y{at}", (4, COLUMNS))
        if kind == "assign":
            m.operator("ASSIGN_VARIABLE", [h, a], [])
            continue
        if kind == "read":
            m.operator("READ_VARIABLE", [h], [y])
        elif kind == "add":
            m.operator("ADD", [a, b], [y])
        else:
            both, rest = m.tensor(f"both{at}", (8, COLUMNS)), m.tensor(f"rest{at}", (4, COLUMNS))
            m.operator("CONCATENATION", [a, b], [both], axis=0)
            m.operator("SPLIT", [axis, both], [rest, y], num_splits=2)
        known.append(y)
    m.operator("ADD", [known[-1], x], [out := m.tensor("out", (4, COLUMNS))])
    m.inputs([x])
    m.outputs([out])
    m.subgraph("start")
    for i in range(3):
        h = m.tensor(f"h{i}", (), "resource")
        m.operator("VAR_HANDLE", [], [h], shared_name=str(i), container="")
        start = m.constant(f"start{i}", np.full((4, COLUMNS), i, np.float32))
        m.operator("ASSIGN_VARIABLE", [h, start], [])
    m.inputs([])
    m.outputs([])
    return m.build()


@pytest.mark.parametrize("seed", range(60))
def test_late_reads_give_identical_results(seed):
    rng = np.random.default_rng(seed)
    model = streaming(rng)
    ours, plain = (Interpreter(model_content=model, experimental_preserve_all_tensors=p) for p in (False, True))
    for i in (ours, plain):
        i.allocate_tensors()
    x = ours.get_input_details()[0]["index"]
    y = ours.get_output_details()[0]["index"]
    for _ in range(3):
        value = rng.standard_normal((4, COLUMNS)).astype(np.float32)
        for i in (ours, plain):
            i.set_tensor(x, value)
            i.invoke()
        np.testing.assert_array_equal(ours.get_tensor(y), plain.get_tensor(y))
