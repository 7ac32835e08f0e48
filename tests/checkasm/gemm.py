"""Checks of matrix products; hybrid.py and depthwise.py have the other slots of gemm.h.

Tiles differ between ISA levels, so the expected outputs are computed in plain C from the same matrices, packed for it.
"""

import numpy as np

from pylite._core import simd
from pylite._core.kernels import packing
from pylite.numerics import fixed_point
from tests.checkasm.core import Call, In, InOut, Out, Pointers, Struct, check, run
from tests.checkasm.slots import ISA_LEVELS, ALayout, Columns, Fit, Tile

F, B, S, I, L = np.float32, np.uint8, np.int16, np.int32, np.int64
SLACK = 64
MAX_ROWS = 16
# Members of pl_columns, in the order of packing.
MEMBERS = ["bias", "mult", "odd", "left", "right", "half", "sign", "small", "scale", "rest", "start"]


def padded(n, to):
    return -(-n // to) * to


def using(isa_level, make, *arguments):
    before = simd.current
    simd.use(isa_level.name)
    try:
        return make(*arguments)
    finally:
        simd.use(before)


def a_panel_of(tile, x):
    """x of int8 as a packed A panel of this tile."""
    rows, depth = x.shape
    a_panel = np.zeros((rows, padded(depth, tile.ka)), S if tile.bytes == 2 else B)
    a_panel[:, :depth] = x if tile.bytes == 2 else x.astype(L) + tile.offset & 0xFF
    return a_panel


def with_slack(a_panel):
    """The panel followed by the slack of packed A panels: products read full tiles, of at most MAX_ROWS rows."""
    return np.concatenate([a_panel.reshape(-1), np.zeros(MAX_ROWS * a_panel.shape[-1] + SLACK, a_panel.dtype)])


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
    columns = tile.nr if draw.bench else draw.integer(1, 5 * tile.nr if rows == 1 and tile.any_n else tile.nr)
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
    panels, numbers, _ = using(draw.isa_level, packing.pack_q8, w, bias, *parameters(draw, columns)[1:], 0, 0, 1, None,
                               1, (0, 0))
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
    panels, numbers, _ = using(draw.isa_level, packing.pack_q8, w, bias, mult, shift, 0, 0, 1, None, 1, clamp)
    members, to = columns_of(draw, numbers, depth, ends), output(draw, rows, columns, B)
    want = to.copy()
    acc = x.astype(I) @ w.T.astype(I) + (0 if term is None else term[:, None])
    _, plain, _ = using(ISA_LEVELS["base"], packing.pack_q8, w, bias, mult, shift, 0, 0)
    finish = {name: np.tile(array[:columns], rows) for name, array in zip(MEMBERS, plain, strict=True)}
    lines = Call(rows * columns, In(acc), Struct(Columns, **{**members, **finish}), 0, Out((rows, columns), B))
    want[:, :columns] = run(lines, "base", "requantize_q8")[0]
    yield Call(rows, columns, shape, In(a_panel), In(panels), None if term is None else In(term),
               Struct(Columns, **members), 0, InOut(to), to.shape[1], expect=[want], work=rows * columns * depth,
               unit="MAC")
    if draw.isa_level.q8.real and not draw.bench:
        yield from real_rule(draw)


@check("gemm_s32", rounds=80)
def gemm_s32(draw):
    rows, columns, depth, x, w, a_panel, shape = product(draw)
    panels, sums = using(draw.isa_level, packing.pack_weights, w)
    acc = np.zeros((rows, columns + draw.integer(0, 5)), I)
    acc[...] = draw.rng.integers(-999, 999, acc.shape)
    want = acc.copy()
    offset = draw.isa_level.q8.offset if draw.isa_level.q8.bytes == 1 else 0
    want[:, :columns] += x.astype(I) @ w.T.astype(I) + offset * sums
    yield Call(rows, columns, shape, In(a_panel), In(panels), InOut(acc), acc.shape[1], expect=[want],
               work=rows * columns * depth, unit="MAC")


@check("fit_q8", rounds=40)
def fit_q8(draw):
    """Columns reported as fit for float32 must be exact for random accumulators within reach."""
    n, reach = draw.size(20, 64, least=1), float(draw.choice(9, 64, 300) * 255 * 128)
    bias, mult, shift = parameters(draw, n)
    shift = -draw.rng.integers(4, 14, n).astype(I)
    ends = ends_of(draw)
    low, high = ends[1] - ends[0], ends[2] - ends[0]

    def same(scale, rest, start, unfit):
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
    rule = Struct(Fit, bias=bias, mult=mult, left=np.zeros(n, I), right=-shift, real=0, reach=reach, low=low, high=high)
    yield Call(n, rule, InOut(np.zeros(n, F)), InOut(np.zeros(n, F)), InOut(np.zeros(n, F)), InOut(np.zeros(1, I)),
               expect=same, work=n)


@check("find_small", rounds=40)
def find_small(draw):
    panels = draw.array(np.int8, (draw.size(9, 64, least=1), draw.size(160, 4096, least=1)), -127)
    panels[draw.rng.random(panels.shape) < 0.01] = -128
    yield Call(*panels.shape, In(panels), Out(len(panels), I), expect=[(panels != -128).all(1).astype(I)],
               work=panels.size)


@check("requantize_q8", rounds=40)
def requantize_q8(draw):
    n = draw.size(60, 64, least=1)
    _, numbers, _ = using(draw.isa_level, packing.pack_q8, np.zeros((n, 1), np.int8), *parameters(draw, n), 0, 0)
    yield Call(n, In(draw.array(I, n)), Struct(Columns, **columns_of(draw, numbers, 1, ends_of(draw))), 0,
               Out(n, B), work=n)


@check("gemm_f32", rounds=120)
def gemm_f32(draw):
    tile = draw.isa_level.f32
    rows = 48 if draw.bench else draw.integer(1, 30)
    columns = tile.nr if draw.bench else draw.choice(tile.nr, draw.integer(1, tile.nr))
    single = not draw.bench and draw.rng.random() < 0.2
    if single:
        rows, columns = 1, draw.choice(columns, draw.integer(1, 5 * tile.nr))
    depth = draw.size(150, 256, least=1)
    if not draw.bench:          # NEON has a loop of its own for full tiles
        depth = draw.choice(depth, depth // 4 * 4 + 4)
    x, w = draw.whole((rows, depth)), draw.whole((columns, depth))
    bias, low, high = draw.choice(draw.whole(columns), None), draw.choice(-99, -np.inf), draw.choice(200, np.inf)
    panels = using(draw.isa_level, packing.pack_f32, w.reshape(columns, 1, 1, depth), 1)
    first, last = draw.integer(0, 1), draw.integer(0, 1)
    to = np.full((rows, columns + draw.integer(0, 5)), 3, F)
    want = to.copy()
    acc = x @ w.T + (0 if first else 3)
    want[:, :columns] = np.clip(acc + (0 if bias is None else bias), low, high) if last else acc
    yield Call(rows, columns, shape_of(depth, depth), In(x), In(panels), first | 2 * single, last,
               None if bias is None else In(bias), float(low), float(high), InOut(to), to.shape[1], expect=[want],
               work=rows * columns * depth, unit="MAC")


B_T = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], F)
A_T = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], F)
G = np.array([[1, 0, 0], [.5, .5, .5], [.5, -.5, .5], [0, 0, 1]], F)


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


@check("winograd_filter", rounds=40)
def winograd_filter(draw):
    depth, width = (32, 32) if draw.bench else (draw.integer(1, 40), 16 * draw.integer(1, 2))
    taps = draw.whole((depth, 3, 3, width))
    want = np.full((16, depth + 1, width), 7, F)
    want[:, :depth] = np.einsum("iy,jx,kyxn->jikn", G, G, taps).reshape(16, depth, width)
    yield Call(depth, width, In(taps), InOut(np.full_like(want, 7)), (depth + 1) * width, expect=[want],
               work=depth * width * 16)


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
    rows, n, depth = draw.integer(1, 6), draw.integer(1, 9), 16 * draw.size(40, 16)
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
    most = draw.choice(2**40, 2**51, 2**62)
    acc, bias = (draw.array(L, n, -most, most) for _ in range(2))
    scale = draw.rng.random(n) * 2.0 ** -draw.integer(0, 50)
    yield Call(n, In(acc), draw.choice(In(bias), None), draw.integer(0, 1), In(scale),
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
