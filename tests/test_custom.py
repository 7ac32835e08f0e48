"""Custom ops in Python: their life, what they may do, and how their failures reach the caller."""
import gc
import pickle
import time
import weakref

import numpy as np
import pytest
from flatbuffers import flexbuffers

import pylite
from pylite import custom, resolver
from pylite.custom import CustomOp, custom_op
from pylite.schema.builder import ModelBuilder

X = np.array([[-8, 0.5, 2], [2.2, 201, 0]], np.float32)


def model(name="Atan", nodes=1, shape=(2, 3), options=None, inputs=1, outputs=1, dtype="float32", out_dtype=None,
          version=1, custom_options=True):
    """A chain of `nodes` nodes, each with so many outputs, of which the next takes the first."""
    m = ModelBuilder()
    xs = [m.tensor(f"x{i}", shape, dtype) for i in range(inputs)]
    feed = xs
    for n in range(nodes):
        ys = [m.tensor(f"y{n}_{i}", shape, out_dtype or dtype) for i in range(outputs)]
        extra = {"custom_options": flexbuffers.Dumps(options) if options is not None else b""} if custom_options else {}
        m.operator(name, feed, ys, version=version, **extra)
        feed = ys[:1] + xs[1:]
    m.inputs(xs)
    m.outputs(ys)
    return m.build()


def interpreter(content, *ops, **arguments):
    """An interpreter with these (name, implementation) on top of all builtin ops."""
    known = pylite.BuiltinOpResolver()
    for name, op in ops:
        known.add_custom(name, op)
    return pylite.Interpreter(model_content=content, op_resolver=known, **arguments)


def run(i, *arrays):
    i.allocate_tensors()
    for detail, array in zip(i.get_input_details(), arrays, strict=True):
        i.set_tensor(detail["index"], array)
    i.invoke()
    results = [i.get_tensor(d["index"]) for d in i.get_output_details()]
    return results[0] if len(results) == 1 else results


@pytest.fixture
def registered():
    """Whatever a test registers is forgotten after it."""
    before = {name: list(ops) for name, ops in resolver.registered._entries.items()}
    yield
    resolver.registered._entries.clear()
    resolver.registered._entries.update(before)


def tracing(log, **methods):
    """A CustomOp class that writes down what is called."""
    class Traced(CustomOp):
        def __init__(self, options):
            super().__init__(options)
            self.number = len([line for line in log if line[0] == "init"])
            log.append(("init", self.number))

        def prepare(self, node):
            log.append(("prepare", self.number, node.inputs[0].shape))
            return node.inputs[0].shape

        def invoke(self, x, y):
            log.append(("invoke", self.number))
            y[...] = x + 1

        def free(self):
            log.append(("free", self.number))
    for name, method in methods.items():
        setattr(Traced, name, method)
    return Traced


class TestLife:
    def test_each_node_has_an_object_of_its_own(self):
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

    def test_resizing_prepares_again_also_for_shapes_seen_before(self):
        log = []
        i = interpreter(model(), ("Atan", tracing(log)))
        for shape in [(2, 3), (4, 1), (2, 3)]:
            i.resize_tensor_input(0, shape)
            i.allocate_tensors()
            i.resize_tensor_input(0, shape)
            i.allocate_tensors()
        assert log == [("init", 0), ("prepare", 0, (2, 3)), ("prepare", 0, (4, 1)), ("prepare", 0, (2, 3))]

    def test_every_interpreter_has_its_own(self):
        log = []
        known = pylite.BuiltinOpResolver()
        known.add_custom("Atan", tracing(log))
        shared = pylite.Model(model())
        a = pylite.Interpreter(model=shared, op_resolver=known)
        b = pylite.Interpreter(model=shared, op_resolver=known)
        del a
        np.testing.assert_array_equal(run(b, X), X + 1)
        assert [line[0] for line in log] == ["init", "init", "free", "prepare", "invoke"]

    def test_ops_of_every_subgraph_are_made_at_once(self):
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

    def test_other_threads_keep_the_objects(self):
        log = []
        i = interpreter(model(), ("Atan", tracing(log)))
        i.allocate_tensors()
        i._interpreter.SetNumThreads(2)
        np.testing.assert_array_equal(run(i, X), X + 1)
        assert [line[0] for line in log].count("init") == 1

    def test_nothing_stays_alive(self):
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

    def test_one_free_that_fails_does_not_keep_the_others(self, monkeypatch):
        log, reported = [], []
        def free(self):
            log.append(("free", self.number))
            raise RuntimeError("no")
        monkeypatch.setattr("sys.unraisablehook", reported.append)
        i = interpreter(model(nodes=2), ("Atan", tracing(log, free=free)))
        del i
        assert log[-2:] == [("free", 0), ("free", 1)]


class TestDeclaring:
    def test_a_ufunc_is_an_op(self):
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

    def test_shapes_of_a_function(self, registered):
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

    def test_options_of_a_replaced_builtin_op_are_attributes(self):
        m = ModelBuilder()
        x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
        m.operator("SOFTMAX", [x], [y], beta=2.0)
        m.inputs([x])
        m.outputs([y])
        class Softmax(CustomOp):
            def invoke(self, x, y):
                y[...] = self.options.beta
        assert run(interpreter(m.build(), ("SOFTMAX", Softmax)), X).max() == 2

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

    def test_bad_declarations(self):
        known = pylite.MutableOpResolver()
        with pytest.raises(TypeError, match="neither a class nor a function"):
            known.add_custom("A", 3)
        with pytest.raises(TypeError, match="has no invoke"):
            known.add_custom("A", dict)
        with pytest.raises(TypeError, match="`shapes` is for functions"):
            known.add_custom("A", CustomOp, shapes=lambda x: x)


class TestPrepare:
    def test_shapes_types_and_temporaries(self):
        seen = {}

        class Op(CustomOp):
            def prepare(self, node):
                x = node.inputs[0]
                node.outputs[0].dtype = "int32"
                node.temporary((5,), "int16")
                node.temporary(x.shape)
                return [(x.shape[1],), x.shape]

            def invoke(self, x, y, z, small, scratch):
                seen.update(small=small, scratch=scratch)
                small[...] = 7
                np.multiply(x, 2, out=scratch)
                y[...] = x.sum(0)
                z[...] = scratch
        i = interpreter(model(outputs=2), ("Atan", Op))
        y, z = run(i, X)
        assert y.dtype == np.int32 and y.tolist() == X.sum(0).astype(int).tolist()
        np.testing.assert_array_equal(z, X * 2)
        assert seen["small"].dtype == np.int16 and seen["small"].shape == (5,)
        assert seen["scratch"].shape == (2, 3)
        assert i.get_output_details()[0]["dtype"] is np.int32

    def test_arrays_are_the_arena(self):
        class Op(CustomOp):
            def invoke(self, x, y):
                self.arrays = x, y
                y[...] = x
        i = interpreter(model(), ("Atan", Op))
        run(i, X)
        x, y = i._main.plugins[0].op.arrays
        assert np.shares_memory(x, i.tensor(0)()) and np.shares_memory(y, i.tensor(1)())

    def test_constants_and_absent_inputs(self):
        m = ModelBuilder()
        x, w, y = m.tensor("x", (2,)), m.constant("w", np.array([3, 4], np.float32)), m.tensor("y", (2,))
        m.operator("Op", [x, -1, w], [y], custom_options=b"")
        m.inputs([x])
        m.outputs([y])

        class Op(CustomOp):
            def prepare(self, node):
                assert node.inputs[1] is None
                assert node.constant(2).tolist() == [3, 4]
                return node.inputs[0].shape

            def invoke(self, x, absent, w, y):
                assert absent is None and not w.flags.writeable
                y[...] = x + w
        assert run(interpreter(m.build(), ("Op", Op)), np.ones(2, np.float32)).tolist() == [4, 5]

    def test_never_folded(self):
        """An op of the user's own may have effects, so it runs each time even if its inputs are constant."""
        m = ModelBuilder()
        w, y = m.constant("w", np.array([3, 4], np.float32)), m.tensor("y", (2,))
        m.operator("Count", [w], [y], custom_options=b"")
        m.outputs([y])

        class Count(CustomOp):
            runs = 0

            def invoke(self, w, y):
                self.runs += 1
                y[...] = w * self.runs
        i = interpreter(m.build(), ("Count", Count))
        assert run(i).tolist() == [3, 4]
        assert run(i).tolist() == [6, 8]

    def test_next_to_builtin_ops(self):
        m = ModelBuilder()
        x, a, b, c = (m.tensor(n, (2, 3)) for n in "xabc")
        m.operator("ABS", [x], [a])
        m.operator("Atan", [a], [b], custom_options=b"")
        m.operator("ADD", [b, x], [c])
        m.inputs([x])
        m.outputs([c])
        for arguments in ({}, {"guard_bands": True}):
            i = interpreter(m.build(), ("Atan", np.arctan), **arguments)
            np.testing.assert_array_equal(run(i, X), np.arctan(np.abs(X)) + X)

    def test_strings(self):
        def upper(x, y):
            y[...] = [text.upper() for text in x]
        i = interpreter(model(shape=(2,), dtype="string"), ("Atan", upper))
        assert run(i, np.array([b"a", b"bc"], object)).tolist() == [b"A", b"BC"]

    def test_by_default_inputs_are_broadcast(self):
        m = ModelBuilder()
        a, b, y = m.tensor("a", (2, 1)), m.tensor("b", (3,)), m.tensor("y", (1,))
        m.operator("Sum", [a, b], [y], custom_options=b"")
        m.inputs([a, b])
        m.outputs([y])
        i = interpreter(m.build(), ("Sum", np.add))
        assert run(i, np.ones((2, 1), np.float32), np.ones(3, np.float32)).shape == (2, 3)
        i.resize_tensor_input(1, (4, 5))
        with pytest.raises(RuntimeError, match=r"node 0 Sum: .*prepare\(\) or `shapes`"):
            i.allocate_tensors()

    @pytest.mark.parametrize(("result", "text"), [
        ([], "gave 0 shapes for 1 outputs"), ([(1,), (2,)], "gave 2 shapes for 1 outputs"),
        ((-1, 2), "negative size"), ([("a",)], "is no shape"), ([5], "is no shape")])
    def test_bad_shapes(self, result, text):
        class Op(CustomOp):
            def prepare(self, node):
                return result
        with pytest.raises(RuntimeError, match=f"node 0 Atan: .*{text}"):
            interpreter(model(), ("Atan", Op)).allocate_tensors()

    def test_bad_type(self):
        class Op(CustomOp):
            def prepare(self, node):
                node.outputs[0].dtype = "float"
        with pytest.raises(RuntimeError, match="node 0 Atan: 'float' is no data type for output"):
            interpreter(model(), ("Atan", Op)).allocate_tensors()


class TestFailures:
    def test_while_it_is_made(self):
        log = []
        base = tracing(log)

        class Op(base):
            def __init__(self, options):
                super().__init__(options)
                if self.number:
                    raise KeyError("no")
        with pytest.raises(RuntimeError, match="node 1 Atan could not be created: KeyError: 'no'") as caught:
            interpreter(model(nodes=2), ("Atan", Op))
        assert isinstance(caught.value.__cause__, KeyError)
        assert log == [("init", 0), ("init", 1), ("free", 0)]

    def test_while_it_is_prepared(self):
        class Op(CustomOp):
            def prepare(self, node):
                if node.inputs[0].shape[0] > 2:
                    raise LookupError("too many")
                return node.inputs[0].shape

            def invoke(self, x, y):
                y[...] = x
        i = interpreter(model(), ("Atan", Op))
        run(i, X)
        i.resize_tensor_input(0, (3, 3))
        with pytest.raises(RuntimeError, match="node 0 Atan failed to prepare: LookupError: too many") as caught:
            i.allocate_tensors()
        assert isinstance(caught.value.__cause__, LookupError)
        with pytest.raises(RuntimeError):
            i.invoke()
        i.resize_tensor_input(0, (2, 3))
        np.testing.assert_array_equal(run(i, X), X)

    def test_while_it_runs(self):
        def divide(x, y):
            if x[0, 0] == 0:
                raise ZeroDivisionError("by zero")
            y[...] = 1 / x[0, 0]
        i = interpreter(model(nodes=2), ("Atan", divide))
        with pytest.raises(RuntimeError, match="node 0 Atan failed: ZeroDivisionError: by zero; its tensors:") as e:
            run(i, np.zeros((2, 3), np.float32))
        assert isinstance(e.value.__cause__, ZeroDivisionError)
        assert e.value.__cause__.__traceback__ is not None
        assert run(i, np.full((2, 3), 4, np.float32))[0, 0] == 4

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
    def test_interrupts_are_passed_on(self, error):
        def interrupt(x, y):
            raise error
        i = interpreter(model(), ("Atan", interrupt))
        with pytest.raises(error):
            run(i, X)

    @pytest.mark.parametrize("function", [lambda x, y: x + 1, lambda x, y: (y, x)])
    def test_results_must_be_written(self, function):
        with pytest.raises(RuntimeError, match="written into the output arrays"):
            run(interpreter(model(), ("Atan", function)), X)

    def test_an_op_that_meddles_with_its_own_interpreter(self):
        """It may do harm to its results, and to nothing else."""
        holder = []

        def meddle(x, y):
            i = holder[0]
            i.resize_tensor_input(0, (x.shape[0] + 50, 60))
            i.allocate_tensors()
            y[...] = x
        i = interpreter(model(nodes=3), ("Atan", meddle))
        holder.append(i)
        run(i, X)
        assert i.get_input_details()[0]["shape"].tolist() == [52, 60]

    def test_an_op_without_invoke(self):
        with pytest.raises(RuntimeError, match=r"CustomOp has no invoke\(\)"):
            run(interpreter(model(), ("Atan", CustomOp)), X)


class Doubled(CustomOp):
    def invoke(self, x, y):
        np.multiply(x, 2, out=y)


def test_pickling():
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


def test_cost():
    """A node in Python costs no more than a microsecond plus what it does."""
    def empty(x, y):
        pass
    count = 500
    i = interpreter(model(nodes=count, shape=(1,)), ("Atan", empty))
    i.allocate_tensors()
    best, floor = float("inf"), float("inf")
    for _ in range(20):
        start = time.perf_counter()
        i.invoke()
        best = min(best, time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(count):
            empty(1, 2)
        floor = min(floor, time.perf_counter() - start)
    assert (best - floor) / count < 1e-6


def test_outputs_whose_shapes_depend_on_data():
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


@pytest.mark.parametrize(("result", "words"), [
    (lambda x: [x, x], "ValueError: it returned 2 arrays for 1 outputs"), (lambda x: 1 / 0, "ZeroDivisionError")])
def test_failures_in_evaluate(result, words):
    class Wrong:
        def __init__(self, options):
            pass

        def evaluate(self, x):
            return result(x)
    m = ModelBuilder()
    x, y = m.tensor("x", (4,)), m.tensor("y", (4,))
    m.operator("Wrong", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Wrong", Wrong)
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.allocate_tensors()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="node 0 Wrong failed: " + words):
            i.invoke()
