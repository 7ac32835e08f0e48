"""FULLY_CONNECTED: a matrix product with weights (columns, depth).  docs/numerics.md sections 3 and 4."""
from math import prod
from struct import pack

import numpy as np

from pylite._core.product.layouts import Matrices
from pylite.ir.registry import register
from pylite.ir.values import Call, Packed, Scratch, Temporary
from pylite.numerics import quantization
from pylite.ops import products
from pylite.ops.block_products import block_product, has_few_bits
from pylite.ops.convolution_window import Window
from pylite.ops.moves import filled


def infer_fully_connected(node):
    x, w = node.inputs[:2]
    if len(w.shape) != 2:
        raise node.error("the weights must have 2 dimensions", w)
    columns, depth = w.shape
    if x.size % depth if depth else x.shape[-1:] != (0,):
        raise node.error(f"its {x.size} elements do not fill rows of {depth}", x)
    if node.options.keep_num_dims:
        if not x.shape or x.shape[-1] != depth:
            raise node.error(f"its last dimension must be {depth}", x)
        shape = (*x.shape[:-1], columns)
    else:
        shape = (_rows(x, depth), columns)
    return [shape] + [out.shape for out in node.outputs[1:]]


def _rows(x, depth):
    """Rows of `depth` elements that x consists of."""
    return x.size // depth if depth else prod(x.shape[:-1])


def lower_fully_connected(node):
    x, w = node.inputs[:2]
    y, b = node.outputs[0], node.input(2)
    columns, depth = w.shape
    rows = _rows(x, depth)
    if depth == 0:      # the reference computes nothing, and leaves the zeros of new memory
        return filled(y, 0)
    if b is not None and b.size != columns:
        raise node.error(f"has {b.size} elements for {columns} output columns", b)
    if node.options.weights_format != "DEFAULT":
        return _lower_shuffled(node, x, w, b, y, rows)
    if len(node.outputs) > 1:
        raise node.error("is an output for shuffled inputs, which only shuffled weights need; leave it out",
                         node.outputs[1])
    if x.dtype == "float32":
        return _activated(node, w, y, _lower_float(node, x, w, b, y, rows))
    if w.block_size:
        raise node.error(f"has a scale for each block of {w.block_size}, which an input of {x.dtype} cannot be "
                         "multiplied by", w)
    products.require_scales(node, x, w, y)
    products.check_scales(node, w, columns, 0)
    if len(w.scales) == 1:
        products.check_bias_scale(node, x, w, b, y)
    return (_lower_int16 if x.dtype == "int16" else _lower_int8)(node, x, w, b, y, rows)


def _packed_size(columns, depth):
    """Elements of the largest panels that any ISA level packs weights (columns, depth) to."""
    return products.padded(columns) * products.padded(depth)


# ---- float32 inputs ------------------------------------------------------------------------------------------
def _lower_float(node, x, w, b, y, rows):
    columns, depth = w.shape
    bias = products.contents(node, b, "bias")
    if w.dtype == "float32" and w.data is None:
        return Call("conv_float.ConvF32", x.view((rows, 1, 1, depth)), y.view((rows, 1, 1, columns)), None, bias,
                    filter=Window(1, 1).filter, limits=products.float_range(node), weights=w,
                    scratch=Scratch((_packed_size(columns, depth),), "float32"))
    if w.block_size or has_few_bits(w):
        return block_product(node, x.view((rows, depth)), w, bias, y.view((rows, columns)))
    return products.rows_of_floats(node, x, w, bias, y, products.float_range(node),
                                   asymmetric=node.options.asymmetric_quantize_inputs)


def _activated(node, w, y, call):
    """The call, and one that applies an activation other than a clamp, which only weights of few bits may have."""
    activation = node.options.fused_activation_function
    if activation not in ("TANH", "SIGN_BIT"):
        return call
    if w.dtype == "float32":
        raise node.error(f"cannot have the fused activation {activation}, only NONE or one of the RELU family; convert "
                         "the model with an operator for it", y)
    if activation == "TANH":
        return [call, Call("elementwise.Unary", "tanh_f32", y.size, y.bytes, y.bytes)]
    zero = Temporary(node, (), "float32")
    zero.data = np.zeros((), np.float32)
    return [call, Call("elementwise.Binary", "wide_binary", (y.size,), y.bytes, zero.bytes, y.bytes, a_strides=(1,),
                       b_strides=(0,), p=b"less float32 float32")]


# ---- 8-bit inputs --------------------------------------------------------------------------------------------
def _lower_int8(node, x, w, b, y, rows):
    """int8 and uint8, which kernels take as bytes and flip to int8."""
    columns, depth = w.shape
    low, high = products.integer_range(node, y)
    per_channel = len(w.scales) > 1
    if w.dtype == "uint8" and per_channel:
        raise node.error("uint8 weights must have one scale", w)
    scales = products.per_channel(quantization.product_scales(x.scale, w.scales, y.scale), columns)
    packed, unpacked = Packed("packing.pack_weights", w), {}
    if w.data is None:                      # weights that are packed at each run
        packed, unpacked = None, {"weights": w.view(dtype="uint8"), "sums": Scratch((columns,), "int32"),
                                  "panels": Scratch((_packed_size(columns, depth),), "uint8")}
    return Call("conv.ConvQ8", x.view((rows, 1, 1, depth), dtype="uint8"),
                y.view((rows, 1, 1, columns), dtype=None if y.dtype == "int16" else "uint8"), packed,
                filter=Window(1, 1).filter, quantization=products.quantization_q8(x, w, not per_channel),
                finish=products.finish_q8(y, low, high), scales=scales, bias=products.contents(node, b, "bias"),
                **unpacked)


def _lower_shuffled(node, x, w, b, y, rows):
    """uint8 weights in blocks of 4 rows and 16 columns, stored as int8; all zero points count as 128."""
    columns, depth = w.shape
    if node.options.weights_format != "SHUFFLED4x16INT8" or (x.dtype, w.dtype, y.dtype) != ("uint8", "uint8", "int16"):
        raise node.error(f"has the weights' format {node.options.weights_format} for the types {x.dtype}, {w.dtype} "
                         f"and {y.dtype}; SHUFFLED4x16INT8 takes uint8, uint8 and gives int16. Convert the model "
                         "without shuffled weights", w)
    if columns % 4 or depth % 16:
        raise node.error("shuffled weights must have a multiple of 4 rows and of 16 columns", w)
    products.require_scales(node, x, w, y)
    products.check_bias_scale(node, x, w, b, y)
    bias = products.contents(node, b, "bias")
    blocks = products.contents(node, w, "weights").view(np.int8).reshape(columns // 4, depth // 16, 4, 16)
    plain, signed, sums = (Temporary(node, shape, dtype, i) for i, (shape, dtype) in enumerate((
        (w.shape, "int8"), (x.shape, "int8"), ((rows, columns), "int32"))))
    plain.data = np.ascontiguousarray(blocks.swapaxes(1, 2)).reshape(w.shape)
    flipped = (np.arange(256) ^ 0x80).astype(np.uint8)
    m, e = quantization.per_tensor_multiplier(x.scale, w.scale, y.scale)
    low, high = products.integer_range(node, y)
    calls = [Call("elementwise.Unary", "lut8", x.size, x.bytes, signed.bytes, flipped),
             Call("batch_matmul.BatchMatmul", "int32", signed.bytes, sums.bytes,
                  packed=Packed("packing.pack_weights", plain, 1, Matrices(False)), which=np.zeros((3, 1), np.int64),
                  sizes=(rows, columns, depth)),
             Call("elementwise.Unary", "rescale_i32_i16", y.size, sums.bytes, y.bytes,
                  pack("6i", 0, m, e, 0, low, high))]
    if bias is not None:
        limits = pack("2i", *quantization.LIMITS["int32"])
        calls.insert(2, Call("elementwise.Binary", "add_i32", (rows, columns), sums.bytes, bias.view(np.uint8),
                             sums.bytes, a_strides=(columns, 1), b_strides=(0, 1), p=limits))
    return calls


# ---- int16 inputs --------------------------------------------------------------------------------------------
def _lower_int16(node, x, w, b, y, rows):
    columns, depth = w.shape
    low, high = products.integer_range(node, y)
    products.require_symmetric(node, x, y)
    products.require_symmetric_weights(node, w)
    products.contents(node, w, "weights")
    bias = products.contents(node, b, "bias")
    if w.dtype == "int16":
        rule = "MBQM64"
        factors = products.multipliers(x, w, y, columns)
    else:
        rule = "FLOAT64_OF_32" if products.bias_is_int32(node, b) else "FLOAT64"
        factors = products.per_channel(quantization.product_scales(x.scale, w.scales, y.scale), columns)
    return Call("conv16.Conv16", x.view((rows, 1, 1, depth)), y.view((rows, 1, 1, columns)),
                Packed("conv16.pack_s16", w), wide=w.dtype == "int16", filter=Window(1, 1).filter,
                finish=products.finish_s16(rule, bias, factors, low, high))


def reference_fully_connected(x, w, b, o):
    """FULLY_CONNECTED of real numbers."""
    y = x.reshape(-1, w.shape[1]) @ w.T + (0 if b is None else b)
    return y.reshape(*x.shape[:-1], w.shape[0]) if o.keep_num_dims else y


register("FULLY_CONNECTED", versions=(1, 14), blockwise=True, fuses_activation=True, opaque=(1, 2), packs=1,
         infer=infer_fully_connected, lower=lower_fully_connected, reference=reference_fully_connected,
         types=["float32 float32 float32? -> float32",
                "float32 int8|uint8|int4|int2 float32? -> float32",
                "uint8 uint8 int32? -> uint8|int16",
                "uint8 uint8 int32? -> int16 uint8",
                "int8 int8|int4|int2 int32? -> int8",
                "int16 int8|int4|int2 int32|int64? -> int16",
                "int16 int16 int32|int64? -> int16"])
