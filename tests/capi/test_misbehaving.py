"""Plug-ins that break the rules get an error that says which one, and the interpreter stays usable."""
import contextlib
import ctypes
import faulthandler
import logging
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(PLUGINS / "misbehaves.c", tmp_path_factory.mktemp("misbehaves") / "misbehaves.so", "-lpthread")


def interpreter(library, what, constant=False, function="Register_FAULTY"):
    """A model x -> Faulty -> NEG, where x may be a constant."""
    m = ModelBuilder()
    x = m.constant("x", np.ones((1, 4), np.float32)) if constant else m.tensor("x", (1, 4))
    y, z = m.tensor("y", (1, 4)), m.tensor("z", (1, 4))
    m.operator("Faulty", [x], [y], custom_options=what.encode())
    m.operator("NEG", [y], [z])
    m.inputs([] if constant else [x])
    m.outputs([z])
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Faulty", pylite.load_custom_ops(library, [function], register=False)[0])
    return pylite.Interpreter(model_content=m.build(), op_resolver=ops)


def run(i):
    i.allocate_tensors()
    for detail in i.get_input_details():
        i.set_tensor(detail["index"], np.ones(detail["shape"], np.float32))
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"])


@pytest.mark.parametrize(("what", "words"), [
    ("1", "it changed node->inputs"), ("2", "it changed node->outputs"), ("3", "it changed node->inputs"),
    ("4", "it changed node->inputs"), ("5", "lists tensor 0 of the model as temporary"),
    ("r", "it wrote past the end of tensor "), ("a", "it wrote before the beginning of tensor "),
    ("b", "it wrote past the end of tensor "), ("d", "it wrote past the end of tensor "),
    ("D", "changed the allocation type of tensor 1"), ("M", "changed the allocation type of tensor 1"),
    ("N", "changed the allocation type of tensor 0"), ("s", "changed the shape of tensor 1"),
    ("t", "changed the shape of tensor 1"), ("u", "changed the shape of tensor 0"),
    ("v", "changed the size of tensor 1"), ("w", "changed the size of tensor 0"),
    ("7", "changed context->tensors"), ("8", "changed context->tensors"), ("9", "changed context->tensors"),
    ("y", "changed the type of tensor 1"), ("q", "changed the data pointer of tensor 0")])
def test_ops_that_break_the_rules(library, what, words):
    i = interpreter(library, what)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"(?s){words}.*Faulty|Faulty.*{words}"):
            run(i)
    i.resize_tensor_input(0, [2, 4])
    with pytest.raises(RuntimeError):
        run(i)


@pytest.mark.parametrize(("what", "words"), [("N", "allocation type"), ("u", "shape"), ("w", "size"),
                                             ("q", "data pointer")])
def test_ops_that_change_a_constant(library, what, words):
    i = interpreter(library, what, constant=True)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"changed the {words} of tensor 0"):
            run(i)


def test_an_op_without_invoke(library):
    with pytest.raises(RuntimeError, match=r"(?s)its registration has no invoke\(\).*node 0 Faulty"):
        interpreter(library, "z", function="Register_IDLE").allocate_tensors()


@pytest.mark.parametrize("constant", [False, True])
def test_an_op_that_resizes_its_input_while_it_runs(library, constant):
    """Its memory was put back although ResizeTensor had freed it."""
    i = interpreter(library, "g", constant)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ResizeTensor was called in invoke for an input"):
            run(i)
    i.close()


@pytest.mark.parametrize("what", ["0", "x"])
def test_an_op_that_resizes_a_tensor_to_the_shape_of_a_tensor(library, what):
    """Its own, or that of another one: the shape was freed twice."""
    i = interpreter(library, what)
    for _ in range(2):
        i.resize_tensor_input(0, [1, 4])
        assert run(i).tolist() == [[-2, -2, -2, -2]]
    i.close()


def test_an_op_that_resizes_a_variable_in_prepare(library):
    """In invoke() the tensor has the bytes of its memory; it had those of the new shape."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4), variable=True), m.tensor("y", (1, 4))
    m.operator("Faulty", [x], [y], custom_options=b"G")
    m.outputs([y])
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Faulty", pylite.load_custom_ops(library, ["Register_FAULTY"], register=False)[0])
    np.testing.assert_array_equal(run(pylite.Interpreter(model_content=m.build(), op_resolver=ops)), np.zeros((1, 4)))


def test_a_write_to_a_constant_traps(library):
    """Also where the model came as bytes, whose constants other interpreters share."""
    child = os.fork()
    if not child:
        faulthandler.disable()      # the signal is what is expected: no report of it among those of tests
        with contextlib.suppress(RuntimeError):
            run(interpreter(library, "c", constant=True))
            os._exit(7)         # the write was not noticed
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 1, -signal.SIGSEGV, -signal.SIGBUS)        # 1: AddressSanitizer has reported the signal


@pytest.mark.parametrize("what", ["-", "e", "f", "6"])
def test_ops_that_keep_them(library, what):
    i = interpreter(library, what)
    for _ in range(3):
        np.testing.assert_array_equal(run(i), np.full((1, 4), -2))


def test_an_op_that_reports_from_several_threads(library):
    """They wrote to the same text; each message is whole, and there is an end to them."""
    i = interpreter(library, "T")
    for _ in range(3):
        with pytest.raises(RuntimeError) as caught:
            run(i)
        lines = str(caught.value).partition("failed: ")[2].partition("; its tensors")[0].split("\n")
        assert len(lines) > 100 and all(re.fullmatch("row [0-9]+ is out of range", line) for line in lines)
        assert len(str(caught.value)) < 70000


def test_an_op_that_does_not_size_a_persistent_output(library):
    i = interpreter(library, "P")
    with pytest.raises(RuntimeError, match=r"tensor 1 'y'.*left 0 bytes in a persistent output of 16.*ResizeTensor"):
        i.allocate_tensors()


@pytest.mark.parametrize(("what", "words"), [("i", "init is pleased"), ("p", "prepare is pleased"),
                                             ("l", "invoke is pleased")])
def test_what_ops_report_without_an_error_is_logged(library, what, words, caplog):
    with caplog.at_level(logging.WARNING, "pylite"):
        np.testing.assert_array_equal(run(interpreter(library, what)), np.full((1, 4), -2))
    record, = caplog.records
    assert record.name == "pylite" and words in record.getMessage()


def test_what_delegates_report_without_an_error_is_logged(library, caplog):
    delegate = pylite.load_delegate(library)
    ctypes.CDLL(library).set_fault(ord("l"))
    with caplog.at_level(logging.WARNING, "pylite"):
        interpreter_with(delegate)
    assert "the delegate is pleased" in caplog.text


def interpreter_with(delegate):
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4)), m.tensor("y", (1, 4))
    m.operator("NEG", [x], [y])
    m.inputs([x])
    m.outputs([y])
    return pylite.Interpreter(model_content=m.build(), experimental_delegates=[delegate])


def test_a_delegate_that_names_none(library):
    delegate = pylite.load_delegate(library)
    ctypes.CDLL(library).set_fault(ord("0"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ReplaceNodeSubsetsWithDelegateKernels was given no delegate"):
            interpreter_with(delegate)


def two_subgraphs():
    m = ModelBuilder()
    for name in ("first", "second"):
        if name == "second":
            m.subgraph(name)
        x, y = m.tensor("x", (1, 4)), m.tensor("y", (1, 4))
        m.operator("NEG", [x], [y])
        m.inputs([x])
        m.outputs([y])
    return m.build()


def test_a_delegate_that_takes_nodes_of_another_subgraph(library):
    delegate = pylite.load_delegate(library)
    ctypes.CDLL(library).set_fault(ord("A"))
    with pytest.raises(RuntimeError, match="AcquireSubgraphContext: nodes of another subgraph cannot be taken"):
        pylite.Interpreter(model_content=two_subgraphs(), experimental_delegates=[delegate])


def test_a_delegate_that_does_not_release_a_subgraph(library):
    """The subgraph is its own again after Prepare()."""
    delegate = pylite.load_delegate(library)
    ctypes.CDLL(library).set_fault(ord("B"))
    i = pylite.Interpreter(model_content=two_subgraphs(), experimental_delegates=[delegate])
    assert [e.delegation.plan for e in i._executors_of_all()] == [[0], [1]]
