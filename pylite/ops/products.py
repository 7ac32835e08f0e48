"""Helpers of ops with weights: checks, multipliers, clamping, and the kernels of hybrid ops."""
import numpy as np

from pylite._core.product.layouts import SignedBytes
from pylite.ir.values import Call, Packed, Scratch, Temporary
from pylite.numerics import quantization
from pylite.ops.convolution_window import Window

PANEL_MULTIPLE = 16     # of columns and depth: a multiple of nv and ka of every ISA level's tiles, and of PL_SCALED


def padded(n):
    """n columns, or a depth of n, as the largest panels of any ISA level pad them."""
    return (n + PANEL_MULTIPLE - 1) // PANEL_MULTIPLE * PANEL_MULTIPLE


def check(node, x, w, b, y, channels, axis):
    """Refuse operands that the reference kernels refuse.  axis: of the weights' output channels."""
    if b is not None and b.size != channels:
        raise node.error(f"has {b.size} elements for {channels} output channels", b)
    if x.dtype == "float32":
        if w.dtype != "float32":
            check_scales(node, w, channels, axis)
        return
    require_scales(node, x, w, y)
    if not y.scale:
        raise node.error("has the scale 0, by which products would be divided", y)
    check_scales(node, w, channels, axis)
    if x.dtype == "int16":
        require_symmetric(node, x, y)
    if x.dtype == "uint8":
        check_bias_scale(node, x, w, b, y)
    else:
        require_symmetric_weights(node, w)


def require_scales(node, *values):
    """Refuse tensors without a scale."""
    for value in values:
        if not value.quantized:
            raise node.error("has no scale, which this op needs for its type; convert the model with one", value)


def require_symmetric(node, *values):
    """Refuse tensors with a zero point other than 0; of several, as weights may have, the first one counts."""
    for value in values:
        if value.zero_point:
            raise node.error(f"has the zero point {value.zero_point}; it must be 0: quantize symmetrically", value)


def require_symmetric_weights(node, w):
    """Refuse weights that have any zero point other than 0."""
    if w.zero_points.any():
        raise node.error(f"has the zero point {w.zero_points[w.zero_points != 0][0]}; only 0 is defined for "
                         f"weights of {w.dtype}, so quantize them symmetrically", w)


def check_scales(node, w, channels, axis):
    """Refuse weights with other than one scale, or one for each output channel along `axis`."""
    if len(w.scales) not in (1, channels):
        raise node.error(f"has {len(w.scales)} scales for {channels} output channels", w)
    if len(w.scales) > 1 and w.axis != axis:
        raise node.error(f"its scales run along axis {w.axis}; they must run along axis {axis}", w)


def check_bias_scale(node, x, w, b, y):
    """Refuse a bias whose scale is not the product of x's and w's, up to 2 % of y's."""
    if b is None or not b.quantized:
        return
    off = abs(float(x.scale) * float(w.scale) - float(b.scale))
    if off / float(y.scale) > 0.02:
        raise node.error(f"its scale is {b.scale}, but the product of the input's and the filter's is "
                         f"{float(x.scale) * float(w.scale)}", b)


def contents(node, value, what):
    """The array of an operand that must be constant, a bias as one row; None if it is absent."""
    if value is None:
        return None
    array = node.constant(node.inputs.index(value), what)
    return array.reshape(-1) if what == "bias" else array


def float_range(node):
    """(low, high) of a float32 output, which is not even clamped to finite numbers where the op fuses no activation."""
    activation = getattr(node.options, "fused_activation_function", None)
    return quantization.activation_bounds(activation) if activation else (-np.inf, np.inf)


def integer_range(node, y):
    """(low, high) of an integer output."""
    try:
        return quantization.activation_range(node.options.fused_activation_function, y.dtype, y.scale, y.zero_point)
    except ValueError as error:
        raise node.error(str(error), y) from None


def multipliers(x, w, y, channels=None):
    """(m, e), int32 (channels,), or (1,) where all share one and `channels` is None: docs/numerics.md section 3.

    Raises ValueError or ZeroDivisionError if y's scale is 0.
    """
    if x.dtype == "uint8" or (w.dtype == "int16" and len(w.scales) == 1):
        scales = np.array([quantization.product_scale(x.scale, w.scale, y.scale)])
    else:
        scales = quantization.product_scales(x.scale, w.scales, y.scale)
    m, e = quantization.quantize_multipliers(scales if channels is None else per_channel(scales, channels))
    return m, np.where((e > 31) & (x.dtype != "int16"), e & 31, e)      # as x86-64 and AArch64 count left shifts


def as_int8(value):
    """(flip, zero point): kernels take each byte XOR flip as int8, which has this zero point."""
    return (0x80, value.zero_point - 128) if value.dtype == "uint8" else (0, value.zero_point)


def quantization_q8(x, w, has_zero):
    """The `quantization` of conv.ConvQ8; has_zero: do the weights have a zero point?"""
    return as_int8(x) + (as_int8(w) if has_zero else (0, 0))


def finish_q8(y, low, high):
    """The `finish` of conv.ConvQ8 for results that are clamped to low..high."""
    flip, zero_point = as_int8(y)
    lift = y.zero_point - zero_point
    return zero_point, low - lift, high - lift, flip


def finish_s16(rule, bias, factors, low, high):
    """The `finish` of words.set_finish; bias: integers, or None."""
    return rule, None if bias is None else bias.astype(np.int64), factors, low, high


def bias_is_int32(node, b):
    """Are int16 products summed in 32 bits?  By the option, if the operator has it, or else the bias's type."""
    return getattr(node.options, "quantized_bias_type", None) == "int32" or (b is not None and b.dtype == "int32")


def varied(scales):
    """Do the scales differ from one another?"""
    return len(scales) > 1 and bool((scales != scales[0]).any())


def per_channel(scales, channels):
    """(channels,) scales; a single one is repeated."""
    return scales if len(scales) == channels else scales[:1].repeat(channels)


# ---- float32 inputs ------------------------------------------------------------------------------------------
def rows_of_floats(node, x, w, bias, y, limits, *, asymmetric):
    """The Call for the rows of x, float32, times constant weights w (columns, depth), of any type.

    It is a convolution of images of one pixel.  asymmetric: quantize x with a zero point for integer weights.
    """
    columns, depth = w.shape
    rows = x.size // depth if depth else y.size // max(columns, 1)
    window = Window(1, 1)
    images, out = x.view((rows, 1, 1, depth)), y.view((rows, 1, 1, columns))
    if w.dtype == "float32":
        from pylite.ops.float_products import float_product  # few models need it
        return float_product(images, out, w, window, bias, limits)
    contents(node, w, "weights")
    check_scales(node, w, columns, 0)
    layout = SignedBytes() if w.dtype == "uint8" else None
    return hybrid(node, images, out, Packed("packing.pack_weights", w, 1, layout), bias, window, asymmetric=asymmetric,
                  limits=limits)


def hybrid(node, images, out, packed, bias, window, *, asymmetric, column_first=False, limits=None):
    """The Call for `images` of float32, quantized to int8 first, and integer weights.

    images, out: Views of 4 dimensions; packed: a Packed, of the weights; window: a convolution_window.Window, which may
    share its scratch with others; asymmetric: quantize with a zero point; column_first: scale by a column's scale
    before the image's; limits: by default, of the fused activation.  docs/numerics.md section 4.
    """
    scratch = window.shared or [Scratch(shape, dtype) for shape, dtype in _scratch_of(images, max(window.fw, 1))]
    phase = window.shared and not window.transposed
    pixels = scratch[0].value.view(*window.x_view) if phase else None
    scales = per_channel(packed.value.scales, out.shape[3] // window.pixels)
    scales = np.tile(scales, window.pixels) if window.pixels > 1 else scales
    if window.transposed:
        padding = np.zeros(padded(out.shape[3]) - out.shape[3], np.float32)
        bias = np.zeros(out.shape[3], np.float32) if bias is None else bias
        scales = np.concatenate((scales, padding))
        bias = np.concatenate((bias, padding))
    q, row_scales, row_zeros, padding = scratch
    return Call("hybrid.ConvHybrid", images, out, packed, bias,
                q=q, row_scales=row_scales, row_zeros=row_zeros, padding=padding, first=window.first, scales=scales,
                filter=window.filter, groups=window.groups, asymmetric=asymmetric, column_first=column_first,
                limits=limits or float_range(node), pixels=pixels, strided=(1,))


def _scratch_of(images, taps):
    """(shape, dtype) of a hybrid kernel's scratch: quantized images, their scales and zero points, lines of padding."""
    n, c = images.shape[0], images.shape[3]
    return (images.shape, "uint8"), ((n,), "float32"), ((n,), "int32"), ((n, taps * c), "uint8")


def shared_scratch(node, x, fw):
    """The scratch that the phases of a transposed or dilated convolution share; the first one quantizes x to it."""
    return [Temporary(node, shape, dtype, i).view() for i, (shape, dtype) in enumerate(_scratch_of(x, fw))]
