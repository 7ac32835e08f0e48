"""Models of one op, except convolutions of usual shapes (ops.py), compared with the peer on one thread.

    python benchmarks/one_op.py [NAME ...] [--spots] [--isa-levels all] [--slower]
    python benchmarks/one_op.py --values [NAME ...] [--isa-levels all]

Microseconds of invoke(): medians of the least times of intervals, alternately with the peer's default kernels.  NAME: a
part of a case's name (default: all); --spots: only cases prone to be slow; --slower shows only what takes longer
than the peer.  Operands are (64, 1024) unless the table gives a shape.

--values compares times of one op with other values: masked, saturated, tiny, infinite, NaN, scales that tie.  None may
take more than LIMIT times those of the ordinary ones.
"""
import argparse
import functools
import statistics
import time

import _common
import _spots
import numpy as np

LIMIT = 1.5
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


def chosen(names, name):
    """Is the case of that name asked for?"""
    return not names or any(part.lower() in name.lower() for part in names)


def every_case(spots):
    """The Cases to run; spots: only kinds that are prone to be slow."""
    for op, note, inputs, constants, outputs, options in () if spots else cases():
        operands = [_spots.Operand(array, 0.01 if array.dtype == np.int8 else None, constant=i in constants)
                    for i, array in enumerate(inputs)]
        yield _spots.Case(op, note, operands, [_spots.Output(*output) for output in outputs], options)
    yield from _spots.cases()


def fed(interpreter, arrays):
    """The interpreter, allocated and with its inputs, after one run."""
    interpreter.allocate_tensors()
    for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()
    return interpreter


def on_levels(model, arrays, isa_levels):
    """A function for each ISA level that runs pylite with it.  Some kernels look up the level when they run."""
    from pylite._core import simd
    from pylite.interpreter import Interpreter
    found = []
    for isa_level in isa_levels:
        simd.use(isa_level)
        invoke = fed(Interpreter(model_content=model), arrays).invoke
        found.append((invoke, functools.partial(simd.use, isa_level)))
    return found


def measure(functions, rounds=15, seconds=2e-3):
    """Microseconds of the first function of each pair, in turn: the median over rounds of the least time in a round.

    The second one is called before each round.
    """
    times = [[] for _ in functions]
    for _ in range(rounds):
        for (invoke, prepare), into in zip(functions, times, strict=True):
            prepare()
            end, best = time.perf_counter() + seconds, 1.0
            while (start := time.perf_counter()) < end:
                invoke()
                best = min(best, time.perf_counter() - start)
            into.append(best)
    return [statistics.median(t) * 1e6 for t in times]


def compare(args, isa_levels):
    """The table of all cases beside the peer."""
    litert, rows = _common.peer(), []
    for case in every_case(args.spots):
        if not chosen(args.names, case.name):
            continue
        model, arrays = _spots.build(case)
        functions = on_levels(model, arrays, isa_levels)
        if litert:
            functions.append((fed(litert.Interpreter(model_content=model, num_threads=1), arrays).invoke, lambda: None))
        times = measure(functions)
        if args.slower and litert and max(times[:-1]) <= times[-1]:
            continue
        ratios = [f"{t / times[-1]:.2f}" for t in times[:-1]] if litert else []
        rows.append((case.name, *(f"{t:.1f}" for t in times), *ratios))
    ratios = [f"ratio {name}" for name in isa_levels] if len(isa_levels) > 1 else ["ratio"]
    names = isa_levels if len(isa_levels) > 1 else ["pylite"]
    _common.print_table(("op", *names, *(("peer", *ratios) if litert else ())), rows)


def compare_values(args, isa_levels):
    """Print how the time of each op depends on values, and how many rows are beyond LIMIT."""
    rows, beyond = [], 0
    for name, cases in _spots.values():
        if not chosen(args.names, name):
            continue
        built = [_spots.build(case) for case in cases.values()]
        for isa_level in isa_levels:
            times = measure([on_levels(*one, [isa_level])[0] for one in built])
            ratios = [t / times[0] for t in times]
            worst = max(ratios)
            beyond += worst > LIMIT
            rows.append((name, isa_level, f"{times[0]:.1f}", f"{worst:.2f}", list(cases)[ratios.index(worst)],
                         "ok" if worst <= LIMIT else "SLOW"))
    numbers = "us", "longest"
    _common.print_table(("op", "ISA level", *numbers, "with values", ""), rows, right=numbers)
    _common.say(f"\n{beyond} of {len(rows)} take more than {LIMIT} times as long with some values")


def main():
    from pylite._core import simd
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--spots", action="store_true", help="only kinds that are prone to be slow")
    parser.add_argument("--values", action="store_true", help="times by values instead of by op")
    parser.add_argument("--slower", action="store_true")
    parser.add_argument("--isa-levels", nargs="+", default=[simd.current], help="ISA levels, or all")
    args = parser.parse_args()
    isa_levels = simd.available() if args.isa_levels == ["all"] else args.isa_levels
    (compare_values if args.values else compare)(args, isa_levels)


if __name__ == "__main__":
    main()
