"""Models of one op, except convolutions, compared with the peer on one thread.

    python benchmarks/one_op.py [OP ...] [--slower]

Minimum microseconds of invoke(), interleaved with the peer's default kernels; --slower shows only the ops that take
longer than the peer's.  Operands are (64, 1024) unless the table gives a shape.
"""
import argparse
import time

import _common
import numpy as np

SHAPE = (64, 1024)
rng = np.random.default_rng(0)


def reals(*shape, low=-3.0, high=3.0):
    return rng.uniform(low, high, shape or SHAPE).astype(np.float32)


def integers(*shape, low=-100, high=100, dtype=np.int32):
    return rng.integers(low, high, shape or SHAPE).astype(dtype)


def masked(by):
    """Scores of attention, half of which a mask lowers."""
    return np.where(rng.random(SHAPE) < 0.5, by, 0.0).astype(np.float32) + reals()


def axes(*numbers):
    return np.array(numbers, np.int32)


def cases():
    """(op, note, inputs, positions of constants among them, shapes and types of the outputs, options)"""
    for op in ("EXP", "TANH", "LOGISTIC", "GELU", "ELU", "HARD_SWISH", "SIN", "COS", "SIGN", "SQUARE", "FLOOR", "CEIL",
               "ROUND", "ABS", "NEG"):
        yield op, "", [reals()], (), [(SHAPE, "float32")], {}
    for op, low in (("EXP", -100.0), ("LOGISTIC", -100.0), ("GELU", -20.0), ("ELU", -100.0)):
        yield op, "saturated", [reals(low=low, high=low + 15)], (), [(SHAPE, "float32")], {}
    yield "EXP", "NaN", [np.full(SHAPE, np.nan, np.float32)], (), [(SHAPE, "float32")], {}
    for op in ("LOG", "SQRT", "RSQRT"):
        yield op, "", [reals(low=0.1)], (), [(SHAPE, "float32")], {}
    for op in ("ADD", "MUL", "MAXIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "ATAN2"):
        yield op, "", [reals(), reals(low=0.1)], (), [(SHAPE, "float32")], {}
    for op in ("ADD", "SUB", "MUL", "MAXIMUM", "FLOOR_DIV", "FLOOR_MOD", "BITWISE_XOR"):
        yield op, "int32", [integers(), integers(low=1)], (), [(SHAPE, "int32")], {}
    yield "FLOOR_MOD", "int64", [integers(dtype=np.int64), integers(low=1, dtype=np.int64)], (), [(SHAPE, "int64")], {}
    yield "SIGN", "int32", [integers()], (), [(SHAPE, "int32")], {}
    yield "POW", "", [reals(low=0.1), reals()], (), [(SHAPE, "float32")], {}
    for exponent in (2, 3):
        yield "POW", f"by {exponent}", [reals(), np.array([exponent], np.float32)], (1,), [(SHAPE, "float32")], {}
    for op in ("LESS", "EQUAL"):
        yield op, "int32", [integers(), integers()], (), [(SHAPE, "bool")], {}
    for x, to in ((reals(), "int32"), (reals(), "bool"), (integers() > 0, "float32"),
                  (integers(dtype=np.int64), "float32")):
        yield "CAST", f"{x.dtype} to {to}", [x], (), [(SHAPE, to)], {}
    for op in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_PROD"):
        yield op, "", [reals(), axes(1)], (1,), [((64,), "float32")], {}
    for op in ("SUM", "REDUCE_MAX", "REDUCE_PROD"):
        yield op, "int32", [integers(), axes(1)], (1,), [((64,), "int32")], {}
    for note, shape in (("rows", (64, 1)), ("columns", (1, 1024)), ("elements", SHAPE)):
        yield "SELECT_V2", note, [rng.random(shape) < 0.5, reals(), reals()], (), [(SHAPE, "float32")], {}
    yield "SELECT", "rows", [rng.random(64) < 0.5, reals(), reals()], (), [(SHAPE, "float32")], {}
    yield "SOFTMAX", "", [reals()], (), [(SHAPE, "float32")], {"beta": 1.0}
    for mask in (-90.0, -1e9):
        yield "SOFTMAX", f"half masked by {mask:g}", [masked(mask)], (), [(SHAPE, "float32")], {"beta": 1.0}
    yield "LOG_SOFTMAX", "", [reals()], (), [(SHAPE, "float32")], {}
    yield "CUMSUM", "", [reals(), np.array(1, np.int32)], (1,), [(SHAPE, "float32")], {}
    yield "TOPK_V2", "5", [reals(), np.array(5, np.int32)], (1,), [((64, 5), "float32"), ((64, 5), "int32")], {}
    for h, w in ((1, 512), (64, 64), (256, 256)):
        yield "RFFT2D", f"{h}x{w}", [reals(h, w), axes(h, w)], (1,), [((h, w // 2 + 1), "complex64")], {}
    rows = rng.integers(0, 1024, (256, 1)).astype(np.int32)
    yield "SCATTER_ND", "rows", [rows, reals(256, 64), axes(1024, 64)], (2,), [((1024, 64), "float32")], {}
    points = rng.integers(0, 64, (4096, 2)).astype(np.int32)
    yield "SCATTER_ND", "elements", [points, reals(4096), axes(64, 64)], (2,), [((64, 64), "float32")], {}
    yield ("LOCAL_RESPONSE_NORMALIZATION", "16x16x64", [reals(1, 16, 16, 64)], (), [((1, 16, 16, 64), "float32")],
           {"radius": 5, "bias": 1.0, "alpha": 1e-4, "beta": 0.5})
    yield from products()


def products():
    for note, x, w, adjoint in (("1x256, 256x256", (1, 256), (256, 256), False),
                                ("8x 1x64, 100x64 transposed", (8, 1, 64), (8, 100, 64), True),
                                ("8x 64x64, 64x64", (8, 64, 64), (8, 64, 64), False)):
        y = (*x[:-1], w[-2 if adjoint else -1])
        yield "BATCH_MATMUL", note, [reals(*x), reals(*w)], (), [(y, "float32")], {"adj_y": adjoint}
    bytes_ = integers(256, 256, low=-127, high=128, dtype=np.int8)
    for rows in (1, 64):
        yield "BATCH_MATMUL", f"{rows}x256, int8", [reals(rows, 256), bytes_], (1,), [((rows, 256), "float32")], {}
    volume = {"padding": "SAME"} | {f"{what}_{axis}{end}": 1 for axis in "dhw" for what, end in (
        ("stride", ""), ("dilation", "_factor"))}
    for c in (8, 32):
        x, w = reals(1, 8, 16, 16, c), reals(3, 3, 3, c, 2 * c)
        yield "CONV_3D", f"8x16x16x{c}", [x, w, reals(2 * c)], (1, 2), [((1, 8, 16, 16, 2 * c), "float32")], volume
    x, w, size = reals(1, 4, 8, 8, 16), reals(3, 3, 3, 8, 16), axes(1, 8, 16, 16, 8)
    yield ("CONV_3D_TRANSPOSE", "4x8x8x16 by 2", [size, w, x], (0, 1), [((1, 8, 16, 16, 8), "float32")],
           volume | dict.fromkeys(("stride_d", "stride_h", "stride_w"), 2))


def build(op, inputs, constants, outputs, options):
    from pylite.schema.builder import ModelBuilder
    m, tensors, fed = ModelBuilder(), [], []
    for i, array in enumerate(inputs):
        q = {"scale": 0.01} if array.dtype == np.int8 else {}
        if i in constants:
            tensors.append(m.constant(f"c{i}", array, **q))
        else:
            tensors.append(m.tensor(f"x{i}", array.shape, array.dtype.name, **q))
            fed.append((tensors[-1], array))
    made = [m.tensor(f"y{i}", shape, dtype) for i, (shape, dtype) in enumerate(outputs)]
    m.operator(op, tensors, made, **options)
    m.inputs([tensor for tensor, _ in fed])
    m.outputs(made)
    return m.build(), [array for _, array in fed]


def measure(interpreters, rounds=7, seconds=2e-3):
    """The minimum microseconds of each interpreter, measured in turn."""
    best = [1.0] * len(interpreters)
    for _ in range(rounds):
        for i, interpreter in enumerate(interpreters):
            end = time.perf_counter() + seconds
            while (start := time.perf_counter()) < end:
                interpreter.invoke()
                best[i] = min(best[i], time.perf_counter() - start)
    return [t * 1e6 for t in best]


def main():
    from pylite.interpreter import Interpreter
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--slower", action="store_true")
    args = parser.parse_args()
    litert, rows = _common.peer(), []
    for op, note, inputs, constants, outputs, options in cases():
        if args.ops and op not in args.ops:
            continue
        model, fed = build(op, inputs, constants, outputs, options)
        interpreters = [Interpreter(model_content=model)]
        if litert:
            interpreters.append(litert.Interpreter(model_content=model, num_threads=1))
        for interpreter in interpreters:
            interpreter.allocate_tensors()
            for detail, array in zip(interpreter.get_input_details(), fed, strict=True):
                interpreter.set_tensor(detail["index"], array)
            interpreter.invoke()
        times = measure(interpreters)
        if args.slower and litert and times[0] <= times[1]:
            continue
        ratio = [f"{times[0] / times[1]:.2f}"] if litert else []
        rows.append((f"{op} {note}".strip(), *(f"{t:.1f}" for t in times), *ratio))
    _common.print_table(("op", "pylite", *(("peer", "ratio") if litert else ())), rows)


if __name__ == "__main__":
    main()
