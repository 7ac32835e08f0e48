"""Arguments of every wrong kind, and ops and delegates in Python that do anything: documented errors, and no others."""
import contextlib
import ctypes
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pylite
from pylite.errors import PyliteError
from pylite.schema.builder import ModelBuilder
from tests.tools import small_models

MODEL = small_models.reshape(shape=(1, 3), to=(3,))
DOCUMENTED = (PyliteError, TypeError, ValueError, RuntimeError, OSError, MemoryError)


class Hostile:
    """Raises whatever is asked of it."""

    def __call__(self, *arguments, **named):
        raise LookupError("hostile")

    def __len__(self):
        raise ZeroDivisionError("hostile")

    __iter__ = __index__ = __array__ = __bool__ = __eq__ = __fspath__ = __buffer__ = __len__
    __hash__ = None


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-3, 9), st.sampled_from([2**31, 2**63, -2**31 - 1]),
    st.floats(), st.text(max_size=5), st.binary(max_size=5),
    st.sampled_from([object(), int, len, MODEL, bytearray(MODEL), memoryview(MODEL), np.zeros(3), np.array(3),
                     np.zeros((1, 3), "f4"), np.int64(2), np.array([object()]), np.datetime64("2020"), float("nan"),
                     10**400, "é\0", Ellipsis, NotImplemented, Exception(), pylite, {}, {1: 2}, set(), range(3), 1j]),
    st.builds(Hostile), st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=2), st.floats()), max_size=4),
    st.tuples(st.integers(-2, 2**40), st.integers(-2, 9)))
NAMES = ["model_path", "model_content", "experimental_delegates", "num_threads", "experimental_op_resolver_type",
         "experimental_preserve_all_tensors", "experimental_disable_delegate_clustering",
         "experimental_default_delegate_latest_features", "guard_bands", "max_memory", "op_resolver", "model",
         "cached_shapes"]
often = settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@contextlib.contextmanager
def only(*kinds):
    """Lets errors of these kinds pass, and those that the arguments themselves raise."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except kinds:
        pass
    except Exception as error:
        if error.args != ("hostile",):
            raise


@often
@given(st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=3), st.booleans())
def test_constructor(arguments, valid):
    if valid and not arguments.keys() & {"model_path", "model_content", "model"}:
        arguments["model_content"] = MODEL
    if type(arguments.get("num_threads")) is int:
        arguments["num_threads"] = min(arguments["num_threads"], 4)
    with only(*DOCUMENTED):
        pylite.Interpreter(**arguments).allocate_tensors()


CALLS = [("set_tensor", 2), ("get_tensor", 1), ("get_tensor", 2), ("resize_tensor_input", 2),
         ("resize_tensor_input", 3), ("tensor", 1), ("get_signature_runner", 1), ("_get_tensor_details", 2),
         ("_set_input_tensor", 2),
         ("get_tensor_details", 1), ("set_tensor", 0), ("invoke", 1)]


@often
@given(st.lists(st.tuples(st.sampled_from(CALLS), ANYTHING, ANYTHING, ANYTHING), max_size=4), st.integers(-1, 3))
def test_methods(calls, index):
    interpreter = pylite.Interpreter(model_content=MODEL)
    interpreter.allocate_tensors()
    for (name, count), *arguments in calls:
        if arguments and index >= 0:
            arguments[0] = index
        if name == "tensor":
            with only(*DOCUMENTED):
                interpreter.tensor(*arguments[:count])()
        elif hasattr(interpreter, name):
            with only(*DOCUMENTED):
                getattr(interpreter, name)(*arguments[:count])
    with only(*DOCUMENTED):         # a resize may have made the model invalid
        interpreter.allocate_tensors()
        interpreter.invoke()


def no_symbol(value):
    """Is it no name of a function in this process, such as "abort", which InterpreterWithCustomOps would call?"""
    try:
        return not (isinstance(value, (str, bytes)) and value and ctypes.CDLL(None)[value])
    except (AttributeError, ValueError, TypeError):
        return True


@often
@given(ANYTHING.filter(no_symbol), ANYTHING.filter(no_symbol), ANYTHING, ANYTHING)
def test_registering_ops(name, op, low, high):
    with only(*DOCUMENTED):
        pylite.custom_op(name)
    with only(*DOCUMENTED):
        pylite.MutableOpResolver().add_custom(name, op, low, high)
    with only(*DOCUMENTED):
        pylite.InterpreterWithCustomOps([name, op], model_content=MODEL)
    with only(*DOCUMENTED):
        pylite.load_delegate(name, op)
    with only(*DOCUMENTED):
        pylite.load_custom_ops(name, low, high, register=False)
    with only(*DOCUMENTED):
        pylite.from_pointers(name, invoke=op, prepare=low)


def custom_model():
    m = ModelBuilder()
    t = [m.tensor(name, (1, 4)) for name in "xyz"]
    m.operator("Odd", [t[0]], [t[1]], custom_options=b"")
    m.operator("NEG", [t[1]], [t[2]])
    m.inputs([t[0]])
    m.outputs([t[2]])
    return m.build()


CUSTOM = custom_model()
RESULTS = st.one_of(ANYTHING, st.sampled_from([(1, 4), [(1, 4)], [(1, 4), (1, 4)], [(2**31, 2**31)], [(-1, 4)], [()]]))
FAULTS = st.one_of(st.none(), st.sampled_from([KeyError("k"), MemoryError(), RecursionError(), StopIteration(),
                                               AssertionError(), UnicodeDecodeError("u", b"", 0, 1, "w")]))


def acting(result, fault):
    """A method that raises `fault`, or returns `result`."""
    def method(self, *arguments):
        if fault is not None:
            raise fault
        return result
    return method


def run_twice(interpreter):
    for _ in range(2):
        with only(RuntimeError, ValueError):
            interpreter.allocate_tensors()
            interpreter.set_tensor(0, np.ones((1, 4), np.float32))
            interpreter.invoke()
            interpreter.get_tensor(2)


@often
@given(RESULTS, FAULTS, RESULTS, FAULTS, st.sampled_from(["invoke", "evaluate", "kernel"]))
def test_ops_that_do_anything(prepared, prepare_fault, result, fault, step):
    op = type("Odd", (pylite.CustomOp,), {"prepare": acting(prepared, prepare_fault), step: acting(result, fault)})
    ops = pylite.BuiltinOpResolver()
    ops.add_custom("Odd", op)
    with only(RuntimeError, ValueError):
        run_twice(pylite.Interpreter(model_content=CUSTOM, op_resolver=ops, max_memory=1 << 24))


@often
@given(RESULTS, FAULTS, RESULTS, FAULTS, st.sampled_from(["supports", "compile", "prepare"]),
       st.sampled_from([0, 1, 3, 77]))
def test_delegates_that_do_anything(result, fault, kernel_result, kernel_fault, step, flags):
    kernel = type("Kernel", (), {"invoke": acting(kernel_result, kernel_fault),
                                 "prepare": acting(kernel_result, None)})()
    methods = {"supports": lambda self, node: node.name == "NEG", "compile": lambda self, part: kernel, "flags": flags}
    delegate = type("Odd", (pylite.PythonDelegate,), methods | {step: acting(result, fault)})()
    ops = pylite.BuiltinOpResolver()
    ops.add_custom("Odd", np.negative)
    with only(RuntimeError, ValueError, TypeError):
        run_twice(pylite.Interpreter(model_content=CUSTOM, op_resolver=ops, experimental_delegates=[delegate],
                                     max_memory=1 << 24))


def test_the_filter_of_errors_can_fail():
    with pytest.raises(KeyError), only(*DOCUMENTED):
        raise KeyError("foreign")
