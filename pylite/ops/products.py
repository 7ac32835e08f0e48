"""What convolutions and FULLY_CONNECTED share: checks, multipliers, clamping and the way of hybrid ops."""
import numpy as np

from pylite.ir.values import Call, Packed, Scratch, Temporary
from pylite.numerics import quantization


def check(node, x, w, b, y, channels, axis):
    """Refuse what the reference kernels refuse to prepare.  axis: of the weights' output channels."""
    if b is not None and b.size != channels:
        raise node.error(f"has {b.size} elements for {channels} output channels", b)
    if x.dtype == "float32":
        if w.dtype != "float32":
            check_scales(node, w, channels, axis)
        return
    for value in (x, w, y):
        if not value.quantized:
            raise node.error("has no scale, which an integer operator needs", value)
    if not y.scale:
        raise node.error("has the scale 0, by which products would be divided", y)
    check_scales(node, w, channels, axis)
    if x.dtype == "int16" and (x.zero_point or y.zero_point):
        raise node.error("zero points of int16 must be 0", x if x.zero_point else y)
    if x.dtype == "uint8":
        check_bias_scale(node, x, w, b, y)
    elif w.zero_points.any():
        raise node.error(f"zero points of {w.dtype} filters must be 0", w)


def check_scales(node, w, channels, axis):
    """The weights have one scale, or one for each output channel along `axis`."""
    if len(w.scales) not in (1, channels):
        raise node.error(f"has {len(w.scales)} scales for {channels} output channels", w)
    if len(w.scales) > 1 and w.axis != axis:
        raise node.error(f"its scales run along axis {w.axis}; they must run along axis {axis}", w)


def check_bias_scale(node, x, w, b, y):
    """The bias counts in units of x's scale times w's."""
    if b is None or not b.quantized:
        return
    off = abs(float(x.scale) * float(w.scale) - float(b.scale))
    if off / float(y.scale) > 0.02:
        raise node.error(f"its scale is {b.scale}, but the product of the input's and the filter's is "
                         f"{float(x.scale) * float(w.scale)}", b)


def contents(node, value, what):
    """The array of an operand that is packed, a bias as one row; None where it is absent."""
    if value is None:
        return None
    array = node.constant(node.inputs.index(value), what)
    return array.reshape(-1) if what == "bias" else array


def float_range(node):
    return quantization.activation_bounds(node.options.fused_activation_function)


def integer_range(node, y):
    try:
        return quantization.activation_range(node.options.fused_activation_function, y.dtype, y.scale, y.zero_point)
    except ValueError as error:
        raise node.error(str(error), y) from None


def multipliers(x, w, y, channels=None):
    """(m, e), int32 (channels,), or (1,) where all share one and `channels` is None: docs/numerics.md section 3.

    Raises ValueError or ZeroDivisionError where y's scale is 0.
    """
    if x.dtype == "uint8" or w.dtype == "int16":
        scales = np.array([quantization.product_scale(x.scale, w.scale, y.scale)])
    else:
        scales = quantization.product_scales(x.scale, w.scales, y.scale)
    if channels is not None:
        scales = per_channel(scales, channels)
    return quantization.quantize_multipliers(scales)


def signs(x):
    """(what is XORed to each byte, what is taken from zero points and limits) so that x's type becomes int8."""
    return (0x80, 128) if x.dtype == "uint8" else (0, 0)


def bias_is_int32(node, b):
    """Are int16 products summed in 32 bits?  What the option says decides, where the operator has it."""
    return getattr(node.options, "quantized_bias_type", None) == "int32" or (b is not None and b.dtype == "int32")


def wide(bias):
    """A bias as int64."""
    return None if bias is None else bias.astype(np.int64)


def varied(scales):
    return len(scales) > 1 and bool((scales != scales[0]).any())


def per_channel(scales, channels):
    """One scale for each channel."""
    return scales if len(scales) == channels else scales[:1].repeat(channels)


def hybrid(x, y, packed, w, channels, bias, window, asymmetric, low, high, column_first=False, shared=None,
           first=True):
    """Float images x times integer weights into y (Views of 4 dimensions); shared: see shared_room."""
    room = shared or window.room or [Scratch(shape, dtype) for shape, dtype in _room(x, max(window.fw, 1))]
    seen = room[0].value.view(*window.views[0]) if window.room else None
    scales = per_channel(w.scales, channels)
    if shared:
        channels *= window.out
        padding, scales = np.zeros(-channels % 16, np.float32), np.tile(scales, window.out)
        bias = np.zeros(channels, np.float32) if bias is None else bias
        scales, bias = np.concatenate((scales, padding)), np.concatenate((bias, padding))
    return Call("hybrid.TransposeHybrid" if shared else "hybrid.ConvHybrid", x, y, *room, first, packed, scales, bias,
                window.filter, window.groups, asymmetric, column_first, low, high, seen, strided=(1,))


def _room(x, taps):
    """(shape, dtype) of a hybrid kernel's scratch: quantized images, their scales and zero points, a line of each."""
    n, c = x.shape[0], x.shape[3]
    return (x.shape, "uint8"), ((n,), "float32"), ((n,), "int32"), ((n, taps * c), "uint8")


def shared_room(node, x, fw):
    """The scratch that the phases of a transposed or dilated convolution share, for the first one to fill."""
    return [Temporary(node, shape, dtype, i).view() for i, (shape, dtype) in enumerate(_room(x, fw))]


def hybrid_depthwise(x, y, w, bias, window, low, high):
    """Float images convolved with integer weights, channel by channel."""
    return Call("hybrid.DepthwiseHybrid", x, y, Scratch(x.shape, "float32"), Scratch((x.shape[0],), "float32"),
                Packed("hybrid.pack_depthwise_hybrid", w), per_channel(w.scales, x.shape[3]), bias, window.filter, low,
                high)
