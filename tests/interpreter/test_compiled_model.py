"""CompiledModel and TensorBuffer, method by method, as those of ai_edge_litert do.

The file is longer than others since one table has the scenarios of all methods.
"""
import dataclasses
import enum
import gc
import importlib
import inspect
import threading
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pylite
from pylite import compiled_model as pylite_module
from pylite.errors import AcceleratorError, ExecutionError, SignatureError, TensorBufferError
from pylite.schema.builder import ModelBuilder
from tests.tools.resources import models, peer

F32 = np.float32
KEY = "serving_default"


def binary(operator="ADD", shape=(2, 3), dtype="float32", keys=(KEY,), second=None, **quantization):
    """A model of one operator on two tensors; second: the key of a signature of another subgraph, which squares."""
    m = ModelBuilder()
    a, b, c = (m.tensor(name, shape, dtype, **quantization) for name in "abc")
    m.operator(operator, [a, b], [c])
    m.inputs([a, b])
    m.outputs([c])
    for key in keys:
        m.signature(key, {"x": a, "y": b}, {"z": c})
    if second:
        m.subgraph("two")
        p, r = m.tensor("p", (4,), dtype), m.tensor("r", (4,), dtype)
        m.operator("MUL", [p, p], [r])
        m.inputs([p])
        m.outputs([r])
        m.signature(second, {"p": p}, {"r": r})
    return m.build()


def reordered():
    """A model whose signature lists its tensors in another order than the subgraph."""
    m = ModelBuilder()
    b, a, c, d = (m.tensor(name, (2,)) for name in "bacd")
    m.operator("SUB", [a, b], [c])
    m.operator("ABS", [c], [d])
    m.inputs([b, a])
    m.outputs([d, c])
    m.signature("s", {"zz": a, "aa": b}, {"ao": c, "zo": d})
    m.signature("t", {"aa": a, "zz": b}, {"ao": c, "zo": d})
    return m.build()


def copying(dtype, keys=(KEY,)):
    m = ModelBuilder()
    a, c = m.tensor("a", (2, 3), dtype), m.tensor("c", (6,), dtype)
    m.operator("RESHAPE", [a, m.constant("shape", np.array([6], np.int32))], [c], new_shape=(6,))
    m.inputs([a])
    m.outputs([c])
    for key in keys:
        m.signature(key, {"x": a}, {"z": c})
    return m.build()


def mistyped():
    m = ModelBuilder()
    a, c = m.tensor("a", (2,)), m.tensor("c", (2,), "int8")
    m.operator("ABS", [a], [c])
    m.inputs([a])
    m.outputs([c])
    return m.build()


def custom():
    m = ModelBuilder()
    a, c = m.tensor("a", (2,)), m.tensor("c", (2,))
    m.operator("NoSuchOp", [a], [c], custom_options=b"")
    m.inputs([a])
    m.outputs([c])
    return m.build()


PLAIN, TWO = binary(), binary(keys=(KEY, "other"), second="sec")
OPEN, FLAT = binary(shape=(-1, 3)), binary(shape=(6,))


def aligned(array):
    """A copy at an address that LiteRT uses without a copy of its own."""
    room = np.zeros(array.nbytes + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start:start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def ramp(n, dtype=F32, start=0):
    return np.arange(start, start + n).astype(dtype)


class Session:
    """A CompiledModel of `module` with the buffers of its first signature."""

    def __init__(self, module, data=PLAIN, signature=0, **options):
        self.module, self.TensorBuffer = module, module.TensorBuffer
        self.model = module.CompiledModel.from_buffer(data, **options)
        self.inputs = self.model.create_input_buffers(signature)
        self.outputs = self.model.create_output_buffers(signature)
        self.n = int(np.prod(self.outputs[0].get_tensor_details()["shape"]))

    def fill(self, *arrays):
        for buffer, array in zip(self.inputs, arrays or [ramp(self.n, start=i) for i in range(len(self.inputs))],
                                 strict=True):
            buffer.write(array)
        return self

    def run(self, inputs=None, outputs=None, signature=0):
        self.model.run_by_index(signature, inputs or self.inputs, outputs or self.outputs)
        return (outputs or self.outputs)[0].read(self.n, F32)


def result(scenario, module):
    """What a scenario returns, or the built-in type of its exception."""
    try:
        return scenario(module)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        return next(t for t in (RuntimeError, ValueError, AttributeError, TypeError) if isinstance(error, t))


def same(a, b):
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def model(data=PLAIN):
    return lambda module: module.CompiledModel.from_buffer(data)


def hw(module, accelerators, data=PLAIN):
    return module.CompiledModel.from_buffer(data, module.HardwareAccelerator(accelerators))


def cpu(module, **options):
    return module.Options(cpu_options=module.CpuOptions(**options))


def of_file(module, path):
    return module.CompiledModel.from_file(path).get_num_signatures()


def resized(m, *calls, data=OPEN):
    """The details after resizing; calls: positional and keyword arguments of resize_input_tensor."""
    found = model(data)(m)
    for arguments, keywords in calls:
        found.resize_input_tensor(*arguments, **keywords)
    return found.get_input_tensor_details(KEY), found.get_output_tensor_details(KEY)


def auto_resized(m):
    """Buffers of two shapes in turn: the model takes the shape of those that it runs on."""
    s = Session(m, OPEN)
    small = s.fill(ramp(3), ramp(3)).inputs
    for i in range(2):
        s.model.resize_input_tensor(i, [4, 3])
    large, out = s.model.create_input_buffers(0), s.model.create_output_buffers(0)
    for b in large:
        b.write(ramp(12))
    found = []
    for inputs in (large, small, large, [small[0], large[1]]):
        s.model.run_by_index(0, inputs, out)
        found += [s.model.get_input_tensor_details(KEY), out[0].read(3, F32), out[0].get_tensor_details()]
    return found


def on_host(m, array, out=None, data=FLAT):
    s = Session(m, data)
    buffer = s.TensorBuffer.create_from_host_memory(array)
    s.inputs[1].write(ramp(6))
    return s.run([buffer, s.inputs[1]], out and [s.TensorBuffer.create_from_host_memory(out)])


def shared_with_host(m):
    array, out = aligned(ramp(6)), aligned(np.zeros(6, F32))
    s = Session(m, FLAT)
    a, b = s.TensorBuffer.create_from_host_memory(array), s.TensorBuffer.create_from_host_memory(out)
    s.run([a, a], [b])
    first = out.copy()
    array[0] = 100
    s.run([a, a], [b])
    a.write(ramp(2, start=7))
    return first, out, array, b.read(6, F32)


def destroyed(m, use):
    s = Session(m).fill()
    s.inputs[1].destroy()
    return use(s)


SCENARIOS = {
    "from_file": [
        lambda m: of_file(m, "/nonexistent.tflite"), lambda m: of_file(m, "/tmp"), lambda m: of_file(m, None),
        lambda m: of_file(m, 5)],
    "from_buffer": [
        lambda m: model(b"")(m), lambda m: model(b"nothing " * 20)(m), lambda m: model(PLAIN[:len(PLAIN) // 2])(m),
        lambda m: model(None)(m), lambda m: model("x")(m), lambda m: model(mistyped())(m).get_num_signatures(),
        lambda m: model(custom())(m).get_signature_list(),
        lambda m: Session(m, custom()).run(),
        lambda m: m.CompiledModel.from_buffer(PLAIN, options=5), lambda m: m.CompiledModel.from_buffer(PLAIN, None, 5)],
    "hardware_accel": [
        lambda m: hw(m, 1).is_fully_accelerated(), lambda m: hw(m, 2), lambda m: hw(m, 4), lambda m: hw(m, 6),
        lambda m: m.CompiledModel.from_buffer(PLAIN, m.HardwareAccelerator(0)),
        lambda m: m.CompiledModel.from_buffer(PLAIN, 8), lambda m: m.CompiledModel.from_buffer(PLAIN, "CPU"),
        lambda m: hw(m, 5).get_num_signatures(), lambda m: [(a.name, a.value) for a in m.HardwareAccelerator],
        lambda m: m.CompiledModel.from_buffer(PLAIN, m.HardwareAccelerator.CPU, options=m.Options())],
    "options": [
        lambda m, n=n: m.CompiledModel.from_buffer(PLAIN, options=cpu(m, num_threads=n)).get_num_signatures()
        for n in (0, 1, 2, -1, 2.0, "2", None)] + [
        lambda m, k=k: m.CompiledModel.from_buffer(PLAIN, options=cpu(m, kernel_mode=k)).is_fully_accelerated()
        for k in (None, 0, 1, 2, 3, "x", -1, -2)] + [
        lambda m: repr(m.Options()), lambda m: m.Options() == m.Options(), lambda m: m.Options(2) == m.Options(),
        lambda m: repr(m.Options.create().cpu_options), lambda m: repr(m.Options().gpu_options),
        lambda m: repr(m.Options().qualcomm_options), lambda m: repr(m.Options().intel_openvino_options),
        lambda m: [m.CpuOptions(3) == m.CpuOptions(num_threads=3), m.Options(cpu_options=m.CpuOptions(2)) == cpu(m)],
        lambda m: [(k, v.value) for k, v in m.CpuKernelMode.__members__.items()],
        lambda m: [[(k, v.value) for k, v in e.__members__.items()] for c in (m.QualcommOptions, m.IntelOpenVinoOptions)
                   for n in sorted(vars(c)) if hasattr(e := getattr(c, n), "__members__")],
        lambda m: [f.name for c in (m.CpuOptions, m.GpuOptions, m.QualcommOptions, m.IntelOpenVinoOptions)
                   for f in dataclasses.fields(c)],
        lambda m: m.CompiledModel.from_buffer(PLAIN, options=m.Options(1, m.CpuOptions(2), m.GpuOptions(True))) and 1],
    "environment": [
        lambda m: m.EnvironmentOptions(), lambda m: m.Environment.create(options="/tmp").options.runtime_path,
        lambda m: m.Environment.create(runtime_path="/tmp").options.runtime_path,
        lambda m: m.Environment.create(options="/x", runtime_path="/y"), lambda m: m.Environment.create(runtime_path=5),
        lambda m: m.Environment.create(options=m.EnvironmentOptions("/x"), runtime_path="/y"),
        lambda m: closed(m.Environment.create()).capsule,
        lambda m: m.CompiledModel.from_buffer(PLAIN, environment=closed(m.Environment.create())),
        lambda m: (lambda e: m.CompiledModel.from_buffer(PLAIN, None, e).environment is e)(m.Environment.create())],
    "get_signature_list": [
        lambda m, d=d: model(d)(m).get_signature_list() for d in (PLAIN, TWO, reordered(), copying("int8", ()))],
    "get_signature_by_index": [
        lambda m, i=i: model(TWO)(m).get_signature_by_index(i) for i in (0, 1, 2, "0", np.int64(1))],
    "get_num_signatures": [lambda m, d=d: model(d)(m).get_num_signatures() for d in (PLAIN, TWO, copying("int8", ()))],
    "get_signature_index": [
        lambda m, k=k: model(TWO)(m).get_signature_index(k) for k in ("other", KEY, "no", "", "sec", 0)],
    "get_input_tensor_details": [
        lambda m, k=k, d=d: model(d)(m).get_input_tensor_details(k)
        for d, k in ((TWO, KEY), (TWO, "sec"), (TWO, "no"), (OPEN, KEY), (reordered(), "s"), (TWO, 0),
                     (copying("int8", ()), "<placeholder signature>"))],
    "get_output_tensor_details": [
        lambda m, k=k, d=d: model(d)(m).get_output_tensor_details(k)
        for d, k in ((TWO, KEY), (TWO, "sec"), (TWO, "no"), (OPEN, KEY), (reordered(), "t"), (binary(shape=()), KEY))],
    "get_input_buffer_requirements": [
        lambda m, a=a: model(TWO)(m).get_input_buffer_requirements(*a)
        for a in ((0,), (1,), (2,), (-1,), (0, 2), (1, 2), (0, 5), (0, -1), (np.int64(1),), ("x",))] + [
        lambda m, d=d: model(copying(d))(m).get_input_buffer_requirements(0)
        for d in ("float32", "float16", "float64", "int8", "int16", "uint16", "int32", "uint32", "int64", "bool")],
    "get_output_buffer_requirements": [
        lambda m, a=a: model(TWO)(m).get_output_buffer_requirements(*a)
        for a in ((0,), (1,), (-1,), (0, 2), (0, 5), (0, -1))],
    "create_input_buffer_by_name": [
        lambda m, a=a: model(TWO)(m).create_input_buffer_by_name(*a).get_tensor_details()
        for a in (("other", "x"), ("sec", "p"), ("other", "q"), ("no", "x"), ("other", 0))],
    "create_output_buffer_by_name": [
        lambda m, a=a: model(TWO)(m).create_output_buffer_by_name(*a).get_tensor_details()
        for a in (("other", "z"), ("sec", "r"), ("other", "x"), ("no", "z"))],
    "create_input_buffers": [
        lambda m, i=i: [b.get_tensor_details() for b in model(TWO)(m).create_input_buffers(i)]
        for i in (0, 2, 7, -1, "x")],
    "create_output_buffers": [
        lambda m, i=i: [b.get_tensor_details() for b in model(TWO)(m).create_output_buffers(i)] for i in (0, 2, 7, -1)],
    "resize_input_tensor": [
        lambda m, c=c: resized(m, *c) for c in (
            [((0, [4, 3]), {}), ((1, (4, 3)), {})], [((0, [4, 3]), {})], [((0, [4, 4]), {})], [((0, [12]), {})],
            [((0, [-1, 3]), {})], [((5, [4, 3]), {})], [((-1, [4, 3]), {})], [((0, [4, 3], 3), {})],
            [((0, "ab"), {})], [((0, [4.0, 3]), {})], [((0, None), {})],
            [((0, np.array([4, 3])), {}), ((1, [1, 3]), {})],
            [((i, [4, 5]), {"strict": False}) for i in (0, 1)] + [((i, [2, 3]), {}) for i in (0, 1)],
            [((i, [7]), {"strict": False}) for i in (0, 1)])] + [
        lambda m: resized(m, ((0, [4, 3]), {}), data=PLAIN),
        lambda m: resized(m, *[((i, [4, 3]), {"strict": False}) for i in (0, 1)], data=PLAIN)],
    "resize_input_tensor_by_name": [
        lambda m, a=a: (lambda found: (found.resize_input_tensor_by_name(*a), found.get_input_tensor_details(KEY)))(
            model(OPEN)(m)) for a in ((KEY, "y", [4, 3]), ("no", "y", [4, 3]), (KEY, "q", [4, 3]), (KEY, "x", [4, 4]),
                                      (KEY, "x", [4, 4], False))],
    "run_by_index": [
        lambda m: Session(m).fill().run(), lambda m: Session(m, TWO).fill().run(signature=1),
        lambda m: Session(m, TWO, 2).fill(ramp(4)).run(signature=2),
        lambda m: Session(m).fill().run(signature=9), lambda m: Session(m).fill().run(signature=-1),
        lambda m: Session(m).fill().run(signature=0.0), lambda m: Session(m).fill().run(signature=np.int64(0)),
        lambda m: (lambda s: s.run(s.inputs[:1]))(Session(m)), lambda m: (lambda s: s.run(s.inputs * 2))(Session(m)),
        lambda m: (lambda s: s.run(None, s.outputs * 2))(Session(m)),
        lambda m: (lambda s: s.run(tuple(s.inputs), tuple(s.outputs)))(Session(m).fill()),
        lambda m: (lambda s: s.run([s.inputs[0]] * 2))(Session(m).fill()),
        lambda m: (lambda s: (s.run(None, [s.inputs[0]]), s.run(None, [s.inputs[0]])))(Session(m).fill()),
        lambda m: (lambda s: s.run(s.inputs[:1], s.outputs, 2))(Session(m, TWO).fill()), auto_resized,
        lambda m: (lambda s: s.model.run_by_index(0, None, s.outputs))(Session(m)),
        lambda m: (lambda s: s.model.run_by_index(0, s.inputs[0], s.outputs))(Session(m)),
        lambda m: (lambda s: s.run([None, s.inputs[1]]))(Session(m).fill()),
        lambda m: (lambda s: (s.run(), s.run(None, [None])))(Session(m).fill()),
        lambda m: (lambda s: (s.run(), s.run(["x", s.inputs[1]])))(Session(m).fill())],
    "run_by_name": [
        lambda m, names=names: named_run(m, *names) for names in (
            ("xy", "z"), ("yx", "z"), ("xyw", "z"), ("xy", "zw"), ("xy", ""), ("xy", "w"))] + [
        lambda m: named_run(m, "xy", "z", key="no"), lambda m: named_run(m, "xy", "z", key=0),
        lambda m: kept_input(m)],
    "write": [
        lambda m, a=a: (lambda s: (s.inputs[0].write(a), s.inputs[0].read(6, F32)))(Session(m).fill())
        for a in (ramp(6), ramp(6).reshape(2, 3), ramp(6).reshape(3, 2), ramp(12)[::2], ramp(6).reshape(2, 3).T,
                  ramp(5), ramp(7), ramp(0), ramp(6, np.int32), ramp(6, np.int8), ramp(24, np.uint8),
                  ramp(25, np.uint8), ramp(6, np.float64), ramp(6, np.complex128), ramp(6).astype(">f4"), [1.0], 3,
                  None, F32(3), F32([[9]]), np.array(["a"]), np.array([None]), np.float16([1, 2]), np.array([True]))],
    "read": [
        lambda m, a=a: Session(m).fill().inputs[1].read(*a)
        for a in ((6, F32), (3, F32), (0, F32), (7, F32), (100, F32), (-1, F32), (6, np.int32), (24, np.uint8),
                  (6, np.int8), (6, np.float64), (6, "float32"), (6, np.dtype(F32)), ((2, 3), F32), (6.0, F32),
                  (6, "foo"), (6, None), (6, float), (12, np.float16), (24, np.bool_), (6, ">f4"))] + [
        lambda m: Session(m).inputs[0].read(6)],
    "get_tensor_details": [
        lambda m, d=d: [b.get_tensor_details() for b in Session(m, d).inputs] for d in (PLAIN, OPEN, binary(shape=()))],
    "create_from_host_memory": [
        lambda m, a=a: m.TensorBuffer.create_from_host_memory(a).get_tensor_details()
        for a in (ramp(6).reshape(2, 3), ramp(6, np.int8), ramp(0), ramp(6, np.float64), [1.0], ramp(6).astype(">f4"),
                  ramp(12).reshape(2, 6)[:, ::2], None, np.array(["a"]), ramp(4, np.complex128))] + [
        lambda m, a=a: on_host(m, a) for a in (aligned(ramp(6)), ramp(7)[1:], ramp(6, np.int32), ramp(12), ramp(3))] + [
        lambda m, o=o: on_host(m, ramp(6), o) for o in (aligned(np.zeros(6, F32)), np.zeros(3, F32))] + [
        shared_with_host],
    "destroy": [
        lambda m: destroyed(m, lambda s: s.inputs[1].read(6, F32)),
        lambda m: destroyed(m, lambda s: s.inputs[1].write(ramp(6))),
        lambda m: destroyed(m, lambda s: s.inputs[1].get_tensor_details()),
        lambda m: destroyed(m, lambda s: s.inputs[1].capsule), lambda m: destroyed(m, lambda s: s.run()),
        lambda m: destroyed(m, lambda s: s.inputs[1].destroy()),
        lambda m: (lambda s: (s.outputs[0].destroy(), s.run()))(Session(m).fill())],
    "close": [
        lambda m: (lambda s: (s.run(), s.model.close(), s.outputs[0].read(6, F32)))(Session(m).fill()),
        lambda m: (lambda c: c.__enter__() is c)(model()(m))],
}


def closed(environment):
    environment.close()
    return environment


def named_run(m, inputs, outputs, key=KEY):
    """The result of run_by_name; inputs, outputs: names, of one letter each."""
    s = Session(m).fill()
    s.model.run_by_name(key, dict(zip(inputs, [*s.inputs, s.inputs[0]], strict=False)),
                        dict(zip(outputs, [*s.outputs] * 2, strict=False)))
    return s.outputs[0].read(6, F32)


def kept_input(m):
    """An input that is left out keeps what the run before had there."""
    s = Session(m).fill()
    s.run()
    s.model.run_by_name(KEY, {"x": s.inputs[1]}, {"z": s.outputs[0]})
    return s.outputs[0].read(6, F32)


@pytest.mark.parametrize("method", SCENARIOS)
def test_the_peer(method):
    litert = peer("compiled_model")
    for number, scenario in enumerate(SCENARIOS[method]):
        ours, theirs = result(scenario, pylite_module), result(scenario, litert)
        if dataclasses.is_dataclass(theirs):
            ours, theirs = dataclasses.asdict(ours), dataclasses.asdict(theirs)
        assert same(ours, theirs), f"scenario {number} of {method}: {ours} here, {theirs} there"


HOMES = {module: importlib.import_module(f"pylite.{home}") for module, home in {
    "compiled_model": "compiled_model", "tensor_buffer": "tensor_buffer", "environment": "environment",
    "options": "options", "cpu_options": "cpu_options", "cpu_kernel_mode": "cpu_kernel_mode",
    "hardware_accelerator": "hardware_accelerator", "gpu_options": "accelerator_options",
    "qualcomm_options": "accelerator_options", "intel_openvino_options": "accelerator_options"}.items()}


def parameters(function):
    return [p.name for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("module", HOMES)
def test_names_and_parameters(module):
    """Every public class, method, member and parameter of LiteRT's modules is there."""
    tried = 0
    for name, theirs in vars(peer(module)).items():
        if name.startswith("_") or not inspect.isclass(theirs) or not theirs.__module__.startswith("ai_edge_litert"):
            continue
        ours, fields = getattr(HOMES[module], name), getattr(theirs, "__dataclass_fields__", {})
        assert not fields or parameters(ours)[:len(parameters(theirs))] == parameters(theirs)
        for member in dir(theirs):
            if member.startswith("_") or member in fields:
                continue
            assert hasattr(ours, member), f"{name}.{member}"
            if inspect.isroutine(getattr(theirs, member)) and not issubclass(theirs, enum.Enum):
                wanted = parameters(getattr(theirs, member))
                assert parameters(getattr(ours, member))[:len(wanted)] == wanted, f"{name}.{member}"
        tried += 1
    assert tried


INTEGER_MODELS = [      # for which LiteRT's REFERENCE mode gives the integers of its BUILTIN_REF
    "keras/mobilenet_v1_050_160_int8.tflite", "keras/lstm_unrolled_k3_10_int16x8.tflite",
    "test_data/mobilenet_v1_0.25_128_quant.tflite", "test_data/tools/split_concat.tflite",
    "ai-edge-quantizer/ai_edge_quantizer/tests/models/two_signatures_a8w8.tflite"]


@pytest.mark.parametrize("name", INTEGER_MODELS)
def test_integers_equal_the_reference_mode(name):
    """On the same random bytes, for two runs of every signature."""
    data = (models() / name).read_bytes()
    litert = peer("compiled_model")
    ours, theirs = (m.CompiledModel.from_buffer(data, options=cpu(m, kernel_mode=m.CpuKernelMode.REFERENCE))
                    for m in (pylite_module, litert))
    assert ours.get_signature_list() == theirs.get_signature_list()
    random = np.random.default_rng(1)
    for signature in range(ours.get_num_signatures()):
        sides = [(m, m.create_input_buffers(signature), m.create_output_buffers(signature)) for m in (ours, theirs)]
        for _ in range(2):
            for a, b in zip(sides[0][1], sides[1][1], strict=True):
                details = a.get_tensor_details()
                assert details == b.get_tensor_details()
                size = int(np.prod(details["shape"])) * np.dtype(details["dtype"]).itemsize
                value = random.integers(0, 256, size).astype(np.uint8)
                if details["dtype"] == "float32":
                    value = random.standard_normal(size // 4, F32).view(np.uint8)
                a.write(value)
                b.write(value)
            for m, inputs, outputs in sides:
                m.run_by_index(signature, inputs, outputs)
            for i, (a, b) in enumerate(zip(sides[0][2], sides[1][2], strict=True)):
                size = ours.get_output_buffer_requirements(i, signature)["buffer_size"]
                assert size == theirs.get_output_buffer_requirements(i, signature)["buffer_size"]
                assert np.array_equal(a.read(size, np.uint8), b.read(size, np.uint8))


@pytest.mark.parametrize("name", ["test_data/mobilenet_v2_1.0_224_quant.tflite", "keras/unet_transpose_128_int8.tflite",
                                  "tiny/benchmark/training/anomaly_detection/trained_models/ad01_int8.tflite"])
def test_integers_equal_the_reference_kernels(name):
    """Where the REFERENCE mode gives others than BUILTIN_REF."""
    path, litert, random = models() / name, peer(), np.random.default_rng(2)
    theirs = litert.Interpreter(str(path), experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF)
    theirs.allocate_tensors()
    given, result = theirs.get_input_details()[0], theirs.get_output_details()[0]
    ours = pylite_module.CompiledModel.from_file(path)
    inputs, outputs = ours.create_input_buffers(0), ours.create_output_buffers(0)
    value = random.integers(0, 256, given["shape"]).astype(np.uint8).view(given["dtype"])
    theirs.set_tensor(given["index"], value)
    theirs.invoke()
    inputs[0].write(value)
    ours.run_by_index(0, inputs, outputs)
    expected = theirs.get_tensor(result["index"])
    assert same(outputs[0].read(expected.shape, result["dtype"]), expected)


# What the peer aborts on, refuses, or silently computes from wrong bytes.

@pytest.mark.parametrize("index", [3, -1, 100])
def test_a_signature_out_of_range(index):
    with pytest.raises(SignatureError, match="'sec'"):
        model(TWO)(pylite_module).get_signature_by_index(index)


def test_only_other_processors():
    with pytest.raises(AcceleratorError, match=r"GPU\|NPU.*CPU alone.*load_delegate"):
        hw(pylite_module, 6)


@pytest.mark.parametrize("accelerators", [3, 5, 7])
def test_other_processors_beside_the_cpu_are_not_used(accelerators):
    assert not hw(pylite_module, accelerators).is_fully_accelerated()
    assert Session(pylite_module, hardware_accel=accelerators).fill().run()[1] == 3


def test_paths_and_buffers_of_bytes(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(PLAIN)
    for source in (path, str(path), bytes(path)):
        assert pylite_module.CompiledModel.from_file(source).get_num_signatures() == 1
    for source in (bytearray(PLAIN), memoryview(PLAIN), np.frombuffer(PLAIN, np.uint8)):
        assert pylite_module.CompiledModel.from_buffer(source).get_num_signatures() == 1


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint16", "uint32", "uint64", "float64", "complex64"])
def test_arrays_of_the_type_of_the_tensor(dtype):
    s = Session(pylite_module, copying(dtype))
    s.inputs[0].write(ramp(6, dtype))
    s.model.run_by_index(0, s.inputs, s.outputs)
    assert same(s.outputs[0].read(6, dtype), ramp(6, dtype))
    if dtype not in ("float64", "complex64"):
        shared = pylite_module.TensorBuffer.create_from_host_memory(ramp(6, dtype, 3))
        s.model.run_by_index(0, [shared], s.outputs)
        assert same(s.outputs[0].read(6, dtype), ramp(6, dtype, 3))


def test_wider_elements_are_refused():
    """LiteRT takes the first bytes."""
    wide = pylite_module.TensorBuffer.create_from_host_memory(ramp(6, np.int64))
    s = Session(pylite_module, FLAT).fill()
    with pytest.raises(TensorBufferError, match=r"input 0 \('a'\) has 24 bytes.*buffer 48, int64"):
        s.run([wide, s.inputs[1]])


def test_a_name_too_many_and_one_too_few():
    with pytest.raises(TensorBufferError, match="has the inputs 'x', 'y', and the map 'x', 'w'"):
        named_run(pylite_module, "xw", "z")


def test_a_read_only_array():
    array = ramp(6)
    array.flags.writeable = False
    s = Session(pylite_module, FLAT).fill()
    shared = pylite_module.TensorBuffer.create_from_host_memory(array)
    assert s.run([shared, s.inputs[1]])[1] == 3
    with pytest.raises(TensorBufferError, match="read-only"):
        shared.write(ramp(6))
    with pytest.raises(TensorBufferError, match="read-only"):
        s.run(None, [shared])


def test_strings_have_no_buffers():
    with pytest.raises(TensorBufferError, match="strings"):
        model(copying("string"))(pylite_module).create_input_buffers(0)


def test_no_buffer():
    s = Session(pylite_module)
    with pytest.raises(TypeError):
        s.run([1, s.inputs[1]])
    with pytest.raises(TypeError, match="create_from_host_memory"):
        pylite_module.TensorBuffer()


def test_a_closed_model():
    s = Session(pylite_module)
    s.model.close()
    for use in (s.run, s.model.get_signature_list, lambda: named_run_on(s), s.model.is_fully_accelerated):
        with pytest.raises(ExecutionError, match="closed"):
            use()


def named_run_on(s):
    s.model.run_by_name(KEY, {}, {})


def counting():
    """A model whose output is 0 ... a - 1."""
    m = ModelBuilder()
    a, c = m.tensor("a", (), "int32"), m.tensor("c", (-1,), "int32")
    m.operator("RANGE", [m.constant("zero", np.int32(0)), a, m.constant("one", np.int32(1))], [c])
    m.inputs([a])
    m.outputs([c])
    return m.build()


def test_outputs_whose_shapes_depend_on_data():
    """LiteRT makes no buffers for them."""
    s = Session(pylite_module, counting())
    shared = pylite_module.TensorBuffer.create_from_host_memory(np.zeros(5, np.int32))
    for n in (4, 2, 0, 5):
        s.inputs[0].write(np.array([n], np.int32))
        s.model.run_by_index(0, s.inputs, s.outputs)
        assert s.outputs[0].get_tensor_details() == {"dtype": "int32", "shape": [n]}
        assert same(s.outputs[0].read(n, np.int32), ramp(n, np.int32))
        s.model.run_by_index(0, s.inputs, [shared])
        assert same(shared.read(n, np.int32), ramp(n, np.int32))
    s.inputs[0].write(np.array([6], np.int32))
    with pytest.raises(TensorBufferError, match=r"output 1 \('c'\) has 24 bytes"):
        s.model.run_by_index(0, s.inputs, [shared])


def test_tensors_that_are_one_another():
    """An output that is an input, a constant, or twice the same."""
    m = ModelBuilder()
    a, c, k = m.tensor("a", (2,)), m.tensor("c", (2,)), m.constant("k", F32([7, 8]))
    m.operator("ABS", [a], [c])
    m.inputs([a])
    m.outputs([a, k, c, c])
    s = Session(pylite_module, m.build())
    for value in (F32([-1, 2]), F32([-3, 4])):
        s.inputs[0].write(value)
        s.model.run_by_index(0, s.inputs, s.outputs)
        assert [b.read(2, F32).tolist() for b in s.outputs] == [value.tolist(), [7, 8], *[abs(value).tolist()] * 2]
    s.outputs[0].write(F32([9, 9]))
    assert s.inputs[0].read(2, F32).tolist() == [-3, 4]


def test_no_elements():
    s = Session(pylite_module, binary(shape=(0, 3)))
    assert s.fill().run().shape == (0,)


# Memory.

def test_buffers_of_the_model_are_its_memory():
    s = Session(pylite_module).fill()
    memory = s.model._interpreter._executor(0)
    s.run()
    assert same(memory.array(0), ramp(6).reshape(2, 3))
    s.inputs[0].write(ramp(6, start=5))
    s.outputs[0].write(ramp(6, start=50))
    assert same(memory.array(0), ramp(6, start=5).reshape(2, 3))
    assert same(memory.array(2), ramp(6, start=50).reshape(2, 3))


def test_reads_that_repeat_are_copies_of_the_present_contents():
    made = pylite_module.CompiledModel.from_buffer(binary())
    inputs, outputs = made.create_input_buffers(0), made.create_output_buffers(0)
    kept = []
    for value in (1, 2, 3):
        for buffer in inputs:
            buffer.write(np.full((2, 3), value, F32))
        made.run_by_index(0, inputs, outputs)
        kept.append([outputs[0].read(6, F32), outputs[0].read(6, F32), outputs[0].read((2, 3), F32),
                     outputs[0].read(2, F32), outputs[0].read([3, 2], F32), outputs[0].read(6, np.dtype(F32)),
                     outputs[0].read(24, np.uint8).view(F32), outputs[0].read(np.int64(6), F32)])
    for value, arrays in zip((1, 2, 3), kept, strict=True):
        assert [a.shape for a in arrays] == [(6,), (6,), (2, 3), (2,), (3, 2), (6,), (6,), (6,)]
        assert all((a == 2 * value).all() and a.dtype == F32 and a.flags.writeable for a in arrays)
    kept[0][0][:] = 9
    assert (outputs[0].read(6, F32) == 6).all() and (outputs[0].read(6, F32) == 6).all()


def test_reads_that_repeat_follow_the_memory():
    """Another buffer takes the tensor's place, so that the first one gets memory of its own."""
    made = pylite_module.CompiledModel.from_buffer(binary())
    inputs, (first,), (second,) = (made.create_input_buffers(0), *(made.create_output_buffers(0) for _ in range(2)))
    for value, buffer in ((1, first), (2, second), (3, first), (4, second)):
        for x in inputs:
            x.write(np.full((2, 3), value, F32))
        others = [b.read(6, F32) for b in (first, second) if b is not buffer]
        made.run_by_index(0, inputs, [buffer])
        assert (buffer.read(6, F32) == 2 * value).all()
        assert [(b.read(6, F32) == x).all() for b, x in zip((b for b in (first, second) if b is not buffer), others,
                                                              strict=True)] == [True]
    first.read(6, F32)
    first.destroy()
    with pytest.raises(TensorBufferError, match="destroyed"):
        first.read(6, F32)
    second.read(6, F32)
    with pytest.raises(TensorBufferError, match="larger than"):
        second.read(7, F32)
    assert (second.read(6, F32) == 8).all()


@given(st.data())
def test_any_buffers_in_any_order(data):
    """Runs, resizes and new buffers at random, as plain arrays would give."""
    s = Session(pylite_module, binary("SUB", (-1, 2)))
    shape, buffers = (1, 2), [(b, np.zeros(2, F32)) for b in (*s.inputs, *s.outputs)]
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["run", "run", "write", "make", "share", "resize", "drop"]))
        if action == "run":
            fitting = [b for b in buffers if b[1].size == shape[0] * 2]
            if fitting:
                (a, x), (b, y), (c, z) = (data.draw(st.sampled_from(fitting)) for _ in "xyz")
                expected = x - y
                s.model.run_by_index(0, [a, b], [c])
                z[:] = expected
        elif action == "write" and buffers:
            buffer, array = data.draw(st.sampled_from(buffers))
            array[:] = data.draw(st.integers(-9, 9))
            buffer.write(array.copy())
        elif action == "make":
            side = data.draw(st.sampled_from([s.model.create_input_buffers, s.model.create_output_buffers]))
            made = side(0)
            buffers += [(b, b.read(shape[0] * 2, F32)) for b in made]
        elif action == "share":
            array = np.full(shape[0] * 2, 3, F32)
            buffers.append((pylite_module.TensorBuffer.create_from_host_memory(array), array))
        elif action == "resize":
            shape = data.draw(st.integers(1, 3)), 2
            for i in range(2):
                s.model.resize_input_tensor(i, shape)
        elif action == "drop" and buffers:
            buffers.pop(data.draw(st.integers(0, len(buffers) - 1)))
        for buffer, array in buffers:
            assert np.array_equal(buffer.read(array.size, F32), array)


def test_a_dropped_model_is_freed_and_its_buffers_live():
    s = Session(pylite_module).fill()
    s.run()
    interpreter, output = weakref.ref(s.model._interpreter), s.outputs[0]
    del s
    gc.collect()
    assert interpreter() is None
    assert output.read(6, F32)[1] == 3
    output = weakref.ref(output)
    assert output() is None


def test_models_in_several_threads():
    """One model that all use, and one for each."""
    shared, wrong = Session(pylite_module), []

    def work(seed):
        own = Session(pylite_module)
        inputs, outputs = shared.model.create_input_buffers(0), shared.model.create_output_buffers(0)
        for i in range(200):
            for buffer in (*inputs, *own.inputs):
                buffer.write(ramp(6, start=seed + i))
            for found in (shared.run(inputs, outputs), own.run()):
                if not same(found, ramp(6, start=seed + i) * 2):
                    wrong.append((seed, i))
    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_custom_ops_and_their_errors(registered):
    @pylite.custom_op("NoSuchOp")
    def op(x, out):
        out[...] = x * 3

    s = Session(pylite_module, custom())
    s.inputs[0].write(F32([1, 2]))
    s.model.run_by_index(0, s.inputs, s.outputs)
    assert s.outputs[0].read(2, F32).tolist() == [3, 6]


def test_a_model_shows_its_inputs_and_outputs():
    model = pylite_module.CompiledModel.from_buffer(binary())
    assert repr(model) == ("<CompiledModel of <Interpreter of bytes: a float32 [2, 3], b float32 [2, 3] -> "
                           "c float32 [2, 3]>>")
    assert repr(pylite.Model(binary())) == "<pylite.Model of bytes, 1 subgraph>"
    runner = pylite.Interpreter(model_content=binary()).get_signature_runner()
    assert repr(runner) == f"<SignatureRunner '{KEY}': x, y -> z>"
