"""The ops of pylite.flex, against TensorFlow's results (make.py) and their definitions."""
import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite import flex
from pylite.errors import ExecutionError, ModelError, OpError, UnsupportedOpError
from pylite.flex import node_def, tensor_lists
from pylite.ir import flex_ops
from pylite.schema.builder import ModelBuilder
from tests.tools import flex_models

STORED = Path(__file__).with_name("stored.npz")
BOUND = 1e-6        # of the largest magnitude, which TensorFlow's own float32 may be off by, too


@cache
def stored():
    """{key: {"model", "attributes", "x0", ..., "y0", ...}}"""
    found = {}
    with np.load(STORED) as file:
        for name in file.files:
            key, _, part = name.rpartition("/")
            found.setdefault(key, {})[part] = file[name]
    return found


def of(case, letter):
    return [case[f"{letter}{i}"] for i in range(len(case)) if f"{letter}{i}" in case]


def interpreter(content, **options):
    ops = pylite.BuiltinOpResolver()
    flex.add_to(ops)
    return pylite.Interpreter(model_content=bytes(content), op_resolver=ops, **options)


def run(content, *inputs, **options):
    """The results of two runs, which must be equal."""
    i = interpreter(content, **options)
    i.allocate_tensors()
    runs = []
    for _ in range(2):
        for detail, x in zip(i.get_input_details(), inputs, strict=True):
            i.set_tensor(detail["index"], x)
        i.invoke()
        runs.append([i.get_tensor(d["index"]) for d in i.get_output_details()])
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)
    return runs[0]


def assert_close(got, want, bound=BOUND):
    assert [y.shape for y in got] == [y.shape for y in want]
    for y, expected in zip(got, want, strict=True):
        assert y.dtype == expected.dtype
        if y.dtype.kind not in "fc":
            np.testing.assert_array_equal(y, expected)
            continue
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(y[~finite], expected[~finite])
        np.testing.assert_allclose(y[finite], expected[finite], rtol=bound,
                                   atol=bound * max(1, np.abs(expected[finite]).max(initial=0)))


@pytest.mark.parametrize("key", [key for key in stored() if key.startswith("c/")])
def test_converted_models(key):
    case = stored()[key]
    assert_close(sorted(run(case["model"], *of(case, "x")), key=lambda y: (y.shape, str(y.dtype))),
                 sorted(of(case, "y"), key=lambda y: (y.shape, str(y.dtype))), 2e-6)


@pytest.mark.parametrize("known", [True, False], ids=["shapes known", "shapes from data"])
@pytest.mark.parametrize("key", [key for key in stored() if key.startswith("r/")])
def test_single_ops(key, known):
    """Sizes and other parameters as constants, and as inputs of the model."""
    case, name = stored()[key], key[4:]
    inputs, outputs = of(case, "x"), of(case, "y")
    constant = [i for i, x in enumerate(inputs) if known and i > 0 and x.size <= 2]
    model = flex_models.model(name, inputs, [(y.shape if known else (1,) * y.ndim, y.dtype.name) for y in outputs],
                              json.loads(str(case["attributes"])), constant)
    assert_close(run(model, *[x for i, x in enumerate(inputs) if i not in constant]), outputs)


def test_all_of_the_names_are_tried():
    """Those that the table of names lists are those that the modules define, and each is in some model here."""
    assert set(flex.names()) == set(flex.ops())
    assert all(flex_ops.has(name) for name in flex.names())
    tried = {"Flex" + key[4:] for key in stored() if key.startswith("r/")}
    for key, case in stored().items():
        if key.startswith("c/"):
            tried |= {o["op_name"] for o in interpreter(case["model"])._get_ops_details()}
            graph = pylite.schema.load(bytes(case["model"]))
            tried |= {o.name for subgraph in graph.subgraphs for o in subgraph.operators}
    assert set(flex.names()) - tried <= {
        "FlexEmptyTensorList", "FlexTensorListElementShape", "FlexTensorListFromTensor", "FlexTensorListGather",
        "FlexTensorListGetItem", "FlexTensorListPopBack", "FlexTensorListPushBack", "FlexTensorListResize"}


@pytest.mark.parametrize(("name", "function"), [("Erf", math.erf), ("Erfc", math.erfc), ("Lgamma", math.lgamma)])
def test_the_definition_on_many_values(name, function):
    x = np.concatenate([np.linspace(-7, 7, 5001), np.geomspace(1e-30, 1e30, 300)])
    x = x[(x != np.floor(x)) & (np.abs(x) < 1e20)]
    got, = run(flex_models.model(name, [x], [(x.shape, "float64")]), x)
    want = np.array(list(map(function, x)))
    assert np.abs((got - want) / np.maximum(1, np.abs(want))).max() < 1e-10


@pytest.mark.parametrize(("n", "length"), [(100, 100), (100, 64), (7, 16), (1, 1), (33, 33)])
def test_transforms_of_any_length(n, length):
    """The sum of the definition, for lengths that RFFT2D does not take, cut and padded."""
    x = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    size = np.int32([length])
    got, = run(flex_models.model("RFFT", [x, size], [((2, length // 2 + 1), "complex64")], constant=[1]), x)
    padded = np.zeros((2, length))
    padded[:, :min(n, length)] = x[:, :length]
    k, t = np.arange(length // 2 + 1)[:, None], np.arange(length)
    want = padded @ np.exp(-2j * np.pi * k * t / length).T
    np.testing.assert_allclose(got, want, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize(("shape", "length"), [
    ((3, 5), (3, 5)), ((6, 10), (4, 7)), ((5, 4), (9, 12)), ((1, 1), (1, 1))])
def test_transforms_of_two_dimensions_of_any_length(shape, length):
    x, size = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32), np.int32(length)
    model = flex_models.model("RFFT2D", [x, size], [((2, length[0], length[1] // 2 + 1), "complex64")], constant=[1])
    padded = np.zeros((2, *length))
    padded[:, :shape[0], :shape[1]] = x[:, :length[0], :length[1]]
    rows, columns = (np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) for n in length)
    want = (rows @ padded @ columns)[..., :length[1] // 2 + 1]
    got, = run(model, x)
    np.testing.assert_allclose(got, want, atol=1e-6 * np.abs(want).max())
    model = flex_models.model("IRFFT2D", [got, size], [((2, *length), "float32")], constant=[1])
    np.testing.assert_allclose(run(model, got)[0], padded, atol=1e-6 * np.abs(want).max())


REAL = ("float16", "float64", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64")
PIXELS = REAL[:-2]
BOXES, SCORES = np.float32([[0, 0, 1, 1], [0, 0, 1, 0.9375], [0, 0.5, 1, 2]]), np.float32([0.5, 0.75, 0.25])
OF_TYPES = [        # op, the types of its first inputs and, "T", of results; inputs; results; attributes
    ("Roll", (*REAL, "bool", "complex128"), 1, [np.arange(6).reshape(2, 3), np.int32(1), np.int64(1)], "T", {}),
    ("Cross", REAL, 2, [np.array([[5, 6, 7]]), np.array([[3, 1, 2]])], "T", {}),
    ("Cumprod", (*REAL, "complex64", "complex128"), 1, [np.array([[1, 2, 3]]), np.int32(1)], "T", {}),
    ("ExtractImagePatches", (*REAL, "bool", "complex64"), 1, [np.arange(16).reshape(1, 4, 4, 1)], "T", {
        "ksizes": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}),
    ("ResizeBicubic", PIXELS, 1, [np.arange(16).reshape(1, 4, 4, 1), np.int32([3, 5])], "float32", {}),
    ("CropAndResize", PIXELS, 1, [np.arange(16).reshape(1, 4, 4, 1), np.float32([[0, 0.5, 1, 1]]), np.int32([0]),
                                  np.int32([2, 3])], "float32", {}),
    ("NonMaxSuppressionV2", ("float16",), 2, [BOXES, SCORES, np.int32(3), np.float32(0.5)], "int32", {}),
    ("NonMaxSuppressionV3", ("float16",), 2, [BOXES, SCORES, np.int32(3), np.float32(0.5), np.float32(0.375)], "int32",
     {}),
    ("NonMaxSuppressionV4", ("float16",), 2, [BOXES, SCORES, np.int32(3), np.float16(0.5), np.float16(0)],
     "int32 int32", {}),
    ("NonMaxSuppressionV5", ("float16",), 2, [BOXES, SCORES, np.int32(3), np.float16(0.5), np.float16(0),
                                              np.float16(0)], "int32 T int32", {}),
    *[(name, ("complex64", "complex128"), 1, [np.array([0.5 + 0.25j, -0.75j, 2])], "T", {}) for name in (
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Expm1", "Inv", "Log1p", "Reciprocal", "Sinh",
        "Tan")],
    *[(name, ("complex64", "complex128"), 2, [np.array([0, -0.75j, 2]), np.array([0, 1j, 2 + 1j])], "T", {})
      for name in ("Xdivy", "Xlog1py", "Xlogy")]]


@pytest.mark.parametrize(("name", "dtype", "count", "inputs", "results", "attributes"), [
    pytest.param(name, dtype, *rest, id=f"{name} {dtype}") for name, dtypes, *rest in OF_TYPES for dtype in dtypes])
def test_types(name, dtype, count, inputs, results, attributes):
    """Each type that TensorFlow's kernels take: the results of the widest one."""
    def results_of(kind):
        given = [x.astype(kind) for x in inputs[:count]] + inputs[count:]
        shapes = [(1,) * 4] * len(results.split())
        types = [kind if t == "T" else t for t in results.split()]
        return run(flex_models.model(name, given, list(zip(shapes, types, strict=True)), attributes, []), *given)
    wide = "float32" if name.startswith("NonMax") else "complex128" if dtype.startswith("complex") else "float64"
    for got, want in zip(results_of(dtype), results_of(wide), strict=True):
        assert got.size
        np.testing.assert_allclose(got, want.astype(got.dtype), 1e-6)


# ---- lists of tensors ------------------------------------------------------------------------------------------------
F32 = {"element_dtype": ("type", "float32")}


class Lists:
    """A model that is a chain of ops on lists."""

    def __init__(self):
        self.m = ModelBuilder()
        self.count = 0

    def constant(self, value, dtype="int32"):
        self.count += 1
        return self.m.constant(f"c{self.count}", np.asarray(value, dtype))

    def op(self, name, inputs, outputs=(((), "variant"),), **attributes):
        results = []
        for shape, dtype in outputs:
            self.count += 1
            results.append(self.m.tensor(f"t{self.count}", shape, dtype))
        self.m.operator("FlexTensorList" + name if name != "EmptyTensorList" else "Flex" + name, inputs, results,
                        custom_options=flex_models.custom_options("TensorList" + name, **attributes))
        return results[0] if len(results) == 1 else results

    def build(self, inputs, outputs):
        self.m.inputs(inputs)
        self.m.outputs(outputs)
        return self.m.build()


def test_lists_of_tensors():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    g = Lists()
    given, shape = g.m.tensor("x", (3, 2)), g.constant([2])
    of_rows = g.op("FromTensor", [given, shape], **F32, shape_type=("type", "int32"))
    longer = g.op("Resize", [of_rows, g.constant(5)])
    longest = g.op("PushBack", [longer, g.constant([9, 8], "float32")], **F32)
    count = g.op("Length", [longest], [((), "int32")])
    popped, last = g.op("PopBack", [longest, shape], [((), "variant"), ((2,), "float32")], **F32)
    rows = g.op("Stack", [popped, g.constant([-1])], [((1, 1), "float32")], **F32, num_elements=-1)
    chosen = g.op("Gather", [of_rows, g.constant([2, 0]), shape], [((2, 2), "float32")], **F32)
    unset = g.op("GetItem", [longer, g.constant(4), g.constant([-1])], [((2,), "float32")], **F32)
    sizes = g.op("ElementShape", [of_rows], [((1,), "int32")], shape_type=("type", "int32"))
    started = g.op("EmptyTensorList", [g.constant(-1), g.constant(7)], **F32)
    one = g.op("PushBack", [started, given], **F32)
    back = g.op("Stack", [one, g.constant(-1)], [((1, 3, 2), "float32")], **F32, num_elements=1)
    got = run(g.build([given], [count, last, rows, chosen, unset, sizes, back]), x)
    zeros = np.zeros((2, 2), np.float32)
    for y, want in zip(got, [np.int32(6), np.float32([9, 8]), np.concatenate([x, zeros]), x[[2, 0]], zeros[0],
                             np.int32([2]), x[None]], strict=True):
        np.testing.assert_array_equal(y, want)


def test_a_list_keeps_its_items_when_memory_is_reused():
    """What was written stays, and an earlier list is not changed by what is made of it."""
    g = Lists()
    x = g.m.tensor("x", (2,))
    first = g.op("SetItem", [g.op("Reserve", [g.constant([2]), g.constant(2)], **F32), g.constant(0), x], **F32)
    other = g.m.tensor("other", (2,))
    g.m.operator("NEG", [x], [other])
    second = g.op("SetItem", [first, g.constant(0), other], **F32)
    stacked = [g.op("Stack", [which, g.constant([2])], [((2, 2), "float32")], num_elements=2)
               for which in (first, second)]
    got = run(g.build([x], stacked), np.float32([1, 2]))
    assert [y.tolist() for y in got] == [[[1, 2], [0, 0]], [[-1, -2], [0, 0]]]


@pytest.mark.parametrize(("name", "inputs", "text"), [
    ("SetItem", [2, np.float32([1, 2])], "there is no item 2 in a list of 2"),
    ("SetItem", [-1, np.float32([1, 2])], "there is no item -1"),
    ("SetItem", [0, np.float32([1, 2, 3])], r"shape \[3\] does not fit one of \[2\]"),
    ("SetItem", [0, np.int32([1, 2])], "an item of int32 does not fit a list of float32"),
    ("GetItem", [5, np.int32([2])], "there is no item 5"), ("Resize", [-1], "a list of -1 items"),
    ("Resize", [2**31 - 1], "a list of 2147483647 items; 0 to 16777216 are possible"),
    ("Stack", [np.int32([3])], r"shape \[3\] does not fit one of \[2\]")])
def test_wrong_use_of_lists(name, inputs, text):
    g = Lists()
    given = g.op("Reserve", [g.constant([2]), g.constant(2)], **F32)
    operands = [g.constant(x, np.asarray(x).dtype if np.ndim(x) else "int32") for x in inputs]
    results = [((1, 1), "float32")] if name in ("GetItem", "Stack") else [((), "variant")]
    result = g.op(name, [given, *operands], results, num_elements=-1, **F32)
    end = g.op("Length", [result], [((), "int32")]) if results[0][1] == "variant" else result
    i = interpreter(g.build([], [end]))
    i.allocate_tensors()
    with pytest.raises(ExecutionError, match=rf"FlexTensorList{name}.*{text}"):
        i.invoke()


def test_a_variant_without_a_list():
    with pytest.raises(TypeError, match="holds no list of tensors"):
        tensor_lists.length(np.array(None))


# ---- attributes ------------------------------------------------------------------------------------------------------
def test_attributes():
    given = {"s": "SAME", "i": -3, "large": 1 << 40, "f": 0.5, "yes": True, "no": False, "t": ("type", "int64"),
             "shape": ("shape", [2, -1]), "unknown": ("shape", None), "ints": [1, -2, 300], "floats": [0.5, -2.0],
             "bools": [True, False], "none": []}
    found = node_def.attributes(flex_models.custom_options("Op", **given), "FlexOp")
    assert found == given | {"t": "int64", "shape": (2, -1), "unknown": None}


def refusal(content):
    """The message of the ModelError for damaged custom options, or None."""
    try:
        node_def.attributes(content, "FlexCropAndResize")
    except ModelError as error:
        return str(error)
    return None


def test_damaged_attributes():
    """Every cut and every changed byte is a ModelError that names the operator, or another value."""
    whole = flex_models.custom_options("CropAndResize", method="nearest", extrapolation_value=0.5, n=[1, 2])
    random, refused = np.random.default_rng(0), 0
    damaged = [whole[:n] for n in range(len(whole))]
    for _ in range(500):
        changed = bytearray(whole)
        changed[random.integers(len(whole))] = random.integers(256)
        damaged.append(bytes(changed))
    for content in damaged:
        if refusal(content):
            assert "'FlexCropAndResize': its custom options" in refusal(content)
            refused += 1
    assert refused > 200


# ---- registering -----------------------------------------------------------------------------------------------------
ERF = flex_models.model("Erf", [np.float32([0])], [((1,), "float32")])


def test_nothing_is_registered_unasked():
    with pytest.raises(UnsupportedOpError, match=r"unresolved custom op: FlexErf.*pylite\.flex\.register\(\)"):
        pylite.Interpreter(model_content=ERF).allocate_tensors()


def test_registering(registered):
    flex.register()
    i = pylite.Interpreter(model_content=ERF)
    i.allocate_tensors()
    i.invoke()
    assert i.get_tensor(i.get_output_details()[0]["index"]) == 0


def test_the_error_names_the_ops_that_are_left(registered):
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (2,)) for name in "xyz")
    m.operator("FlexErf", [x], [y], custom_options=flex_models.custom_options("Erf"))
    m.operator("FlexSomethingElse", [y], [z], custom_options=flex_models.custom_options("SomethingElse"))
    m.inputs([x])
    m.outputs([z])
    flex.register()
    with pytest.raises(UnsupportedOpError) as caught:
        pylite.Interpreter(model_content=m.build()).allocate_tensors()
    text = str(caught.value)
    assert "FlexSomethingElse" in text and "FlexErf" not in text and "pylite.flex lacks it" in text


def test_chosen_ops(registered):
    with pytest.raises(ValueError, match=r"pylite\.flex has no FlexNothing; it has FlexAcos, "):
        flex.register("FlexNothing")
    flex.register("FlexTan")
    with pytest.raises(UnsupportedOpError, match="FlexErf"):
        pylite.Interpreter(model_content=ERF).allocate_tensors()


def test_an_op_of_the_program_stays(registered):
    pylite.custom_op("FlexErf")(lambda x, y: y.fill(7))
    flex.register()
    i = pylite.Interpreter(model_content=ERF)
    i.allocate_tensors()
    i.invoke()
    assert i.get_tensor(i.get_output_details()[0]["index"]) == 7


@pytest.mark.parametrize(("content", "text"), [
    (flex_models.model("Erf", [np.int32([0])], [((1,), "int32")]), r"does not take the types \(int32\) -> \(int32\)"),
    (flex_models.model("Cross", [np.float32([0]), np.float32([0])], [((1,), "float32")]), "FlexCross.*end with 3"),
    (flex_models.model("RFFT", [np.float32([0]), np.int32([0])], [((1,), "complex64")], constant=[1]),
     r"FlexRFFT: tensor 1.*\[0\] should be 1 positive sizes"),
    (flex_models.model("AudioSpectrogram", [np.zeros((9, 1), np.float32)], [((1, 1, 1), "float32")]),
     "FlexAudioSpectrogram.*window_size")])
def test_wrong_operands(content, text):
    with pytest.raises(OpError, match=text):
        interpreter(content).allocate_tensors()


def test_shapes_follow_a_resize():
    """A resized input has results of its size, where sizes are known before a run."""
    x = np.zeros((1, 4), np.float32)
    i = interpreter(flex_models.model("Softsign", [x], [((1, 4), "float32")]))
    for rows in (1, 3, 2):
        i.resize_tensor_input(0, [rows, 4])
        i.allocate_tensors()
        assert i.get_output_details()[0]["shape"].tolist() == [rows, 4]
        i.set_tensor(0, np.full((rows, 4), 3, np.float32))
        i.invoke()
        assert (i.get_tensor(1) == 0.75).all()
