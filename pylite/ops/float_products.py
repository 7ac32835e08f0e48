"""The kernels of products of float32 images and weights, other than Winograd's."""
import math

from pylite.ir.values import Call, Deferred, Packed, Scratch
from pylite.ops.convolution_window import Window

_LEAST_HALVES = 1 << 18     # bytes of float32 weights; fewer are packed as float32, even if the file stores float16


def float_product(images, out, w, window, bias, limits):
    """The Call for `images` of float32 and constant weights w of float32; images, out: Views of 4 dimensions."""
    named = {"filter": window.filter, "limits": limits, "strided": (0, 1)}
    if window.groups > 1 or not stores_halves(w):
        packed = Packed("packing.pack_f32", w, window.groups, window.layout)
        return Call("conv_float.ConvF32", images, out, packed, bias, groups=window.groups, **named)
    if not _is_single_row(images, out, window):
        from pylite._core.kernels.half_weights import scratch_size  # few models need it
        size = scratch_size(out.shape[3], window.fh * window.fw * images.shape[3])
        named["scratch"] = Scratch((size,), "float32")
    packed = Packed("packing.pack_halves", w, 1, window.layout)
    return Call("half_weights.ConvHalfWeights", images, out, packed, bias, **named)


def stores_halves(w):
    """Are weights w float16 in the file, and many?  Then they remain so in memory."""
    return type(w.data) is Deferred and w.nbytes >= _LEAST_HALVES and w.data.halves is not None


def _is_single_row(images, out, window):
    """Is there one pixel, which the filter covers?"""
    return window.filter == Window(1, 1).filter and images.shape[:3] == out.shape[:3] and math.prod(out.shape[:3]) == 1
