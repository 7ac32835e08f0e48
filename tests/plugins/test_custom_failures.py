"""Custom ops in Python: prepare() and its requests, and the errors of failures in each step."""
import numpy as np
import pytest

import pylite
from pylite import CustomOp
from pylite.errors import ExecutionError
from pylite.schema.builder import ModelBuilder
from tests.tools.custom_models import interpreter, model, run, tracing

X = np.array([[-8, 0.5, 2], [2.2, 201, 0]], np.float32)


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

    def test_arrays_are_views_of_the_arena(self):
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

    def test_custom_ops_are_not_constant_folded(self):
        """A custom op may have side effects, so it runs on every invoke() even if its inputs are constant."""
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

    def test_custom_ops_between_builtin_ops(self):
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

    def test_default_output_shape_is_the_broadcast_of_the_inputs(self):
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
        ([], r"\[\], from prepare\(\) or shapes=, are not the shapes of 1 output;"),
        ([(1,), (2,)], "not the shapes of 1 output;"), (5, "5, from"), ("text", "'text', from"),
        ((1, 2.5), "not the shapes"),
        ({}, "not the shapes"), ((-1, 2), "negative size"), ([("a",)], "is not a shape"), ([5], "is not a shape")])
    def test_invalid_shapes_are_refused(self, result, text):
        class Op(CustomOp):
            def prepare(self, node):
                return result
        with pytest.raises(RuntimeError, match=f"node 0 Atan: .*{text}"):
            interpreter(model(), ("Atan", Op)).allocate_tensors()

    def test_invalid_data_type_is_refused(self):
        class Op(CustomOp):
            def prepare(self, node):
                node.outputs[0].dtype = "float"
        with pytest.raises(RuntimeError, match=r"node 0 Atan: 'float' is not a data type for output.*float8_e5m2$"):
            interpreter(model(), ("Atan", Op)).allocate_tensors()


class TestFailures:
    def test_failure_in_the_constructor(self):
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

    def test_failure_in_prepare(self):
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

    def test_failure_in_invoke(self):
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

    def test_calls_of_the_running_interpreter_by_its_own_op_are_refused(self):
        """An error without any other effect; tests/interpreter/test_nested_calls.py tests every method."""
        holder, errors = [], []

        def call_interpreter(x, y):
            i = holder[0]
            for call in (lambda: i.resize_tensor_input(0, (x.shape[0] + 50, 60)), i.allocate_tensors):
                try:
                    call()
                except RuntimeError as error:
                    errors.append(str(error))
            y[...] = x
        i = interpreter(model(nodes=3), ("Atan", call_interpreter))
        holder.append(i)
        run(i, X)
        assert i.get_input_details()[0]["shape"].tolist() == list(X.shape)
        assert len(errors) == 6 and all("interpreter is running" in error for error in errors)

    def test_evaluate_must_return_arrays(self):
        class Op(CustomOp):
            def evaluate(self, x):
                pass
        with pytest.raises(RuntimeError, match="it returned None"):
            run(interpreter(model(), ("Atan", Op)), X)

    def test_an_op_without_invoke_is_refused(self):
        with pytest.raises(RuntimeError, match=r"CustomOp has no invoke\(\)"):
            interpreter(model(), ("Atan", CustomOp)).allocate_tensors()


class NoBase:
    def invoke(self, x, y):
        y[...] = x


class TwoArrays(CustomOp):
    def prepare(self, node):
        node.temporary((2,))
        return node.inputs[0].shape

    def invoke(self, x, y):
        y[...] = x


class OnlyOutputs(CustomOp):
    def evaluate(self):
        return []


def one_array(x):
    pass


def with_factor(x, y, *, factor):
    pass


def three_inputs(a, b, c, y):
    pass


@pytest.mark.parametrize(("op", "words"), [
    (NoBase, r"node 0 Atan could not be created: TypeError: NoBase\(\) takes no arguments. Derive it from "
             r"pylite.CustomOp: class NoBase\(pylite.CustomOp\)"),
    (one_array, r"node 0 Atan: one_array\(x\) does not take the arrays of the node. Write def one_array\(x, y\): its "
                r"inputs, outputs and temporaries"),
    (lambda x: np.arctan(x), r"<lambda>\(x\) does not take the arrays of the node. Write def op\(x, y\): its inputs"),
    (three_inputs, r"three_inputs\(a, b, c, y\) does not take the arrays of the node"),
    (TwoArrays, r"node 0 Atan: invoke\(x, y\) does not take the arrays of the node. Write def invoke\(self, x, y, t\)"),
    (OnlyOutputs, r"evaluate\(\) does not take the arrays of the node. Write def evaluate\(self, x\): its inputs$"),
    (with_factor, r"node 0 Atan: with_factor\(x, y, \*, factor\) needs 'factor', and the node has no such option; give "
                  r"it a default")])
def test_what_an_op_does_not_take_is_said_before_it_runs(op, words):
    with pytest.raises(RuntimeError, match=words):
        interpreter(model(options={"number": 3}), ("Atan", op)).allocate_tensors()


def test_an_op_has_one_way_to_compute():
    class Both(CustomOp):
        def invoke(self, x, y):
            pass

        def evaluate(self, x):
            return x
    with pytest.raises(TypeError, match=r"op 'Both': Both has invoke\(\) and evaluate\(\), and a node runs one"):
        pylite.BuiltinOpResolver().add_custom("Both", Both)


@pytest.mark.parametrize(("result", "words"), [
    (lambda x: [x, x], "ValueError: it returned 2 arrays for 1 output"), (lambda x: 1 / 0, "ZeroDivisionError"),
    (lambda x: x * 1j, r"TypeError: it returned complex64 for output 0, tensor 1 'y' .*; convert the result")])
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
    ops = pylite.BuiltinOpResolver()
    ops.add_custom("Wrong", Wrong)
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.allocate_tensors()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="node 0 Wrong failed: " + words):
            i.invoke()


@pytest.mark.parametrize(("arguments", "words"), [
    ({"version": "25"}, "a tuple of the lowest and the highest, not '25'"), ({"version": 1.5}, "whole number.*not 1.5"),
    ({"version": (1, 2, 3)}, "a tuple of the lowest"), ({"shapes": [(3,)]}, r"shapes is a function.*not \[\(3,\)\]")])
def test_wrong_arguments_of_custom_op(arguments, words):
    with pytest.raises(TypeError, match=words):
        pylite.custom_op("Z", **arguments)


@pytest.mark.parametrize(("result", "dtype", "words"), [
    ([1.5], "int32", "it returned float64 for output 0"), ([300], "uint8", "300 to 300 .* which holds 0 to 255"),
    ([2**40], "int32", "holds -2147483648 to 2147483647"), ([1], "bool", "it returned int64"),
    ([7], "uint8", None), ([1], "float32", None), ([1.5], "float32", None), ([True], "int32", None)])
def test_results_of_evaluate_keep_their_meaning(result, dtype, words):
    class Fixed:
        def __init__(self, options):
            pass

        def evaluate(self, x):
            return np.array(result)
    m = ModelBuilder()
    x, y = m.tensor("x", (1,)), m.tensor("y", (1,), dtype)
    m.operator("Fixed", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    ops = pylite.BuiltinOpResolver()
    ops.add_custom("Fixed", Fixed)
    i = pylite.Interpreter(model_content=m.build(), op_resolver=ops)
    i.allocate_tensors()
    if words:
        with pytest.raises(RuntimeError, match=words):
            i.invoke()
    else:
        i.invoke()
        assert i.get_tensor(y).tolist() == result and i.get_tensor(y).dtype == dtype


class TestArraysThatAnOpChanges:
    """Shapes and types of arrays are the op's own; inputs are read-only, as other nodes and callers read them."""

    @pytest.mark.parametrize("change", [
        lambda x, y: setattr(y, "shape", (6,)), lambda x, y: setattr(y, "dtype", np.dtype(np.int32)),
        lambda x, y: setattr(y, "shape", (3, 2)), lambda x, y: y.setflags(write=False),
        lambda x, y: setattr(x, "shape", (6,))])
    def test_callers_see_tensors_as_they_are(self, change):
        class Op(CustomOp):
            def invoke(self, x, y):
                y[...] = x
                change(x, y)
        i = interpreter(model(), ("Atan", Op))
        found = run(i, X)
        assert found.dtype == X.dtype
        np.testing.assert_array_equal(found, X)
        np.testing.assert_array_equal(i.get_tensor(0), X)

    def test_inputs_are_read_only(self):
        class Op(CustomOp):
            def invoke(self, x, y):
                x[...] = 1
        i = interpreter(model(), ("Atan", Op))
        with pytest.raises(ExecutionError, match=r"node 0 Atan failed: ValueError: .*read-only"):
            run(i, X)
        np.testing.assert_array_equal(i.get_tensor(0), X)

    def test_inputs_of_evaluate_are_read_only(self):
        class Op(CustomOp):
            def evaluate(self, x):
                x[...] = 1
        i = interpreter(model(), ("Atan", Op))
        with pytest.raises(ExecutionError, match=r"node 0 Atan failed: ValueError: .*read-only"):
            run(i, X)
        np.testing.assert_array_equal(i.get_tensor(0), X)

    def test_variables_among_the_inputs_are_written(self):
        m = ModelBuilder()
        x, state, y = m.tensor("x", (2,)), m.tensor("state", (2,), variable=True), m.tensor("y", (2,))
        m.operator("Sum", [x, state], [y], custom_options=b"")
        m.inputs([x])
        m.outputs([y])

        class Sum(CustomOp):
            def prepare(self, node):
                return (2,)

            def invoke(self, x, state, y):
                state += x
                y[...] = state
        i = interpreter(m.build(), ("Sum", Sum))
        i.allocate_tensors()
        for turn in 1, 2, 3:
            assert run(i, np.ones(2, np.float32)).tolist() == [turn] * 2
