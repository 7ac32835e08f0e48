"""NumericVerify, a custom op that TensorFlow Lite has built in: the error of a quantized tensor."""
from struct import pack

from pylite.ir.registry import register
from pylite.ir.values import Call
from pylite.ops.custom_options import decoded, number_option
from pylite.ops.elementwise import UNBOUNDED, infer_same, require_quantized, row_function


def lower_verify(node):
    """The first input, dequantized, minus the second; with log_if_failed, exceeding the tolerance is an error."""
    x, expected, y = node.inputs[0], node.inputs[1], node.outputs[0]
    if x.shape != expected.shape:
        raise node.error(f"of shape {list(expected.shape)} should have the shape {list(x.shape)}", expected)
    kernel, p = "half_to_float", b""
    if x.dtype != "float16":
        require_quantized(node, x)
        kernel = {"int8": "dequantize_i8", "uint8": "dequantize_u8", "int16": "dequantize_i16"}[x.dtype]
        p = pack("fi", x.scale, x.zero_point)
    calls = [Call("elementwise.Unary", kernel, x.size, x.bytes, y.bytes, p),
             Call("elementwise.Binary", "sub_f32", (y.size,), y.bytes, expected.bytes, y.bytes, a_strides=(1,),
                  b_strides=(1,), p=UNBOUNDED)]
    options = decoded(node)
    if options.get("log_if_failed"):
        calls.append(row_function("require_within", y.size, 0, (), y,
                                  reals=(number_option(node, options, "tolerance") * float(x.scale),)))
    return calls


register("NumericVerify", types=["int8|uint8|int16|float16 float32 -> float32"],
         infer=infer_same, lower=lower_verify)
