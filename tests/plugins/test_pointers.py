"""Ops made of function pointers of ctypes, cffi, numba, and PyCapsules."""
import ctypes

import numpy as np
import pytest
from flatbuffers import flexbuffers

import pylite
from pylite.plugins import pointers, resolver
from pylite.schema.builder import ModelBuilder
from tests.schema.sparse_models import sparse_constant
from tests.tools import custom_models
from tests.tools.custom_models import interpreter, model

INIT = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
OPTIONS = {"size": 4}


def run(op):
    i = interpreter(model("Mine", options=OPTIONS), ("Mine", op))
    custom_models.run(i, np.ones((2, 3), np.float32))
    return i


def logging(log):
    """The four functions, from ctypes."""
    def init(context, buffer, length):
        log.append(("init", ctypes.string_at(buffer, length)))
        return 77

    def call(what):
        def function(context, node):
            log.append((what,))
            return 0
        return CALL(function)
    return {"init": INIT(init), "free": FREE(lambda context, data: log.append(("free", data))),
            "prepare": call("prepare"), "invoke": call("invoke")}


def test_ctypes():
    log = []
    op = pylite.from_pointers("Mine", **logging(log))
    i = run(op)
    del i
    assert log == [("init", bytes(flexbuffers.Dumps(OPTIONS))), ("prepare",), ("invoke",), ("free", 77)]


def test_addresses_and_objects_with_an_address():
    log = []
    functions = logging(log)
    addresses = {k: ctypes.cast(f, ctypes.c_void_p).value for k, f in functions.items()}

    class Compiled:     # like numba's cfunc
        address = addresses["invoke"]
    run(pylite.from_pointers("Mine", **{**addresses, "invoke": Compiled()}))
    assert ("invoke",) in log


def test_capsules():
    log = []
    functions = logging(log)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = b"TfLiteStatus (TfLiteContext *, TfLiteNode *)"
    capsule = new(ctypes.cast(functions["invoke"], ctypes.c_void_p), name, None)
    run(pylite.from_pointers("Mine", invoke=capsule))
    assert log == [("invoke",)]


def test_cffi():
    cffi = pytest.importorskip("cffi", reason="cffi is not installed")
    ffi, log = cffi.FFI(), []

    @ffi.callback("int(void *, void *)")
    def invoke(context, node):
        log.append("invoke")
        return 0
    run(pylite.from_pointers("Mine", invoke=invoke))
    assert log == ["invoke"]


def test_numba():
    numba = pytest.importorskip("numba", reason="numba is not installed")
    pointer = numba.types.voidptr

    @numba.cfunc(numba.types.int32(pointer, pointer))
    def invoke(context, node):
        return 1
    with pytest.raises(RuntimeError, match="Mine"):
        run(pylite.from_pointers("Mine", invoke=invoke))


def test_failures_name_the_op():
    with pytest.raises(RuntimeError, match="Mine"):
        run(pylite.from_pointers("Mine", invoke=CALL(lambda context, node: 1)))


@pytest.mark.parametrize("function", ["text", 0, len, 1.5])
def test_objects_that_are_no_functions_are_refused(function):
    with pytest.raises(TypeError, match="invoke of op 'Mine'"):
        pylite.from_pointers("Mine", invoke=function)
    with pytest.raises(TypeError, match="needs an invoke"):
        pylite.from_pointers("Mine", invoke=None)
    assert pointers.address(None) is None


def test_sparse_constants_have_their_sparsity_parameters():
    """prepare() reads TfLiteTensor.sparsity at its offsets on 64-bit machines."""
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        pytest.skip("offsets are those of 64-bit machines")
    found = {}

    def word(address):
        return ctypes.c_void_p.from_address(address).value or 0

    def ints(address):
        return address and (ctypes.c_int * (1 + ctypes.c_int.from_address(address).value)).from_address(address)[1:]

    @CALL
    def prepare(context, node):
        tensor = word(context + 16) + 112 * ints(word(node))[1]
        sparsity = word(tensor + 96)
        dimensions = [word(sparsity + 16) + 24 * i for i in range(ctypes.c_int.from_address(sparsity + 24).value)]
        found.update(order=ints(word(sparsity)), blocks=ints(word(sparsity + 8)), bytes=word(tensor + 40),
                     dimensions=[(ctypes.c_int.from_address(d).value, ctypes.c_int.from_address(d + 4).value,
                                  ints(word(d + 8)), ints(word(d + 16))) for d in dimensions],
                     dense=word(word(context + 16) + 112 * ints(word(node))[0] + 96))
        return 0
    m = ModelBuilder()
    x, y = m.tensor("x", (3,)), m.tensor("y", (3,))
    dense = np.array([[0, 0, 1, 0], [2, 0, 0, 3]], np.float32)
    w = sparse_constant(m, "w", dense, (0, 1), (1,))
    m.operator("Mine", [x, w], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    known = resolver.MutableOpResolver()
    known.add_custom("Mine", pylite.from_pointers("Mine", prepare=prepare, invoke=CALL(lambda context, node: 0)))
    pylite.Interpreter(model_content=m.build(), op_resolver=known).allocate_tensors()
    assert found == {"order": [0, 1], "blocks": [], "bytes": 12, "dense": 0,
                     "dimensions": [(0, 2, 0, 0), (1, 0, [0, 1, 3], [2, 0, 3])]}


DATA = ctypes.create_string_buffer(64)


@pytest.mark.parametrize("at", [1, 8, 2**47 - 8, ctypes.addressof(DATA)], ids=["1", "8", "highest", "data"])
def test_addresses_without_code_are_refused(at):
    with pytest.raises(ValueError, match=r"invoke of op 'Mine': there is no code at the address 0x"):
        pylite.from_pointers("Mine", invoke=at)
