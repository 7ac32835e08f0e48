"""Softmax and its logarithm, along the last dimension."""
import math

import numpy as np

from pylite.ir.registry import register, same
from pylite.ir.values import Call, Temporary
from pylite.numerics import quantization


def infer_rows(node):
    x = node.inputs[0]
    if not x.shape:
        raise node.error("a scalar has no last dimension to work along", x)
    return [x.shape]


def rows(value):
    """The value as (rows, elements), one row for each last dimension."""
    return value.view((math.prod(value.shape[:-1]), value.shape[-1]))


def byte_rows(value):
    """The value as (rows, bytes), one row for each last dimension."""
    count = math.prod(value.shape[:-1])
    return value.view((count, value.nbytes // count), dtype="uint8")


def require(node, scale, zero_point, tolerance=0.0):
    """Raise unless the output has the quantization that the op prescribes."""
    y = node.outputs[0]
    if y.zero_point != zero_point or abs(float(y.scale) - scale) > tolerance:
        raise node.error(f"its scale must be {scale} and its zero point {zero_point}; they are {y.scale} and "
                         f"{y.zero_point}", y)


def defined_rows(node, function):
    """The Call for a function of int16 rows, which the reference lacks: in float64, rounded once."""
    x, y = node.inputs[0], node.outputs[0]
    return Call("softmax.DefinedRows16", rows(x), rows(y), function, (x.scale, x.zero_point), (y.scale, y.zero_point),
                inplace=(y, x))


def lower_softmax(node):
    x, y, beta = node.inputs[0], node.outputs[0], node.options.beta
    if x.dtype == "float32":
        return Call("softmax.RowsF32", rows(x), rows(y), "softmax", beta, inplace=(y, x))
    if x.dtype == "float16":
        wide = Temporary(node, x.shape, "float32")
        return [Call("elementwise.Unary", "half_to_float", x.size, x.bytes, wide.bytes),
                Call("softmax.RowsF32", rows(wide), rows(wide), "softmax", beta),
                Call("elementwise.Unary", "float_to_half", x.size, wide.bytes, y.bytes)]
    if x.dtype == "int16":
        require(node, 2.0**-15, 0, 2.0**-24)
    elif y.dtype == "int8":     # of the other outputs the reference ignores scale and zero point
        require(node, 2.0**-8, -128, 2.0**-16)
    if x.dtype == "int16":
        from pylite.numerics import lookup_tables  # lazy: models that do not need them load faster
        exponential, reciprocal = lookup_tables.softmax16_tables()
        m, e = quantization.softmax16_multiplier(beta, x.scale)
        return Call("softmax.Softmax16", rows(x), rows(y), exponential, reciprocal, multiplier=m, exponent=e,
                    inplace=(y, x))
    bits = 16 if y.dtype == "int16" else 8
    args = bits, 0x80 if x.dtype == "int8" else 0, quantization.softmax_parameters(abs(beta), x.scale)
    if not beta < 0:
        return Call("softmax.Softmax8", byte_rows(x), byte_rows(y), *args, inplace=(y, x))
    reverse = Temporary(node, x.shape, x.dtype)     # from largest to smallest: the differences have the other sign
    return [Call("elementwise.Unary", "lut8", x.size, x.bytes, reverse.bytes, bytes(range(255, -1, -1))),
            Call("softmax.Softmax8", byte_rows(reverse), byte_rows(y), *args)]


def lower_log_softmax(node):
    x, y = node.inputs[0], node.outputs[0]
    if x.dtype == "float32":
        return Call("softmax.RowsF32", rows(x), rows(y), "log_softmax", inplace=(y, x))
    if y.dtype == "int16":
        return defined_rows(node, "log_softmax")
    require(node, 16 / 256, 127 if y.dtype == "int8" else 255)
    return Call("softmax.Softmax8", byte_rows(x), byte_rows(y), 8, 0x80 if x.dtype == "int8" else 0,
                quantization.softmax_parameters(1.0, x.scale), logarithm=True, inplace=(y, x))


def reference_softmax(x, o):
    e = np.exp((x - x.max(-1, keepdims=True)) * o.beta)
    return e / e.sum(-1, keepdims=True)


def reference_log_softmax(x, o):
    d = x - x.max(-1, keepdims=True)
    return d - np.log(np.exp(d).sum(-1, keepdims=True))


register("SOFTMAX", versions=(1, 4), types=same("float32 float16 int8 uint8 int16") + ["int8|uint8 -> int16"],
         infer=infer_rows, lower=lower_softmax, reference=reference_softmax,
         conditions=("quantized: x one scale", "int16: x zero_point = 0"))
register("LOG_SOFTMAX", versions=(1, 2), types=same("float32 int8 uint8 int16"), infer=infer_rows,
         lower=lower_log_softmax, reference=reference_log_softmax,
         conditions=("quantized: x one scale", "int16: y one scale", "int16: x y scale > 0"))
