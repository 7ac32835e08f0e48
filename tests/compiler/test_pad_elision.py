"""PAD folded into the operators that read it: bit-identical results."""
import numpy as np
import pytest

from pylite._core import simd
from pylite.errors import NotAllocatedError
from pylite.schema.builder import ModelBuilder
from tests.tools.graphs import lowered, run

pytestmark = pytest.mark.filterwarnings("ignore:experimental_preserve_all_tensors")


def padded(rng, dtype, depthwise):
    """A PAD and a convolution that reads it: (model, x); None where the filter is larger than the image."""
    m = ModelBuilder()
    h, w, c, k = (int(n) for n in rng.integers(1, 9, 4))
    fh, fw, stride, dilation = (int(n) for n in (rng.integers(1, 6), rng.integers(1, 6), *rng.integers(1, 3, 2)))
    widths = rng.integers(0, 4, (4, 2))
    widths[[0, 3]] = 0
    hp, wp = h + widths[1].sum(), w + widths[2].sum()
    if hp < (fh - 1) * dilation + 1 or wp < (fw - 1) * dilation + 1:
        return None
    kind = "float32" if dtype == "hybrid" else dtype
    quantized = {} if kind == "float32" else {"scale": 0.1, "zero_point": 0 if dtype == "int16" else 7}
    k = c * int(rng.integers(1, 3)) if depthwise else k
    x, p = (m.tensor(n, s, kind, **quantized) for n, s in (("x", (2, h, w, c)), ("p", (2, hp, wp, c))))
    padding = str(rng.choice(["SAME", "VALID"]))
    size = [-(-n // stride) if padding == "SAME" else -(-(n - (f - 1) * dilation) // stride)
            for n, f in ((hp, fh), (wp, fw))]
    y = m.tensor("y", (2, *size, k), kind, **quantized)
    shape = (1, fh, fw, k) if depthwise else (k, fh, fw, c)
    if dtype == "float32":
        weights = m.constant("w", rng.standard_normal(shape).astype(np.float32))
    else:
        weights = m.constant("w", rng.integers(-100, 100, shape).astype(np.int8), [0.05] * k, [0] * k,
                             axis=3 if depthwise else 0)
    m.operator("PAD", [x, m.constant("widths", widths.astype(np.int32))], [p])
    options = {"depth_multiplier": k // c} if depthwise else {}
    m.operator("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [p, weights, None], [y], padding=padding,
               stride_h=stride, stride_w=stride, dilation_h_factor=dilation, dilation_w_factor=dilation,
               fused_activation_function="NONE", **options)
    m.inputs([x])
    m.outputs([y])
    array = rng.standard_normal((2, h, w, c)).astype(np.float32) if kind == "float32" else \
        rng.integers(-100, 100, (2, h, w, c)).astype(kind)
    return m.build(), array


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "hybrid", "int8", "int16"])
def test_convolutions_give_identical_results(dtype, depthwise):
    chosen, folded = simd.current, 0
    try:
        for case in range(70):
            drawn = padded(np.random.default_rng(case), dtype, depthwise)
            if drawn is None:
                continue
            model, x = drawn
            folded += any(note.startswith("folded") for note in lowered(model).notes.values())
            for isa_level in simd.available():
                simd.use(isa_level)
                _, want = run(model, [x], experimental_preserve_all_tensors=True)
                _, got = run(model, [x])
                assert want[0].tobytes() == got[0].tobytes(), f"case {case}, ISA level {isa_level}"
    finally:
        simd.use(chosen)
    assert folded > 8


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint8", "int16"])
def test_max_pools_give_identical_results(dtype):
    folded = 0
    for case in range(80):
        rng, m, padding = np.random.default_rng(case), ModelBuilder(), ("VALID", "SAME")[case % 2]
        h, w, fh, fw, stride = (int(n) for n in (*rng.integers(1, 9, 2), *rng.integers(1, 5, 2), rng.integers(1, 4)))
        widths = rng.integers(0, 4, (4, 2)).astype(np.int32)
        widths[[0, 3]] = 0
        hp, wp = h + widths[1].sum(), w + widths[2].sum()
        if hp < fh or wp < fw:
            continue
        quantized = {} if dtype == "float32" else {"scale": 0.1, "zero_point": 0 if dtype == "int16" else 7}
        least = -np.inf if dtype == "float32" else np.iinfo(dtype).min
        x, p = (m.tensor(n, s, dtype, **quantized) for n, s in (("x", (2, h, w, 3)), ("p", (2, hp, wp, 3))))
        size = [-(-n // stride) if padding == "SAME" else (n - f) // stride + 1 for n, f in ((hp, fh), (wp, fw))]
        y = m.tensor("y", (2, *size, 3), dtype, **quantized)
        fill = m.constant("least", np.array(least + (case % 5 == 4), dtype), **quantized)
        m.operator("PADV2", [x, m.constant("widths", widths), fill], [p])
        m.operator("MAX_POOL_2D", [p], [y], padding=padding, stride_h=stride, stride_w=stride, filter_height=fh,
                   filter_width=fw)
        m.inputs([x])
        m.outputs([y])
        array = (rng.standard_normal((2, h, w, 3)) * 50).astype(dtype)
        folded += any(note.startswith("folded") for note in lowered(m.build()).notes.values())
        _, want = run(m.build(), [array], experimental_preserve_all_tensors=True)
        _, got = run(m.build(), [array])
        assert want[0].tobytes() == got[0].tobytes(), f"case {case}"
    assert folded > 3


@pytest.mark.parametrize("depthwise", [False, True])
def test_padding_of_an_empty_image(depthwise):
    m = ModelBuilder()
    x, p, y = m.tensor("x", (1, 0, 4, 2)), m.tensor("p", (1, 2, 4, 2)), m.tensor("y", (1, 1, 3, 2))
    weights = m.constant("w", np.ones((1, 2, 2, 2) if depthwise else (2, 2, 2, 2), np.float32))
    m.operator("PAD", [x, m.constant("widths", np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32))], [p])
    bias = m.constant("b", np.array([3, 4], np.float32))
    m.operator("DEPTHWISE_CONV_2D" if depthwise else "CONV_2D", [p, weights, bias], [y], padding="VALID", stride_h=1,
               stride_w=1)
    m.inputs([x])
    m.outputs([y])
    _, got = run(m.build(), [np.zeros((1, 0, 4, 2), np.float32)])
    np.testing.assert_array_equal(got[0], np.broadcast_to(np.float32([3, 4]), (1, 1, 3, 2)))


def test_reading_a_folded_tensor_names_the_remedy():
    model, x = next(found for seed in range(99) if (found := padded(np.random.default_rng(seed), "float32", False))
                    and lowered(found[0]).notes)
    interpreter, _ = run(model, [x])
    with pytest.raises(NotAllocatedError, match=r"folded into node 1.*experimental_preserve_all_tensors"):
        interpreter.get_tensor(1)
    kept, _ = run(model, [x], experimental_preserve_all_tensors=True)
    kept.get_tensor(1)
