"""Checks of pooling, reductions, softmax, normalization and resizing."""
import ctypes

import numpy as np

from tests.checkasm.core import Call, In, InOut, Out, Struct, check
from tests.checkasm.slots import ErrorSums, Range, Reduction, Softmax8, Softmax16, Window

F, H, B, S, I = np.float32, np.float16, np.uint8, np.int16, np.int32


TYPES = {"f32": F, "f16": H, "i8": np.int8, "u8": B, "i16": S, "i32": I, "i64": np.int64, "8": B, "16": S}


def split(slot):
    """(operation, type) that the name of a slot ends with."""
    _, operation, suffix = slot.rsplit("_", 2)
    return operation, TYPES[suffix]


@check("pool_l2_f32", "pool_max_f16", *(f"pool_{operation}_{suffix}" for operation in ("average", "max")
                        for suffix in ("f32", "i8", "u8", "i16")), rounds=40)
def pool_row(draw):
    operation, dtype = split(draw.slot)
    c = draw.choice(1, 3, 8, 16, 64, 70) if not draw.bench else 64
    stride, cols, rows = draw.integer(1, 3), draw.integer(1, 5), draw.integer(1, 4)
    if draw.bench:
        stride, cols, rows = 2, 3, 3
    left = draw.integer(0, cols - 1)
    width, n = draw.integer(1, 40), 0
    if operation == "max" and not draw.bench and draw.rng.random() < 0.5:      # maxima of few columns
        c, cols, rows = draw.integer(16, 70), draw.integer(2, 3), draw.integer(1, 3)
        left = draw.integer(0, cols - 1)
    while n * stride - left < width and n < 30:        # each window covers at least one column
        n += 1
    if left == 0 and cols == 2:
        n = max(1, (width - cols) // stride + 1)
    row = width * c + draw.integer(0, 9)
    low, high = (0, 255) if dtype == B else (-128, 127)
    w = Struct(Window, channels=c, width=width, rows=rows, row_stride=row, cols=cols, stride=stride,
               low=low + draw.integer(0, 99), high=high - draw.integer(0, 99), low_f=-5, high_f=50)
    x = draw.whole(rows * row).astype(dtype) if dtype in (F, H) else draw.array(dtype, rows * row)
    yield Call(w, In(x), left, n, Out(n * c, dtype), close="relative", work=n * c * rows * cols)


@check(*(f"reduce_{operation}_{suffix}" for operation in ("sum", "max") for suffix in ("f32", "8", "16")), rounds=40)
def reduce(draw):
    operation, dtype = split(draw.slot)
    n = [draw.integer(1, 4), draw.integer(1, 4), draw.integer(1, 20)]
    if draw.bench or draw.rng.random() < 0.5:      # neighbouring outputs
        c, run, step = draw.size(300, 256, least=1), 0, 1
        inner = c
    else:
        c, run = draw.integer(1, 9), draw.integer(1, 300)
        step = inner = run + draw.integer(0, 2)
        inner *= c
    stride = [0, 0, inner + draw.choice(0, 0, 3)]
    stride[1] = stride[2] * n[2]
    stride[0] = stride[1] * n[1]
    low, high = (-128, 127) if dtype == B else (-32768, 32767)
    flips = {B: (0, 0x80, 0x7F), S: (0, 0xFFFF if operation == "max" else 0), F: (0,)}
    g = Struct(Reduction, n=(Reduction._fields_[0][1])(*n), stride=(Reduction._fields_[1][1])(*stride), run=run,
               step=step, divisor=draw.choice(1, 7), sign=draw.choice(1, -1), whole=0,
               flip=draw.choice(*flips[dtype]),
               x_zero_sum=draw.integer(-999, 999), multiplier=draw.multiplier(), exponent=draw.integer(-12, 0),
               y_zero=draw.integer(-99, 99), low=low, high=high)
    rows = 1 if draw.bench else draw.integer(1, 3)
    apart = stride[0] * n[0] + draw.integer(0, 2)
    size = rows * apart + inner
    x = draw.whole(size) if dtype == F else draw.array(dtype, size)
    yield Call(g, In(x), rows, apart, c, Out(rows * c, dtype), close="relative",
               work=n[0] * n[1] * n[2] * max(run, 1) * rows * c)


@check("join_product_f32", *(f"join_{operation}_{suffix}" for operation in ("sum", "max", "min", "product")
                             for suffix in ("i32", "i64")))
def join(draw):
    _, dtype = split(draw.slot)
    c, step, n, stride = draw.integer(0, 40), draw.choice(1, 3, 60), draw.size(60), draw.choice(1, 1, 2, 60)
    size = max(c - 1, 0) * step + max(n - 1, 0) * stride + 1
    x = (draw.rng.random(size) + 0.5).astype(F) if dtype == F else draw.array(dtype, size)
    acc = np.ones(c, F) if dtype == F else draw.array(np.int64, c)
    yield Call(c, step, n, stride, In(x), InOut(acc), close="relative", work=n * c)


def shape(draw):
    return draw.integer(1, 40), draw.choice(1, 2, 4, 5, 8, 9, 15, 17, 64, 65, 255, 256, 300)


@check("softmax_f32")
def softmax_f32(draw):
    rows, n = (16, 1000) if draw.bench else shape(draw)
    x = (draw.rng.standard_normal((rows, n)) * draw.choice(1, 10, 100)).astype(F)
    yield Call(rows, n, draw.choice(1.0, 0.5, 0.0), In(x), Out((rows, n), F), close="scale", work=rows * n)


@check("log_softmax_f32", "l2_normalize_f32")
def row_f32(draw):
    rows, n = (16, 1000) if draw.bench else shape(draw)
    x = (draw.rng.standard_normal((rows, n)) * draw.choice(1, 10)).astype(F)
    yield Call(rows, n, In(x), Out((rows, n), F), close="scale", work=rows * n)


def tables(draw, logarithm):
    scale = draw.rng.random() * 0.3 + 0.01
    below = np.exp(-scale * np.arange(256))
    value = np.rint(-scale * np.arange(256) * 2**26) if logarithm else below * (2**31 - 1)
    value, scaled = (v.clip(-2**30, 2**31 - 1).astype(I) for v in (value, below * 2**19))
    numbers = Softmax8._fields_[0][1]
    return Struct(Softmax8, value=numbers(*value), scaled=numbers(*scaled), flip=draw.choice(0, 0x80))


@check("softmax_8", "softmax_8_to_16")
def softmax_8(draw):
    rows, n = (32, 1000) if draw.bench else shape(draw)
    yield Call(rows, n, tables(draw, False), In(draw.array(B, (rows, n))),
               Out((rows, n), B if draw.slot == "softmax_8" else S), work=rows * n)


@check("log_softmax_8")
def log_softmax_8(draw):
    rows, n = (32, 1000) if draw.bench else shape(draw)
    yield Call(rows, n, tables(draw, True), In(draw.array(B, (rows, n))), Out((rows, n), B), work=rows * n)


@check("softmax_s16")
def softmax_s16(draw):
    n = draw.size(400, 1000, least=1)
    exp = np.rint(np.exp(np.linspace(-10, 0, 513)) * 32767).astype(S)
    reciprocal = np.rint(32767 / np.linspace(1, 2, 513)).astype(S)
    s = Struct(Softmax16, exp=exp, reciprocal=reciprocal, multiplier=draw.multiplier(), exponent=draw.integer(-4, 1))
    yield Call(n, s, In(draw.array(S, n)), Out(n, S), work=n)


@check("l2_normalize_8")
def l2_normalize_8(draw):
    n, flip = draw.size(400, 1000, least=1), draw.choice(0, 0x80)
    yield Call(n, draw.integer(0, 255), flip, In(draw.array(B, n)), Out(n, B), work=n)


@check(*(f"bilinear_{suffix}" for suffix in ("f32", "u8", "u8_narrow", "i8", "i8_narrow", "i16")), rounds=30)
def bilinear(draw):
    suffix = draw.slot.removeprefix("bilinear_")
    dtype = TYPES[suffix.removesuffix("_narrow")]
    gather, n, width = draw.integer(0, 1), draw.size(70, 256, least=1), draw.integer(1, 50)
    c = 16 if draw.bench else draw.choice(3, draw.integer(1, 12)) if gather else draw.size(80, 64, least=1)
    low = (np.arange(n) * width // n).astype(I)
    high = np.minimum(low + 1, width - 1).astype(I)
    one = 16 if suffix.endswith("narrow") else 1024
    fraction = draw.rng.random(n).astype(F) if suffix in ("f32", "u8") else draw.rng.integers(0, one + 1, n).astype(I)
    fraction = np.repeat(fraction, c if gather else 1)
    image = (lambda: draw.whole(width * c)) if dtype == F else (lambda: draw.array(dtype, width * c))
    step = c if gather or draw.bench else c + draw.integer(0, 3)
    yield Call(n, c, gather, In(image()), In(image()), In(low), In(high), In(fraction), In(fraction[:1]),
               Out((n - 1) * step + c, dtype), step, work=n * c)


@check("gather_pixels", rounds=40)
def gather_pixels(draw):
    n, size, width = draw.size(70, 256), draw.choice(1, 2, 3, 4, 7, 8, 15, 16, 17, 32, 70), draw.integer(1, 50)
    step = size if draw.bench else size + draw.integer(0, 3)
    yield Call(n, size, In(draw.rng.integers(0, width, n).astype(I)), In(draw.array(B, width * size)),
               Out(max(n - 1, 0) * step + size * (n > 0), B), step, work=n * size, unit="bytes")


@check("observe_f32", rounds=60)
def observe(draw):
    rows, n = (32, 128) if draw.bench else (draw.integer(0, 32), draw.choice(0, 1, 3, 4, 5, 16, 17, 33, 64, 255, 256))
    steps = [n + draw.choice(0, 0, 5) for _ in range(2)]
    x, reference = (draw.whole(max(rows, 1) * step) for step in steps)
    if not draw.bench and draw.rng.random() < 0.4:
        for array in (x, reference):
            array[draw.rng.random(array.size) < 0.02] = draw.choice(np.inf, -np.inf, np.nan)
    before = ErrorSums()
    for name, _ in ErrorSums._fields_:
        np.asarray(getattr(before, name))[...] = np.abs(draw.whole(256)) if name == "largest" else draw.whole(256)
    limits = {"low": -6.5, "high": 5.5, "lowest": -6, "highest": 5}

    def expect(found):
        after, asked = ErrorSums.from_buffer_copy(found.tobytes()), {
            name: np.array(getattr(before, name)) for name, _ in ErrorSums._fields_}
        v, r = (array[:rows * step].reshape(rows, step)[:, :n] for array, step in zip((x, reference), steps,
                                                                                       strict=True))
        used = np.isfinite(v) & np.isfinite(r)
        error, real = np.where(used, v - r, 0), np.where(used, r, 0)
        for name, addends in (("error", error), ("error2", error**2), ("reference2", real**2), ("count", used),
                              ("low", used & (v <= -6) & (r < -6.5)), ("high", used & (v >= 5) & (r > 5.5))):
            asked[name][:n] += addends.sum(0).astype(asked[name].dtype)
        asked["largest"][:n] = np.maximum(asked["largest"][:n], np.abs(error).max(0, initial=0, where=used))
        asked["highest"][:n] = np.maximum(asked["highest"][:n], r.max(0, initial=-np.inf, where=used))
        asked["lowest"][:n] = np.minimum(asked["lowest"][:n], r.min(0, initial=np.inf, where=used))
        for name, array in asked.items():
            np.testing.assert_array_equal(np.asarray(getattr(after, name)), array, err_msg=name)
    sums = np.frombuffer(bytes(before), np.float64, ctypes.sizeof(ErrorSums) // 8)
    yield Call(rows, n, In(x), steps[0], In(reference), steps[1], Struct(Range, **limits), InOut(sums), expect=expect,
               work=rows * n)
