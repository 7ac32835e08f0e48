"""The kernels of products of float32 images and weights, other than Winograd's."""
from pylite.ir.values import Call, Deferred, Packed
from pylite.ops.convolution_window import Window

_LEAST_HALVES = 1 << 18     # bytes of float32 weights; fewer are packed as float32, even if the file stores float16


def float_product(images, out, w, window, bias, limits):
    """The Call for `images` of float32 and constant weights w of float32; images, out: Views of 4 dimensions."""
    named = {"filter": window.filter, "limits": limits}
    if stores_halves(w) and _sees_pixels(images, out, window):
        return Call("half_weights.HalfWeights", images, out, Packed("packing.pack_halves", w), bias, strided=(1,),
                    **named)
    packed = Packed("packing.pack_f32", w, window.groups, window.layout)
    return Call("conv_float.ConvF32", images, out, packed, bias, groups=window.groups, strided=(0, 1), **named)


def stores_halves(w):
    """Are weights w float16 in the file, and many?  Then they can remain so in memory."""
    return type(w.data) is Deferred and w.nbytes >= _LEAST_HALVES and w.data.halves is not None


def _sees_pixels(images, out, window):
    """Is each output pixel computed from one pixel, that at the same place?"""
    return (window.filter == Window(1, 1).filter and window.groups == 1 and window.layout is None
            and images.shape[:3] == out.shape[:3])
