"""Element-wise ops on types without micro-kernels of their own, computed as int64 or float64 (_core/simd/wide.c)."""
from struct import pack

from pylite.numerics.quantization import LIMITS
from pylite.ops.elementwise import binary, unary

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "bool", "float16", "bfloat16", "float32",
         "float64", "complex64", "uint64", "int4", "uint4", "int2")


def wide_unary(node, op):
    """y = op(x), x and y of any types in TYPES."""
    return unary(node, "wide_unary", f"{op} {node.inputs[0].dtype} {node.outputs[0].dtype}".encode())


def wide_binary(node, op, operands=None):
    """y = op(a, b), with broadcasting; a and b of one type.  A micro-kernel of that type is faster, if there is one."""
    x_dtype, y_dtype = node.inputs[0].dtype, node.outputs[0].dtype
    kernel, p = combining(op, x_dtype) if x_dtype == y_dtype else (
        "wide_binary", binary_parameters(op, x_dtype, y_dtype))
    return binary(node, kernel, p, operands)


_REALS = (float("-inf"), float("inf"))
_FAST = {"float32": ("f32", "2f", _REALS), "float16": ("f16", "2f", _REALS), "int16": ("i16", "2i", LIMITS["int16"]),
         "int32": ("i32", "2i", LIMITS["int32"]), "int64": ("i64", "2q", LIMITS["int64"])}


_ON_BOOLS = {"add": "or_bool", "maximum": "or_bool", "or": "or_bool", "mul": "and_bool", "minimum": "and_bool",
             "and": "and_bool"}


def combining(op, dtype):
    """(micro-kernel, parameters) that join two operands of one type to a third."""
    if dtype in _FAST and op in ("add", "mul", "maximum", "minimum"):
        suffix, layout, limits = _FAST[dtype]
        return f"{op}_{suffix}", pack(layout, *limits)
    if dtype == "bool" and op in _ON_BOOLS:
        return _ON_BOOLS[op], b"\0"
    if dtype in ("int8", "uint8") and op in ("maximum", "minimum"):
        return f"{op}_{dtype[0]}8", b"\0"
    if dtype in ("int8", "uint8") and op in ("add", "mul"):
        return f"{op}_i8", b"\0"
    return "wide_binary", binary_parameters(op, dtype, dtype)


def binary_parameters(op, x_dtype, y_dtype):
    """The parameters of the micro-kernel `wide_binary`."""
    if x_dtype == "uint64" and op in ("maximum", "minimum"):
        op += "_unsigned"
    return f"{op} {x_dtype} {y_dtype}".encode()


_REGIONS = {"ADD": "add", "MUL": "mul", "MULTIPLY": "mul", "MAXIMUM": "maximum", "MINIMUM": "minimum", "AND": "and",
            "OR": "or"}


def region_op(node, index):
    """The op that subgraph `index` applies to its two inputs, in STABLEHLO's reductions; None: it gives the second."""
    region = node.host.callee(index).subgraph if node.host is not None else None
    if region is not None and not region.operators and tuple(region.outputs) == tuple(region.inputs[1:2]):
        return None
    name = region.operators[0].name if region is not None and len(region.operators) == 1 else ""
    op = _REGIONS.get(name.removeprefix("STABLEHLO_").removeprefix("LOGICAL_"))
    if op is None:
        raise node.error(f"combines elements by subgraph {index}, which is not one sum, product, extreme, AND or OR")
    return op
