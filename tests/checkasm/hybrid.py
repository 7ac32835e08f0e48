"""Checks of hybrid operators: float activations that are quantized, integer weights."""
import ctypes

import numpy as np

from pylite._core.kernels import blockwise, packing
from tests.checkasm.core import Call, In, InOut, Out, Struct, check
from tests.checkasm.gemm import B, F, I, L, padded, product, using
from tests.checkasm.slots import Blocks, Hybrid


@check("range_f32")
def range_f32(draw):
    n = draw.size(300)
    yield Call(n, In(draw.whole(n, 1000)), Out(1, F), Out(1, F), work=n)


def near_halves(draw, n):
    """Floats of which some are a half and its neighbours beside a whole number, and an inverse that keeps them so."""
    x = (draw.rng.standard_normal(n) * 30).astype(F)
    half = draw.rng.integers(-130, 130, n).astype(F) + F(0.5)
    half = np.nextafter(half, draw.rng.choice([-np.inf, np.inf], n).astype(F)) if draw.integer(0, 1) else half
    small = np.nextafter(F(0.5), draw.choice(F(0), F(1))) * draw.rng.choice([-1, 1], n).astype(F)
    kind = draw.rng.integers(0, 3, n)
    return np.select([kind == 0, kind == 1], [half, small], x).astype(F), draw.choice(1.0, 2.0, 1.7)


@check("quantize_s8")
def quantize_s8(draw):
    n = draw.size(300)
    x, inverse = near_halves(draw, n)
    yield Call(n, In(x), inverse, draw.integer(-128, 127), draw.integer(0, 1), draw.choice(0, 0x80), Out(n, B), work=n)


@check("quantize_whole")
def quantize_whole(draw):
    n = draw.size(300)
    x, inverse = near_halves(draw, n)
    yield Call(n, In(x), inverse, draw.integer(-128, 127), Out(n, F), work=n)


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
    packed, sums = using(draw.isa_level, packing.pack_weights, w)
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
                      column_first=column_first, small=int((w != -128).all()), low=low, high=high), j,
               Out((rows, ldy), F), ldy, expect=[want], work=rows * columns * depth, unit="MAC")


@check("gemm_blocks", rounds=100)
def gemm_blocks(draw):
    tile = draw.isa_level.q8
    rows, columns = (draw.choice(1, 16), 64) if draw.bench else (draw.integer(1, 16), draw.size(150, least=1))
    blocks, size = (8, 32) if draw.bench else (draw.integer(1, 4), draw.choice(draw.integer(1, 70), 32, 64, 1100, 1104))
    narrow = draw.bench or draw.integer(0, 1)
    low, high = (-8, 7) if narrow else (-128, 127)
    x, w = draw.array(np.int8, (rows, blocks * size)), draw.array(np.int8, (columns, blocks * size), low, high)
    scales = draw.rng.random((columns, blocks)).astype(F)
    panels, sums, scale, nibbles = using(draw.isa_level, blockwise.pack_blocks, w, scales.reshape(-1), blocks, narrow)
    zeros, row_scales = draw.rng.integers(-128, 128, rows).astype(I), draw.rng.random(rows).astype(F)
    bias = draw.choice(draw.whole(columns), None)
    j = tile.nr * draw.integer(0, (columns - 1) // tile.nr)
    n = min(tile.nr, columns - j)
    v = np.zeros((rows, n), F)
    factors = row_scales[:, None] if blocks == 1 else F(1)
    for i in range(blocks):
        part = slice(i * size, (i + 1) * size)
        products = (x[:, part].astype(L) - zeros[:, None]) @ w[j:j + n, part].T.astype(L)
        v += products.astype(F) * (factors * scales[j:j + n, i])
    if blocks > 1:
        v *= row_scales[:, None]
    want = np.full((rows, columns), np.uint32(0x5A5A5A5A)).view(F)
    want[:, :n] = (v if bias is None else v + bias[j:j + n]).clip(-1e3, 1e4)
    numbers = Struct(Blocks, panels=panels, sums=sums, scale=scale, bias=0 if bias is None else bias,
                     depth=blocks * size, blocks=blocks, padded_depth=padded(size, tile.ka), columns=columns,
                     padded_columns=padded(columns, tile.nr if nibbles else tile.nv), nibbles=nibbles, low=-1e3,
                     high=1e4)
    yield Call(ctypes.addressof(draw.isa_level.table), rows, n, numbers, j,
               In((x.astype(L) + tile.row_offset).astype(B)), In(zeros), In(row_scales), Out((rows, columns), F),
               expect=[want], work=rows * n * blocks * size, unit="MAC")


@check("scaled_sums", rounds=40)
def scaled_sums(draw):
    n, depth = (64, 256) if draw.bench else (draw.integer(1, 70), draw.size(100))
    wide, zero = padded(n, 16), draw.integer(-128, 127)
    x = np.where(draw.rng.random(depth) < 0.4, zero, draw.array(np.int8, depth)).astype(np.int8)
    yield Call(n, depth, In(x), zero, In(draw.whole((depth, wide), 127)), wide, In(draw.rng.random(wide).astype(F)),
               0.013, draw.integer(0, 1), draw.integer(0, 1), In(draw.whole(wide)), -1e6, 1e6, InOut(draw.whole(n)),
               work=n * depth, unit="MAC")
