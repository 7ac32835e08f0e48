"""Single-op models that are prone to be slower than with the peer, or whose time could depend on their values."""
from typing import NamedTuple

import numpy as np

rng = np.random.default_rng(0)
ROWS = (64, 1024)
BYTES = (96, 96, 16)        # 147456 elements


class Operand(NamedTuple):
    """An input of an operator, or a constant.  scale, zero_point, axis: of its quantization; dtype: what is stored."""
    array: np.ndarray
    scale: object = None
    zero_point: int = 0
    axis: int = 0
    constant: bool = False
    dtype: str | None = None
    fields: dict = {}           # of the tensor's table


class Output(NamedTuple):
    shape: tuple
    dtype: str = "float32"
    scale: object = None
    zero_point: int = 0


class Case(NamedTuple):
    op: str
    note: str
    operands: list
    outputs: list
    options: dict = {}

    @property
    def name(self):
        return f"{self.op} {self.note}".strip()


def reals(*shape, low=-3.0, high=3.0):
    return rng.uniform(low, high, shape or ROWS).astype(np.float32)


def integers(*shape, dtype="int8", low=None, high=None):
    limits = np.iinfo(dtype)
    return rng.integers(limits.min if low is None else low, limits.max + 1 if high is None else high,
                        shape or BYTES).astype(dtype)


def axes(*numbers):
    return Operand(np.array(numbers, np.int32), constant=True)


def build(case):
    """(the bytes of the case's model, the arrays of its inputs)"""
    from pylite.schema.builder import ModelBuilder
    m, tensors, fed, arrays = ModelBuilder(), [], [], []
    for i, x in enumerate(case.operands):
        if x.constant:
            tensors.append(m.constant(f"c{i}", x.array, x.scale, x.zero_point, x.axis, x.dtype))
        else:
            tensors.append(m.tensor(f"x{i}", x.array.shape, x.array.dtype.name, x.scale, x.zero_point, x.axis))
            fed.append(tensors[-1])
            arrays.append(x.array)
    made = [m.tensor(f"y{i}", y.shape, y.dtype, y.scale, y.zero_point) for i, y in enumerate(case.outputs)]
    m.operator(case.op, tensors, made, **case.options)
    m.inputs(fed)
    m.outputs(made)
    return m.build(), arrays


# ---- values that may take longer ---------------------------------------------------------------------------------
def hostile(ordinary):
    """{name: values} that could be slow, besides ordinary ones."""
    half = rng.random(ordinary.shape) < 0.5
    return {"masked by -90": np.where(half, ordinary - 90, ordinary), "masked by -1e9": np.where(
        half, ordinary - np.float32(1e9), ordinary), "all at -20": ordinary - 20, "all at -90": ordinary - 90,
        "all at -103": ordinary * 0.3 - 103, "all at 90": ordinary + 90, "tiny": ordinary * np.float32(1e-38),
        "subnormal": ordinary * np.float32(1e-40), "NaN": np.full_like(ordinary, np.nan), "half NaN": np.where(
            half, np.float32(np.nan), ordinary), "-inf": np.where(half, np.float32(-np.inf), ordinary),
        "inf": np.full_like(ordinary, np.inf), "huge": ordinary * np.float32(1e37)}


def values():
    """(name of the function, {name of the values: Case}) where the first values are the ordinary ones"""
    for op, options in (("EXP", {}), ("LOGISTIC", {}), ("TANH", {}), ("GELU", {}), ("GELU", {"approximate": True}),
                        ("ELU", {}), ("HARD_SWISH", {}), ("SOFTMAX", {"beta": 1.0}), ("LOG_SOFTMAX", {}), ("LOG", {}),
                        ("SQRT", {}), ("RSQRT", {}), ("SIN", {})):
        positive = op in ("LOG", "SQRT", "RSQRT")
        x = reals(low=0.1 if positive else -3.0)
        every = {"": x} | {name: np.float32(v) for name, v in hostile(x).items()}
        name = f"{op} approximate" if options.get("approximate") else op
        yield name, {note: Case(op, note, [Operand(v)], [Output(ROWS)], options) for note, v in every.items()}
    for op in ("ADD", "SUB"):
        every = {"": (0.02, 0.03, 0.04), "ties": (0.25, 0.5, 1.0), "equal": (0.1, 0.1, 0.1), "half": (0.1, 0.1, 0.2),
                 "thirds": (0.1, 0.3, 0.1)}
        yield f"{op} int8", {note: Case(op, note, [Operand(integers(), a), Operand(integers(), b)],
                                        [Output(BYTES, "int8", y)]) for note, (a, b, y) in every.items()}


# ---- cases that are prone to be slow -----------------------------------------------------------------------------
def floats():
    x = reals()
    masked = hostile(x)
    for mask in ("masked by -90", "masked by -1e9"):
        yield Case("SOFTMAX", mask, [Operand(np.float32(masked[mask]))], [Output(ROWS)], {"beta": 1.0})
    yield Case("SOFTMAX", "rows of 16", [Operand(reals(4096, 16))], [Output((4096, 16))], {"beta": 1.0})
    for op, at in (("GELU", "all at -20"), ("LOGISTIC", "all at -90"), ("EXP", "all at -90"), ("ELU", "all at -90"),
                   ("TANH", "all at -20"), ("LOG_SOFTMAX", "masked by -90")):
        yield Case(op, at, [Operand(np.float32(masked[at]))], [Output(ROWS)])
    for op in ("GELU", "LOGISTIC", "EXP", "TANH"):
        yield Case(op, "", [Operand(x)], [Output(ROWS)])
    yield Case("POW", "", [Operand(reals(low=0.1)), Operand(reals())], [Output(ROWS)])
    yield Case("POW", "by 0.7", [Operand(reals(low=0.1)), Operand(np.float32([0.7]), constant=True)], [Output(ROWS)])


def filters(shape, axis, dtype):
    """Weights of a convolution for images of that type, per channel, and their scales."""
    if dtype == "float32":
        return Operand(reals(*shape), constant=True), None
    scale = rng.uniform(0.005, 0.01, shape[axis])
    return Operand(integers(*shape, low=-127), scale, 0, axis, True), scale


def window(op, note, dtype, x, w, y, stride=1, weights=None, **options):
    """A convolution.  weights: their type if it differs from the images'."""
    axis = 3 if op == "DEPTHWISE_CONV_2D" else 0
    weight, scale = filters(w, axis, weights or dtype)
    bias = {"float32": "float32", "int8": "int32", "int16": "int64"}[dtype]
    hybrid = dtype == "float32"
    images = Operand(reals(*x)) if hybrid else Operand(integers(*x, dtype=dtype), 0.05)
    b = Operand((rng.standard_normal(w[axis]) * 100).astype(bias), None if hybrid else scale * 0.05, constant=True)
    made = Output(y, dtype, None if hybrid else 0.3 if dtype == "int8" else 0.01)
    return Case(op, note, [images, weight, b], [made],
                {"padding": "SAME", "stride_h": stride, "stride_w": stride} | options)


def convolutions():
    for dtype, weights, note in (("int8", None, "int8"), ("float32", None, "float32"),
                                 ("float32", "int8", "int8 weights"), ("int16", "int8", "int16")):
        for size, c, m in ((24, 32, 2), (32, 3, 8), (28, 16, 6)):
            yield window("DEPTHWISE_CONV_2D", f"{size}x{size}x{c}, m = {m}, {note}", dtype, (1, size, size, c),
                         (1, 3, 3, c * m), (1, size, size, c * m), weights=weights, depth_multiplier=m)
        yield window("DEPTHWISE_CONV_2D", f"32x32x1, m = 8, {note}", dtype, (1, 32, 32, 1), (1, 3, 3, 8),
                     (1, 32, 32, 8), weights=weights, depth_multiplier=8)
    for k in (2, 4, 8):
        yield window("CONV_2D", f"int16 32x32x16 to {k}, 7x7", "int16", (1, 32, 32, 16), (k, 7, 7, 16), (1, 32, 32, k),
                     weights="int8")
    yield window("CONV_2D", "int16 32x32x16 to 32, 3x3", "int16", (1, 32, 32, 16), (32, 3, 3, 16), (1, 32, 32, 32),
                 weights="int8")
    yield window("DEPTHWISE_CONV_2D", "int16 28x28x64", "int16", (1, 28, 28, 64), (1, 3, 3, 64), (1, 28, 28, 64),
                 weights="int8", depth_multiplier=1)
    yield window("DEPTHWISE_CONV_2D", "int8 weights 56x56x16", "float32", (1, 56, 56, 16), (1, 3, 3, 16),
                 (1, 56, 56, 16), weights="int8", depth_multiplier=1)
    yield window("CONV_2D", "int8 weights 56x56x3 to 3, 3x3", "float32", (1, 56, 56, 3), (3, 3, 3, 3), (1, 56, 56, 3),
                 weights="int8")
    yield window("CONV_2D", "int8 weights 28x28x16 to 32, 3x3", "float32", (1, 28, 28, 16), (32, 3, 3, 16),
                 (1, 28, 28, 32), weights="int8")
    for c in (64, 16):
        x, w = reals(1, 1, 200, c), reals(1, 1, 32, c)
        yield Case("TRANSPOSE_CONV", f"{c} to 1, 32 taps, stride 16", [
            axes(1, 1, 3200, 1), Operand(w, constant=True), Operand(x)], [Output((1, 1, 3200, 1))],
            {"padding": "SAME", "stride_h": 1, "stride_w": 16})
    for rows, k, n in ((1, 256, 512), (1, 1024, 1024), (16, 1024, 1024)):
        w = Operand(integers(n, k, low=-8, high=8), rng.uniform(0.01, 0.02, n), constant=True, dtype="int4")
        yield Case("FULLY_CONNECTED", f"int4 weights ({rows}, {k}, {n})", [Operand(reals(rows, k)), w],
                   [Output((rows, n))], {"asymmetric_quantize_inputs": True})


def tables():
    for op, options in (("LEAKY_RELU", {"alpha": 0.1}), ("LOGISTIC", {}), ("TANH", {}), ("HARD_SWISH", {})):
        y = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}.get(op, (0.04, 3))
        yield Case(op, "int8", [Operand(integers(), 0.05, 3)], [Output(BYTES, "int8", *y)], options)
    yield Case("QUANTIZE", "int8 to int8", [Operand(integers(), 0.05, 3)], [Output(BYTES, "int8", 0.07, -5)])
    yield Case("QUANTIZE", "int8 to int8, many halves", [Operand(integers(), 0.05, 3)],
               [Output(BYTES, "int8", 0.04, 1)])
    yield Case("QUANTIZE", "uint8 to int8", [Operand(integers(dtype="uint8"), 0.05, 131)],
               [Output(BYTES, "int8", 0.05, 3)])
    for op in ("ADD", "SUB", "MUL"):
        yield Case(op, "int8 with a scalar", [Operand(integers(), 0.05, 3), Operand(integers(1), 0.04, 1, 0, True)],
                   [Output(BYTES, "int8", 0.07, 2)])
    for op in ("ADD", "SUB"):
        for scales in ((0.25, 0.5, 1.0), (0.25, 0.25, 0.5), (0.1, 0.1, 0.2), (0.02, 0.03, 0.04),
                       (0.05, 0.03, 0.06), (0.25, 0.2, 0.2)):
            yield Case(op, "int8 of scales " + ", ".join(map(str, scales)), [
                Operand(integers(), scales[0], 3), Operand(integers(), scales[1], -2)],
                [Output(BYTES, "int8", scales[2], 1)])
    for op in ("MUL", "ADD"):
        for note, other in (("equal shapes", BYTES), ("(96, 96, 16), (96, 96, 1)", (96, 96, 1)),
                            ("(48, 48, 64), (64)", (64,)), ("(96, 96, 16), (16)", (16,))):
            shape = (48, 48, 64) if "64" in note else BYTES
            for dtype in ("int8", "float32"):
                scales = (0.0517, 0.0043, 0.0391) if dtype == "int8" else (None, None, None)
                draw = integers if dtype == "int8" else reals
                yield Case(op, f"{dtype} {note}", [Operand(draw(*shape), scales[0]), Operand(draw(*other), scales[1])],
                           [Output(shape, dtype, scales[2])])


def reductions():
    for op in ("REDUCE_MAX", "REDUCE_MIN", "SUM", "MEAN"):
        for dtype in ("float32", "int8"):
            q = (0.05, 3) if dtype == "int8" else ()
            x = reals() if dtype == "float32" else integers(*ROWS)
            yield Case(op, f"{dtype}, last axis", [Operand(x, *q), axes(1)], [Output((64,), dtype, *q)])
    for op in ("REDUCE_ALL", "REDUCE_ANY"):
        for n, note in ((1, "last axis"), (0, "first axis")):
            x = np.full(ROWS, op == "REDUCE_ALL")
            yield Case(op, note, [Operand(x), axes(n)], [Output((64,) if n else (1024,), "bool")])
    for op, shape, at in (("MEAN", (20, 33, 10, 15), 2), ("MEAN", (200, 30, 5), 1), ("REDUCE_MAX", (64, 20, 2, 10), 2)):
        y = [n for axis, n in enumerate(shape) if axis != at]
        yield Case(op, f"int8 {shape}, axis {at}", [Operand(integers(*shape), 0.05, 3), axes(at)],
                   [Output(y, "int8", 0.05, 3)])


def moves():
    for shape, order in (((112, 100, 7), (2, 0, 1)), ((20, 56, 7, 5), (0, 3, 1, 2))):
        yield Case("TRANSPOSE", f"{shape} by {order}", [Operand(reals(*shape)), axes(*order)],
                   [Output([shape[axis] for axis in order])])
    for c in (64, 256):
        yield Case("RESIZE_NEAREST_NEIGHBOR", f"(20, 20, {c})", [Operand(reals(1, 20, 20, c)), axes(40, 40)],
                   [Output((1, 40, 40, c))])
    for shape, k in (((256, 8), 2), ((112, 16), 5)):
        y = shape[0], k
        yield Case("TOPK_V2", f"int8 {shape}, {k}", [
            Operand(integers(*shape), 0.05), Operand(np.array(k, np.int32), constant=True)],
            [Output(y, "int8", 0.05), Output(y, "int32")])
    for width in (16, 4, 64):
        x, at = reals(1000, width), rng.integers(0, 1000, 4096).astype(np.int32)
        yield Case("GATHER", f"rows of {4 * width} bytes", [Operand(x, constant=True), Operand(at)],
                   [Output((4096, width))], {"axis": 0})
    yield Case("GATHER", "int8, rows of 64 bytes", [
        Operand(integers(1000, 64), 0.1, constant=True), Operand(rng.integers(0, 1000, 4096).astype(np.int32))],
        [Output((4096, 64), "int8", 0.1)], {"axis": 0})


def cases():
    for some in (floats, convolutions, tables, reductions, moves):
        yield from some()
