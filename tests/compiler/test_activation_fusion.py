"""Float activations are fused into the preceding operator, unless its result has other readers."""
import numpy as np
import pytest

import pylite
from pylite.ir import registry
from pylite.ir.lowered import ACTIVATIONS
from pylite.schema.builder import ModelBuilder

WINDOW = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
POOL = {**WINDOW, "filter_height": 2, "filter_width": 2}
BINARY = [("x", (1, 5, 6, 3)), ("weights", (3,))]
# name: operands ("x": the model's input, "weights", "shape"), output, options
CASES = {
    "ADD": (BINARY, (1, 5, 6, 3), {}),
    "SUB": (BINARY, (1, 5, 6, 3), {}),
    "MUL": (BINARY, (1, 5, 6, 3), {}),
    "DIV": (BINARY, (1, 5, 6, 3), {}),
    "AVERAGE_POOL_2D": ([("x", (1, 5, 6, 3))], (1, 5, 6, 3), POOL),
    "MAX_POOL_2D": ([("x", (1, 5, 6, 3))], (1, 5, 6, 3), POOL),
    "L2_POOL_2D": ([("x", (1, 5, 6, 3))], (1, 5, 6, 3), POOL),
    "CONV_2D": ([("x", (1, 5, 6, 3)), ("weights", (4, 3, 3, 3)), ("weights", (4,))], (1, 5, 6, 4), WINDOW),
    "DEPTHWISE_CONV_2D": ([("x", (1, 5, 6, 3)), ("weights", (1, 3, 3, 3))], (1, 5, 6, 3),
                          {**WINDOW, "depth_multiplier": 1}),
    "FULLY_CONNECTED": ([("x", (5, 6)), ("weights", (7, 6)), ("weights", (7,))], (5, 7), {}),
    "TRANSPOSE_CONV": ([("shape", (1, 10, 12, 4)), ("weights", (4, 3, 3, 3)), ("x", (1, 5, 6, 3))], (1, 10, 12, 4),
                       {"padding": "SAME", "stride_h": 2, "stride_w": 2}),
    "CONV_3D": ([("x", (1, 3, 4, 5, 2)), ("weights", (2, 2, 2, 2, 3))], (1, 3, 4, 5, 3), {**WINDOW, "stride_d": 1}),
    "CONV_3D_TRANSPOSE": ([("shape", (1, 3, 4, 5, 3)), ("weights", (2, 2, 2, 3, 2)), ("x", (1, 3, 4, 5, 2))],
                          (1, 3, 4, 5, 3), {**WINDOW, "stride_d": 1}),
}


def model(name, activation="RELU", more=None):
    """x -> `name` -> `activation` -> NEG; more(builder, tensors "x", "between", "after", "y") adds to it."""
    rng = np.random.default_rng(0)
    operands, shape, options = CASES[name]
    m = ModelBuilder()
    t, indices = {}, []
    for i, (role, size) in enumerate(operands):
        if role == "x":
            t["x"] = m.tensor("x", size)
            indices.append(t["x"])
        elif role == "shape":
            indices.append(m.constant("shape", np.array(size, np.int32)))
        else:
            indices.append(m.constant(f"w{i}", rng.standard_normal(size).astype(np.float32)))
    for label in ("between", "after", "y"):
        t[label] = m.tensor(label, shape)
    m.operator(name, indices, [t["between"]], **options)
    m.operator(activation, [t["between"]], [t["after"]])
    m.operator("NEG", [t["after"]], [t["y"]])
    m.inputs([t["x"]])
    m.outputs([t["y"]])
    if more:
        more(m, t)
    return m.build()


def run(content, **options):
    i = pylite.Interpreter(model_content=content, **options)
    i.allocate_tensors()
    x = i.get_input_details()[0]
    array = np.random.default_rng(1).standard_normal(x["shape"]).astype(np.float32) * 4
    array.flat[:3] = np.inf, -np.inf, np.nan
    i.set_tensor(x["index"], array)
    i.invoke()
    return i, [i.get_tensor(y["index"]) for y in i.get_output_details()]


def notes(interpreter):
    return interpreter._main.current.lowered.notes


def separate(content):
    resolver = pylite.OpResolverType.BUILTIN_REF
    return run(content, experimental_preserve_all_tensors=True, experimental_op_resolver_type=resolver)[1]


def test_every_op_that_fuses_is_tested():
    assert set(CASES) == {name for name in registry.names() if registry.find(name).fuses_activation}


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
@pytest.mark.parametrize("name", CASES)
def test_fused_results_equal_separate_ones(name, activation):
    content = model(name, activation)
    i, found = run(content)
    assert notes(i)[1] == "folded into node 0"
    np.testing.assert_array_equal(found, separate(content))


def test_a_folded_tensor_cannot_be_read():
    i, _ = run(model("CONV_2D"))
    message = "'between'.* since the operator that reads it is folded into node 0. Create the interpreter with"
    with pytest.raises(ValueError, match=message):
        i.get_tensor(next(d["index"] for d in i.get_tensor_details() if d["name"] == "between"))


def second_reader(m, t):
    m.operator("ABS", [t["between"]], [m.tensor("z", (1, 5, 6, 4))])


def output(m, t):
    m.outputs([t["between"], t["y"]])


@pytest.mark.parametrize("more", [second_reader, output])
def test_a_result_with_another_reader_is_not_fused(more):
    content = model("CONV_2D", more=more)
    i, found = run(content)
    assert 1 not in notes(i)
    for ours, theirs in zip(found, separate(content), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_two_activations_in_sequence_equal_separate_ones():
    def more(m, t):
        z = m.tensor("z", (1, 5, 6, 4))
        m.operator("RELU6", [t["after"]], [z])
        m.outputs([z])
    contents = [model("CONV_2D", more=more)]
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (3,)) for name in "xyz")
    m.operator("ADD", [x, m.constant("one", np.ones(3, np.float32))], [y], fused_activation_function="RELU")
    m.operator("RELU6", [y], [z])
    m.inputs([x])
    m.outputs([z])
    for content in (*contents, m.build()):
        np.testing.assert_array_equal(run(content)[1], separate(content))


def test_integers_are_not_fused():
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (3,), "int8", scale=0.1) for name in "xyz")
    m.operator("ADD", [x, x], [y])
    m.operator("RELU", [y], [z])
    m.inputs([x])
    m.outputs([z])
    i = pylite.Interpreter(model_content=m.build())
    i.allocate_tensors()
    assert 1 not in notes(i)


def test_a_replaced_activation_is_not_fused():
    class Negative(pylite.CustomOp):
        def invoke(self, x, y):
            np.negative(x, out=y)
    known = pylite.BuiltinOpResolver()
    known.add_builtin("RELU", Negative)
    i, (found,) = run(model("ADD"), op_resolver=known)
    assert 1 not in notes(i)
    expected = run(model("ADD"))[1][0]
    assert not np.array_equal(found, expected, equal_nan=True)


def test_fusion_after_a_dynamic_shape_boundary():
    m = ModelBuilder()
    x, n = m.tensor("x", (4,)), m.tensor("n", (1,), "int32")
    grown, between, y = m.tensor("grown", (None,)), m.tensor("between", (None,)), m.tensor("y", (None,))
    m.operator("RESHAPE", [x, n], [grown])
    m.operator("ADD", [grown, m.constant("one", np.ones((), np.float32))], [between])
    m.operator("RELU", [between], [y])
    m.inputs([x, n])
    m.outputs([y])
    i = pylite.Interpreter(model_content=m.build())
    i.allocate_tensors()
    i.set_tensor(x, np.array([-3, -1, 0, 2], np.float32))
    i.set_tensor(n, np.array([4], np.int32))
    i.invoke()
    np.testing.assert_array_equal(i.get_tensor(y), [0, 0, 1, 3])
    with pytest.raises(ValueError, match="the operator that reads it is folded into node 1"):
        i.get_tensor(between)


def test_activations_of_variables_are_not_fused():
    """The converter's delay line, and a state written by an activation: each run reads what the previous one wrote."""
    m = ModelBuilder()
    x, v, y, h, t, z = (m.tensor(name, (4,), variable=name in "vh") for name in "xvyhtz")
    one = m.constant("one", np.ones(4, np.float32))
    m.operator("RELU", [v], [y])
    m.operator("ADD", [x, one], [v])
    m.operator("ADD", [h, x], [t])
    m.operator("RELU", [t], [h])
    m.operator("ADD", [h, y], [z])
    m.inputs([x])
    m.outputs([y, z])
    content = m.build()
    found = []
    for preserve in (False, True):
        resolver = pylite.OpResolverType.BUILTIN_REF
        i = pylite.Interpreter(model_content=content, experimental_preserve_all_tensors=preserve,
                               experimental_op_resolver_type=resolver)
        i.allocate_tensors()
        for run_number in range(3):
            i.set_tensor(x, np.array([-3, -1, 0, 2], np.float32) + run_number)
            i.invoke()
            found.append([i.get_tensor(y), i.get_tensor(z)])
    np.testing.assert_array_equal(found[:3], found[3:])
    np.testing.assert_array_equal([y for y, _ in found[:3]], [[0, 0, 0, 0], [0, 0, 1, 3], [0, 1, 2, 4]])


def test_fused_tensors_are_resized():
    i = pylite.Interpreter(model_content=model("ADD"))
    i.resize_tensor_input(0, (1, 2, 7, 3))
    i.allocate_tensors()
    shapes = {d["name"]: d["shape"].tolist() for d in i.get_tensor_details()}
    assert shapes["between"] == shapes["after"] == [1, 2, 7, 3]
