"""The exact integer numerics: multipliers and clamping ranges (docs/numerics.md).

Everything that is decided when a model is lowered is computed here and in fixed_point.py.  The same rounding rules at
run time are in `_core/simd/rounding.h`; only AVERAGE_POOL_2D has its own, in `portable_pooling.h`.  The width of every
floating-point step is part of the contract: `np.float32` operands give float32 results, and `float(...)` moves to
float64.
"""
import math

import numpy as np

f32 = np.float32
INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
FLT_MAX = 2.0**128 - 2.0**104    # the largest float32; a call of np.finfo takes 70 us

LIMITS = {"int2": (-2, 1), "int4": (-8, 7), "uint4": (0, 15), "int8": (-128, 127), "uint8": (0, 255),
          "int16": (-(2**15), 2**15 - 1), "uint16": (0, 2**16 - 1), "int32": (INT32_MIN, INT32_MAX),
          "uint32": (0, 2**32 - 1), "int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}

# What fused activations clamp to; None: that end is open.
_BOUNDS = {"RELU": (0.0, None), "RELU_N1_TO_1": (-1.0, 1.0), "RELU6": (0.0, 6.0)}


# ---- section 3: real numbers to multipliers -----------------------------------------------------------------
def round_away(x):
    """The integer nearest to the real number x, halves away from zero (C's round)."""
    whole = math.trunc(x)
    if abs(x - whole) >= 0.5:
        return whole + (1 if x > 0 else -1)
    return whole


def quantize_multiplier(d):
    """QuantizeMultiplier: (m, e) with d ~ m * 2**(e - 31), |m| in [2**30, 2**31); (0, 0) when d is 0 or below 2**-32.

    d: a float, or a numpy float (widened exactly).  docs/numerics.md section 2.  Raises ValueError for inf and nan.
    """
    f, e = math.frexp(d)
    try:
        m = int(f * 2147483648.0 + (0.5 if f > 0 else -0.5))
    except (OverflowError, ValueError):
        raise ValueError(f"a multiplier of {d} cannot be quantized") from None
    if m == 2147483648:
        m, e = 1073741824, e + 1
    return (m, e) if m and e >= -31 else (0, 0)


def quantize_multipliers(scales):
    """quantize_multiplier of each of the scales, float64 (n,): (m, e), int32 (n,).

    Raises ValueError for inf and nan.
    """
    from pylite._core.kernels.packing import multipliers  # wanted where there are products
    return multipliers(scales)


def product_scales(x_scale, w_scales, y_scale):
    """D(s_x * s_w[c] / s_y) for each of the weights' scales, float64.  Section 3."""
    return float(x_scale) * np.asarray(w_scales, np.float64) / float(y_scale)


def product_scale(x_scale, w_scale, y_scale):
    """D(F(s_x * s_w) / s_y), the older rule whose product is rounded to float32.  Section 3."""
    return float(f32(x_scale) * f32(w_scale)) / float(y_scale)


def per_tensor_multiplier(x_scale, w_scale, y_scale):
    """(m, e) of product_scale."""
    return quantize_multiplier(product_scale(x_scale, w_scale, y_scale))


# ---- section 3: clamping ranges -----------------------------------------------------------------------------
def quantize_value(v, scale, zero_point):
    """Q(v) = z + round_away(F(v / s)): where the real number v lies on a tensor's integer scale, unclamped."""
    return zero_point + round_away(float(f32(v) / f32(scale)))


def quantized_range(low, high, dtype, scale, zero_point):
    """(qmin, qmax) of a tensor clamped to the reals [low, high]; None leaves that end at the type's limit."""
    qmin, qmax = LIMITS[dtype]
    if low is not None:
        qmin = max(qmin, quantize_value(low, scale, zero_point))
    if high is not None:
        qmax = min(qmax, quantize_value(high, scale, zero_point))
    return qmin, qmax


def activation_range(activation, dtype, scale, zero_point):
    """(qmin, qmax) of a quantized output with a fused activation, given by the schema's name.

    Raises ValueError for TANH and SIGN_BIT.
    """
    if activation == "NONE":
        return LIMITS[dtype]
    if activation not in _BOUNDS:
        raise ValueError(f"a quantized output cannot have the fused activation {activation}, which tf.lite leaves out; "
                         "convert the model with an operator for it")
    return quantized_range(*_BOUNDS[activation], dtype, scale, zero_point)


def activation_bounds(activation, dtype="float32"):
    """(low, high) of an unquantized output with a fused activation, in its own type; TANH and SIGN_BIT do not clamp."""
    largest = 65504.0 if dtype == "float16" else FLT_MAX
    low, high = (-largest, largest) if dtype.startswith("float") else LIMITS[dtype]
    lo, hi = _BOUNDS.get(activation, (None, None))
    number = float if dtype.startswith("float") else int
    return low if lo is None else max(low, number(lo)), high if hi is None else number(hi)


# ---- sections 5 to 9: what ops need besides a multiplier ----------------------------------------------------
def add_parameters(a_scale, b_scale, y_scale, dtype):
    """ADD and SUB: (left shift, (m_a, e_a), (m_b, e_b), (m_y, e_y)).  Section 5.

    e_y is above 0 where the output scale is too small for the rule.
    """
    left = 15 if dtype == "int16" else 20
    twice = 2.0 * float(max(a_scale, b_scale))
    y = quantize_multiplier(twice / float(f32(1 << left) * f32(y_scale)))
    return left, quantize_multiplier(float(a_scale) / twice), quantize_multiplier(float(b_scale) / twice), y


def squared_difference_parameters(a_scale, b_scale, y_scale):
    """SQUARED_DIFFERENCE of int8: (left shift, (m_a, e_a), (m_b, e_b), (m_y, e_y)).  Section 5."""
    twice = 2.0 * float(max(a_scale, b_scale))
    y = quantize_multiplier(twice * twice / float(f32(1 << 14) * f32(y_scale)))
    return 7, quantize_multiplier(float(a_scale) / twice), quantize_multiplier(float(b_scale) / twice), y


def power_of_two(scale):
    """k when scale is 2**k within the field's tolerance (log2 within 1e-3 of a whole number), else None."""
    exponent = f32(math.log(scale)) * (f32(1) / f32(math.log(2)))
    whole = round_away(float(exponent))
    return whole if abs(float(exponent - f32(whole))) < 1e-3 else None


def mean_multiplier(x_scale, y_scale, n):
    """(m, e) of MEAN over n >= 1 quantized elements: the division by n is folded into the multiplier.  Section 8."""
    m, e = quantize_multiplier(float(x_scale) / float(y_scale))
    h = min(n.bit_length() - 1, 32, 31 + e)
    return (m << h) // n, e - h


def softmax_parameters(beta, scale):
    """8-bit SOFTMAX: (m, shift, diff_min).  Section 7."""
    m, shift = quantize_multiplier(min(float(beta) * float(scale) * 2.0**26, 2.0**31 - 1))
    return m, shift, -math.floor(31 * 2.0**26 / 2.0**max(shift, 0))


def softmax16_multiplier(beta, scale):
    """int16 SOFTMAX: (m, e) that takes differences to the domain of the exponential's table.  Section 7."""
    return quantize_multiplier(float(f32(scale) * f32(beta)) / (10.0 / 65535.0))
