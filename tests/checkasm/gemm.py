"""Checks of matrix products and depthwise convolutions.

Tiles differ between ISA levels, so the expected outputs are computed in plain C from the same matrices, packed for it.
"""
import ctypes

import numpy as np

from pylite._core import simd
from pylite._core.kernels import conv, conv_float, hybrid, matmul
from pylite.numerics import fixed_point
from tests.checkasm.core import Call, In, InOut, Out, Pointers, Struct, check, run
from tests.checkasm.slots import ISA_LEVELS, ALayout, Blocks, Columns, DepthwiseWindow, Hybrid, Tile

F, B, S, I, L = np.float32, np.uint8, np.int16, np.int32, np.int64
SLACK = 64
MOST_ROWS = 16
# Members of pl_columns, in the order of packing.
MEMBERS = ["bias", "mult", "odd", "left", "right", "half", "sign", "scale", "rest", "start"]


def padded(n, to):
    return -(-n // to) * to


def using(isa_level, make, *arguments):
    before = simd.current
    simd.use(isa_level.name)
    try:
        return make(*arguments)
    finally:
        simd.use(before)


def depthwise_weights(isa_level, packed):
    """The result of pack_depthwise_q8 as an argument, aligned as it is read: in groups of kr weights."""
    return In(packed.view(f"i{isa_level.dw8.kr * isa_level.dw8.bytes}"))


def a_panel_of(tile, x):
    """x of int8 as a packed A panel of this tile."""
    rows, depth = x.shape
    a_panel = np.zeros((rows, padded(depth, tile.ka)), S if tile.bytes == 2 else B)
    a_panel[:, :depth] = x if tile.bytes == 2 else x.astype(L) + tile.offset & 0xFF
    return a_panel


def with_slack(a_panel):
    """The panel followed by the slack of packed A panels: products read full tiles, of at most MOST_ROWS rows."""
    return np.concatenate([a_panel.reshape(-1), np.zeros(MOST_ROWS * a_panel.shape[-1] + SLACK, a_panel.dtype)])


@check("pack_b_q8", rounds=40)
def pack_b_q8(draw):
    tile = draw.isa_level.q8
    columns, depth, flip = draw.size(150, 256, least=1), draw.size(200, 256), draw.choice(0, 0x80)
    capacity = padded(columns, tile.nv) * padded(depth, tile.ka)
    members = {name: getattr(tile, name) for name, _ in Tile._fields_ if name != "order"}
    yield Call(Struct(Tile, **members), columns, depth, In(draw.array(B, columns * depth)), flip,
               InOut(np.zeros(capacity, B)), Out(columns, I), work=columns * depth, unit="bytes")


@check("pack_a_q8", rounds=60)
def pack_a_q8(draw):
    tile, flip = draw.isa_level.q8, draw.choice(0, 0x80)
    rows, segments = (tile.mr, 3) if draw.bench else (draw.integer(1, tile.mr), draw.integer(1, 4))
    length = draw.size(150, 192)
    x = [draw.array(B, length) for _ in range(rows * segments)]
    depth = padded(segments * length, tile.ka)
    values = (np.concatenate(x).reshape(rows, -1) ^ flip).astype(B).view(np.int8)
    want = a_panel_of(tile, values)
    yield Call(rows, segments, length, Pointers(x), flip, Out(rows * depth + SLACK, want.dtype), depth,
               expect=[want.reshape(-1)], front=True, work=rows * segments * length, unit="bytes")


@check("pack_lines_q8", rounds=60)
def pack_lines_q8(draw):
    lines = 8 if draw.bench else draw.integer(1, 5)
    before, after, inside = draw.integer(0, 40), draw.integer(0, 40), draw.size(200, 288)
    mask, border = draw.choice(0, 0x80), draw.integer(0, 255)
    x = draw.array(B, (lines, inside + draw.integer(0, 9)))
    width = before + inside + after
    pitch = width + draw.integer(0, 20)
    want = np.full((lines, width), border, B)
    want[:, before:before + inside] = x[:, :inside] ^ mask

    def expect(y):
        np.testing.assert_array_equal(y[:lines * pitch].reshape(lines, pitch)[:, :width], want)

    yield Call(lines, before, inside, after, In(x), x.shape[1], mask, border, Out(lines * pitch + SLACK, B), pitch,
               expect=expect, work=lines * inside, unit="bytes")


def shape_of(step, depth, lines=1, pitch=0):
    return Struct(ALayout, lines=lines, depth=depth, step=step, pitch=pitch)


@check("sums_q8", rounds=40)
def sums_q8(draw):
    tile = draw.isa_level.q8
    rows, length, lines = draw.integer(1, 20), draw.size(200, 256), draw.integer(1, 3)
    pitch = padded(length, tile.ka) * rows
    x = draw.array(np.int8, (lines, rows, padded(length, tile.ka)))
    a_panel = with_slack(a_panel_of(tile, x.reshape(lines * rows, -1)))
    offset = tile.offset if tile.bytes == 1 else 0
    want = (x[:, :, :length].astype(L) + offset).sum((0, 2)).astype(I)
    yield Call(rows, shape_of(padded(length, tile.ka), padded(length, tile.ka), lines, pitch), length, In(a_panel),
               Out(rows, I), expect=[want], work=rows * lines * length)


def product(draw):
    """(rows, columns, depth, x, w, a_panel of this ISA level, shape): x as rows of int8."""
    tile = draw.isa_level.q8
    rows = 48 if draw.bench else draw.choice(1, draw.integer(1, 40))
    columns = tile.nr if draw.bench else draw.integer(1, 5 * tile.nr if rows == 1 and tile.able else tile.nr)
    depth = 256 if draw.bench else draw.choice(draw.size(300, least=1), tile.ka, 2 * tile.ka)
    x, w = draw.array(np.int8, (rows, depth)), draw.array(np.int8, (columns, depth), draw.choice(-128, -127))
    a_panel = a_panel_of(tile, x)
    return rows, columns, depth, x, w, with_slack(a_panel), shape_of(a_panel.shape[1], a_panel.shape[1])


def parameters(draw, columns):
    bias = draw.rng.integers(-10**5, 10**5, columns).astype(I)
    least, most = (-20, 8) if draw.rng.random() < 0.3 and not draw.bench else (-20, draw.choice(0, 1))
    shift = draw.rng.integers(least, most, columns)
    mult = np.array([draw.multiplier() for _ in range(columns)], I)
    mult[draw.rng.random(columns) < 0.1] = 0
    return bias, mult, shift.astype(I)


def members_of(rows):
    """The arrays of pl_columns, and whether float32 may be used."""
    return {**dict(zip(MEMBERS, rows, strict=True)), "fit": int(rows.shape[1] > 0 and rows[-1, 0] != -1)}


def ends_of(draw):
    """(zero point, low, high)"""
    low, high = (-128, 127) if draw.bench else sorted((draw.integer(-128, 127), draw.integer(-128, 127)))
    return draw.integer(-128, 127), low, high


def columns_of(draw, rows, depth, ends):
    """pl_columns over the parameters that packing makes, as set_columns in conv.pyx has them."""
    limit = (1 << 30) - 2 * depth * 255 * 128
    unshifted = (rows[1] != 0) & (rows[4] == 0)
    large = unshifted | (rows[1] < 0) | (rows[0] <= -limit) | (rows[0] >= limit)
    arrays = members_of(rows)
    return {**arrays, "left": arrays["left"] if large.any() else 0, "flip": draw.choice(0, 0x80),
            **dict(zip(("zero_point", "low", "high"), ends, strict=True))}


def output(draw, rows, columns, dtype):
    """An output whose row pitch exceeds the length of a row."""
    return np.full((rows, columns + draw.integer(0, 5)), 0x5A, dtype)


def real_rule(draw):
    """The float64 rule, where gemm_q8 knows it; halves are rounded away from zero."""
    rows, columns, _, x, w, a_panel, shape = product(draw)
    bias, low, high = draw.rng.integers(-10**5, 10**5, columns).astype(I), *ends_of(draw)[1:]
    real = np.where(draw.rng.random(columns) < 0.5, 0.5 ** draw.rng.integers(1, 16, columns), draw.rng.random(columns))
    term = draw.rng.integers(-999, 999, rows).astype(I) if draw.rng.random() < 0.5 else None
    zero_point, flip = draw.integer(-128, 127), draw.choice(0, 0x80)
    panels, numbers = using(draw.isa_level, matmul.pack_q8, w, bias, *parameters(draw, columns)[1:], 0, 0, 1, None, 1,
                            (0, 0))
    members = {**members_of(numbers), "real": np.resize(real, numbers.shape[1]), "left": 0, "zero_point": zero_point,
               "low": low, "high": high, "flip": flip}
    v = (x.astype(L) @ w.T.astype(L) + bias + (0 if term is None else term[:, None])) * real
    want = output(draw, rows, columns, B)
    want[:, :columns] = (np.trunc(v + np.copysign(0.5, v)) + zero_point).clip(low, high).astype(L) & 0xFF ^ flip
    yield Call(rows, columns, shape, In(a_panel), In(panels), None if term is None else In(term),
               Struct(Columns, **members), 0, InOut(np.full_like(want, 0x5A)), want.shape[1], expect=[want])


@check("gemm_q8", rounds=120)
def gemm_q8(draw):
    rows, columns, depth, x, w, a_panel, shape = product(draw)
    bias, mult, shift = parameters(draw, columns)
    ends = ends_of(draw)
    # only accumulators without a term are requantized in float32
    term = draw.rng.integers(-999, 999, rows).astype(I) if draw.rng.random() < 0.5 and not draw.bench else None
    clamp = (ends[1] - ends[0], ends[2] - ends[0]) if term is None else None
    panels, numbers = using(draw.isa_level, matmul.pack_q8, w, bias, mult, shift, 0, 0, 1, None, 1, clamp)
    members, to = columns_of(draw, numbers, depth, ends), output(draw, rows, columns, B)
    want = to.copy()
    acc = x.astype(I) @ w.T.astype(I) + (0 if term is None else term[:, None])
    _, plain = using(ISA_LEVELS["base"], matmul.pack_q8, w, bias, mult, shift, 0, 0)
    finish = {name: np.tile(array[:columns], rows) for name, array in zip(MEMBERS, plain, strict=True)}
    lines = Call(rows * columns, In(acc), Struct(Columns, **{**members, **finish}), 0, Out((rows, columns), B))
    want[:, :columns] = run(lines, "base", "requantize_q8")[0]
    yield Call(rows, columns, shape, In(a_panel), In(panels), None if term is None else In(term),
               Struct(Columns, **members), 0, InOut(to), to.shape[1], expect=[want], work=rows * columns * depth,
               unit="MAC")
    if draw.isa_level.q8.able and not draw.bench:
        yield from real_rule(draw)


@check("gemm_s32", rounds=80)
def gemm_s32(draw):
    rows, columns, depth, x, w, a_panel, shape = product(draw)
    panels, sums = using(draw.isa_level, matmul.pack_weights, w)
    acc = np.zeros((rows, columns + draw.integer(0, 5)), I)
    acc[...] = draw.rng.integers(-999, 999, acc.shape)
    want = acc.copy()
    offset = draw.isa_level.q8.offset if draw.isa_level.q8.bytes == 1 else 0
    want[:, :columns] += x.astype(I) @ w.T.astype(I) + offset * sums
    yield Call(rows, columns, shape, In(a_panel), In(panels), InOut(acc), acc.shape[1], expect=[want],
               work=rows * columns * depth, unit="MAC")


@check("fit_q8", rounds=40)
def fit_q8(draw):
    """Columns reported as fit for float32 must be exact for random accumulators within reach.  NEON looks for -128
    in each panel."""
    n, reach = draw.size(20, 64, least=1), float(draw.choice(9, 64, 300) * 255 * 128)
    bias, mult, shift = parameters(draw, n)
    shift = -draw.rng.integers(4, 14, n).astype(I)
    ends = ends_of(draw)
    low, high = ends[1] - ends[0], ends[2] - ends[0]
    if neon := draw.isa_level.name in ("neon", "dotprod", "i8mm"):
        n = padded(n, 8)
        bias, mult, shift = (np.resize(a, n) for a in (bias, mult, shift))
    panels = draw.array(np.int8, (n, draw.size(20, least=1)), -127)
    panels[draw.rng.random(panels.shape) < 0.01] = -128
    counted = draw.choice(n, 0) if neon else n       # 0: all panels together

    def same(scale, rest, start, unfit):
        if neon:
            found = (panels == -128).reshape(n // 8, -1).any(1)
            assert unfit[0] == (found.any() and not counted)
            np.testing.assert_array_equal(start, np.repeat(found, 8) if counted else np.zeros(n))
            return
        for j in range(0 if unfit[0] else n):
            acc = draw.rng.integers(int(bias[j] - reach), int(bias[j] + reach) + 1, 500).astype(I)
            x = acc.astype(F).astype(np.float64)
            inner = (x * rest[j] + np.where(acc < 0, -start[j], start[j])).astype(F)
            outer = x * scale[j] + inner
            if not draw.isa_level.name.startswith("avx512"):       # which rounds towards 0
                assert not rest.any()
                outer = outer.astype(F)
            got = np.clip(np.trunc(outer), low, high)
            want = fixed_point.mbqm32(acc.astype(L), int(mult[j]), int(shift[j]))
            np.testing.assert_array_equal(got, np.clip(want, low, high))
    yield Call(counted, In(bias), In(mult), In(np.zeros(n, I)), In(-shift), None, reach, low, high, In(panels),
               panels.size,
               InOut(np.zeros(n, F)), InOut(np.zeros(n, F)), InOut(np.zeros(n, F)), InOut(np.zeros(1, I)), expect=same,
               work=n)


@check("requantize_q8", rounds=40)
def requantize_q8(draw):
    n = draw.size(60, 64, least=1)
    _, numbers = using(draw.isa_level, matmul.pack_q8, np.zeros((n, 1), np.int8), *parameters(draw, n), 0, 0)
    yield Call(n, In(draw.array(I, n)), Struct(Columns, **columns_of(draw, numbers, 1, ends_of(draw))), 0,
               Out(n, B), work=n)


@check("gemm_f32", rounds=80)
def gemm_f32(draw):
    tile = draw.isa_level.f32
    rows = 48 if draw.bench else draw.integer(1, 30)
    columns = tile.nr if draw.bench else draw.integer(1, tile.nr)
    depth = draw.size(150, 256, least=1)
    x, w, bias = draw.whole((rows, depth)), draw.whole((columns, depth)), draw.whole(columns)
    panels = using(draw.isa_level, conv_float.pack_f32, w.reshape(columns, 1, 1, depth), 1)
    first, last = draw.integer(0, 1), draw.integer(0, 1)
    to = np.full((rows, columns + draw.integer(0, 5)), 3, F)
    want = to.copy()
    acc = x @ w.T + (0 if first else 3)
    want[:, :columns] = np.clip(acc + bias, -99, 200) if last else acc
    yield Call(rows, columns, shape_of(depth, depth), In(x), In(panels), first, last, In(bias), -99.0, 200.0, InOut(to),
               to.shape[1], expect=[want], work=rows * columns * depth, unit="MAC")


B_T = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], F)
A_T = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], F)


@check("winograd_in", rounds=40)
def winograd_in(draw):
    tiles, c = (16, 64) if draw.bench else (draw.integer(1, 5), draw.integer(16, 70))
    pixel_lines = [draw.whole((2 * tiles + 2, c + 3)) for _ in range(4)]
    steps = np.full(4, c + 3)
    for y in range(4):
        if not draw.bench and draw.rng.random() < 0.2:      # outside the image
            pixel_lines[y], steps[y] = draw.whole((1, c)), 0
    lines = np.stack([np.broadcast_to(a[:, :c], (2 * tiles + 2, c)) for a in pixel_lines])
    d = np.stack([lines[:, 2 * t:2 * t + 4] for t in range(tiles)])
    want = np.full((16, tiles + 1, c), 7, F)
    want[:, :tiles] = np.einsum("iy,jx,tyxc->jitc", B_T, B_T, d).reshape(16, tiles, c)
    to = np.full_like(want, 7)
    yield Call(tiles, c, Pointers(pixel_lines), steps.astype(np.intp), InOut(to), (tiles + 1) * c, expect=[want],
               work=tiles * c * 16)


@check("winograd_out", rounds=40)
def winograd_out(draw):
    tiles, n, width = (16, 32, 32) if draw.bench else (draw.integer(1, 5), draw.integer(1, 40), 40)
    bias = draw.choice(draw.whole(n), None)
    down, step = n * 2 * tiles + draw.integer(0, 3), n
    if tiles == 1:
        down, step = down * draw.integer(0, 1), step * draw.integer(0, 1)
    m = draw.whole((16, tiles + 1, width))
    pixels = np.einsum("iy,jx,xytc->tijc", A_T, A_T, m[:, :tiles, :n].reshape(4, 4, tiles, n))
    pixels = np.clip(pixels + (0 if bias is None else bias), -20, 30)
    want = np.full(down + 2 * tiles * n + 5, 3, F)
    for t, i, j in reversed(list(np.ndindex(tiles, 2, 2))):
        at = i * down + (2 * t + j) * step
        want[at:at + n] = pixels[t, i, j]
    yield Call(tiles, n, In(m), width, (tiles + 1) * width, None if bias is None else In(bias), -20.0, 30.0,
               InOut(np.full_like(want, 3)), down, step, expect=[want], work=tiles * n * 4)


@check("gemm_s64", rounds=40)
def gemm_s64(draw):
    rows, n, depth = draw.integer(1, 6), draw.integer(1, 9), draw.size(200, 256)
    if draw.bench:
        rows, n = 4, 8
    chunk = 256 if draw.bench else draw.choice(1, 16, 256)
    most = min(32767, 2**15 // chunk)
    w = draw.array(S, (n, depth), -most, most)
    yield Call(rows, n, depth, In(draw.array(S, (rows, depth))), In(w), depth, chunk,
               InOut(draw.rng.integers(-999, 999, (rows, n))), n, work=rows * n * depth, unit="MAC")


@check("finish_mbqm64", "finish_mbqm32")
def finish_16(draw):
    n = draw.size(100, 256)
    acc, bias = (draw.array(L, n, -2**40, 2**40) for _ in range(2))
    mult = np.array([draw.multiplier() for _ in range(n)], I)
    shift = draw.rng.integers(-31, 8, n).astype(I)
    yield Call(n, In(acc), draw.choice(In(bias), None), In(mult), In(shift), -32768, draw.integer(0, 32767), Out(n, S),
               work=n)


@check("finish_f64")
def finish_f64(draw):
    n = draw.size(100, 256)
    acc, bias = (draw.array(L, n, -2**40, 2**40) for _ in range(2))
    yield Call(n, In(acc), draw.choice(In(bias), None), draw.integer(0, 1), In(draw.rng.random(n) * 2.0**-10),
               draw.integer(-99, 99), -32768, 32767, Out(n, S), work=n)


@check("finish_f64_q8", rounds=40)
def finish_f64_q8(draw):
    n = draw.size(100, 256)
    scale = draw.rng.random(n) * 2.0 ** -draw.integer(0, 25)
    yield Call(n, In(draw.array(I, n)), In(draw.array(I, n)), draw.integer(-999, 999), In(scale), draw.integer(-99, 99),
               -128, draw.integer(-127, 127), draw.choice(0, 0x80), Out(n, B), work=n)


@check("dots_f32", rounds=40)
def dots_f32(draw):
    n, depth = (32, 256) if draw.bench else (draw.integer(1, 9), draw.size(300))
    pitch = depth + draw.choice(0, 3)
    yield Call(n, depth, In(draw.whole(depth, 15)), In(draw.whole((n, pitch), 15)), pitch, Out(n, F), work=n * depth,
               unit="MAC")


@check("range_f32")
def range_f32(draw):
    n = draw.size(300)
    yield Call(n, In(draw.whole(n, 1000)), Out(1, F), Out(1, F), work=n)


@check("quantize_s8")
def quantize_s8(draw):
    n = draw.size(300)
    x = (draw.rng.standard_normal(n) * 30).astype(F)
    yield Call(n, In(x), 1.7, draw.integer(-128, 127), draw.integer(0, 1), draw.choice(0, 0x80), Out(n, B), work=n)


@check("quantize_rows", rounds=40)
def quantize_rows(draw):
    rows, n = (64, 64) if draw.bench else (draw.integer(1, 40), draw.size(100, least=1))
    step = n + draw.choice(0, 0, 5)
    x = (draw.rng.standard_normal((rows, step)) * 10.0 ** draw.rng.integers(-3, 4, (rows, 1))).astype(F)
    x[draw.rng.random(rows) < 0.2] = 0
    x[draw.rng.random(rows) < 0.2] *= -np.sign(x[0, 0])
    asymmetric, flip = draw.integer(0, 1), draw.choice(0, 0x80)
    yield Call(rows, n, In(x), step, asymmetric, flip, Out((rows, n), B), Out(rows, F), Out(rows, I),
               expect=rows_quantized(x[:, :n], asymmetric, flip), work=rows * n)


def rows_quantized(x, asymmetric, flip):
    """[bytes, scales, zero points]"""
    low, high = (np.minimum(x.min(1), 0), np.maximum(x.max(1), 0))
    wide_low, wide_high = low.astype(np.float64), high.astype(np.float64)
    if asymmetric:
        step = (wide_high - wide_low) / 255
        nearer = 128 + np.abs(wide_low / step) < 127 + np.abs(wide_high / step)
        zero = np.where(nearer, -128 - wide_low / step, 127 - wide_high / step).clip(-128, 127)
        zero, scale = np.trunc(zero + np.copysign(0.5, zero)), (high - low) / F(255)
        inverse = F(1) / scale
    else:
        span = np.maximum(-low, high)
        zero, scale, inverse = np.zeros(len(x)), span / F(127), F(127) / span
    none = (low == 0) & (high == 0)
    zero, scale, inverse = np.where(none, 0, zero).astype(I), np.where(none, F(1), scale), np.where(none, F(0), inverse)
    v = x * inverse[:, None]
    q = (zero[:, None] + np.trunc(v + np.copysign(F(0.5), v))).clip(-128 if asymmetric else -127, 127)
    return [q.astype(np.int8).view(B) ^ B(flip), scale, zero]


@check("finish_hybrid", rounds=40)
def finish_hybrid(draw):
    n = draw.size(100, 256)
    acc, sums = draw.array(I, n, -2**20, 2**20), draw.array(I, n, -2**12, 2**12)
    yield Call(n, In(acc), draw.integer(-128, 127), In(sums), In(draw.rng.random(n).astype(F)), 0.013,
               draw.integer(0, 1), draw.choice(In(draw.whole(n)), None), -1e6, 1e6, Out(n, F), work=n)


@check("gemm_hybrid", rounds=100)
def gemm_hybrid(draw):
    rows, columns, depth, x, w, a_panel, shape = product(draw)
    packed, sums = using(draw.isa_level, matmul.pack_weights, w)
    zeros, scales = draw.rng.integers(-128, 128, rows).astype(I), draw.rng.random(rows).astype(F)
    scale, bias = draw.rng.random(columns).astype(F), draw.choice(draw.whole(columns), None)
    j, ldy, column_first = draw.integer(0, 3), columns + draw.choice(0, 0, 3), draw.integer(0, 1)
    before = [None if a is None else np.concatenate([np.zeros(j, a.dtype), a]) for a in (sums, scale, bias)]
    low, high = draw.choice((-np.inf, np.inf), (0, 300))
    v = ((x.astype(L) - zeros[:, None]) @ w.T.astype(L)).astype(I).astype(F)
    v = v * scale * scales[:, None] if column_first else v * (scales[:, None] * scale)
    want = np.full((rows, ldy), np.uint32(0x5A5A5A5A)).view(F)
    want[:, :columns] = (v if bias is None else v + bias).clip(low, high)
    yield Call(ctypes.addressof(draw.isa_level.table), rows, columns, shape, In(a_panel), In(packed),
               In(zeros + draw.isa_level.q8.offset), In(scales),
               Struct(Hybrid, sums=before[0], scale=before[1], bias=0 if bias is None else before[2],
                      column_first=column_first, fit=int((w != -128).all()), low=low, high=high), j,
               Out((rows, ldy), F), ldy, expect=[want], work=rows * columns * depth, unit="MAC")


@check("gemm_blocks", rounds=100)
def gemm_blocks(draw):
    tile = draw.isa_level.q8
    rows, columns = (draw.choice(1, 16), 64) if draw.bench else (draw.integer(1, 16), draw.size(150, least=1))
    blocks, size = (8, 32) if draw.bench else (draw.integer(1, 4), draw.choice(draw.integer(1, 70), 32, 64, 1100))
    narrow = draw.bench or draw.integer(0, 1)
    low, high = (-8, 7) if narrow else (-128, 127)
    x, w = draw.array(np.int8, (rows, blocks * size)), draw.array(np.int8, (columns, blocks * size), low, high)
    scales = draw.rng.random((columns, blocks)).astype(F)
    panels, sums, scale, nibbles = using(draw.isa_level, hybrid.pack_blocks, w, scales.reshape(-1), blocks, narrow)
    zeros, row_scales = draw.rng.integers(-128, 128, rows).astype(I), draw.rng.random(rows).astype(F)
    bias = draw.choice(draw.whole(columns), None)
    j = tile.nr * draw.integer(0, (columns - 1) // tile.nr)
    n = min(tile.nr, columns - j)
    v = np.zeros((rows, n), F)
    for i in range(blocks):
        part = slice(i * size, (i + 1) * size)
        v += ((x[:, part].astype(L) - zeros[:, None]) @ w[j:j + n, part].T.astype(L)).astype(F) * scales[j:j + n, i]
    v *= row_scales[:, None]
    want = np.full((rows, columns), np.uint32(0x5A5A5A5A)).view(F)
    want[:, :n] = (v if bias is None else v + bias[j:j + n]).clip(-1e3, 1e4)
    numbers = Struct(Blocks, panels=panels, sums=sums, scale=scale, bias=0 if bias is None else bias,
                     depth=blocks * size, blocks=blocks, deep=padded(size, tile.ka), columns=columns,
                     wide=padded(columns, tile.nv), nibbles=nibbles, low=-1e3, high=1e4)
    yield Call(ctypes.addressof(draw.isa_level.table), rows, n, numbers, j, In((x.astype(L) + tile.offset).astype(B)),
               In(zeros + tile.offset), In(row_scales), Out((rows, columns), F), expect=[want],
               work=rows * n * blocks * size, unit="MAC")


@check("scaled_sums", rounds=40)
def scaled_sums(draw):
    n, depth = (64, 256) if draw.bench else (draw.integer(1, 70), draw.size(100))
    wide, zero = padded(n, 16), draw.integer(-128, 127)
    x = np.where(draw.rng.random(depth) < 0.4, zero, draw.array(np.int8, depth)).astype(np.int8)
    yield Call(n, depth, In(x), zero, In(draw.whole((depth, wide), 127)), wide, In(draw.rng.random(wide).astype(F)),
               0.013, draw.integer(0, 1), draw.integer(0, 1), In(draw.whole(wide)), -1e6, 1e6, InOut(draw.whole(n)),
               work=n * depth, unit="MAC")


def window(draw, pixels_of, most=1):
    """(members of pl_dw_window of up to `most` output lines, input lines, None where outside the image, zero)"""
    fh, fw = (3, 3) if draw.bench or draw.rng.random() < 0.6 else (draw.integer(1, 5), draw.integer(1, 5))
    stride, dilation = (1, 1) if draw.bench or draw.rng.random() < 0.5 else (draw.integer(1, 3), draw.integer(1, 2))
    pad = 1 if draw.bench else draw.integer(0, (fw - 1) * dilation)
    c = 64 if draw.bench else draw.choice(1, 3, 8, 16, 17, 24, 40, 64, 65, 72, 96, 130)
    width = 28 if draw.bench else draw.integer(1, 40)
    reach = width + 2 * pad - (fw - 1) * dilation
    if reach < 1:
        width, reach = width + 1 - reach, 1
    pixels = (reach - 1) // stride + 1
    count = most if draw.bench else draw.integer(1, most if dilation == 1 else 1)
    lines = [None if not draw.bench and draw.rng.random() < 0.2 else pixels_of(width * c)
             for _ in range((count - 1) * stride + fh)]
    zero = draw.integer(-128, 127)
    names = ["fh", "fw", "stride", "dilation", "pad", "width", "pixels", "c", "lines", "y_line"]
    numbers = fh, fw, stride, dilation, pad, width, pixels, c, count, pixels * c
    return dict(zip(names, numbers, strict=True)), lines, zero


@check("depthwise_q8", rounds=120)
def depthwise_q8(draw):
    g, lines, zero = window(draw, lambda n: draw.array(B, n), draw.isa_level.dw8.mr)
    c, flip = g["c"], draw.choice(0, 0x80)
    w_zero = draw.integer(-128, 127) if flip and not draw.bench else 0
    weights = draw.array(np.int8, (1, g["fh"], g["fw"], c))
    bias, mult, shift = parameters(draw, c)
    stored = (weights.view(B) ^ 0x80) if flip else weights
    filter = g["fh"], g["fw"], 1, g["stride"], 1, g["dilation"], 0, g["pad"]
    ends = ends_of(draw)
    arguments = stored, bias, mult, shift, zero, w_zero, filter, (ends[1] - ends[0], ends[2] - ends[0])
    packed, numbers = using(draw.isa_level, conv.pack_depthwise_q8, *arguments)
    members = columns_of(draw, numbers, g["fh"] * g["fw"], ends)
    padding = np.full(c, (zero & 0xFF) ^ flip, B)
    plain_packed, plain = using(ISA_LEVELS["base"], conv.pack_depthwise_q8, *arguments)
    rest = {**members, **members_of(plain)}
    want = []
    for first in range(0, g["lines"] * g["stride"], g["stride"]):       # one line at a time
        seen = Struct(DepthwiseWindow, row=Pointers(lines[first:first + g["fh"]]), zero=padding, **{**g, "lines": 1})
        weights = depthwise_weights(ISA_LEVELS["base"], plain_packed)
        call = Call(seen, flip, w_zero, weights, Struct(Columns, **rest), Out(g["pixels"] * c, B))
        want += run(call, "base", "depthwise_q8")
    seen = Struct(DepthwiseWindow, row=Pointers(lines), zero=padding, **g)
    size = g["lines"] * g["pixels"] * c
    yield Call(seen, flip, w_zero, depthwise_weights(draw.isa_level, packed), Struct(Columns, **members), Out(size, B),
               expect=[np.concatenate(want)], work=size * g["fh"] * g["fw"], unit="MAC")


@check("depthwise_f32", rounds=80)
def depthwise_f32(draw):
    g, lines, _ = window(draw, draw.whole)
    c, more, down = g["c"], 0 if draw.bench else draw.integer(0, 6), draw.integer(0, 40)
    if more:        # lines at equal distances in memory
        lines = [None if line is None else draw.whole(g["width"] * c + more * down) for line in lines]
    g["y_line"] += 0 if draw.bench else draw.integer(0, 5)
    line = Struct(DepthwiseWindow, row=Pointers(lines), next=4 * down, zero=np.zeros(c, F), **{**g, "lines": 1 + more})
    bias = draw.choice(In(draw.whole(c)), None)
    yield Call(line, In(draw.whole((g["fh"] * g["fw"], c))), bias, -50.0, 300.0,
               Out(more * g["y_line"] + g["pixels"] * c, F), work=g["pixels"] * c * g["fh"] * g["fw"], unit="MAC")


@check("depthwise_s64", rounds=40)
def depthwise_s64(draw):
    g, lines, _ = window(draw, lambda n: draw.array(S, n))
    c = g["c"]
    begin = draw.integer(0, c - 1) if not draw.bench else 0
    n = c if draw.bench else draw.integer(1, c - begin)
    line = Struct(DepthwiseWindow, row=Pointers(lines), zero=np.zeros(c, S), **g)
    yield Call(line, draw.integer(0, g["pixels"] - 1), begin, n, In(draw.array(S, (g["fh"] * g["fw"], c), -255, 255)),
               Out(n, L), work=n * g["fh"] * g["fw"], unit="MAC")
