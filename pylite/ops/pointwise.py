"""Element-wise ops that are neither plain arithmetic nor activations: rounding, powers, bits, STABLEHLO's forms, ..."""
from functools import cache
from struct import pack

import numpy as np

from pylite.ir.registry import register, same
from pylite.ir.values import Call
from pylite.numerics.lookup_tables import log_above
from pylite.numerics.quantization import activation_bounds, f32, round_away
from pylite.ops.activation import ONE_SCALE, SYMMETRIC16, defined, real_function
from pylite.ops.elementwise import binary, infer_broadcast, infer_same, unary
from pylite.ops.moves import require_present
from pylite.ops.wide import combining, wide_binary, wide_unary

_SUFFIX = {"float32": "f32", "int32": "i32"}
_DIVISIONS = ("floor_div_f32", "floor_div_i32", "floor_mod_i32")       # rows of their own
_MIN = {"int8": -128, "int16": -(2**15)}


def lower_unary(op, f=None):        # f: the op on real numbers, for int16, which the reference lacks
    def lower(node):
        if node.inputs[0].dtype == "int16":
            return defined(node, f, rational=f is np.square)
        if node.inputs[0].dtype == "float32" and op in ("sin", "cos"):
            return unary(node, "sin_f32", pack("i", op == "cos"))
        if node.inputs[0].dtype == "float32" or (op == "sign" and node.inputs[0].dtype == "int32"):
            return unary(node, f"{op}_{_SUFFIX[node.inputs[0].dtype]}")
        return wide_unary(node, op)
    return lower


def lower_log(node):
    y = node.outputs[0]
    if y.dtype not in _MIN:
        return lower_unary("log")(node)
    return real_function(node, "log", _log_above(f32(_MIN[y.dtype] - y.zero_point) * y.scale))


_log_above = cache(log_above)                   # one function for one minimum, as tables are kept by function


_REAL = "float32 float16 bfloat16"
for _name, _versions, _dtypes, _reference in (
        ("FLOOR", 1, _REAL + " float64", np.floor), ("CEIL", 1, _REAL, np.ceil), ("ROUND", 1, _REAL, np.rint),
        ("SQUARE", 1, _REAL + " int16", np.square), ("SIN", 2, _REAL + " float64 int16", np.sin),
        ("COS", 2, _REAL + " float64 int16", np.cos), ("SIGN", 2, _REAL + " float64 int32 int64", np.sign)):
    register(_name, versions=(1, _versions), types=same(_dtypes), infer=infer_same, reference=_reference,
             lower=lower_unary(_name.lower(), _reference), conditions=ONE_SCALE if "int16" in _dtypes else ())
register("LOG", versions=(1, 2), types=same("float32 float16 bfloat16 int8 int16"), infer=infer_same, lower=lower_log,
         reference=np.log, conditions=SYMMETRIC16[1:])


# ---- two operands ----------------------------------------------------------------------------------------------
def lower_binary(op, exchanged=False):
    """exchanged: return the first operand if one is NaN, as the reference does; the micro-kernel returns the second."""
    return lambda node: wide_binary(node, op, node.inputs[1::-1] if exchanged else None)


def _required(node, condition, value, problem):
    """Calls that check a condition of conditions.Require on input 1 at run time; a constant is checked here."""
    x = node.inputs[1]
    if x.data is None:
        return [Call("conditions.Require", condition, x.dtype, x.bytes, value)]
    if (x.data < value if condition == "at least" else x.data == value).any():
        raise node.error(problem, x)
    return []


def lower_floor(op):
    """FLOOR_DIV and FLOOR_MOD: rounded towards minus infinity; the remainder has the divisor's sign."""
    def lower(node):
        slot = f"{op}_{_SUFFIX.get(node.inputs[1].dtype)}"
        call = binary(node, slot) if slot in _DIVISIONS else wide_binary(node, op)
        if node.inputs[1].dtype == "float32":
            return call
        return [*_required(node, "differs", 0, "is the divisor, but holds a zero"), call]
    return lower


_POWERS = {2: "square_f32", 0.5: "sqrt_f32", -0.5: "rsqrt_f32"}


def lower_pow(node):
    a, b = node.inputs
    exponent = b.data.item() if b.data is not None and b.size == 1 else None
    if exponent == 3 or (exponent == 2 and b.dtype == "int32"):
        return _whole_power(node, a, exponent)
    if b.dtype == "int32":
        return [*_required(node, "at least", 0, "holds a negative exponent, which no power of integers has"),
                binary(node, "pow_modulo_i32" if b.size == 1 and a.shape != b.shape else "pow_i32")]
    if exponent in _POWERS:
        return unary(node, _POWERS[exponent])
    return binary(node, "pow_f32")


def _whole_power(node, a, exponent):
    """a times a, and so on."""
    kernel, p = combining("mul", a.dtype)
    calls = [binary(node, kernel, p, (x, a)) for x in (a, *[node.outputs[0]] * (int(exponent) - 2))]
    for call in calls:
        call.inplace = None                 # a is read twice
    return calls


_BITS = "int8 uint8 int16 uint16 int32 uint32"
register("FLOOR_DIV", versions=(1, 3), types=same("float32 int8 int16 int32 int64", 2), infer=infer_broadcast,
         lower=lower_floor("floor_div"), reference=np.floor_divide)
register("FLOOR_MOD", versions=(1, 2), types=same("float32 int8 int16 int32 int64", 2), infer=infer_broadcast,
         lower=lower_floor("floor_mod"), reference=np.mod)
register("POW", types=same("float32 int32", 2), infer=infer_broadcast, lower=lower_pow, reference=np.power)
register("ATAN2", types=same("float32 float64 float16 bfloat16", 2), infer=infer_broadcast,
         lower=lower_binary("atan2"), reference=np.arctan2)
register("BITWISE_XOR", types=same(_BITS, 2), infer=infer_broadcast, lower=lower_binary("xor"),
         reference=np.bitwise_xor)
register("RIGHT_SHIFT", types=same(_BITS, 2), infer=infer_broadcast, lower=lower_binary("shift_right"),
         reference=np.right_shift)


# ---- STABLEHLO: operands of one shape --------------------------------------------------------------------------
def infer_equal(node):
    a, b = node.inputs[:2]
    if a.shape != b.shape:
        raise node.error(f"has the shape {list(b.shape)}, the other operand {list(a.shape)}; they must be equal", b)
    return [a.shape]


_INTEGERS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64"
_ALL = _INTEGERS + " bool float32 float16 bfloat16 float64"
for _name, _op, _dtypes, _reference in (
        ("STABLEHLO_ADD", "add", _ALL, np.add), ("STABLEHLO_MULTIPLY", "mul", _ALL, np.multiply),
        ("STABLEHLO_MAXIMUM", "maximum", _ALL, np.maximum), ("STABLEHLO_MINIMUM", "minimum", _ALL, np.minimum),
        ("STABLEHLO_AND", "and", _INTEGERS + " bool", np.bitwise_and),
        ("STABLEHLO_SHIFT_LEFT", "shift_left", _INTEGERS, np.left_shift)):
    register(_name, types=same(_dtypes, 2), infer=infer_equal, reference=_reference,
             lower=lower_binary(_op, exchanged=_op in ("maximum", "minimum")))


# ---- ADD_N, FAKE_QUANT, BUCKETIZE ------------------------------------------------------------------------------
def infer_add_n(node):
    require_present(node, node.inputs)
    x = node.inputs[0]
    for value in node.inputs:
        if value.shape != x.shape:
            raise node.error(f"of shape {list(value.shape)} cannot be added to {list(x.shape)}", value)
    return [x.shape]


def lower_add_n(node):
    """The first two, then each of the others on top."""
    y, (x, *others) = node.outputs[0], node.inputs
    if not others:
        return Call("movement.Copy", x, y)
    slot, layout = ("add_f32", "2f") if y.dtype == "float32" else ("add_i32", "2i")
    p = pack(layout, *activation_bounds("NONE", y.dtype))       # as ADD: a sum that overflows is the largest float
    return [Call("elementwise.Binary", slot, (y.size,), left.bytes, other.bytes, y.bytes, a_strides=(1,),
                 b_strides=(1,), p=p) for left, other in zip([x] + [y] * (len(others) - 1), others, strict=True)]


def lower_fake_quant(node):
    """Rounds to the steps of an integer type, whose range is nudged so that 0 is one of them; all in float32."""
    o = node.options
    if not (2 <= o.num_bits <= 16 and o.min < o.max):
        raise node.error(f"cannot round to {o.num_bits} bits from {o.min} to {o.max}")
    low, high, steps = f32(o.min), f32(o.max), (1 << o.num_bits) - 1
    first = 1 if o.narrow_range else 0
    scale = (high - low) / f32(steps - first)
    zero = f32(first) - low / scale
    zero = f32(min(max(round_away(float(zero)), first), steps))
    return unary(node, "fake_quant", pack("4f", (f32(first) - zero) * scale, (f32(steps) - zero) * scale, scale,
                                          f32(1) / scale))


def lower_bucketize(node):
    """How many of the sorted boundaries, all float32, are not above x."""
    boundaries = np.asarray(node.options.boundaries if node.options.boundaries is not None else (), np.float32)
    dtype = node.inputs[0].dtype
    return unary(node, f"bucketize_{dtype[0]}{dtype[-2:]}", pack("i", len(boundaries)) + boundaries.tobytes())


register("ADD_N", types=[f"{t} {t}* -> {t}" for t in ("float32", "int32")], infer=infer_add_n, lower=lower_add_n,
         reference=lambda *x: sum(x[:-1]))
register("FAKE_QUANT", versions=(1, 2), types=same("float32"), infer=infer_same, lower=lower_fake_quant)
register("BUCKETIZE", types=["float32|float64|int32|int64 -> int32"], infer=infer_same, lower=lower_bucketize,
         reference=lambda x, options: np.digitize(x, options.boundaries))
