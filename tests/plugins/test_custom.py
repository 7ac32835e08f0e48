"""Custom ops in Python: life cycle, declaration, options, pickling, overhead."""
import gc
import math
import pickle
import weakref

import numpy as np
import pytest

import pylite
from pylite import CustomOp, custom_op
from pylite.plugins import custom, resolver
from pylite.schema.builder import ModelBuilder
from tests.tools.custom_models import interpreter, model, run, tracing

X = np.array([[-8, 0.5, 2], [2.2, 201, 0]], np.float32)


class TestLifeCycle:
    def test_each_node_has_its_own_object(self):
        log = []
        i = interpreter(model(nodes=2), ("Atan", tracing(log)))
        assert log == [("init", 0), ("init", 1)]
        i.allocate_tensors()
        assert log[2:] == [("prepare", 0, (2, 3)), ("prepare", 1, (2, 3))]
        del log[:]
        i.allocate_tensors()
        assert log == []
        np.testing.assert_array_equal(run(i, X), X + 2)
        assert log == [("invoke", 0), ("invoke", 1)]
        del log[:], i
        assert log == [("free", 0), ("free", 1)]

    def test_every_resize_prepares_again_even_for_an_earlier_shape(self):
        log = []
        i = interpreter(model(), ("Atan", tracing(log)))
        for shape in [(2, 3), (4, 1), (2, 3)]:
            i.resize_tensor_input(0, shape)
            i.allocate_tensors()
            i.resize_tensor_input(0, shape)
            i.allocate_tensors()
        assert log == [("init", 0), ("prepare", 0, (2, 3)), ("prepare", 0, (4, 1)), ("prepare", 0, (2, 3))]

    def test_each_interpreter_has_its_own_objects(self):
        log = []
        known = pylite.BuiltinOpResolver()
        known.add_custom("Atan", tracing(log))
        shared = pylite.Model(model())
        a = pylite.Interpreter(model=shared, op_resolver=known)
        b = pylite.Interpreter(model=shared, op_resolver=known)
        del a
        np.testing.assert_array_equal(run(b, X), X + 1)
        assert [line[0] for line in log] == ["init", "init", "free", "prepare", "invoke"]

    def test_ops_of_all_subgraphs_are_created_with_the_interpreter(self):
        m = ModelBuilder()
        for name in ("one", "two"):
            m.subgraph(name)
            x, y = m.tensor("x", (2,)), m.tensor("y", (2,))
            m.operator("Atan", [x], [y], custom_options=b"")
            m.inputs([x])
            m.outputs([y])
            m.signature(name, {"x": x}, {"y": y})
        log = []
        i = interpreter(m.build(), ("Atan", tracing(log)))
        assert log == [("init", 0), ("init", 1)]
        result = i.get_signature_runner("two")(x=np.array([1, 2], np.float32))
        np.testing.assert_array_equal(result["y"], [2, 3])
        assert [line for line in log if line[0] == "prepare"] == [("prepare", 1, (2,))]

    def test_set_num_threads_keeps_the_objects(self):
        log = []
        i = interpreter(model(), ("Atan", tracing(log)))
        i.allocate_tensors()
        i._interpreter.SetNumThreads(2)
        np.testing.assert_array_equal(run(i, X), X + 1)
        assert [line[0] for line in log].count("init") == 1

    def test_objects_are_freed_with_the_interpreter(self):
        class Op(CustomOp):
            def invoke(self, x, y):
                y[...] = x
        made = []
        def make(options):
            op = Op(options)
            made.append(weakref.ref(op))
            return op
        known = pylite.BuiltinOpResolver()
        known.add_custom("Atan", type("Factory", (Op,), {"__new__": lambda cls, options: make(options)}))
        i = pylite.Interpreter(model_content=model(), op_resolver=known)
        run(i, X)
        del i
        gc.collect()
        assert made and all(ref() is None for ref in made)

    def test_a_failing_free_does_not_prevent_the_others(self, monkeypatch):
        log, reported = [], []
        def free(self):
            log.append(("free", self.number))
            raise RuntimeError("no")
        monkeypatch.setattr("sys.unraisablehook", reported.append)
        i = interpreter(model(nodes=2), ("Atan", tracing(log, free=free)))
        del i
        assert log[-2:] == [("free", 0), ("free", 1)]
        assert "node 0 Atan failed to be freed: RuntimeError: no" in str(reported[0].exc_value)


class TestDeclaration:
    def test_a_ufunc_as_an_op(self):
        np.testing.assert_array_equal(run(interpreter(model(), ("Atan", np.arctan)), X), np.arctan(X))

    def test_decorated_function(self, registered):
        @custom_op("Scaled")
        def scaled(x, y, *, gain=1.0, bias=0.0):
            np.multiply(x, gain, out=y)
            y += bias
        i = pylite.Interpreter(model_content=model("Scaled", options={"gain": 3.0, "unknown": 1}))
        np.testing.assert_array_equal(run(i, X), X * 3)
        assert scaled is not None

    def test_decorated_class(self, registered):
        @custom_op("Offset")
        class Offset(CustomOp):
            def invoke(self, x, y):
                np.add(x, self.options["by"], out=y)
        i = pylite.Interpreter(model_content=model("Offset", options={"by": 2.5}))
        np.testing.assert_array_equal(run(i, X), X + np.float32(2.5))
        custom.unregister("Offset")
        with pytest.raises(ValueError, match="unresolved custom op: Offset"):
            pylite.Interpreter(model_content=model("Offset")).allocate_tensors()

    def test_shapes_argument_of_a_function_op(self, registered):
        @custom_op("Sum", shapes=lambda x, *, axis: [x[:axis] + x[axis + 1:]])
        def total(x, y, *, axis):
            x.sum(axis, out=y)
        i = pylite.Interpreter(model_content=model("Sum", options={"axis": 1}))
        np.testing.assert_array_equal(run(i, X), X.sum(1))
        assert i.get_output_details()[0]["shape"].tolist() == [2]

    def test_versions(self, registered):
        custom_op("Atan", version=1)(np.arctan)
        custom_op("Atan", version=(2, 3))(np.tan)
        for version, expected in [(1, np.arctan), (2, np.tan), (3, np.tan)]:
            i = pylite.Interpreter(model_content=model(version=version))
            np.testing.assert_array_equal(run(i, X), expected(X))
        with pytest.raises(RuntimeError, match="unresolved custom op: Atan in version 4"):
            pylite.Interpreter(model_content=model(version=4)).allocate_tensors()

    def test_a_builtin_op_can_be_replaced(self, registered):
        content = model("ABS", custom_options=False)
        np.testing.assert_array_equal(run(pylite.Interpreter(model_content=content), X), np.abs(X))
        custom_op("ABS")(np.negative)
        np.testing.assert_array_equal(run(pylite.Interpreter(model_content=content), X), -X)
        custom.unregister("ABS")
        np.testing.assert_array_equal(run(pylite.Interpreter(model_content=content), X), np.abs(X))

    def test_a_custom_op_has_no_name_of_a_builtin_op(self, registered):
        """Neither a registration nor a model of a custom op "ABS" reaches the builtin op."""
        with pytest.raises(ValueError, match=r"'ABS' is the name of a builtin op.*add_builtin\('ABS', \.\.\.\)"):
            pylite.BuiltinOpResolver().add_custom("ABS", np.negative)
        ops = pylite.BuiltinOpResolver()
        ops.add_builtin("ABS", np.negative)
        content = model("ABS", custom_options=False)
        np.testing.assert_array_equal(run(pylite.Interpreter(model_content=content, op_resolver=ops), X), -X)
        np.testing.assert_array_equal(run(pylite.Interpreter(model_content=content), X), np.abs(X))
        code = pylite.schema.load(model("ABSX"))
        assert code.subgraphs[0].operators[0].custom
        content = bytes(model("ABSX")).replace(b"ABSX", b"ABS\0").replace(b"\x04\0\0\0ABS\0", b"\x03\0\0\0ABS\0")
        assert pylite.schema.load(content).subgraphs[0].operators[0].name == "ABS"
        for known in (None, ops):
            with pytest.raises(RuntimeError, match=r"unresolved custom op: ABS \(node 0\)\. It has the name of a"):
                pylite.Interpreter(model_content=content, op_resolver=known).allocate_tensors()

    def test_options_of_a_replaced_builtin_op_are_attributes(self):
        m = ModelBuilder()
        x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
        m.operator("SOFTMAX", [x], [y], beta=2.0)
        m.inputs([x])
        m.outputs([y])
        class Softmax(CustomOp):
            def invoke(self, x, y):
                y[...] = self.options.beta
        ops = pylite.BuiltinOpResolver()
        ops.add_builtin("SOFTMAX", Softmax)
        assert run(pylite.Interpreter(model_content=m.build(), op_resolver=ops), X).max() == 2

    def test_raw_options(self):
        class Raw(CustomOp):
            raw_options = True

            def invoke(self, x, y):
                y[...] = len(self.options)
        m = ModelBuilder()
        x, y = m.tensor("x", (1,)), m.tensor("y", (1,))
        m.operator("Raw", [x], [y], custom_options=b"\xff\xfe\xfd")
        m.inputs([x])
        m.outputs([y])
        assert run(interpreter(m.build(), ("Raw", Raw)), np.zeros(1, np.float32)) == 3
        with pytest.raises(ValueError, match="'Raw': its custom options"):
            interpreter(m.build(), ("Raw", np.negative))

    def test_invalid_declarations_are_refused(self):
        known = pylite.MutableOpResolver()
        with pytest.raises(TypeError, match="neither a class nor a function"):
            known.add_custom("A", 3)
        with pytest.raises(TypeError, match="has no invoke"):
            known.add_custom("A", dict)
        with pytest.raises(TypeError, match="`shapes` is for functions"):
            known.add_custom("A", CustomOp, shapes=lambda x: x)


class Doubled(CustomOp):
    def invoke(self, x, y):
        np.multiply(x, 2, out=y)


def test_pickled_interpreters_have_their_custom_ops():
    known = pylite.BuiltinOpResolver()
    known.add_custom("Atan", Doubled)
    i = pickle.loads(pickle.dumps(pylite.Interpreter(model_content=model(), op_resolver=known)))
    np.testing.assert_array_equal(run(i, X), X * 2)


def test_registerers():
    def register(known):
        known.add_custom("Atan", np.arctan)
    i = pylite.InterpreterWithCustomOps([register], model_content=model())
    np.testing.assert_array_equal(run(i, X), np.arctan(X))
    with pytest.raises(ValueError, match="'TF_Register'"):
        pylite.InterpreterWithCustomOps(["TF_Register"], model_content=model())
    with pytest.raises(ValueError, match="load_custom_ops"):
        pylite.InterpreterWithCustomOps([math.pi], model_content=model())


def test_outputs_with_data_dependent_shapes():
    class Positive(pylite.CustomOp):
        prepared = 0

        def prepare(self, node):
            Positive.prepared += 1
            node.outputs[1].dtype = "int32"

        def evaluate(self, x):
            return x[x > 0], np.flatnonzero(x > 0)
    m = ModelBuilder()
    x, y, at, z = m.tensor("x", (4,)), m.tensor("y", (1,)), m.tensor("at", (1,), "int32"), m.tensor("z", (1,))
    m.operator("Positive", [x], [y, at], custom_options=b"")
    m.operator("NEG", [y], [z])
    m.inputs([x])
    m.outputs([at, z])
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Positive", Positive)
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.allocate_tensors()
    for numbers in ([1, -2, 3, 4], [1, -2, 3, 4], [-1, -2, -3, -4], [0, 0, 0, 7]):
        numbers = np.array(numbers, np.float32)
        i.set_tensor(x, numbers)
        i.invoke()
        np.testing.assert_array_equal(i.get_tensor(z), -numbers[numbers > 0])
        np.testing.assert_array_equal(i.get_tensor(at), np.flatnonzero(numbers > 0))
    assert Positive.prepared == 1


@pytest.mark.parametrize("wrong", [False, True])
def test_known_shapes_of_evaluated_results(wrong):
    """Where prepare() gives the shapes, what follows is prepared with it; evaluate() must keep to them."""
    class Rows(pylite.CustomOp):
        def prepare(self, node):
            return (node.inputs[0].shape[0],)

        def evaluate(self, x):
            return x.sum(1)[wrong:]
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Rows", Rows)
    m = ModelBuilder()
    x, y, z = m.tensor("x", (3, 2)), m.tensor("y", (3,)), m.tensor("z", (3,))
    m.operator("Rows", [x], [y], custom_options=b"")
    m.operator("NEG", [y], [z])
    m.inputs([x])
    m.outputs([z])
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.resize_tensor_input(x, [4, 2])
    i.allocate_tensors()
    assert i.get_output_details()[0]["shape"].tolist() == [4]
    if wrong:
        with pytest.raises(RuntimeError, match=r"Rows.*the shape \[3\] for output 0; its prepare\(\) had given"):
            i.invoke()
        return
    given = np.arange(8, dtype=np.float32).reshape(4, 2)
    i.set_tensor(x, given)
    i.invoke()
    assert i.get_tensor(z).tolist() == (-given.sum(1)).tolist()


def test_a_state_lasts_until_all_variables_are_reset():
    class Counting(CustomOp):
        count = 0

        def invoke(self, x, y):
            self.count += 1
            y[...] = self.count

        def reset(self):
            self.count = 0
    i = interpreter(model(), ("Atan", Counting))
    assert [run(i, X).flat[0] for _ in range(3)] == [1, 2, 3]
    i.reset_all_variables()
    assert run(i, X).flat[0] == 1
    i.allocate_tensors()
    assert run(i, X).flat[0] == 2


def test_an_input_may_give_the_shape_of_an_output():
    """prepare() runs again when the contents change, and only then."""
    asked = []

    class Repeat(CustomOp):
        def prepare(self, node):
            count = int(node.constant(1))
            asked.append(count)
            return (count,)

        def invoke(self, x, count, y):
            y[...] = x
    m = ModelBuilder()
    x, count, y, z = m.tensor("x", (1,)), m.tensor("count", (), "int32"), m.tensor("y", (-1,)), m.tensor("z", (-1,))
    m.operator("Repeat", [x, count], [y], custom_options=b"")
    m.operator("NEG", [y], [z])
    m.inputs([x, count])
    m.outputs([z])
    i = interpreter(m.build(), ("Repeat", Repeat))
    i.allocate_tensors()
    i.set_tensor(x, np.float32([7]))
    for n in 2, 3, 3, 0, 1:
        i.set_tensor(count, np.int32(n))
        i.invoke()
        assert i.get_tensor(z).tolist() == [-7] * n
    assert asked == [2, 3, 0, 1]


def test_errors_of_nodes_with_many_operands_name_a_few():
    m = ModelBuilder()
    x = [m.tensor(f"x{i}", (1,)) for i in range(6)]
    y = m.tensor("y", (1,))
    m.operator("Many", [*x, m.constant("c", np.ones(1, np.float32))], [y], custom_options=b"")
    m.inputs(x)
    m.outputs([y])

    def fail(*arrays):
        raise OSError("NPU hung")

    def few(x, y):
        pass
    i = interpreter(m.build(), ("Many", fail))
    i.allocate_tensors()
    with pytest.raises(RuntimeError, match=r"NPU hung; its tensors: .*'x0'.*'x3'.* and 4 more$") as caught:
        i.invoke()
    assert "'c'" not in str(caught.value)
    with pytest.raises(RuntimeError, match=r"Write def few\(\*arrays\): its inputs, outputs"):
        interpreter(m.build(), ("Many", few)).allocate_tensors()
