"""Programs that are recorded for many shapes equal fresh lowerings: of every op's one-op models, at random shapes."""
import importlib
import pkgutil
import zlib
from collections import Counter

import numpy as np
import pytest

import tests.ops
from pylite import errors
from pylite._core.graph.dimensions import Recording, UnrecordableError
from pylite._core.kernels import kernel_class
from pylite._core.product import layouts
from pylite._core.run.kernel import Kernel
from pylite._core.run.program import Callee
from pylite.compiler.settling import settle
from pylite.interpreter import Interpreter
from pylite.ir.graph import Tensor
from pylite.ir.values import Call, Packed, Scratch, Value, View
from pylite.runtime import recorded_program
from pylite.schema.builder import ModelBuilder
from tests.interpreter.test_half_storage import mobile
from tests.tools import op_models
from tests.tools.oneop import draw

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33)
TRIES = 4           # random sets of shapes for each model
LARGE = 1 << 14     # elements of inputs that would take long


# ---- what is compared ----------------------------------------------------------------------------------------
def described(thing):
    """`thing`, an arg of a Call, as something that is equal for args that kernels cannot tell apart."""
    kind = type(thing)
    if kind is Callee or hasattr(thing, "renew"):
        return "a subgraph that is called"
    if isinstance(thing, Value):
        data = None if thing.data is None else (thing.data.dtype.str, thing.data.tolist())
        return (kind.__name__, thing.index, thing.shape, thing.dtype, thing.root.index, thing.byte_offset, data)
    if kind is View:
        return ("View", described(thing.value), thing.shape, thing.strides, thing.offset, thing.dtype)
    if kind is Scratch:
        return ("Scratch", thing.shape, thing.dtype)
    if kind is Packed:
        return ("Packed", thing.function, described(thing.value), described(thing.args))
    if kind is np.ndarray:
        return (thing.dtype.str, thing.shape, thing.tobytes())
    if isinstance(thing, (tuple, list)):
        return [described(item) for item in thing]
    if isinstance(thing, (int, float, str, bytes, bool, np.generic)) or thing is None:
        return (type(thing).__name__, repr(thing))
    if hasattr(kind, "__slots__"):
        return (kind.__name__, [described(getattr(thing, name)) for name in kind.__slots__])
    raise AssertionError(f"{thing!r} cannot be compared")


def listed(lowered):
    """All of a Lowered that programs and inspection depend on."""
    calls = [(call.kernel, call.note, call.strided, call.names, described(call.args))
             for call in lowered.calls]
    values = [(v.index, v.shape, v.dtype, v.kind, v.root.index, v.byte_offset,
               None if v.data is None else v.data.tolist()) for v in lowered.values]
    return calls, values, dict(lowered.notes)


def fresh(content, shapes, precision):
    """An Interpreter that is lowered for input shapes."""
    interpreter = Interpreter(model_content=content, precision=precision)
    for index, shape in zip([d["index"] for d in interpreter.get_input_details()], shapes, strict=True):
        interpreter.resize_tensor_input(index, shape)
    interpreter.allocate_tensors()
    return interpreter


def outputs(interpreter, rng):
    """Results for random inputs of an Interpreter that is allocated, bytes or lists of strings."""
    for detail in interpreter.get_input_details():
        shape, dtype = tuple(detail["shape"]), np.dtype(detail["dtype"])
        if dtype.hasobject or dtype == np.bytes_:
            array = np.full(shape, b"abc", object)
        elif dtype.kind in "fc":
            array = rng.normal(0, 1, shape).astype(dtype)
        else:
            array = rng.integers(0, 3, shape).astype(dtype)
        interpreter.set_tensor(detail["index"], array)
    try:
        interpreter.invoke()
    except errors.PyliteError as error:
        return str(error)
    arrays = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    return [array.tolist() if array.dtype.hasobject else array.tobytes() for array in arrays]


# ---- shapes --------------------------------------------------------------------------------------------------
def resized(shapes, constant, rng):
    """Input shapes where one size, or some dimensions, have others."""
    places = [(i, axis) for i, shape in enumerate(shapes) if not constant[i] for axis in range(len(shape))]
    if not places:
        return shapes
    chosen = places[rng.integers(len(places))]
    old = shapes[chosen[0]][chosen[1]]
    if rng.integers(3):     # everything of this size is likely to be the same dimension
        group = [(i, a) for i, a in places if shapes[i][a] == old]
    else:
        group = [chosen] + [place for place in places if rng.integers(4) == 0]
    new, made = int(rng.choice(SIZES)), [list(shape) for shape in shapes]
    for i, axis in group:
        made[i][axis] = new
    return [tuple(shape) for shape in made]


def attributes(interpreter):
    """What each kernel has that shows in no result."""
    return [(type(kernel).__name__, kernel.algorithm, kernel.subnormals)
            for kernel in interpreter._main.current.program.kernels]


def check(content, label, counts=None, tries=TRIES, precision=None):
    """Compare a recording of a model with fresh lowerings at random shapes; counts: of what happened."""
    counts = Counter() if counts is None else counts
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    try:
        interpreter = Interpreter(model_content=content, precision=precision)
        interpreter.allocate_tensors()
    except (errors.PyliteError, ValueError):
        return counts
    executor = interpreter._main
    first = list(executor.shapes)
    if max([np.prod(shape) for shape in first], default=0) > LARGE:
        return counts
    constant = [executor.subgraph.tensors[i].data is not None for i in executor.subgraph.inputs]
    programs = []
    for _ in range(tries):
        shapes = resized(resized(first, constant, rng), constant, rng) if rng.integers(2) else resized(
            first, constant, rng)
        if shapes == first:
            continue
        try:
            other = fresh(content, shapes, precision)
        except (errors.PyliteError, ValueError, MemoryError):
            other = None
        counts["shapes"] += other is not None
        for program in programs:
            holds = program.evaluate(shapes)
            assert other is not None or not holds, f"{label}: {shapes} is refused, but the recording takes it"
            counts["held"] += holds
            if holds:
                assert listed(program.instance(program.tape.numbers_now()).lowered()) == listed(
                    other._main.current.lowered), f"{label}: {shapes}"
        for index, shape in zip([d["index"] for d in interpreter.get_input_details()], shapes, strict=True):
            interpreter.resize_tensor_input(index, shape)
        try:
            interpreter.allocate_tensors()
            allocated = True
        except (errors.PyliteError, ValueError, MemoryError):
            allocated = False
        assert allocated == (other is not None), f"{label}: {shapes} is refused, when fresh or by a recording"
        if not allocated:
            continue
        seed = int(rng.integers(1 << 30))
        kind = type(interpreter._main.current).__name__
        counts[kind] += 1
        counts["by data"] += other._main.current.boundary is not None or bool(other._main.shared.generators)
        got, want = (outputs(x, np.random.default_rng(seed)) for x in (interpreter, other))
        assert got == want, f"{label}: {shapes}, {kind}"
        if kind == "ShapedProgram" and other._main.current.boundary is None:
            assert attributes(interpreter) == attributes(other), f"{label}: {shapes}"
        got, want = ([tuple(d["shape"]) for d in x.get_tensor_details()] for x in (interpreter, other))
        assert got == want, f"{label}: {shapes}"
        programs = [program for history in executor.cache.histories.values() for program in history.programs]
    return counts


# ---- every op ------------------------------------------------------------------------------------------------
def drawn():
    """{name: (function, dtypes)} of every random one-op model of tests/ops."""
    found = {}
    for module in pkgutil.iter_modules(tests.ops.__path__):
        if module.name.startswith("test_"):
            for name, test in vars(importlib.import_module(f"tests.ops.{module.name}")).items():
                if hasattr(test, "drawn"):
                    found[f"{module.name}.{name}"] = test.drawn[:2]
    return found


DRAWN = drawn()
# modules with the ops of most kernels that move
MOVING = tuple([f"test_{name}." for name in (
    "arithmetic", "batch_matmul", "convolution", "fully_connected", "gather", "hybrid_deep", "indexing", "lookup",
    "lstm_integer", "lstm_narrow", "padding", "pooling", "recurrent", "reduction", "softmax", "unary")])


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_recordings_equal_fresh_lowerings(name):
    function, dtypes = DRAWN[name]
    for dtype in dtypes:
        check(draw(function, dtype, 0)[0], f"{name} {dtype}")


@pytest.mark.parametrize("name", [name for name in sorted(DRAWN) if name.startswith(MOVING)])
def test_kernels_for_many_shapes_equal_fresh_ones(name):
    """Kernels that follow from those for other shapes."""
    function, dtypes = DRAWN[name]
    for dtype in dtypes:
        check(draw(function, dtype, 1)[0], f"{name} {dtype}", tries=10)


def test_kernels_in_float16_equal_fresh_ones():
    check(mobile(), "float16", tries=20, precision="emulate_float16")


class Constructors:
    """kernel_class() whose classes note the kernels that they construct."""

    def __init__(self):
        self.made = []

    def __call__(self, name):
        kind = kernel_class(name)

        def construct(*args, **named):
            self.made.append(kind(*args, **named))
            return self.made[-1]
        construct.ARRAYS, construct.SIZES = kind.ARRAYS, kind.SIZES
        return construct


def moved_classes(content, constructors, precision=None):
    """The names of the classes whose kernels moved to further shapes of the first input."""
    found = set()
    interpreter = Interpreter(model_content=content, precision=precision)
    shape = interpreter.get_input_details()[0]["shape"].tolist()
    for axis in range(len(shape)):
        for size in (2, 3, 4, 5):
            interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"],
                                            [*shape[:axis], shape[axis] + size, *shape[axis + 1:]])
            try:
                interpreter.allocate_tensors()
            except (errors.PyliteError, ValueError):
                break
            if type(interpreter._main.current).__name__ == "ShapedProgram":
                made = {id(kernel) for kernel in constructors.made}
                found |= {type(kernel) for kernel in interpreter._main.current.program.kernels
                          if id(kernel) not in made}
    return found


def functions_in_sequence():
    """A model whose functions one kernel computes, as many elements pass through them."""
    m = ModelBuilder()
    values = [m.tensor(name, (1, 70_000)) for name in "abcd"]
    for name, x, y in zip(("LOGISTIC", "TANH", "EXP"), values, values[1:], strict=False):
        m.operator(name, [x], [y])
    m.inputs(values[:1])
    m.outputs(values[-1:])
    return m.build()


def stored_as_float16():
    """A model with many weights of float16."""
    m = ModelBuilder()
    x, w, y = m.tensor("x", (2, 512)), m.tensor("w", (200, 512)), m.tensor("y", (2, 200))
    m.operator("DEQUANTIZE", [m.constant("half", np.ones((200, 512), np.float16))], [w])
    m.operator("FULLY_CONNECTED", [x, w, -1], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


def test_every_class_that_has_moved_uses_it(monkeypatch):
    """moved() may refuse by mistake, which costs time but changes no result."""
    constructors, moved = Constructors(), set()
    monkeypatch.setattr(recorded_program, "kernel_class", constructors)
    for name, (function, dtypes) in DRAWN.items():
        if name.startswith(MOVING) or name.startswith("test_convolution_3d."):
            for dtype in dtypes:
                for seed in range(3):
                    try:
                        moved |= moved_classes(draw(function, dtype, seed)[0], constructors)
                    except (errors.PyliteError, ValueError, IndexError):
                        continue
    moved |= moved_classes(functions_in_sequence(), constructors)
    moved |= moved_classes(stored_as_float16(), constructors)
    moved |= moved_classes(mobile(), constructors, "emulate_float16")
    every = {kind for kind in subclasses(Kernel) if kind.ARRAYS and not subclasses(kind)}
    assert {kind.__name__ for kind in every - moved} == set()


def subclasses(kind):
    """All classes below `kind`."""
    direct = set(kind.__subclasses__())
    return direct.union(*[subclasses(other) for other in direct])


@pytest.mark.parametrize("line", op_models.lines(), ids=lambda line: line.op)
def test_recordings_of_every_op(line):
    checked, total = 0, Counter()
    for choice in line.cases():
        counts = check(line.model(choice), f"{line.op} {line.signature} {choice}")
        total += counts
        checked += bool(counts["shapes"])
        if checked == 2:
            break
    assert total["ShapedProgram"] or total["shapes"] == total["by data"], "no shape is served by a recording"


@pytest.mark.parametrize("kind", layouts.FilterLayout.__subclasses__(), ids=lambda kind: kind.__name__)
def test_a_layout_of_filters_is_recorded_with_guards(kind):
    recording = Recording()
    layout = kind.__new__(kind)
    for name in kind.__slots__:
        setattr(layout, name, recording.add_input(3))
    call = Call("conv.ConvQ8", Packed(np.negative, Value(Tensor(0, "w", "int8", (1,), (1,))), layout))
    settle(call)
    assert [getattr(layout, name) for name in kind.__slots__] == [3] * len(kind.__slots__)
    assert len(recording.guards) == len(kind.__slots__)


def test_a_chain_of_subgraphs_is_lowered_once_each():
    """Inference and lowering ask for the same callee: 2^60 times without a memory of it."""
    m = ModelBuilder()
    for k in range(60):
        m.subgraph(f"s{k}")
        x, y = m.tensor("x", (2, 3), shape_signature=(-1, 3)), m.tensor("y", (2, 3))
        if k < 59:
            m.operator("STABLEHLO_COMPOSITE", [x], [y], name="t", decomposition_subgraph_index=k + 1)
        else:
            m.operator("NEG", [x], [y])
        m.inputs([x])
        m.outputs([y])
    interpreter = Interpreter(model_content=m.build())
    for rows in (2, 5, 7, 5, 4):
        interpreter.resize_tensor_input(0, (rows, 3))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, np.full((rows, 3), rows, np.float32))
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(1), np.full((rows, 3), -rows, np.float32))


def test_kernels_that_run_python_are_not_recorded():
    """Whatever their functions are made from may depend on a dimension."""
    for kernel in ("python_op.PythonOp", "python_op.CustomOp", len):
        with pytest.raises(UnrecordableError, match="keeps the objects"):
            settle(Call(kernel, len, 0, 0))
    settle(Call("variables.Read", None, None))        # of one interpreter, but without a function
