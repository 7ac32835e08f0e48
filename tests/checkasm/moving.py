"""Checks of the slots that move elements, and of arg_max."""
import numpy as np

from tests.checkasm.core import Call, In, InOut, Out, check

REPEAT_SLACK = 32       # PL_REPEAT_SLACK of simd/moving.h


def overlaid(shape):
    return InOut(np.full(shape, 0x5A, np.uint8))


@check("copy_runs", rounds=40)
def copy_runs(draw):
    rows, size = draw.size(20, 64), draw.size(80, 64, least=1)
    x_step, y_step = size + draw.integer(0, 9), size + draw.integer(0, 9)
    yield Call(rows, size, In(draw.array(np.uint8, (rows, x_step))), x_step, overlaid((rows, y_step)), y_step,
               work=rows * size, unit="bytes")


@check("copy_strided", rounds=40)
def copy_strided(draw):
    item, rows, cols = draw.choice(1, 2, 4, 8, 16), draw.size(20, 64), draw.size(40, 64)
    x_col, y_col = item * draw.integer(-2, 3), item * draw.integer(1, 3)
    x_row, y_row = abs(x_col) * cols + item * draw.integer(0, 2), y_col * cols + item * draw.integer(0, 2)
    start = max(0, -x_col) * max(0, cols - 1)
    yield Call(item, rows, cols, In(draw.array(np.uint8, rows * x_row + item), start), x_row, x_col,
               overlaid(rows * y_row + item), y_row, y_col, work=rows * cols)


@check("copy_transposed", rounds=120)
def copy_transposed(draw):
    item, rows, cols = draw.choice(1, 2, 4, 8, 16), draw.size(70, 64), draw.size(70, 64)
    if not draw.bench:      # lines that are shorter than a tile
        rows = draw.integer(1, 7) if draw.rng.random() < 0.3 else rows
        cols = draw.integer(1, 7) if draw.rng.random() < 0.2 else cols
    x_col, y_row = item * (rows + draw.integer(0, 2)), item * (cols + draw.choice(0, 0, 1))
    x = In(draw.array(np.uint8, cols * x_col))
    yield Call(item, rows, cols, x, x_col, overlaid(rows * y_row), y_row, work=rows * cols)
    yield Call(item, 0, cols, x, x_col, overlaid(0), y_row)     # no rows: nothing may be written, not even a tile


@check("repeat_items", rounds=40)
def repeat_items(draw):
    item, n, m = draw.choice(1, 2, 4, 8), draw.size(40, 256), draw.integer(1, 70) if not draw.bench else 4
    x = draw.array(np.uint8, n * item)
    want = np.repeat(x.reshape(-1, item), m, 0).reshape(-1)
    yield Call(item, n, m, In(x), Out(n * m * item + REPEAT_SLACK, np.uint8), expect=[want], front=True,
               work=n * m)


@check("choose", rounds=40)
def choose(draw):
    item, n = draw.choice(1, 2, 4, 8, 16), draw.size(300)
    x_step, y_step = (1, 1) if draw.bench else draw.choice((1, 1), (1, 0), (0, 1), (0, 0))
    c = draw.rng.integers(0, 3, n).astype(np.uint8)
    x, y = (draw.array(np.uint8, (n if step else 1, item)) for step in (x_step, y_step))
    want = np.where(c[:, None], np.broadcast_to(x, (n, item)), np.broadcast_to(y, (n, item))).reshape(-1)
    yield Call(item, n, In(c), In(x), x_step, In(y), y_step, Out(n * item, np.uint8), expect=[want], work=n)


@check("arg_max_f32", "arg_max_s32", "arg_max_s8", rounds=40)
def arg_max(draw):
    dtype = {"arg_max_f32": np.float32, "arg_max_s32": np.int32, "arg_max_s8": np.int8}[draw.slot]
    flip = {"arg_max_f32": draw.choice(0, 1 << 31), "arg_max_s32": draw.choice(0, 2**32 - 1),
            "arg_max_s8": draw.choice(0, 0x80, 0xFF, 0x7F)}[draw.slot]
    n, cols = draw.size(300, 1024, least=1), draw.integer(1, 16)
    stride, next = draw.choice((1, n), (cols, 1), (16, 1))
    x = draw.array(dtype, (n - 1) * stride + (cols - 1) * next + 1)
    yield Call(n, cols, stride, next, In(x), flip, Out(cols, np.int32), work=n * cols)
