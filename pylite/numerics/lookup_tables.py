"""Look-up tables of 8-bit functions, and of 16-bit ones, interpolated or whole (docs/numerics.md sections 2 and 6)."""
import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pylite.numerics import float32_functions
from pylite.numerics.float32_functions import erfc, expm1
from pylite.numerics.quantization import LIMITS, f32

if TYPE_CHECKING:
    from typing import Any

f64 = np.float64
exp, tanh = float32_functions.exp, float32_functions.tanh


# ---- float32 functions ----------------------------------------------------------------------------------------
def logistic(x):
    return f32(1) / (f32(1) + exp(-x))


def elu(x):
    return np.where(x < 0, expm1(np.minimum(x, f32(0))), x)


def gelu(x):
    """GELU by the complementary error function."""
    return (f32(0.5) * x) * erfc(x * f32(-0.70710678))


def gelu_approximate(x):
    """GELU by tanh, products left to right."""
    inner = f32(0.7978845608028654) * (x + ((f32(0.044715) * x) * x) * x)
    return (f32(0.5) * x) * (f32(1) + tanh(inner))


def log_above(minimum):
    """The natural logarithm, with `minimum` (float32) where x <= 0."""
    def log(x):
        return np.where(x > 0, float32_functions.log(np.where(x > 0, x, f32(1))), minimum)
    return log


def rsqrt_below(maximum):
    """1 / sqrt(x) in float32, with `maximum` (float32) where x <= 0."""
    def rsqrt(x):
        return np.where(x > 0, f32(1) / np.sqrt(np.where(x > 0, x, f32(1))), maximum)
    return rsqrt


# ---- 8-bit: one entry for each byte --------------------------------------------------------------------------
@cache
def bytes_of(dtype):
    """The values of the 8-bit type in the order of their bytes: int64, (256,), read-only."""
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.int64)
    values.flags.writeable = False
    return values


def byte_table(values, dtype):
    """The table of `values` (int, one for each byte), clamped to the 8-bit type: uint8, (256,)."""
    low, high = LIMITS[dtype]
    return np.minimum(np.maximum(values, low), high).astype(dtype).view(np.uint8)


def round_away(x):
    """Each float to the nearest integer, halves away from zero; a float array of the same type."""
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), x.dtype.type(0))


# Functions of float64 arrays, which take a fifth of the time.
_IN_FLOAT64: "dict[Any, Any]" = {tanh: np.tanh, elu: lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0)), x)}
_FAR = 1e-6         # relative error of f(x) * gain in float32, with room: it is 4 units in the last place at most


def _surely_rounded(f, x, gain):
    """f(x) * gain, rounded, from f in float64; None where rounding in float32 might differ, close to a half."""
    if f not in _IN_FLOAT64:
        return None
    r = _IN_FLOAT64[f](x.astype(f64)) * gain
    away = np.abs(np.abs(r - np.trunc(r)) - 0.5)
    return round_away(r) if (away > _FAR * (1 + np.abs(r))).all() else None


@lru_cache(maxsize=256)          # a resized graph is lowered again, with the same scales
@np.errstate(all="ignore")
def lut8(f, x_scale, x_zero_point, y_scale, y_zero_point, dtype):
    """LUT8: the table of the real function f (of float32 arrays) for an 8-bit type.  Section 2.  uint8, (256,)."""
    x = f32(x_scale) * (bytes_of(dtype) - x_zero_point).astype(f32)
    gain = f32(1) / f32(y_scale)
    r = _surely_rounded(f, x, gain)
    if r is None:
        r = round_away(f(x) * gain)
    r = r + f32(y_zero_point)
    low, high = LIMITS[dtype]
    if dtype == "uint8":        # the reference's code for int8 saturates; here, what is no int32 becomes the least one
        r[r >= 2.0**31] = low
    table = byte_table(np.trunc(np.clip(r, low, high)).astype(np.int64), dtype)
    table.flags.writeable = False
    return table


# ---- by definition: one entry for each integer ---------------------------------------------------------------
_NEAR_HALF = 1e-6       # distance from a half, in steps; far more than the error of float64


@lru_cache(maxsize=32)
@np.errstate(all="ignore")
def defined16(f, x_dtype, x_scale, x_zero_point, y_scale, y_zero_point, rational=False):
    """DEF16: f of each integer of x's type on real numbers, rounded once to int16.  Section 2.

    x_dtype: "int16", entries from -32768 on, or an 8-bit type, entries in the order of bytes; rational: f takes an
    array of Fractions, too, which decide where float64 is close to a half.
    """
    x = (np.arange(-32768, 32768) if x_dtype == "int16" else bytes_of(x_dtype)) - int(x_zero_point)
    low, high = (limit - int(y_zero_point) for limit in LIMITS["int16"])
    steps = np.clip(f(x * f64(x_scale)) / f64(y_scale), low - 1, high + 1)
    whole = round_away(steps)
    if rational:
        from fractions import Fraction  # takes 2 ms to import; few models need it
        near = np.flatnonzero(np.abs(np.abs(steps - np.trunc(steps)) - 0.5) < _NEAR_HALF)
        exact = f(x[near].astype(object) * Fraction(float(x_scale))) / Fraction(float(y_scale))
        whole[near] = [math.floor(abs(v) + Fraction(1, 2)) * (1 if v > 0 else -1) for v in exact]
    table = (np.clip(whole, low, high) + int(y_zero_point)).astype(np.int16)
    table.flags.writeable = False
    return table


# ---- 16-bit: 512 segments ------------------------------------------------------------------------------------
@lru_cache(maxsize=64)
@np.errstate(all="ignore")
def lut16(f, x_scale, x_zero_point, y_scale, y_zero_point, width=f32):
    """LUT16: 513 int16 entries of the real function f, biased for interpolation.  Section 2.

    width: np.float32, or np.float64 for the tables of SOFTMAX.
    """
    x_scale, y_scale = width(x_scale), width(y_scale)
    x_min, x_max = (x_scale * width(q - x_zero_point) for q in (-32768, 32767))
    y_min, y_max = (y_scale * width(q - y_zero_point) for q in (-32768, 32767))
    step = (x_max - x_min) / width(512)
    gain = width(65536) / (y_max - y_min)
    i = np.arange(512).astype(width)
    x = x_min + i * step
    value = f(x) * gain
    middle = f(x + step / width(2)) * gain
    following = f(x_min + (i + width(1)) * step) * gain
    sample = round_away(value)
    interpolated = round_away((following + sample) / width(2))
    bias = round_away((interpolated - round_away(middle)) / width(2))
    table = np.empty(513, np.int16)
    table[:512] = np.nan_to_num(np.clip(sample - bias, -32768, 32767))
    table[512] = np.nan_to_num(np.clip(round_away(f(np.array([x_max])) * gain)[0], -32768, 32767))
    table.flags.writeable = False
    return table


@cache
def softmax16_tables():
    """int16 SOFTMAX: the tables of exp(x) on [-10, 0] and 1 / (1 + x) on [0, 1].  Section 7."""
    exponential = lut16(np.exp, 10.0 / 65535, 32767, 2.0 / 65535, 0, f64)
    reciprocal = lut16(lambda x: 1.0 / (1.0 + x), 1.0 / 65535, -32768, 2.0 / 65535, 0, f64)
    return exponential, reciprocal


# T[i], near 65536 / (1 + exp(-i / 24)) but biased for interpolation, so that no rounding rule gives it.
_SIGMOID16 = (
    32768, 33451, 34133, 34813, 35493, 36169, 36843, 37513, 38180, 38841, 39498, 40149, 40794, 41432, 42064, 42688,
    43304, 43912, 44511, 45102, 45683, 46255, 46817, 47369, 47911, 48443, 48964, 49475, 49975, 50464, 50942, 51409,
    51865, 52311, 52745, 53169, 53581, 53983, 54374, 54755, 55125, 55485, 55834, 56174, 56503, 56823, 57133, 57433,
    57724, 58007, 58280, 58544, 58800, 59048, 59288, 59519, 59743, 59959, 60168, 60370, 60565, 60753, 60935, 61110,
    61279, 61441, 61599, 61750, 61896, 62036, 62172, 62302, 62428, 62549, 62666, 62778, 62886, 62990, 63090, 63186,
    63279, 63368, 63454, 63536, 63615, 63691, 63765, 63835, 63903, 63968, 64030, 64090, 64148, 64204, 64257, 64308,
    64357, 64405, 64450, 64494, 64536, 64576, 64614, 64652, 64687, 64721, 64754, 64786, 64816, 64845, 64873, 64900,
    64926, 64950, 64974, 64997, 65019, 65039, 65060, 65079, 65097, 65115, 65132, 65149, 65164, 65179, 65194, 65208,
    65221, 65234, 65246, 65258, 65269, 65280, 65291, 65301, 65310, 65319, 65328, 65337, 65345, 65352, 65360, 65367,
    65374, 65381, 65387, 65393, 65399, 65404, 65410, 65415, 65420, 65425, 65429, 65433, 65438, 65442, 65445, 65449,
    65453, 65456, 65459, 65462, 65465, 65468, 65471, 65474, 65476, 65479, 65481, 65483, 65485, 65488, 65489, 65491,
    65493, 65495, 65497, 65498, 65500, 65501, 65503, 65504, 65505, 65507, 65508, 65509, 65510, 65511, 65512, 65513,
    65514, 65515, 65516, 65517, 65517, 65518, 65519, 65520, 65520, 65521, 65522, 65522, 65523, 65523, 65524, 65524,
    65525, 65525, 65526, 65526, 65526, 65527, 65527, 65528, 65528, 65528, 65529, 65529, 65529, 65529, 65530, 65530,
    65530, 65530, 65531, 65531, 65531, 65531, 65531, 65532, 65532, 65532, 65532, 65532, 65532, 65533, 65533, 65533,
    65533, 65533, 65533, 65533, 65533, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65534, 65535)


@cache
def sigmoid16_table():
    """int16 LOGISTIC and TANH: the table T of section 6.  int32, (256,)."""
    return np.array(_SIGMOID16, np.int32)
