"""Interpreter(precision=...): products of float32 in float16, by consent."""
import numpy as np
import pytest

import pylite
from pylite._core import simd
from pylite.cli import main
from pylite.compiled_model import CompiledModel, CpuOptions, HardwareAccelerator, Options
from pylite.cpu_options import FORCE_FP16
from pylite.interpreter import Interpreter
from pylite.runtime.planned_executor import PlannedExecutor
from pylite.schema.builder import ModelBuilder
from pylite.tasks import ImageEmbedder
from tests.tools import plans
from tests.tools.plans import run

lacks_float16 = pytest.mark.skipif(simd.has_float16(), reason="this CPU computes in float16")


def network(flag=None, channels=16):
    """CONV_2D, in float32 by Winograd's algorithm, a strided one, and FULLY_CONNECTED with a row for each image."""
    rng = np.random.default_rng(0)
    m = ModelBuilder()
    x, y, z, flat, out = (m.tensor(name, (1, *shape)) for name, shape in (
        ("x", (8, 8, channels)), ("y", (8, 8, 32)), ("z", (4, 4, 24)), ("flat", (384,)), ("out", (40,))))
    w, v, u = (m.constant(name, rng.normal(size=shape).astype(np.float32) / 8) for name, shape in (
        ("w", (32, 3, 3, channels)), ("v", (24, 3, 3, 32)), ("u", (40, 384))))
    m.operator("CONV_2D", [x, w], [y], padding="SAME", stride_h=1, stride_w=1, fused_activation_function="RELU")
    m.operator("CONV_2D", [y, v], [z], padding="SAME", stride_h=2, stride_w=2)
    m.operator("RESHAPE", [z, m.constant("shape", np.array([-1, 384], np.int32))], [flat])
    m.operator("FULLY_CONNECTED", [flat, u], [out])
    m.inputs([x])
    m.outputs([out, y, z])
    if flag is not None:
        m.metadata("reduced_precision_support", flag)
    return m.build()


def results(precision, model=None, batch=1, **options):
    interpreter = Interpreter(model_content=model or network(), precision=precision, **options)
    if batch != 1:
        interpreter.resize_tensor_input(0, (batch, 8, 8, 16))
    return run(interpreter)


def assert_same(got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def differ(got, want):
    return all((g != w).any() for g, w in zip(got, want, strict=True))


def test_float16_is_close_to_float32_and_is_not_the_default():
    exact, half = results("float32"), results("emulate_float16")
    assert_same(results(None), exact)
    assert differ(half, exact)
    for h, e in zip(half, exact, strict=True):
        assert h.dtype == np.float32
        np.testing.assert_allclose(h, e, rtol=0, atol=abs(e).max() * 2**-6)


@pytest.mark.parametrize("channels", [128, 200, 256, 300, 520])
def test_filters_of_many_channels(channels):
    """By Winograd's algorithm, whose filters are transformed at run time in float32 alone, or plainly."""
    rng, m = np.random.default_rng(0), ModelBuilder()
    x, y = m.tensor("x", (1, 7, 9, channels)), m.tensor("y", (1, 7, 9, 40))
    w = m.constant("w", rng.normal(0, .1, (40, 3, 3, channels)).astype(np.float32))
    m.operator("CONV_2D", [x, w], [y], padding="SAME", stride_h=1, stride_w=1)
    m.inputs([x])
    m.outputs([y])
    (exact,), (half,) = results("float32", m.build()), results("emulate_float16", m.build())
    assert (half != exact).any()
    np.testing.assert_allclose(half, exact, rtol=0, atol=abs(exact).max() * 2**-6)


def test_the_sums_are_those_that_numerics_describes():
    """256 products at a time in float16, fused; four sums in turn for a single row; the results in float16."""
    rng = np.random.default_rng(1)
    depth = 1100
    w, x = rng.normal(size=(20, depth)).astype(np.float32), rng.normal(size=(2, depth)).astype(np.float32)
    w[:, ::7] *= 1e-5       # subnormal in float16
    x[:, ::7] *= 1e4
    m = ModelBuilder()
    a, b = m.tensor("x", (1, depth)), m.tensor("y", (1, 20))
    m.operator("FULLY_CONNECTED", [a, m.constant("w", w)], [b])
    m.inputs([a])
    m.outputs([b])

    def fused(indices, r, j):
        total = np.float16(0)
        for k in indices:
            product = float(np.float16(x[r, k])) * float(np.float16(w[j, k]))
            total = np.float16(float(total) + product)
        return np.float32(total)

    def expected(r, j, alone):
        total = None
        for begin in range(0, depth, 1024 if alone else 256):
            piece = range(begin, min(begin + (1024 if alone else 256), depth))
            part = fused(piece, r, j)
            if alone:
                turns = len(piece) // 8 * 8
                sums = [fused([*piece[:turns][i::4], *(piece[turns:] if i == 0 else ())], r, j) for i in range(4)]
                part = np.float32(np.float32(sums[0] + sums[1]) + np.float32(sums[2] + sums[3]))
            total = part if total is None else np.float32(total + part)
        return np.float32(np.float16(total))

    for rows in (1, 2):
        interpreter = Interpreter(model_content=m.build(), precision="emulate_float16")
        interpreter.resize_tensor_input(0, (rows, depth))
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, x[:rows])
        interpreter.invoke()
        np.testing.assert_array_equal(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]),
                                      [[expected(r, j, rows == 1) for j in range(20)] for r in range(rows)])


def test_threads_and_isa_levels_do_not_change_results(isa_level):
    want = results("emulate_float16", batch=3)
    for threads in (2, 3):
        assert_same(results("emulate_float16", batch=3, num_threads=threads), want)
    simd.use("base")
    assert_same(results("emulate_float16", batch=3), want)


def test_interpreters_of_one_model_may_differ():
    model = pylite.Model(network())
    exact, half, again, half_again = (run(Interpreter(model=model, precision=precision))
                                      for precision in ("float32", "emulate_float16") * 2)
    assert_same(exact, again)
    assert_same(half, half_again)
    assert differ(half, exact)


def test_further_shapes_compute_in_float16():
    interpreter = Interpreter(model_content=network(), precision="emulate_float16")
    for batch in (1, 2, 5, 3, 7):
        interpreter.resize_tensor_input(0, (batch, 8, 8, 16))
        assert_same(run(interpreter), results("emulate_float16", batch=batch))


def test_plans_are_kept_for_each_precision(tmp_path):
    want = {precision: results(precision) for precision in ("float32", "emulate_float16")}
    for _ in range(2):
        for precision, outputs in want.items():
            interpreter = Interpreter(model_content=network(), precision=precision, cache_dir=tmp_path)
            assert_same(run(interpreter), outputs)
            interpreter.resize_tensor_input(0, (2, 8, 8, 16))
            assert_same(run(interpreter), results(precision, batch=2))
    planned = Interpreter(model_content=network(), precision="emulate_float16", cache_dir=tmp_path)
    assert type(planned._main) is PlannedExecutor


def test_inspect_names_float16():
    interpreter = Interpreter(model_content=network(), precision="emulate_float16")
    interpreter.allocate_tensors()
    algorithms = [kernel.algorithm for kernel in interpreter._main.current.program.kernels]
    assert sum("float16" in (text or "") for text in algorithms) == 3


def test_integer_models_do_not_change():
    model = plans.network()
    assert_same(results("emulate_float16", model), results("float32", model))


@lacks_float16
def test_cpus_without_float16_refuse_or_compute_in_float32():
    with pytest.raises(ValueError, match=r"precision='float16': this CPU .*Pass 'prefer_float16' .*'emulate_float16'"):
        Interpreter(model_content=network(), precision="float16")
    assert_same(results("prefer_float16"), results("float32"))
    assert_same(results(None, network(b"fp16accfp16")), results("float32"))


@pytest.mark.parametrize(("flag", "computes"), [
    (b"fp16accfp16", True), (b"fp16bf16accfp16", True), (b"fp16accfp32", False), (b"bf16accfp32", False), (b"", False),
    (b"\xff\xfe", False)])
def test_the_flag_of_a_model_allows_float16(monkeypatch, flag, computes):
    monkeypatch.setattr(simd, "has_float16", lambda: True)
    model = network(flag)
    assert_same(results(None, model), results("float16" if computes else "float32", model))
    assert_same(results("float32", model), results("float32"))


@pytest.mark.parametrize("wrong", ["half", 16, b"float16", np.float16])
def test_other_values_are_refused(wrong):
    with pytest.raises(ValueError, match="precision must be one of 'float32', 'float16', 'prefer_float16', 'emulate_"):
        Interpreter(model_content=network(), precision=wrong)


def test_tasks_compiled_models_and_commands_pass_it_on(tmp_path, capsys, monkeypatch):
    path = tmp_path / "model.tflite"
    path.write_bytes(network(channels=3))       # a picture's
    assert ImageEmbedder(str(path), precision="emulate_float16").interpreter._main.half
    assert not ImageEmbedder(str(path)).interpreter._main.half or simd.has_float16()
    forced = Options(HardwareAccelerator.CPU, cpu_options=CpuOptions(xnnpack_flags=FORCE_FP16))
    model = CompiledModel.from_file(str(path), options=forced)
    assert model._interpreter._main.half == simd.has_float16()
    given = []
    monkeypatch.setattr("pylite.cli._signature.Interpreter", lambda *args, **options: given.append(options) or
                        Interpreter(*args, **options))
    assert main(["run", str(path), "--zeros", "--precision", "emulate_float16"]) == 0
    assert given[0]["precision"] == "emulate_float16"
    assert main(["bench", str(path), "--seconds", "0.01", "--precision", "float32"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["bench", str(path), "--precision", "float17"])
    assert "'float17' is not float32" in capsys.readouterr().err
