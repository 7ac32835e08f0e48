"""The edges of what the host allows; tests/capi/plugins/edges.c has an op and a delegate for each case."""
import ctypes
import logging
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite._core.capi import kernels
from pylite._core.capi.hosting import Externals, PluginHost
from pylite._core.capi.plugin_structs import delegate_is_plausible, registration_facts
from pylite.plugins import resolver
from pylite.plugins.pointers import _Registration
from pylite.schema.builder import ModelBuilder
from pylite.schema.tables import table
from tests.capi.compiling import build

PLUGINS = Path(__file__).parent / "plugins"
RAMP = [0, 1, 2, 3]
FUNCTION = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p).value


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(PLUGINS / "edges.c", tmp_path_factory.mktemp("edges") / "edges.so", "-lpthread")


def interpreter(library, what="", function="Register_EDGE", kind=None, shape=(4,), twice=False):
    """x -> Edge -> y -> ABS, or Edge again -> z."""
    m = ModelBuilder()
    inputs = [m.tensor("x", shape)]
    y, z = m.tensor("y", (4,)), m.tensor("z", (4,))
    m.operator("Edge", inputs, [y], custom_options=what.encode())
    m.operator("Edge" if twice else "ABS", [y], [z], **({"custom_options": b""} if twice else {}))
    m.inputs(inputs)
    m.outputs([z])
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Edge", pylite.load_custom_ops(library, [function], kind, register=False)[0])
    return pylite.Interpreter(model_content=m.build(), op_resolver=ops)


def run(i):
    i.allocate_tensors()
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"]).tolist()


@pytest.mark.parametrize("what", ["", "h", "z", "Z", "t", "d"])
def test_what_ops_may_do(library, what):
    """Nothing special; handles of no delegate; memory behind a dynamic tensor that is zero, or not the host's."""
    i = interpreter(library, what)
    for _ in range(3):
        assert run(i) == RAMP


def test_an_op_that_changes_the_size_of_a_dynamic_output(library):
    i = interpreter(library, "b")
    for _ in range(2):
        assert run(i) == [*RAMP, 1]


@pytest.mark.parametrize("what", ["n", "k"])
def test_an_op_that_replaces_a_shape(library, what):
    i = interpreter(library, what)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="changed the shape of tensor 1"):
            run(i)


@pytest.mark.parametrize("rank", [1, 8, 9])
def test_an_op_that_replaces_the_shape_of_its_input(library, rank):
    i = interpreter(library, "X", shape=(1,) * (rank - 1) + (2,))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="changed the shape of tensor 0"):
            run(i)


def test_an_op_that_is_no_delegate_has_no_stale_output(library):
    with pytest.raises(RuntimeError, match="tensor 1 is stale and has no buffer handle"):
        run(interpreter(library, "D"))


def test_quantization_that_ops_see(library):
    m = ModelBuilder()
    c = m.constant("c", np.int8([1]), scale=0.5, zero_point=-3)
    scales = m.constant("s", np.ones(2, np.float16))
    blocks = m.constant("b", np.zeros((2, 32), np.int8), quantization=table("QuantizationParameters")(
        details=table("BlockwiseQuantization")(scales=scales, zero_points=-1, block_size=32)))
    y = m.tensor("y", (4,))
    m.operator("Edge", [c, blocks], [y], custom_options=b"q")
    m.inputs([])
    m.outputs([y])
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Edge", pylite.load_custom_ops(library, ["Register_EDGE"], register=False)[0])
    assert run(pylite.Interpreter(model_content=m.build(), op_resolver=ops)) == RAMP


@pytest.mark.parametrize(("function", "words"), [
    ("Register_INIT_ONLY", "Encountered unresolved custom op: Edge"), ("PrepareOnly", "invoke")])
def test_ops_without_functions(library, function, words):
    i = interpreter(library, "", function, "opaque" if function == "PrepareOnly" else None)
    with pytest.raises(RuntimeError, match=words):
        run(i)


@pytest.mark.parametrize("function", ["InvokeOnly", "WithoutFree"])
def test_ops_with_few_functions(library, function):
    i = interpreter(library, "", function, "opaque")
    assert run(i) == RAMP
    i.close()


def test_a_profiling_string_that_faults(library):
    i = interpreter(library, "", "Register_NAMELESS")
    i.allocate_tensors()
    assert i._main.plugin_structs.host.profiling_string(0) is None
    assert "unmapped memory" in i._main.plugin_structs.host.errors()


def test_events_that_are_too_many(library):
    i = interpreter(library, "", "Register_PROFILED", twice=True)
    i.allocate_tensors()
    host = i._main.plugin_structs.host
    for _ in range(2):
        host.add_profiler()
    i.invoke()
    host.record_events(True)
    i.invoke()
    events = host.events()
    assert len(events) == 1024 and events[0][:3] == (0, "open", 256) and events[1][:3] == (0, "part:0", 1)
    host.clear_events()
    assert host.events() == []


def test_events_outside_a_run(library):
    i = interpreter(library, "p")
    i._main.use_graph()
    host = i._main.plugin_structs.host
    host.add_profiler()
    host.record_events(True)
    i.allocate_tensors()
    assert host.events() == []


@pytest.mark.parametrize("what", ["s", "T", "r"])
@pytest.mark.parametrize("with_info", [False, True])
def test_faults_that_the_program_handles(library, what, with_info):
    """Those in a plug-in that are none of its known ones, those of its threads, and signals that are sent."""
    functions = ctypes.CDLL(library)
    functions.install(with_info)
    try:
        before = functions.times_handled()
        assert run(interpreter(library, what)) == RAMP
        assert functions.times_handled() == before + 1
    finally:
        functions.uninstall()


def test_a_plug_in_may_install_a_handler(library):
    functions = ctypes.CDLL(library)
    try:
        assert run(interpreter(library, "i")) == RAMP
        before = functions.times_handled()
        ctypes.CDLL(None)["raise"](11)
        assert functions.times_handled() == before + 1
    finally:
        functions.uninstall()


def test_without_traps(library, monkeypatch):
    monkeypatch.setenv("PYLITE_TRAP", "0")
    assert run(interpreter(library)) == RAMP
    kernels.install_guards(0, True)
    monkeypatch.undo()
    assert run(interpreter(library)) == RAMP


# ---- delegates ----

def delegated(library, way):
    m = ModelBuilder()
    x, y, z = (m.tensor(name, (4,)) for name in "xyz")
    m.operator("NEG", [x], [y])
    m.operator("ABS", [y], [z])
    m.inputs([x])
    m.outputs([z])
    return pylite.Interpreter(model_content=m.build(),
                              experimental_delegates=[pylite.load_delegate(library, {"way": way})])


def test_opaque_delegates_that_keep_results(library):
    freed = ctypes.CDLL(library).handles_freed
    i, before = delegated(library, "o"), freed()
    for _ in range(2):
        assert run(i) == [5] * 4
    i.close()
    del i
    assert freed() == before + 5


@pytest.mark.parametrize(("way", "words"), [
    ("N", "CopyFromBufferHandle failed"), ("c", "CopyFromBufferHandle failed"),
    ("S", "tensor 1 is stale and has no buffer handle")])
def test_delegates_that_cannot_give_results(library, way, words):
    i = delegated(library, way)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=words):
            run(i)


@pytest.mark.parametrize(("way", "words"), [
    ("E", "the delegate has no Prepare"), ("t", "changed context->tensors"),
    ("a", "tensor 1 already belongs to another delegate"), ("u", "unresolved custom op: UnknownOp")])
def test_delegates_that_fail(library, way, words):
    with pytest.raises((RuntimeError, ValueError), match=words):
        run(delegated(library, way))


def test_a_classic_delegate_with_an_opaque_kernel(library):
    assert run(delegated(library, "C")) == RAMP


def test_callbacks_that_fail(library):
    def fails(_):
        raise KeyError("gone")
    delegate, host = pylite.load_delegate(library, {"way": "m"}), a_host()
    for metadata, subgraph, pending in (fails, None, True), (None, fails, True), (None, None, False):
        host.metadata, host.subgraph = metadata, subgraph
        assert host.apply_delegate(delegate._get_native_delegate_pointer()) == 1
        assert isinstance(host.pending, KeyError) == pending


# ---- structs of plug-ins, and tables without a model ----

FUNCTIONS = "init", "free", "prepare", "invoke"


@pytest.mark.parametrize("wrong", FUNCTIONS)
def test_registrations_with_no_function_at_an_address(wrong):
    good = _Registration(custom_name=b"\xffname", version=0, **dict.fromkeys(FUNCTIONS, FUNCTION))
    assert registration_facts(ctypes.addressof(good), 0) == ("\ufffdname", 1)
    good.profiling_string = 64      # older binaries do not set it
    assert registration_facts(ctypes.addressof(good), 0) == ("\ufffdname", 1)
    for name in FUNCTIONS:          # any function will do
        alone = _Registration(version=2, **{name: FUNCTION})
        assert registration_facts(ctypes.addressof(alone), 0) == (None, 2)
    setattr(good, wrong, 64)
    assert registration_facts(ctypes.addressof(good), 0) is None


def test_operators_without_their_mark():
    block = ctypes.create_string_buffer(256)
    external = _Registration(registration_external=ctypes.addressof(block))
    assert registration_facts(ctypes.addressof(external), 0) is None
    assert registration_facts(0, ctypes.addressof(block)) is None
    assert registration_facts(ctypes.addressof(_Registration()), 0) is None


@pytest.mark.parametrize("field", [1, 2, 4])
def test_delegates_with_no_function_at_an_address(field):
    words = (ctypes.c_void_p * 7)(None, FUNCTION, None, None, None, None, None)
    assert delegate_is_plausible(ctypes.addressof(words))
    words[field] = 64
    assert not delegate_is_plausible(ctypes.addressof(words))
    assert not delegate_is_plausible(ctypes.addressof((ctypes.c_void_p * 7)()))


def a_host():
    host = PluginHost(2, Externals(), 1 << 20)
    for index in range(2):
        host.set_tensor(index, "t", 1, (4,), None, 2, 0, 16, False)
    host.add_node(32, "Any", 1, [0, -1], [1], (), b"", b"")
    host.finish([0], [0], [1], [], "main")
    return host


def test_tables():
    host = a_host()
    host.finalize(7)
    host.finalize(0)
    host.reshape(0, (2, 2), 16)
    assert host.facts(0) == (1, (2, 2), 2, 16, 0) and host.tensors == 2
    assert host.errors() == "" and host.get_bytes(0) == b""
    assert PluginHost(1, Externals(), 0).facts(0)[1] is None      # no shape was set
    fresh = PluginHost(1, Externals(), 0)
    fresh.reshape(0, (3,), 12)
    assert fresh.facts(0)[1] == (3,)


def test_what_is_called_before_a_plug_in_may_fail():
    def before():
        raise KeyError("no strings")
    kernel = kernels.Plugin(a_host(), 0, (0, 1), (False, True), before, np.empty(0, np.uint8),
                            np.empty(16 + 2 * kernels.BAND, np.uint8))
    status = kernel.run()
    assert status and kernel.explain(status) == "KeyError: 'no strings'"
    assert isinstance(kernel.cause(), KeyError) and kernel.cause() is None


def test_the_kernels_of_pylite_are_not_callable(caplog):
    kernel = kernels.Plugin(a_host(), 0, (), (), None)
    with caplog.at_level(logging.WARNING, "pylite"):
        status = kernel.run()
    assert kernel.explain(status) == "the kernels of pylite cannot be called by plug-ins"
    assert kernel.explain(status) == "its invoke() failed and reported no error"


def test_an_empty_result_of_a_delegate():
    host = a_host()
    assert kernels.ReadBack(host, 1, np.empty(0, np.uint8)).run() == 0
