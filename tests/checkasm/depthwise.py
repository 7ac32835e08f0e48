"""Checks of depthwise convolutions."""
import numpy as np

from pylite._core.kernels import depthwise_packing
from tests.checkasm.core import Call, In, Out, Pointers, Struct, Within, check, run
from tests.checkasm.gemm import B, F, L, S, columns_of, ends_of, members_of, parameters, using
from tests.checkasm.slots import ISA_LEVELS, Columns, DepthwiseLines


def depthwise_weights(isa_level, packed):
    """The result of pack_depthwise_q8 as an argument, aligned as it is read: in groups of kr weights."""
    return In(packed.view(f"i{isa_level.dw8.kr * isa_level.dw8.bytes}"))


def output_lines(draw, pixels_of, most=1):
    """(members of pl_dw_lines of up to `most` output lines, input lines, None where outside the image, zero)"""
    fh, fw = (3, 3) if draw.bench or draw.rng.random() < 0.4 else (draw.integer(1, 9), draw.integer(1, 9))
    if not draw.bench and draw.rng.random() < 0.05:
        fh, fw = draw.choice((40, 3), (3, 40), (1, 500), (300, 1))
    stride, dilation = (1, 1) if draw.bench or draw.rng.random() < 0.5 else (draw.integer(1, 5), draw.integer(1, 4))
    if not draw.bench and fh == fw == 3 and draw.rng.random() < 0.2:        # NEON computes these like undilated ones
        stride, dilation = 1, draw.integer(2, 4)
    pad = 1 if draw.bench else draw.integer(0, (fw - 1) * dilation)
    c = 64 if draw.bench else draw.choice(1, 3, 8, 16, 17, 24, 40, 64, 65, 72, 96, 130)
    width = 28 if draw.bench else draw.integer(1, 40)
    if not draw.bench and draw.rng.random() < 0.2:      # pixels that evict each other from the first-level cache
        c, width = draw.choice((64, 150), (128, 90), (512, 20), (1024, 9))
        width = draw.integer(width // 2, width)
        if draw.rng.random() < 0.7:
            fh = fw = draw.choice(3, 5)
            stride, dilation, pad = draw.integer(1, 2), 1, draw.integer(0, fw - 1)
    reach = width + 2 * pad - (fw - 1) * dilation
    if reach < 1:
        width, reach = width + 1 - reach, 1
    pixels = (reach - 1) // stride + 1
    if not draw.bench and draw.rng.random() < 0.15:     # a single output, as streaming models have
        pixels, most = 1, 1
    if not draw.bench and draw.rng.random() < 0.8:
        most = min(most, fh + 3)        # so many lines reuse those that were copied; more take longer
    count = most if draw.bench else draw.integer(1, most)
    lines = [None if not draw.bench and draw.rng.random() < 0.2 else pixels_of(width * c)
             for _ in range((count - 1) * stride + fh)]
    zero = draw.integer(-128, 127)
    names = ["fh", "fw", "stride", "dilation", "pad", "width", "pixels", "c", "channels", "lines", "y_line"]
    numbers = fh, fw, stride, dilation, pad, width, pixels, c, c, count, pixels * c
    return dict(zip(names, numbers, strict=True)), lines, zero


@check("depthwise_q8", rounds=120)
def depthwise_q8(draw):
    g, lines, zero = output_lines(draw, lambda n: draw.array(B, n), draw.isa_level.dw8.mr)
    c, flip = g["c"], draw.choice(0, 0x80)
    w_zero = draw.integer(-128, 127) if flip and not draw.bench else 0
    weights = draw.array(np.int8, (1, g["fh"], g["fw"], c))
    bias, mult, shift = parameters(draw, c)
    stored = (weights.view(B) ^ 0x80) if flip else weights
    filter = g["fh"], g["fw"], 1, g["stride"], 1, g["dilation"], 0, g["pad"]
    ends = ends_of(draw)
    arguments = stored, bias, mult, shift, zero, w_zero, filter, (ends[1] - ends[0], ends[2] - ends[0])
    packed, numbers = using(draw.isa_level, depthwise_packing.pack_depthwise_q8, *arguments)
    members = columns_of(draw, numbers, g["fh"] * g["fw"], ends)
    padding = np.full(c, (zero & 0xFF) ^ flip, B)
    plain_packed, plain = using(ISA_LEVELS["base"], depthwise_packing.pack_depthwise_q8, *arguments)
    rest = {**members, **members_of(plain)}
    want = []
    for first in range(0, g["lines"] * g["stride"], g["stride"]):       # one line at a time
        seen = Struct(DepthwiseLines, row=Pointers(lines[first:first + g["fh"]]), zero=padding, **{**g, "lines": 1})
        weights = depthwise_weights(ISA_LEVELS["base"], plain_packed)
        call = Call(seen, flip, w_zero, weights, Struct(Columns, **rest), Out(g["pixels"] * c, B))
        want += run(call, "base", "depthwise_q8")
    seen = Struct(DepthwiseLines, row=Pointers(lines), zero=padding, **g)
    size = g["lines"] * g["pixels"] * c
    yield Call(seen, flip, w_zero, depthwise_weights(draw.isa_level, packed), Struct(Columns, **members), Out(size, B),
               expect=[np.concatenate(want)], work=size * g["fh"] * g["fw"], unit="MAC")


@check("depthwise_f32", rounds=80)
def depthwise_f32(draw):
    most = draw.isa_level.dw_f32_lines
    g, lines, _ = output_lines(draw, draw.whole, max(most, 1))
    c, row, step = g["c"], Pointers(lines), 0
    if not most and not draw.bench and draw.integer(0, 1):     # several lines of one image, which are all inside
        step, g["lines"] = g["width"] * c + draw.integer(0, 40), draw.integer(2, 7)
        inputs = (g["lines"] - 1) * g["stride"] + g["fh"]
        row = Within(draw.whole(inputs * step), [i * step for i in range(inputs)])
    if not draw.bench and draw.integer(0, 1):       # c of the channels that outputs and weights have
        g["channels"] += draw.integer(0, 40)
    g["y_line"] = g["pixels"] * g["channels"] + (0 if draw.bench else draw.integer(0, 5))
    scale = draw.choice(np.exp2(draw.rng.integers(-4, 3, c)).astype(F), None)
    line = Struct(DepthwiseLines, row=row, next=4 * g["stride"] * step, zero=np.zeros(c, F), scale=scale, **g)
    bias = draw.choice(In(draw.whole(c)), None)
    size = (g["lines"] - 1) * g["y_line"] + (g["pixels"] - 1) * g["channels"] + c
    weights = In(draw.whole((g["fh"] * g["fw"] - 1) * g["channels"] + c))
    yield Call(line, weights, bias, -50.0, 300.0, Out(size, F),
               work=g["lines"] * g["pixels"] * c * g["fh"] * g["fw"], unit="MAC")


@check("depthwise_s64", rounds=40)
def depthwise_s64(draw):
    g, lines, _ = output_lines(draw, lambda n: draw.array(S, n))
    c = g["c"]
    begin = draw.integer(0, c - 1) if not draw.bench else 0
    n = c if draw.bench else draw.integer(1, c - begin)
    line = Struct(DepthwiseLines, row=Pointers(lines), zero=np.zeros(c, S), **g)
    yield Call(line, draw.integer(0, g["pixels"] - 1), begin, n, In(draw.array(S, (g["fh"] * g["fw"], c), -255, 255)),
               Out(n, L), work=n * g["fh"] * g["fw"], unit="MAC")
