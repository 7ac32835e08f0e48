"""erfc, expm1, tanh, exp and log of float32 arrays, to the bit as in glibc 2.36.

The reference calls the C library, whose erfcf and tanhf are off by up to a unit in the last place.  That shows in
tables of 16 bits, so they are computed here by the same steps: Sun's algorithms in float32, and for exp and log Arm's,
a polynomial and a table in float64.
"""
import numpy as np

f32, f64 = np.float32, np.float64


def _polynomial(x, *coefficients):
    """The polynomial, constant first, by Horner's rule in float32."""
    result = f32(coefficients[-1])
    for c in coefficients[-2::-1]:
        result = f32(c) + x * result
    return result


# ---- exp and log ---------------------------------------------------------------------------------------------
def exp(x):
    """2^(k / 32) from a table times a cubic polynomial, in float64."""
    x = x.astype(f32)
    scaled = np.clip(x.astype(f64), -200, 200) * float.fromhex("0x1.71547652b82fep+5")
    whole = np.rint(scaled)
    r = scaled - whole
    r2 = r * r
    y = (float.fromhex("0x1.c6af84b912394p-20") * r + float.fromhex("0x1.ebfce50fac4f3p-13")) * r2 \
        + (float.fromhex("0x1.62e42ff0c52d6p-6") * r + 1)
    return np.where(np.isnan(x), x, (y * np.exp2(whole / 32)).astype(f32))


_LOG = """0x1.661ec79f8f3bep+0 -0x1.57bf7808caadep-2 0x1.571ed4aaf883dp+0 -0x1.2bef0a7c06ddbp-2
0x1.49539f0f010bp+0 -0x1.01eae7f513a67p-2 0x1.3c995b0b80385p+0 -0x1.b31d8a68224e9p-3
0x1.30d190c8864a5p+0 -0x1.6574f0ac07758p-3 0x1.25e227b0b8eap+0 -0x1.1aa2bc79c81p-3
0x1.1bb4a4a1a343fp+0 -0x1.a4e76ce8c0e5ep-4 0x1.12358f08ae5bap+0 -0x1.1973c5a611cccp-4
0x1.0953f419900a7p+0 -0x1.252f438e10c1ep-5 0x1p+0 0x0p+0
0x1.e608cfd9a47acp-1 0x1.aa5aa5df25984p-5 0x1.ca4b31f026aap-1 0x1.c5e53aa362eb4p-4
0x1.b2036576afce6p-1 0x1.526e57720db08p-3 0x1.9c2d163a1aa2dp-1 0x1.bc2860d22477p-3
0x1.886e6037841edp-1 0x1.1058bc8a07ee1p-2 0x1.767dcf5534862p-1 0x1.4043057b6ee09p-2"""


def log(x):
    """Of normal numbers above 0: the logarithm of a table's value near x, and a cubic polynomial for the rest."""
    inverse, logarithm = np.array([float.fromhex(v) for v in _LOG.split()]).reshape(16, 2).T
    bits = x.astype(f32).view(np.int32)
    above = bits - np.int32(0x3F330000)
    i = (above >> 19) % 16
    z = (bits - (above & np.int32(-0x800000))).view(f32).astype(f64)
    r = z * inverse[i] - 1
    r2 = r * r
    y = (float.fromhex("-0x1.00ea348b88334p-2") * r2
         + (float.fromhex("0x1.5575b0be00b6ap-2") * r + float.fromhex("-0x1.ffffef20a4123p-2")))
    return (y * r2 + (logarithm[i] + (above >> 23) * float.fromhex("0x1.62e42fefa39efp-1") + r)).astype(f32)


# ---- expm1 and tanh ------------------------------------------------------------------------------------------
def expm1(x):
    """Of numbers up to 87: exp(x) - 1 = 2^k (exp(r) - 1) + 2^k - 1."""
    x = np.maximum(x.astype(f32), f32(-50))
    size = np.abs(x)
    near = (size > f32(0.34657359)) & (size < f32(1.0397207))
    sign = np.where(x < 0, f32(-1), f32(1))
    k = np.where(near, sign, np.trunc(f32(1.442695) * x + f32(0.5) * sign)).astype(f32)
    k[size <= f32(0.34657359)] = 0
    high, low = x - k * f32(6.9313812256e-01), k * f32(9.0580006145e-06)
    r = high - low
    c = (high - r) - low
    half = f32(0.5) * r
    square = r * half
    r1 = _polynomial(square, 1, -3.3333335072e-02, 1.5873016091e-03, -7.9365076090e-05, 4.0082177293e-06,
                     -2.0109921195e-07)
    t = f32(3) - r1 * half
    e = square * ((r1 - t) / (f32(6) - r * t))
    small = r - (r * e - square)
    e = (r * (e - c) - c) - square
    scale, back = (np.ldexp(f32(1), power.astype(np.int32)) for power in (k, -k))
    result = np.where(k < 23, (f32(1) - back) - (e - r), (r - (e + back)) + f32(1)) * scale
    result = np.where((k <= -2) | (k > 56), (f32(1) - (e - r)) * scale - f32(1), result)
    result = np.where(k == 1, np.where(r < f32(-0.25), f32(-2) * (e - (r + f32(0.5))), f32(1) + f32(2) * (r - e)),
                      result)
    result = np.where(k == -1, f32(0.5) * (r - e) - f32(0.5), result)
    return np.where(size < f32(2.0**-25), x, np.where(k == 0, small, result)).astype(f32)


def tanh(x):
    x = x.astype(f32)
    size = np.minimum(np.abs(x), f32(22))
    large = size >= 1
    t = expm1(np.where(large, f32(2), f32(-2)) * size)
    z = np.where(large, f32(1) - f32(2) / (t + f32(2)), -t / (t + f32(2)))
    return np.where(np.isnan(x), x, np.copysign(z, x)).astype(f32)


# ---- erfc ----------------------------------------------------------------------------------------------------
def erfc(x):
    """Rational functions on five intervals; from 1.25 on times exp(-x^2)."""
    x = x.astype(f32)
    size = np.abs(x)
    z = size * size
    inner = _polynomial(z, 1.2837916613e-01, -3.2504209876e-01, -2.8481749818e-02, -5.7702702470e-03,
                        -2.3763017452e-05) \
        / _polynomial(z, 1, 3.9791721106e-01, 6.5022252500e-02, 5.0813062117e-03, 1.3249473704e-04, -3.9602282413e-06)
    inner = np.where(x < f32(0.25), f32(1) - (x + x * inner), f32(0.5) - (x * inner + (x - f32(0.5))))
    s = size - f32(1)
    middle = _polynomial(s, -2.3621185683e-03, 4.1485610604e-01, -3.7220788002e-01, 3.1834661961e-01,
                         -1.1089469492e-01, 3.5478305072e-02, -2.1663755178e-03) \
        / _polynomial(s, 1, 1.0642088205e-01, 5.4039794207e-01, 7.1828655899e-02, 1.2617121637e-01, 1.3637083583e-02,
                      1.1984500103e-02)
    one = f32(8.4506291151e-01)
    middle = np.where(x >= 0, (f32(1) - one) - middle, f32(1) + (one + middle))
    away = np.maximum(size, f32(1.25))
    s = f32(1) / (away * away)
    r = np.where(size < f32(2.857143),
                 _polynomial(s, -9.8649440333e-03, -6.9385856390e-01, -1.0558626175e+01, -6.2375331879e+01,
                             -1.6239666748e+02, -1.8460508728e+02, -8.1287437439e+01, -9.8143291473e+00)
                 / _polynomial(s, 1, 1.9651271820e+01, 1.3765776062e+02, 4.3456588745e+02, 6.4538726807e+02,
                               4.2900814819e+02, 1.0863500214e+02, 6.5702495575e+00, -6.0424413532e-02),
                 _polynomial(s, -9.8649431020e-03, -7.9928326607e-01, -1.7757955551e+01, -1.6063638306e+02,
                             -6.3756646729e+02, -1.0250950928e+03, -4.8351919556e+02)
                 / _polynomial(s, 1, 3.0338060379e+01, 3.2579251099e+02, 1.5367296143e+03, 3.1998581543e+03,
                               2.5530502930e+03, 4.7452853394e+02, -2.2440952301e+01))
    head = (away.view(np.uint32) & np.uint32(0xFFFFE000)).view(f32)
    r = exp(-head * head - f32(0.5625)) * exp((head - away) * (head + away) + r) / away
    outer = np.where(x > 0, np.where(size < 28, r, f32(0)), np.where(x < -6, f32(2), f32(2) - r))
    result = np.where(size < f32(0.84375), inner, np.where(size < f32(1.25), middle, outer))
    return np.where(size < f32(2.0**-26), f32(1) - x, result).astype(f32)
