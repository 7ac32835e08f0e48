"""Checks of the element-wise micro-kernels of one and of two operands."""
import struct
from itertools import chain

import numpy as np

from pylite._core import simd
from pylite.numerics import quantization
from tests.checkasm.core import At, Call, In, InOut, Out, check
from tests.checkasm.slots import SLOTS

F, H, B, S, I, L = np.float32, np.float16, np.uint8, np.int16, np.int32, np.int64


def packed(format, *values):
    return np.frombuffer(struct.pack("=" + format, *values), np.int32)


def nothing(draw):
    return packed("i", 0)


def float_range(draw):
    unbounded, some = (-quantization.FLT_MAX, quantization.FLT_MAX), sorted(draw.rng.standard_normal(2) * 10)
    return packed("2f", *draw.choice(unbounded, some))


def int_range(draw):
    low, high = draw.choice((-2**31, 2**31 - 1), (-100, 20000), (0, 6))
    return packed("2i", low, high)


def long_range(draw):
    low, high = draw.choice((-2**63, 2**63 - 1), (-100, 20000))
    return packed("2q", low, high)


def ends(draw, bits):
    return sorted((draw.integer(-2**(bits - 1), 2**(bits - 1) - 1), draw.integer(-2**(bits - 1), 2**(bits - 1) - 1)))


def rescale(bits):
    def make(draw):
        return packed("6i", draw.integer(-200, 200), draw.multiplier(), draw.integer(-31, 12),
                        draw.integer(-128, 127), *ends(draw, bits))
    return make


def leaky(draw):
    return packed("7i", draw.integer(-300, 300), draw.multiplier(), draw.integer(-20, 3), draw.multiplier(),
                    draw.integer(-20, 3), draw.choice(0, -1), draw.integer(-300, 300))


def table(dtype, size, low=None, high=None):
    return lambda draw: draw.rng.integers(np.iinfo(dtype).min if low is None else low,
                                          (np.iinfo(dtype).max if high is None else high) + 1, size).astype(dtype)


def sigmoid(draw):
    head = np.array([draw.integer(1, 2**15), draw.integer(0, 15)], I)
    return np.concatenate([head, np.sort(draw.rng.integers(0, 65536, 256)).astype(I)])


def lines(draw):
    """A table whose entries are those of two lines, or, for random numbers that none fit, the operands themselves."""
    x = np.arange(256).astype(draw.choice(B, np.int8)).astype(np.int64)
    zero = draw.integer(int(x.min()), int(x.max()))
    left, right, start = (draw.rng.random() - draw.choice(0, 0.5), draw.rng.random() * 1.5, draw.integer(-100, 100))
    found = np.clip(np.round((x - zero) * np.where(x < zero, left, right)) + start, -128, 127).astype(np.int8)
    flip = draw.choice(0, 0x80)
    tables = [(found.view(B) ^ flip).tobytes(), bytes(range(256))]
    return np.frombuffer(next(filter(None, (simd.kernel_parameters("lines8", t) for t in tables))), B)


def quantize(bits):
    def make(draw):
        limits = ends(draw, bits) if bits > 8 else draw.choice(ends(draw, bits), (-128, 127), (0, 255))
        return packed("f3i", draw.rng.random() * 10 + 1e-3, draw.integer(*(0, 255) if limits[0] == 0 else (-128, 127)),
                      *limits)
    return make


def dequantize(draw):
    return packed("fi", draw.rng.random(), draw.integer(-128, 128))


def wide(name, words):
    return lambda draw: np.frombuffer(simd.kernel_parameters(name, words), np.int32)


# The type that a slot's name ends with.  If all operands have it and there are no parameters, no entry is needed below.
SUFFIXES = {"f32": F, "f16": H, "i8": np.int8, "u8": B, "i16": S, "i32": I, "i64": L, "u32": np.uint32}
CAST = {**SUFFIXES, "bool": B}
# name: x, y, parameters
UNARY = {
    **{name: (*map(CAST.get, name.split("_")[1:]), nothing) for name in SLOTS if name.startswith("cast_")},
    "clamp_f32": (F, F, float_range),
    **{f"leaky_relu_{name}": (dtype, dtype, lambda draw: packed("f", 0.1)) for name, dtype in (("f32", F), ("f16", H))},
    "sin_f32": (F, F, lambda draw: packed("i", draw.integer(0, 1))),
    "lut8": (B, B, table(B, 256)), "lines8": (B, B, lines),
    "lut8_i16": (B, S, table(S, 256)), "lut16": (S, S, table(S, 513)), "table16": (S, S, table(S, 65536)),
    "logistic_i16": (S, S, sigmoid), "tanh_i16": (S, S, sigmoid),
    "rescale_i16_i8": (S, B, rescale(8)), "rescale_i16_i16": (S, S, rescale(16)),
    "rescale_i16_i32": (S, I, rescale(32)), "rescale_i32_i8": (I, B, rescale(8)),
    "rescale_i32_i16": (I, S, rescale(16)), "rescale_abs_i16": (S, S, rescale(16)),
    "leaky_relu_i16": (S, S, leaky),
    "sqrt_i16": (S, S, lambda draw: packed("2f2i", draw.rng.random() + 0.1, draw.rng.random() + 0.1, -32768, -99)),
    "quantize_f32_i8": (F, B, quantize(8)), "quantize_f32_i16": (F, S, quantize(16)),
    "dequantize_i8": (np.int8, F, dequantize), "dequantize_u8": (B, F, dequantize),
    "dequantize_i16": (S, F, dequantize),
    "half_to_float": (H, F, nothing), "float_to_half": (F, H, nothing),
    "wide_unary": (S, L, wide("wide_unary", b"cast int16 int64")),
    **{f"finish_product_q{bits}": (L, dtype, lambda draw: packed(
        "5i", draw.integer(2**14, 2**15 - 1), draw.integer(-20, 5), draw.integer(-128, 127), *ends(draw, 8)))
       for bits, dtype in ((8, np.int8), (16, S))},
    "fake_quant": (F, F, lambda draw: packed("4f", -1, 1, 1 / 128, 128)),
    **{f"bucketize_{name}": (dtype, I, lambda draw: packed("i5f", 5, -2, -1, 0, 0.5, 7))
       for name, dtype in (("f32", F), ("f64", np.float64), ("i32", I), ("i64", L))},
}
EXACT = {"abs", "neg", "floor", "ceil", "round", "square", "clamp", "sqrt", "leaky", "dequantize", "cast", "half",
         "float", "sign"}


def one_operand(name):
    x_type, y_type, parameters = UNARY.get(name) or (*[SUFFIXES[name.rsplit("_", 1)[1]]] * 2, nothing)
    close = None if name.split("_")[0] in EXACT and "f16" not in name else "relative"

    def calls(draw):
        n = draw.size(700)
        x, p = draw.array(x_type, n), parameters(draw)
        if name.startswith("quantize") and draw.choice(0, 1):       # halves and their neighbours
            x = ((draw.rng.integers(-300, 300, n) + 0.5) * p.view(F)[0]).astype(F)
            x = np.nextafter(x, draw.rng.choice([-np.inf, 0, np.inf], n).astype(F))
        yield Call(n, In(x), Out(n, y_type), In(p), close=close, work=n)
        if x_type == y_type:
            yield Call(n, None, InOut(x), In(p), close=close)
    return calls


def product(draw):
    return packed("8i", *(draw.integer(-128, 127) for _ in range(3)), *draw.choice(ends(draw, 8), (-128, 127)),
                    draw.choice(0, 0x80), draw.multiplier(), draw.integer(-20, 3))


def fitted_product(draw):
    return np.frombuffer(simd.kernel_parameters("mul_q8", product(draw).tobytes()), I)


def quantized_sum(bits):
    def make(draw):
        a, b, y = (float(np.float32(v)) for v in draw.rng.random(3) + 0.01)
        if draw.choice(0, 1):       # scales whose sums are often halfway between two integers
            a, b, y = (2.0 ** draw.integer(-3, 2) for _ in range(3))
        left, *scalings = quantization.add_parameters(a, b, y, f"int{bits}")
        sign = draw.choice(0, -1)
        zeros = [draw.integer(-128, 127) for _ in range(3)] if bits == 8 else [0] * 3
        flip = draw.choice(0, 0x80) if bits == 8 else 0
        p = packed("14i", *zeros, *ends(draw, bits), flip, left, sign, *chain(*scalings))
        return p if bits == 16 else np.frombuffer(simd.kernel_parameters("sum_q8", p.tobytes()), I)
    return make


def shifts(draw):
    return packed("4i", draw.integer(0, 31), draw.integer(0, 31), *ends(draw, 16))


def prelu(draw):
    return packed("10i", *(draw.integer(-128, 127) for _ in range(3)), *ends(draw, 8), draw.choice(0, 0x80),
                    draw.multiplier(), draw.integer(-15, 2), draw.multiplier(), draw.integer(-15, 2))


def values(count, head):
    return lambda draw: np.concatenate([np.array(head(draw), I), draw.rng.integers(-9000, 9000, 2 * count).astype(I)])


WIDE_OPS = (b"add", b"sub", b"mul", b"maximum", b"minimum", b"less", b"less_equal", b"equal", b"not_equal", b"all",
            b"any", b"and", b"or", b"xor")
PLAIN = [("i16", S, int_range), ("i32", I, int_range), ("i64", L, long_range)]
# name: a, b, y, parameters
BINARY = {
    **{f"{name}_f32": (F, F, F, float_range) for name in ("add", "sub", "mul", "div")},
    **{f"{name}_f16": (H, H, H, float_range) for name in ("add", "mul", "maximum", "minimum")},
    **{f"{name}_{suffix}": (t, t, t, p) for name in ("add", "sub", "mul") for suffix, t, p in PLAIN},
    "div_i32": (I, I, I, int_range), "mul_u32": (np.uint32, np.uint32, np.uint32, int_range),
    "sum_q8": (B, B, B, quantized_sum(8)), "sum_q16": (S, S, S, quantized_sum(16)),
    "add_pot16": (S, S, S, shifts), "sub_pot16": (S, S, S, shifts),
    "mul_q8": (B, B, B, fitted_product), "mul_q16": (S, S, S, product), "mul_q16_q8": (S, S, B, product),
    "div_q8": (B, B, B, product), "div_q16": (S, S, S, product),
    "prelu_q8": (B, B, B, prelu), "prelu_q16": (S, np.int8, S, prelu),
    "wide_binary": (S, S, S, lambda draw: wide("wide_binary", draw.choice(*WIDE_OPS) + b" int16 int16")(draw)),
    "mul_c64": (np.int64, np.int64, np.int64, nothing),     # pairs of float32; integers, so that they are moved as bits
    **{f"{name}_q8": (B, B, B, values(256, lambda draw: [draw.integer(0, 1)])) for name in ("less", "equal")},
    **{name: (SUFFIXES[name[-3:]], SUFFIXES[name[-3:]], B, lambda draw: packed("i", draw.integer(0, 1)))
       for name in SLOTS if name.startswith(("less", "equal")) and name[-3:] in SUFFIXES},
    **dict.fromkeys(("add_i8", "mul_i8", "and_bool", "or_bool"), (B, B, B, nothing)),
    "equal_q16": (S, S, B, lambda draw: packed("7i", draw.integer(0, 1), 0, draw.multiplier(), -draw.integer(0, 9), 0,
                                               draw.multiplier(), -draw.integer(0, 9))),
    "real_q": (S, S, S, lambda draw: packed(
        "3d7i", 2.0**-draw.integer(5, 15), 2.0**-draw.integer(5, 15) / 3, 2.0**-draw.integer(5, 15), 0, 1, 2, -32768,
        32767, draw.integer(0, 1), 2)),
    "squared_difference_q8": (B, B, np.int8, values(256, lambda draw: [draw.multiplier(), -draw.integer(0, 20), 5])),
    **{f"product_q{bits}": (L, dtype, L, lambda draw: packed(
        "3i", 3, draw.integer(2**14, 2**15 - 1), -draw.integer(0, 9))) for bits, dtype in ((8, np.int8), (16, S))},
}


def two_operands(name):
    a_type, b_type, y_type, parameters = BINARY.get(name) or (*[SUFFIXES[name.rsplit("_", 1)[1]]] * 3, nothing)

    def calls(draw):
        n, p = draw.size(700), parameters(draw)
        a_step, b_step = (1, 1) if draw.bench else draw.choice((1, 1), (1, 0), (0, 1))
        a, b = draw.array(a_type, n if a_step else 1), draw.array(b_type, n if b_step else 1)
        if name in ("div_q8", "div_q16", "div_i32", "floor_div_i32", "floor_mod_i32"):      # b differs from its zero
            zero = 0 if name.endswith("i32") else p[1]
            if name == "div_q8":
                zero = (zero & 0xFF) ^ int(p[5])
            b = np.where(b == np.array(zero).astype(b_type), b_type(1 + int(zero) % 100), b).astype(b_type)
        if name == "mul_c64":
            a, b = (draw.whole(2 * len(v)).view(L) for v in (a, b))
        yield Call(n, In(a), a_step, In(b), b_step, Out(n, y_type), In(p), work=n)
        if y_type == a_type and a_step:
            yield Call(n, None, 1, In(b), b_step, InOut(a), In(p))
    return calls


def in_place(calls, argument, output):
    """NULL stands for the output's own memory."""
    def made(draw):
        for call in calls(draw):
            if call.arguments[argument] is None:
                arguments = list(call.arguments)
                arguments[argument], arguments[output] = arguments[output], At(argument)
                call.arguments = tuple(arguments)
            yield call
    return made


for slot in SLOTS:
    if SLOTS[slot] == SLOTS["neg_f32"]:
        check(slot)(in_place(one_operand(slot), 1, 2))
    elif SLOTS[slot] == SLOTS["pow_f32"]:
        check(slot)(in_place(two_operands(slot), 1, 5))
