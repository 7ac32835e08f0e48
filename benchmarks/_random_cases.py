"""Random single-op models: shapes, axes, types and broadcasts that no list contains.  random_ops.py runs them."""
import math

import _spots
import numpy as np
from _spots import Case, Operand, Output

SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16, 17, 20, 24, 28, 32, 33, 48, 56, 64, 96, 100, 112, 128, 200, 256, 512)
NUMBERS = ("float32", "int8", "uint8", "int16", "int32", "int64")
ANY = (*NUMBERS, "bool")
SCALES = {"int8": (0.05, -3), "uint8": (0.05, 125), "int16": (0.01, 0)}
OTHER_SCALES = {"int8": (0.06, 4), "uint8": (0.06, 130), "int16": (0.013, 0)}       # of results that are rescaled
CASES = {}              # {op: function of a Draw that gives a Case, or None if the drawn one is too large}


def draws(*ops, **arguments):
    """Registers a function for ops: it takes a Draw, the op's name and the arguments."""
    def register(function):
        CASES.update({op: lambda draw, op=op: function(draw, op, **arguments) for op in ops})
        return function
    return register


def checked(parser, ops):
    """Ends the program if there are no cases of one of these ops."""
    if unknown := set(ops) - set(CASES):
        parser.error(f"no cases of {', '.join(sorted(unknown))}; there are: {', '.join(sorted(CASES))}")


def accepted(draw, ops, litert):
    """Yields (case, its model, its inputs, an Interpreter of the peer) for each case that it takes, for ever."""
    while True:
        case = CASES[draw.choice(*(ops or CASES))](draw)
        if case is None:
            continue
        model, arrays = _spots.build(case)
        try:
            peer = litert.Interpreter(model_content=model, num_threads=1)
            peer.allocate_tensors()
        except (RuntimeError, ValueError):
            continue
        yield case, model, arrays, peer


def kind(case):
    """The op and its type."""
    return f"{case.op} {case.note.split()[0]}"


class Draw:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def choice(self, *options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, share):
        return bool(self.rng.random() < share)

    def integer(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def shape(self, least=2000, most=200000, ranks=(1, 2, 3, 4, 4, 5)):
        while True:
            shape = tuple(self.choice(*SIZES) for _ in range(self.choice(*ranks)))
            if least <= math.prod(shape) <= most:
                return shape

    def some_ones(self, shape):
        """The shape, half of whose dimensions are 1."""
        return tuple(1 if self.chance(0.5) else n for n in shape)

    def array(self, shape, dtype, low=-3.0):
        if dtype == "float32":
            return self.rng.uniform(low, 3.0, shape).astype(np.float32)
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        if dtype in ("int32", "int64"):
            return self.rng.integers(1 if low > 0 else -100, 100, shape).astype(dtype)
        limits = np.iinfo(dtype)
        return self.rng.integers(limits.min, limits.max + 1, shape).astype(dtype)

    def operand(self, shape, dtype, constant=False, low=-3.0):
        return Operand(self.array(shape, dtype, low), *SCALES.get(dtype, (None, 0)), constant=constant)

    def indices(self, shape, sizes):
        """Index vectors of `shape`, one for each of the `sizes`, int32."""
        return Operand(np.stack([self.rng.integers(0, n, shape) for n in sizes], -1).astype(np.int32))


def output(shape, dtype, rescaled=False):
    return Output(tuple(int(n) for n in shape), dtype, *(OTHER_SCALES if rescaled else SCALES).get(dtype, (None, 0)))


def number(value):
    return Operand(np.array(value, np.int32), constant=True)


# ---- element by element --------------------------------------------------------------------------------------
@draws("ABS", dtypes=("float32", "int8", "int16"))
@draws("NEG", dtypes=("float32", "int32", "int64"))
@draws("RELU", "LEAKY_RELU", dtypes=("float32", "int8", "uint8", "int16"))
@draws("RELU6", "HARD_SWISH", dtypes=("float32", "int8", "uint8"))
@draws("LOGISTIC", "TANH", dtypes=("float32", "int8", "int16"))
@draws("ELU", "GELU", "EXP", dtypes=("float32", "int8"))
@draws("SIN", "COS", "SQUARE", "FLOOR", "CEIL", "ROUND", dtypes=("float32",))
@draws("LOG", "SQRT", "RSQRT", dtypes=("float32",), low=0.1)
@draws("SIGN", "ZEROS_LIKE", dtypes=("float32", "int32"))
@draws("LOGICAL_NOT", dtypes=("bool",))
def unary(draw, op, dtypes, low=-3.0):
    dtype, shape = draw.choice(*dtypes), draw.shape()
    y = output(shape, dtype)
    if op in ("LOGISTIC", "TANH") and dtype != "float32":
        own = (1 / 256, -128) if op == "LOGISTIC" else (1 / 128, 0)
        y = Output(shape, dtype, *own if dtype == "int8" else (1 / 32768, 0))
    options = {"alpha": 0.2} if op == "LEAKY_RELU" else {}
    return Case(op, f"{dtype} {shape}", [draw.operand(shape, dtype, low=low)], [y], options)


@draws("ADD", "SUB", "MUL", dtypes=NUMBERS, rescaled=True)
@draws("MAXIMUM", "MINIMUM", dtypes=NUMBERS)
@draws("SQUARED_DIFFERENCE", dtypes=("float32", "int8", "int32"), rescaled=True)
@draws("DIV", dtypes=("float32", "int32"), low=0.1)
@draws("FLOOR_DIV", "FLOOR_MOD", dtypes=("float32", "int32", "int64"), low=0.1)
@draws("POW", dtypes=("float32", "int32"), low=0.1)
@draws("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL", dtypes=NUMBERS, result="bool")
@draws("LOGICAL_AND", "LOGICAL_OR", dtypes=("bool",))
def binary(draw, op, dtypes, result=None, rescaled=False, low=-3.0):
    dtype, a = draw.choice(*dtypes), draw.shape()
    b = draw.some_ones(a)[draw.choice(0, 0, len(a) // 2, len(a)):] if draw.chance(0.75) else a
    a, b = (a, b) if draw.chance(0.7) else (b, a)
    x, y = draw.operand(a, dtype, low=low), draw.operand(b, dtype, draw.chance(0.4), low)
    shape = np.broadcast_shapes(a, b)
    return Case(op, f"{dtype} {a} {b}{' constant' if y.constant else ''}", [x, y],
                [Output(shape, result) if result else output(shape, dtype, rescaled)])


@draws("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", "STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM")
def equal_shapes(draw, op):
    dtype, shape = draw.choice(*ANY), draw.shape()
    x, y = (Operand(draw.array(shape, dtype)) for _ in range(2))
    return Case(op, f"{dtype} {shape}", [x, y], [Output(shape, dtype)])


@draws("SELECT_V2")
def select(draw, op):
    dtype, x = draw.choice(*ANY), draw.shape(ranks=(2, 3, 4))
    c, y = (x if draw.chance(0.5) else draw.some_ones(x) for _ in range(2))
    return Case(op, f"{dtype} {c} {x} {y}", [draw.operand(c, "bool"), draw.operand(x, dtype), draw.operand(y, dtype)],
                [output(x, dtype)])


@draws("CAST")
def cast(draw, op):
    shape, x, y = draw.shape(), draw.choice(*ANY), draw.choice(*ANY)
    return Case(op, f"{x} to {y} {shape}", [Operand(draw.array(shape, x, 0.0))], [Output(shape, y)],
                {"in_data_type": x, "out_data_type": y})


@draws("QUANTIZE", x=("float32", "int8", "uint8", "int16"), y=("int8", "uint8"))
@draws("DEQUANTIZE", x=("int8", "uint8", "int16"), y=("float32",))
def quantize(draw, op, x, y):
    shape, x, y = draw.shape(), draw.choice(*x), draw.choice(*y)
    return Case(op, f"{x} to {y} {shape}", [draw.operand(shape, x)], [output(shape, y, True)])


# ---- along axes ----------------------------------------------------------------------------------------------
@draws("SUM", dtypes=NUMBERS, rescaled=True)
@draws("MEAN", dtypes=("float32", "int8", "uint8", "int16", "int32"), rescaled=True)
@draws("REDUCE_MAX", "REDUCE_MIN", dtypes=("float32", "int8", "uint8", "int16", "int32"))
@draws("REDUCE_PROD", dtypes=("float32", "int32"))
@draws("REDUCE_ANY", "REDUCE_ALL", dtypes=("bool",))
def reduction(draw, op, dtypes, rescaled=False):
    dtype, shape = draw.choice(*dtypes), draw.shape()
    axes = sorted(draw.rng.choice(len(shape), draw.integer(1, len(shape)), replace=False).tolist())
    y = [n for i, n in enumerate(shape) if i not in axes]
    return Case(op, f"{dtype} {shape} axes {axes}", [draw.operand(shape, dtype), number(axes)],
                [output(y, dtype, rescaled)])


@draws("ARG_MAX", "ARG_MIN")
def arg_max(draw, op):
    dtype, shape = draw.choice("float32", "int8", "uint8", "int32"), draw.shape(ranks=(2, 3, 4))
    axis = draw.integer(0, len(shape) - 1)
    return Case(op, f"{dtype} {shape} axis {axis}", [draw.operand(shape, dtype), number(axis)],
                [Output(shape[:axis] + shape[axis + 1:], "int32")], {"output_type": "int32"})


@draws("SOFTMAX", dtypes=("float32", "int8", "uint8"), results={"int8": (1 / 256, -128), "uint8": (1 / 256, 0)})
@draws("LOG_SOFTMAX", dtypes=("float32", "int8", "uint8"), results={"int8": (16 / 256, 127), "uint8": (16 / 256, 255)})
@draws("L2_NORMALIZATION", dtypes=("float32", "int8"), results={"int8": (1 / 128, 0)})
def rows(draw, op, dtypes, results):
    dtype, shape = draw.choice(*dtypes), draw.shape(ranks=(2, 4))
    return Case(op, f"{dtype} {shape}", [draw.operand(shape, dtype)], [Output(shape, dtype, *results.get(dtype, ()))],
                {"beta": 1.0} if op == "SOFTMAX" else {})


@draws("CUMSUM")
def cumsum(draw, op):
    dtype, shape = draw.choice("float32", "int32", "int64"), draw.shape()
    axis = draw.integer(0, len(shape) - 1)
    return Case(op, f"{dtype} {shape} axis {axis}", [draw.operand(shape, dtype), number(axis)], [output(shape, dtype)],
                {"exclusive": draw.chance(0.3), "reverse": draw.chance(0.3)})


@draws("TOPK_V2")
def top_k(draw, op):
    dtype, shape = draw.choice("float32", "int8", "uint8", "int32"), draw.shape(ranks=(1, 2, 3))
    k = min(shape[-1], draw.choice(1, 2, 5, 10, 50))
    y = (*shape[:-1], k)
    return Case(op, f"{dtype} {shape} {k}", [draw.operand(shape, dtype), number(k)],
                [output(y, dtype), Output(y, "int32")])


# ---- moved ---------------------------------------------------------------------------------------------------
@draws("TRANSPOSE", "REVERSE_V2", "TILE", "BROADCAST_TO", "PAD", "MIRROR_PAD")
def moved(draw, op):
    dtype, shape = draw.choice(*NUMBERS), draw.shape(most=30000 if op == "TILE" else 200000)
    x = draw.some_ones(shape) if op == "BROADCAST_TO" else shape
    how = {"TRANSPOSE": lambda: draw.rng.permutation(len(shape)).tolist(),
           "REVERSE_V2": lambda: [draw.integer(0, len(shape) - 1)],
           "TILE": lambda: [draw.choice(1, 1, 2, 3, 4) for _ in shape],
           "BROADCAST_TO": lambda: list(shape)}.get(op, lambda: [
               [draw.integer(0, min(2, n - 1)) if draw.chance(0.6) else 0 for _ in range(2)] for n in shape])()
    y = {"TRANSPOSE": lambda: [shape[i] for i in how], "REVERSE_V2": lambda: shape, "BROADCAST_TO": lambda: shape,
         "TILE": lambda: np.multiply(shape, how)}.get(op, lambda: np.add(shape, np.sum(how, 1)))()
    return Case(op, f"{dtype} {x} {how}", [draw.operand(x, dtype), number(how)], [output(y, dtype)],
                {"mode": "REFLECT"} if op == "MIRROR_PAD" else {})


@draws("REVERSE_SEQUENCE")
def reversed_sequences(draw, op):
    dtype, shape = draw.choice(*NUMBERS), draw.shape(ranks=(2, 3, 4))
    seq, batch = map(int, draw.rng.permutation(len(shape))[:2])
    lengths = Operand(draw.rng.integers(1, shape[seq] + 1, shape[batch]).astype(np.int32))
    return Case(op, f"{dtype} {shape} along {seq}, batch {batch}", [draw.operand(shape, dtype), lengths],
                [output(shape, dtype)], {"seq_dim": seq, "batch_dim": batch})


@draws("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL")
def random_numbers(draw, op):
    shape = draw.shape(most=50000)
    return Case(op, f"float32 {shape}", [Operand(np.array(shape, np.int32))], [Output(shape)], {"seed": 1, "seed2": 2})


@draws("SLICE")
def slices(draw, op):
    dtype, shape = draw.choice(*ANY), draw.shape()
    begin = [draw.integer(0, n - 1) if draw.chance(0.5) else 0 for n in shape]
    y = np.subtract(shape, begin)
    return Case(op, f"{dtype} {shape} from {begin}", [draw.operand(shape, dtype), number(begin), number(y)],
                [output(y, dtype)])


@draws("STRIDED_SLICE")
def strided_slice(draw, op):
    dtype, shape = draw.choice(*ANY), draw.shape()
    steps = [draw.choice(1, 1, 1, 2, 3, -1) for _ in shape]
    begin = [0 if step > 0 else n - 1 for n, step in zip(shape, steps, strict=True)]
    end = [n if step > 0 else -n - 1 for n, step in zip(shape, steps, strict=True)]
    y = [-(-n // abs(step)) for n, step in zip(shape, steps, strict=True)]
    return Case(op, f"{dtype} {shape} by {steps}", [draw.operand(shape, dtype), *map(number, (begin, end, steps))],
                [output(y, dtype)])


@draws("CONCATENATION", "PACK", "SPLIT", "UNPACK")
def joined(draw, op):
    dtype, shape, count = draw.choice(*NUMBERS), list(draw.shape(most=60000)), draw.integer(2, 5)
    axis = draw.integer(0, len(shape) - 1)
    many = [*shape[:axis], count, *shape[axis:]]
    if op in ("CONCATENATION", "SPLIT"):
        many = [n * count if i == axis else n for i, n in enumerate(shape)]
    parts, options = [tuple(shape)] * count, {"axis": axis}
    note = f"{dtype} {count} of {shape} axis {axis}"
    if op in ("CONCATENATION", "PACK"):
        return Case(op, note, [draw.operand(part, dtype) for part in parts], [output(many, dtype)],
                    options | ({"values_count": count} if op == "PACK" else {}))
    results, x = [output(part, dtype) for part in parts], draw.operand(tuple(many), dtype)
    return Case(op, note, *([number(axis), x], results, {"num_splits": count}) if op == "SPLIT" else
                ([x], results, options | {"num": count}))


@draws("GATHER")
def gather(draw, op):
    dtype, shape = draw.choice(*ANY), draw.shape()
    axis, count = draw.integer(0, len(shape) - 1), draw.choice(*SIZES[:18])
    y = (*shape[:axis], count, *shape[axis + 1:])
    if math.prod(y) > 400000:
        return None
    at = draw.indices((count,), [shape[axis]])
    operands = [draw.operand(shape, dtype), at._replace(array=at.array[:, 0])]
    return Case(op, f"{dtype} {shape} axis {axis} by {count}", operands, [output(y, dtype)], {"axis": axis})


@draws("GATHER_ND", "SCATTER_ND")
def at_vectors(draw, op):
    dtype, shape, count = draw.choice(*NUMBERS), draw.shape(ranks=(1, 2, 3, 4)), draw.choice(10, 100, 1000)
    depth = draw.integer(1, len(shape))
    boxes, at = (count, *shape[depth:]), draw.indices((count,), shape[:depth])
    if math.prod(boxes) > 200000:
        return None
    note = f"{dtype} {shape}, {count} of {depth}"
    if op == "GATHER_ND":
        return Case(op, note, [draw.operand(shape, dtype), at], [output(boxes, dtype)])
    return Case(op, note, [at, draw.operand(boxes, dtype), number(shape)], [output(shape, dtype)])


@draws("ONE_HOT")
def one_hot(draw, op):
    dtype, shape = draw.choice("float32", "int32", "int8", "bool"), draw.shape(10, 3000, (1, 2, 3))
    depth, axis = draw.choice(2, 5, 10, 100), draw.choice(0, len(shape))
    values = [Operand(np.array(value, dtype), constant=True) for value in (1, 0)]
    return Case(op, f"{dtype} {shape} depth {depth} axis {axis}",
                [Operand(draw.rng.integers(0, depth, shape).astype(np.int32)), number(depth), *values],
                [Output((*shape[:axis], depth, *shape[axis:]), dtype)], {"axis": axis})


@draws("WHERE")
def where(draw, op):
    shape, share = draw.shape(), draw.choice(0.02, 0.5, 0.98)
    mask, y = Operand(draw.rng.random(shape) < share), Output((1, len(shape)), "int64")
    return Case(op, f"bool {shape} {share}", [mask], [y])


# ---- products ------------------------------------------------------------------------------------------------
def weights(draw, shape, dtype, axis):
    """Constant weights with a scale for each channel of `axis`, and a bias."""
    count = shape[axis]
    if dtype == "float32":
        return [draw.operand(size, dtype, True) for size in (shape, (count,))]
    scales = draw.rng.uniform(0.001, 0.01, count)
    return [Operand(draw.rng.integers(-127, 128, shape).astype(np.int8), scales, 0, axis, True),
            Operand(draw.rng.integers(-1000, 1000, count).astype(np.int32), scales * SCALES["int8"][0], 0, 0, True)]


@draws("CONV_2D", "DEPTHWISE_CONV_2D")
def convolution(draw, op):
    dtype, batch = draw.choice("float32", "int8"), draw.choice(1, 1, 1, 2)
    height, width = (draw.choice(1, 5, 7, 14, 20, 28) for _ in range(2))
    channels, rows, cols = draw.choice(1, 2, 3, 4, 8, 12, 16, 24, 32, 64), draw.integer(1, 5), draw.integer(1, 5)
    stride, dilation = draw.choice((1, 1), (1, 1), (2, 1), (1, 2))
    multiplier = draw.choice(1, 1, 2, 8)
    if op == "CONV_2D":
        count, groups = draw.choice(1, 2, 4, 8, 12, 16, 24, 32, 64, 100), draw.choice(1, 1, 1, 3, 8, 32)
        if groups > 1:
            channels, count = draw.choice(1, 2, 4, 8, 16), groups * draw.choice(1, 2, 4, 8, 16)
        filters, options = weights(draw, (count, rows, cols, channels), dtype, 0), {}
        channels *= groups
    else:
        count, options = channels * multiplier, {"depth_multiplier": multiplier}
        filters = weights(draw, (1, rows, cols, count), dtype, 3)
    x = (batch, height, width, channels)
    return Case(op, f"{dtype} {x} to {count}, {rows}x{cols}, stride {stride}, dilation {dilation}",
                [draw.operand(x, dtype), *filters],
                [output((batch, -(-height // stride), -(-width // stride), count), dtype, True)],
                options | {"padding": "SAME", "stride_w": stride, "stride_h": stride, "dilation_w_factor": dilation,
                           "dilation_h_factor": dilation})


@draws("FULLY_CONNECTED")
def fully_connected(draw, op):
    dtype, n = draw.choice("float32", "int8"), draw.choice(1, 1, 1, 2, 4, 5, 8, 16, 33)
    depth, count = draw.choice(*SIZES[8:]), draw.choice(*SIZES[3:])
    operands = [draw.operand((n, depth), dtype), *weights(draw, (count, depth), dtype, 0)]
    return Case(op, f"{dtype} {n} x {depth} to {count}", operands, [output((n, count), dtype, True)])


@draws("AVERAGE_POOL_2D", "MAX_POOL_2D")
def pool(draw, op):
    dtype = draw.choice("float32", "int8", "uint8", "int16")
    height, width = (draw.choice(4, 7, 14, 20, 28) for _ in range(2))
    channels = draw.choice(1, 2, 3, 4, 8, 12, 16, 24, 32, 64)
    rows, cols, stride = draw.integer(1, 4), draw.integer(1, 4), draw.integer(1, 3)
    return Case(op, f"{dtype} {(height, width, channels)} {rows}x{cols} stride {stride}",
                [draw.operand((1, height, width, channels), dtype)],
                [output((1, -(-height // stride), -(-width // stride), channels), dtype)],
                {"padding": "SAME", "stride_w": stride, "stride_h": stride, "filter_width": cols,
                 "filter_height": rows})


@draws("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def resize(draw, op):
    dtype, half = draw.choice("float32", "int8", "uint8"), draw.chance(0.5)
    height, width, channels = draw.integer(3, 28), draw.integer(3, 28), draw.choice(1, 2, 3, 4, 8, 16, 21, 32, 64)
    factor = draw.choice(2, 4, 1.5, 0.5, 3, 2.3)
    size = [max(1, int(height * factor)), max(1, int(width * factor))]
    return Case(op, f"{dtype} {(height, width, channels)} to {size}",
                [draw.operand((1, height, width, channels), dtype), number(size)],
                [output((1, *size, channels), dtype)], {"half_pixel_centers": half})
