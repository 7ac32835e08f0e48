"""The kernels of convolutions: one Call for each Window, by the types of its operands.  docs/numerics.md section 4."""
import numpy as np

from pylite._core.graph.dimensions import computed
from pylite._core.product import layouts
from pylite.ir.values import Call, Packed, Scratch
from pylite.ops import products
from pylite.ops.convolution_window import column_as_line, dilation_phases, has_phases, lines_as_pixels, spread_taps

_SINGLE_PIXELS = layouts.Depthwise, layouts.MergedGroups, layouts.SpreadTaps     # filters of one output pixel
_FEW_CHANNELS = 128         # whose filters of float32 are transformed when packed, see winograd.pyx; those of more
_FEW_TILES = 8              # channels are transformed at run time, which pays with so many tiles


def lower_images(node, operands, window):
    """The Calls of a convolution with any strides and dilations."""
    window = spread_taps(operands, lines_as_pixels(operands, window))
    if not has_phases(operands, window):
        return [lower_window(node, operands, window)]
    x = operands.x
    shared = products.shared_scratch(node, x, window.fw) if x.dtype == "float32" else None
    return [lower_window(node, operands, phase) for phase in dilation_phases(operands, window, shared)]


def lower_window(node, operands, window):
    """The Call for one Window."""
    x, w = operands.x, operands.w
    images, out = x.view(*window.x_view), operands.y.view(*window.y_view)
    bias = products.contents(node, operands.b, "bias")
    if bias is not None and window.pixels > 1:
        bias = np.tile(bias, window.pixels)
    if x.dtype == "float32":
        lower = _float if w.dtype == "float32" else _hybrid
    else:
        lower = _int16 if x.dtype == "int16" else _int8
    return lower(node, operands, window, images, out, bias)


# ---- float32 -------------------------------------------------------------------------------------------------
def _float(node, operands, window, images, out, bias):
    from pylite.ops import float_products  # models with 8-bit weights do not need it
    limits = products.float_range(node)
    if not _winograd_pays(images, out, window):
        return float_products.float_product(images, out, operands.w, window, bias, limits)
    named = {"filter": window.filter, "limits": limits, "strided": (0, 1)}
    if images.shape[3] <= _FEW_CHANNELS:
        return Call("winograd.WinogradF32", images, out,
                    Packed("packing.pack_f32", operands.w, 16, layouts.WinogradFloat()), bias, **named)
    from pylite._core.kernels.winograd import scratch_size  # few models need it
    size = scratch_size(images.shape[3], out.shape[3], _tiles(out))
    pack = "packing.pack_halves" if float_products.stores_halves(operands.w) else "packing.pack_f32"
    return Call("winograd.WinogradF32", images, out, Packed(pack, operands.w, 1, layouts.TapsByChannel()), bias,
                scratch=Scratch((size,), "float32"), **named)


def _is_plain_3x3(window):
    return (window.fh == window.fw == 3 and window.stride == window.dilation == (1, 1) and window.groups == 1
            and window.layout is None)


def _winograd_pays(images, out, window):
    """F(2x2, 3x3) has 4 products for each pixel instead of 9, and sums before and after them."""
    channels = images.shape[3]
    return (_is_plain_3x3(window) and min(channels, out.shape[3]) >= 16
            and (channels <= _FEW_CHANNELS or _tiles(out) >= _FEW_TILES))


def _tiles(out):
    """The number of tiles of 2 x 2 pixels."""
    n, h, w, _ = out.shape
    return n * ((h + 1) // 2) * ((w + 1) // 2)


# ---- float32 images and integer weights ----------------------------------------------------------------------
def _hybrid(node, operands, window, images, out, bias):
    """The Call for float32 images and integer weights.

    As in the reference, images get a zero point if filters are depthwise, if scales differ, or if there are groups
    with a scale for each filter.
    """
    x, w = operands.x, operands.w
    depthwise = isinstance(window.layout, layouts.Depthwise)
    varied = window.transposed or products.varied(w.scales) or (window.groups > 1 and len(w.scales) > 1)
    packed = (Packed("hybrid.pack_in_turn", w, window.layout) if window.transposed else
              Packed("packing.pack_weights", w, window.groups, window.layout, window.dilation[1]))
    return products.hybrid(node, x.view() if window.shared else images, out, packed, bias, window,
                           asymmetric=depthwise or varied, column_first=varied and not depthwise)


# ---- integers ------------------------------------------------------------------------------------------------
def _int16(node, operands, window, images, out, bias):
    w, y = operands.w, operands.y
    rule = "MBQM32" if products.bias_is_int32(node, operands.b) else "MBQM64"
    finish = products.finish_s16(rule, bias, products.multipliers(operands.x, w, y, y.shape[3]),
                                 *products.integer_range(node, y))
    return Call("conv16.Conv16", images, out, Packed("conv16.pack_s16", w, window.layout), filter=window.filter,
                groups=window.groups, finish=finish, strided=(0, 1))


def _int8(node, operands, window, images, out, bias):
    """int8 and uint8, which kernels take as bytes and flip to int8."""
    x, w, y = operands.x, operands.w, operands.y
    low, high = products.integer_range(node, y)
    multipliers, shifts = products.multipliers(x, w, y)
    if window.pixels > 1 and len(shifts) > 1:
        multipliers, shifts = np.tile(multipliers, window.pixels), np.tile(shifts, window.pixels)
    images.dtype = out.dtype = "uint8"
    quantization = products.quantization_q8(x, w, w.dtype == "uint8")
    layout, most = window.layout, _packed_pixels(images, out, window)
    if most > 1:
        layout = layouts.PixelPacking(layout, window.stride[1], most)
    elif _integer_winograd_pays(images, out, window):
        layout = layouts.WinogradInteger()
    seen = window.fw + (most - 1) * window.stride[1]        # pixels of a line
    return Call("conv.ConvQ8", images, out,
                Packed("packing.pack_q8", w, bias, multipliers, shifts, quantization[1], quantization[3],
                       window.groups, layout, window.dilation[1], (low - y.zero_point, high - y.zero_point)),
                filter=window.filter, groups=window.groups,
                zero=computed(_zeros, x.zero_point, seen * images.shape[3] // window.groups),
                quantization=quantization, finish=products.finish_q8(y, low, high),
                strided=(0, 1) if most == 1 else (0,))


def _packed_pixels(images, out, window):
    """The largest number of output pixels that may count as one with the columns of all: see PixelPacking."""
    plain = (window.groups == window.dilation[1] == 1 and out.strides is None
             and (window.layout is None or isinstance(window.layout, _SINGLE_PIXELS)))
    most = 16 if images.shape[3] % 4 else 15    # 16 columns fill vectors; steps of 4 channels are fast without
    if not plain or out.shape[3] > most:
        return 1
    return 4 if out.shape[2] % 4 == 0 else 2 if out.shape[2] % 2 == 0 else 1


def _integer_winograd_pays(images, out, window):
    """May it pay?  It has 36 products of 16 bits for 4 x 4 pixels, each of which takes as long as two of the 144."""
    n, h, w, c = out.shape
    return (_is_plain_3x3(window) and images.shape[3] % 16 == 0 and min(c, images.shape[3]) >= 32
            and 64 <= n * -(-h // 4) * -(-w // 4) * 16 <= 5 * n * h * w // 4)


def _zeros(zero_point, n):
    """n bytes of a zero point."""
    return bytes((zero_point & 0xFF,)) * n


# ---- depthwise -----------------------------------------------------------------------------------------------
def lower_channels(node, operands, window, *layout):
    """The Call of a depthwise convolution, channel by channel; layout: of the weights, if they are other filters."""
    x, w, y = operands.x, operands.w, operands.y
    bias = products.contents(node, operands.b, "bias")
    if x.dtype == "float32":
        limits = products.float_range(node)
        if w.dtype == "float32":
            w = Packed("depthwise_packing.pack_taps", w, "float32", *layout) if layout else w
            return Call("depthwise.DepthwiseF32", x, y, w, bias, filter=window.filter, limits=limits)
        return Call("depthwise.DepthwiseHybrid", x, y, Packed("depthwise_packing.pack_taps", w, "float32"), bias,
                    q=Scratch(x.shape, "float32"), image_scales=Scratch((x.shape[0], y.shape[3]), "float32"),
                    scales=products.per_channel(w.scales, y.shape[3]), filter=window.filter, limits=limits)
    low, high = products.integer_range(node, y)
    if x.dtype == "int16":
        rule = "MBQM32" if products.bias_is_int32(node, operands.b) else "MBQM64"
        return Call("depthwise.Depthwise16", x, y, Packed("depthwise_packing.pack_taps", w, "int16", *layout),
                    filter=window.filter,
                    finish=products.finish_s16(rule, bias, products.multipliers(x, w, y, y.shape[3]), low, high))
    multipliers, shifts = products.multipliers(x, w, y)
    quantization = products.quantization_q8(x, w, w.dtype == "uint8")
    window = column_as_line(x, y, window)
    return Call("depthwise.DepthwiseQ8", x.view(*window.x_view, dtype="uint8"), y.view(*window.y_view, dtype="uint8"),
                Packed("depthwise_packing.pack_depthwise_q8", w, bias, multipliers, shifts, quantization[1],
                       quantization[3], window.filter, (low - y.zero_point, high - y.zero_point), *layout),
                filter=window.filter, zero=computed(_zeros, x.zero_point, y.shape[3]),
                quantization=quantization, finish=products.finish_q8(y, low, high))
