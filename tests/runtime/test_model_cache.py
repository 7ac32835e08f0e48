"""Interpreters of one file share its Model."""
import gc
import os
import random
import signal
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pylite
from pylite import Model
from pylite._core import simd
from pylite.interpreter import Interpreter
from pylite.ir.graph import replace
from pylite.runtime import model_cache
from pylite.schema.builder import ModelBuilder
from tests.tools import small_models
from tests.tools.resources import MODELS, models

REAL = ("keras/transformer_block_64_int8.tflite", "keras/transformer_block_64_float16.tflite",
        "keras/lstm_unrolled_k3_10_int16x8.tflite", "keras/mobilenet_v1_050_160_dynint8.tflite",
        "keras/transformer_block_64_aeq_dynamic_wi4b64_afp32.tflite", "keras/lstm_tfk_28_int8.tflite",
        "keras/unet_transpose_128_float16.tflite", "test_data/mobilenet_v2_1.0_224_quant.tflite",
        "micro-wake-word-models/models/v2/okay_nabu.tflite")


@pytest.fixture(autouse=True)
def _settled(monkeypatch):
    """Files count as unchanged at once."""
    monkeypatch.setattr(model_cache, "AGED", 0)


def outputs(interpreter, shape=None):
    """The outputs of one run on numbers that depend on the shapes alone; shape: of the first input, if not its own."""
    if shape is not None:
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], shape)
    interpreter.allocate_tensors()
    rng = np.random.default_rng(0)
    for detail in interpreter.get_input_details():
        values = rng.uniform(-2, 2, detail["shape"]) if detail["dtype"] == np.float32 else rng.integers(
            0, 2, detail["shape"])
        interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).tobytes() for d in interpreter.get_output_details()]


def traces(interpreter, places=True):
    """What `pylite inspect` tells of the program: kernels with their paths and notes, places, why nothing runs.

    places: leave them out for recorded programs, which have those of the largest shapes so far.
    """
    bound = interpreter._main.current
    kernels = [(type(kernel), getattr(kernel, "algorithm", None), call.note, call.node.index)
               for call, kernel in zip(bound.lowered.calls, bound.program.kernels, strict=True)]
    return (kernels, (bound.placement.offsets, bound.placement.total) if places else None, bound.lowered.notes,
            [v.shape for v in bound.lowered.values])


# ---- sharing -------------------------------------------------------------------------------------------------
def test_interpreters_of_one_file_share_its_model_and_what_was_lowered(tmp_path):
    (tmp_path / "m.tflite").write_bytes(small_models.reshape())
    one, other = (Interpreter(str(tmp_path / "m.tflite")) for _ in range(2))
    assert one._model is other._model
    assert outputs(one) == outputs(other)
    assert one._main.current.lowered is other._main.current.lowered
    assert one._main.current.arena is not other._main.current.arena


def test_interpreters_of_one_bytes_object_share_its_model_and_those_of_a_mutable_one_do_not():
    content = small_models.reshape()
    one, other = Interpreter(model_content=content), Interpreter(model_content=content)
    assert one._model is other._model
    content = bytearray(content)
    one, other = Interpreter(model_content=content), Interpreter(model_content=content)
    assert one._model is not other._model


@pytest.mark.parametrize("options", [{"op_resolver": pylite.BuiltinOpResolver()}, {"max_memory": 1 << 20},
                                     {"experimental_preserve_all_tensors": True,
                                      "experimental_op_resolver_type": pylite.OpResolverType.BUILTIN_REF},
                                     {"guard_bands": True}])
def test_interpreters_of_other_options_share_nothing_that_depends_on_them(options):
    content = small_models.reshape()
    one, other = Interpreter(model_content=content), Interpreter(model_content=content, **options)
    assert outputs(one) == outputs(other)
    assert one._main.current.lowered is not other._main.current.lowered


def test_variables_belong_to_one_interpreter():
    content = small_models.variable()
    one, other = Interpreter(model_content=content), Interpreter(model_content=content)
    before = outputs(one)
    assert outputs(other) == before
    assert one._main.current.lowered is other._main.current.lowered
    one.tensor(next(d["index"] for d in one.get_tensor_details() if d["name"] == "state"))()[...] = 5
    assert outputs(one) != before
    assert outputs(other) == before


def test_isa_levels_share_nothing():
    chosen, found = simd.current, []
    content = small_models.reshape()
    try:
        for level in simd.available():
            simd.use(level)
            found.append(Interpreter(model_content=content))
    finally:
        simd.use(chosen)
    assert len({id(interpreter._model) for interpreter in found}) == len(found)


def added(number):
    """x + number, four times."""
    m = ModelBuilder()
    x, y = m.tensor("x", (4,), shape_signature=(-1,)), m.tensor("y", (4,), shape_signature=(-1,))
    m.operator("ADD", [x, m.constant("c", np.array([number], np.float32))], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


@pytest.mark.parametrize("alive", [True, False])
@pytest.mark.parametrize("rename", [True, False])
def test_a_file_that_changed_is_another_model(tmp_path, alive, rename):
    path = tmp_path / "m.tflite"
    path.write_bytes(added(1))
    first = Interpreter(str(path))
    before = outputs(first)
    if not alive:
        del first
    if rename:
        (tmp_path / "new").write_bytes(added(2))
        os.replace(tmp_path / "new", path)
    else:
        old = path.stat()
        path.write_bytes(added(2))
        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns + 1))
    want = outputs(Interpreter(model_content=added(2)))
    assert outputs(Interpreter(str(path))) == want != before


def test_a_file_that_changed_just_now_is_not_known_again(tmp_path, monkeypatch):
    monkeypatch.setattr(model_cache, "AGED", 10**12)
    path = tmp_path / "m.tflite"
    path.write_bytes(added(1))
    one, other = Interpreter(str(path)), Interpreter(str(path))
    assert one._model is not other._model


def test_custom_ops_share_no_models():
    content = small_models.custom_op()
    resolver = pylite.MutableOpResolver()
    resolver.add_all(pylite.BuiltinOpResolver())
    one, other = (Interpreter(model_content=content, op_resolver=resolver) for _ in range(2))
    assert one._model is not other._model


# ---- loading again -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", REAL)
def test_real_models_are_the_same_when_loaded_again(name):
    models()
    path = str(MODELS / name)
    first = Interpreter(path, num_threads=2)
    want, seen = outputs(first), traces(first)
    second = Interpreter(path)
    assert outputs(second) == want
    assert traces(second) == seen
    del first, second
    assert path not in Path("/proc/self/maps").read_text()
    again = Interpreter(path)
    assert outputs(again) == want
    assert traces(again) == seen


def test_constants_of_tensors_that_are_gone_are_not_those_of_later_ones():
    """Such tensors have no buffer in the file; the key was their id(), which Python gives to others."""
    model = Model(added(1))
    tensor = next(t for t in model.graph.subgraphs[0].tensors if t.data is not None)
    for number in range(100):
        data = np.full(len(tensor.data), number, np.uint8)
        assert (model.weights.constant(replace(tensor, buffer=0, data=data)).view(np.uint8) == number).all()


def test_nothing_is_kept_of_a_model_that_is_freed():
    content = added(1)
    first = Interpreter(model_content=content)
    want, model = outputs(first), weakref.ref(first._model)
    blueprint = first._main.current.share.blueprint
    del first
    assert model() is None
    assert blueprint.owners == 0
    assert outputs(Interpreter(model_content=content)) == want


# ---- graphs of repeated blocks -------------------------------------------------------------------------------
def graph(seed):
    """A model of random blocks on (n, 4), some of them several times."""
    rng, m = random.Random(seed), ModelBuilder()
    x = m.tensor("x", (1, 4), shape_signature=(-1, 4))
    m.inputs([x])
    numbers = np.random.default_rng(seed)

    def op(name, operands, width=4, **options):
        y = m.tensor("t", (1, width), shape_signature=(-1, width))
        m.operator(name, operands, [y], **options)
        return y

    def dense(x):
        w = m.constant("w", numbers.standard_normal((4, 4)).astype(np.float32))
        return op("FULLY_CONNECTED", [x, w, m.constant("b", numbers.standard_normal(4).astype(np.float32))])

    def half(x):
        w = m.constant("w16", numbers.standard_normal((64, 4)).astype(np.float16))
        wide, v = m.tensor("w32", (64, 4)), m.constant("v", numbers.standard_normal((4, 64)).astype(np.float32))
        m.operator("DEQUANTIZE", [w], [wide])
        return op("FULLY_CONNECTED", [op("FULLY_CONNECTED", [x, wide, -1], 64), v, -1])

    def quantized(x):
        q, y = (m.tensor("q", (1, 4), "int8", scale=0.05, shape_signature=(-1, 4)) for _ in range(2))
        w = m.constant("q_w", numbers.integers(-127, 128, (4, 4), np.int8), scale=numbers.uniform(0.01, 0.02, 4))
        m.operator("QUANTIZE", [x], [q])
        m.operator("FULLY_CONNECTED", [q, w, m.constant("q_b", np.array([1, -2, 3, 4], np.int32))], [y])
        return op("DEQUANTIZE", [y])

    def mean(x):
        axes = m.constant("axes", np.array([1], np.int32))
        return op("SUB", [x, op("MEAN", [x, axes], 1, keep_dims=True)])

    def sides(x):
        left, right = (m.constant("at", np.array([0, at], np.int32)) for at in (0, 2))
        size = m.constant("size", np.array([-1, 2], np.int32))
        parts = [op("SLICE", [x, at, size], 2) for at in (right, left)]
        return op("CONCATENATION", parts, axis=1)

    def activation(x):
        return op("RELU", [op("ADD", [x, x])])

    kinds = [dense, half, quantized, mean, sides, activation, lambda x: op("SOFTMAX", [x], beta=1.0)]
    block = [rng.choice(kinds) for _ in range(rng.randint(1, 4))]
    for _ in range(rng.randint(1, 3)):
        for kind in block:
            x = kind(x)
    m.outputs([x])
    return m.build()


@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_results_and_traces_are_those_of_a_model_lowered_anew(seed, sizes):
    content = graph(seed)
    shared = [Interpreter(model_content=content) for _ in range(2)]
    for size in [*sizes, *reversed(sizes)]:
        anew = Interpreter(model=Model(content))
        want = outputs(anew, (size, 4)), traces(anew, places=False)
        for interpreter in shared:
            assert same((outputs(interpreter, (size, 4)), traces(interpreter, places=False)), want)
    del interpreter
    shared.clear()
    again = Interpreter(model_content=content)
    for size in reversed(sizes):
        anew = Interpreter(model=Model(content))
        want = outputs(anew, (size, 4)), traces(anew, places=False)
        assert same((outputs(again, (size, 4)), traces(again, places=False)), want)


def same(got, want):
    """Are outputs and traces equal?  Of graphs that leave copies out, which ones is chosen for the recorded shapes."""
    elided = any(note.startswith(("slice of", "computed in place")) for _, traced in (got, want)
                 for note in traced[2].values())
    return got[0] == want[0] and (got[1][3] == want[1][3] if elided else got[1] == want[1])


def test_threads_load_and_drop_one_model():
    content, failed = graph(5), []
    want = outputs(Interpreter(model=Model(content)), (3, 4))

    def work():
        for _ in range(30):
            interpreter = Interpreter(model_content=content)
            if outputs(interpreter, (3, 4)) != want:
                failed.append(interpreter)
            del interpreter
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_interpreters_in_reference_cycles_are_known_again():
    """The garbage collector finalizes all parts of a cycle, in any order."""
    content = graph(7)
    want = outputs(Interpreter(model=Model(content)), (2, 4))
    for _ in range(5):
        cycle = [Interpreter(model_content=content)]
        cycle.append(cycle)
        assert outputs(cycle[0], (2, 4)) == want
        del cycle
        gc.collect()


def test_more_shapes_than_are_kept():
    content = graph(11)
    one, other = Interpreter(model_content=content), Interpreter(model_content=content)
    for size in [*range(1, 12), *range(1, 12)]:
        want = outputs(Interpreter(model=Model(content)), (size, 4))
        assert outputs(one, (size, 4)) == want == outputs(other, (size, 4))
        assert outputs(Interpreter(model_content=content), (size, 4)) == want       # its first shapes
    assert len(one._model.blueprints.kept) == one._model.blueprints.capacity


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_loads_what_a_thread_of_its_parent_was_loading():
    """Locks that the thread held are new in the child."""
    content, done = graph(5), threading.Event()
    want = outputs(Interpreter(model=Model(content)), (3, 4))

    def work():
        while not done.is_set():
            outputs(Interpreter(model_content=content), (3, 4))
    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                signal.alarm(20)        # ends a child that waits for ever
                same = outputs(Interpreter(model_content=content), (3, 4)) == want
                os._exit(0 if same else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        thread.join()
