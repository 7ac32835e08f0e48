"""Checks of products and depthwise convolutions in float16: every ISA level gives the numbers of plain C."""
import numpy as np

from tests.checkasm.core import Call, In, InOut, Out, Pointers, Struct, check, run
from tests.checkasm.depthwise import output_lines
from tests.checkasm.gemm import F, shape_of
from tests.checkasm.slots import DepthwiseLines


def same_halves(draw, call):
    """`call` with the numbers of plain C, to the bit but for the sign of 0, as its results."""
    want = run(call, "base", draw.slot)

    def same(*got):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)
    call.expect = same
    return call


@check("gemm_f16", rounds=200)
def gemm_f16(draw):
    """Any level gives the bits of plain C, whose panels are the same."""
    rows = 48 if draw.bench else draw.integer(1, 30)
    columns = 16 if draw.bench else draw.integer(1, 16)
    depth = draw.size(150, 256, least=1)
    lines, step = (1, depth) if draw.bench else (draw.choice(1, draw.integer(1, 9)), draw.choice(depth, depth + 3))
    last, first = draw.integer(0, 3), draw.integer(0, 1)
    if lines == 1 and draw.integer(0, 3) == 0:
        rows, first, depth = 1, first + 2, draw.size(3000, 4096, least=1)
    dtype, first = (np.float16, first | 1) if last & 2 else (F, first)
    x, w = (draw.rng.normal(0, size, shape).astype(np.float16) for size, shape in (
        (draw.choice(1, 300), rows * step + lines * depth), (1e-3, (lines * depth, 16 if columns > 8 else 8))))
    bias, low, high = draw.choice(halves(draw, columns), None), draw.choice(-9, -np.inf), draw.choice(20, np.inf)
    to = draw.rng.normal(size=(rows, columns + draw.integer(0, 5))).astype(dtype)
    layout = shape_of(step, depth, lines, depth)
    yield same_halves(draw, Call(
        rows, columns, layout, In(x.view(np.uint16)), In(w.view(np.uint16)), first, last,
        None if bias is None else In(bias), float(low), float(high), InOut(to), to.shape[1],
        work=rows * columns * depth, unit="MAC"))


def halves(draw, n):
    """float32 that are float16."""
    return draw.rng.normal(size=n).astype(np.float16).astype(F)


@check("winograd_in_f16", rounds=40)
def winograd_in_f16(draw):
    tiles, c = (16, 64) if draw.bench else (draw.integer(1, 5), draw.integer(16, 70))
    pixel_lines = [draw.rng.normal(size=(2 * tiles + 2, c + 3)).astype(np.float16) for _ in range(4)]
    steps = np.full(4, c + 3)
    for y in range(4):
        if not draw.bench and draw.rng.random() < 0.2:      # outside the image
            pixel_lines[y], steps[y] = np.zeros((1, c), np.float16), 0
    yield same_halves(draw, Call(tiles, c, Pointers(pixel_lines), steps.astype(np.intp),
                                 InOut(np.full((16, tiles + 1, c), 7, np.float16)), (tiles + 1) * c,
                                 work=tiles * c * 16))


@check("winograd_out_f16", rounds=40)
def winograd_out_f16(draw):
    tiles, n, width = (16, 16, 16) if draw.bench else (draw.integer(1, 5), draw.integer(1, 16), 16)
    bias = draw.choice(halves(draw, n), None)
    down, step = n * 2 * tiles + draw.integer(0, 3), n
    if tiles == 1:
        down, step = down * draw.integer(0, 1), step * draw.integer(0, 1)
    m = draw.rng.normal(size=(16, tiles + 1, width)).astype(np.float16)
    y = np.full(down + 2 * tiles * n + 5, 3, np.float16)
    yield same_halves(draw, Call(tiles, n, In(m), width, (tiles + 1) * width, None if bias is None else In(bias), -3.0,
                                 5.0, InOut(y), down, step, work=tiles * n * 4))


@check("depthwise_f16", rounds=80)
def depthwise_f16(draw):
    """Any level gives the numbers of plain C."""
    g, lines, _ = output_lines(draw, lambda n: draw.rng.normal(size=n).astype(np.float16), 32)
    c = g["c"]
    g["y_line"] += 0 if draw.bench else draw.integer(0, 5)
    line = Struct(DepthwiseLines, row=Pointers(lines), next=0, zero=np.zeros(c, np.float16), **g)
    bias, weights = (draw.rng.normal(size=size).astype(np.float16) for size in (c, (g["fh"] * g["fw"], c)))
    size = (g["lines"] - 1) * g["y_line"] + g["pixels"] * c
    yield same_halves(draw, Call(line, In(weights), draw.choice(In(bias), None), -2.0, 6.0, Out(size, np.float16),
                                 work=g["lines"] * g["pixels"] * c * g["fh"] * g["fw"], unit="MAC"))
