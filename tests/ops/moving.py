"""Random arrays of every type, and one-op models around them, for the ops that move elements."""
import numpy as np

from pylite.ir.graph import NUMPY_DTYPES

WIDTHS = ("int8", "float16", "float32", "int64", "bool")    # a type for each element size, and bool


def random_shape(rng, low, high, empty=True, largest=7):
    """low to high dimensions of 1 to `largest` elements; sometimes one of 0, if `empty`."""
    rank = int(rng.integers(low, high + 1))
    shape = [int(n) for n in rng.integers(1, largest if rank < 5 else 4, rank)]
    if shape and empty and rng.random() < 0.1:
        shape[rng.integers(0, rank)] = 0
    return tuple(shape)


def random_array(rng, shape, dtype):
    """Integers of all bit patterns, normally distributed floats."""
    numpy = NUMPY_DTYPES[dtype]
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in ("int4", "uint4"):
        return rng.integers(*((-8, 8) if dtype == "int4" else (0, 16)), shape).astype(numpy)
    if numpy.kind == "f":
        return rng.standard_normal(shape).astype(numpy)
    if numpy.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(numpy)
    info = np.iinfo(numpy)
    return rng.integers(info.min, info.max, shape, numpy, endpoint=True)


def one_op(m, name, dtype, inputs, constants=(), outputs=1, order=None, out_dtype=None, quantization=(), version=1,
           **options):
    """Fill `m` with one operator: run-time inputs, then constants (or in `order`), all outputs of one type.

    quantization: (scale, zero_point) of every tensor of type `dtype`.  Returns the inputs.
    """
    fields = dict(zip(("scale", "zero_point"), quantization, strict=False))
    tensors = [m.tensor(f"x{i}", x.shape, dtype, **fields) for i, x in enumerate(inputs)]
    operands = tensors + [m.constant(f"c{i}", c) for i, c in enumerate(constants)]
    made = [m.tensor(f"y{i}", (), out_dtype or dtype, **(fields if out_dtype in (None, dtype) else {}))
            for i in range(outputs)]
    m.operator(name, [operands[i] for i in order] if order else operands, made, version=version, **options)
    m.inputs(tensors)
    m.outputs(made)
    return inputs
