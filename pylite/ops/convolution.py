"""2-D convolutions, plain and depthwise, of every type that they come in."""
import math

import numpy as np

from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ir.values import Call, Packed
from pylite.ops import products
from pylite.ops.moves import fold_pad

TYPES = ["float32 float32 float32? -> float32",
         "float32 int8|int4 float32? -> float32",
         "uint8 uint8 int32? -> uint8",
         "int8 int8|int4 int32? -> int8",
         "int16 int8 int32|int64? -> int16"]
NARROW = 4                  # pixels of a line that may be taken for one
PHASES = 8                  # of a dilated filter that are done one by one
MAX_TAPS = 1024             # of the filters that the depthwise kernels take
MAX_HYBRID_TAPS = 512       # the same for float images and integer weights: float32 has the sums exactly


class Window:
    """Where a convolution's filter goes: fh, fw and (vertical, horizontal) strides, dilations and padding before."""
    __slots__ = ("fh", "fw", "stride", "dilation", "pad", "groups", "layout", "note", "views", "out", "room")

    def __init__(self, fh, fw, stride=(1, 1), dilation=(1, 1), pad=(0, 0), groups=1, layout=None):
        self.fh = fh
        self.fw = fw
        self.stride = stride
        self.dilation = dilation
        self.pad = pad
        self.groups = groups
        self.layout = layout    # how the kernels find the filters in the weights: see matmul.arranged
        self.note = None
        self.views = (), ()     # arguments of x.view() and y.view(), and
        self.out = 1            # how many output pixels count as one then: see _over_lines
        self.room = None        # of products.shared_room, for phases of a convolution

    @property
    def filter(self):
        """As the kernels take it."""
        return (self.fh, self.fw, *self.stride, *self.dilation, *self.pad)


def check_images(node, x, w):
    for value, what in ((x, "input"), (w, "filter")):
        if len(value.shape) != 4:
            raise node.error(f"the {what} of a 2-D convolution has 4 dimensions", value)


def strides_of(node):
    o = node.options
    if min(o.stride_h, o.stride_w) < 1:
        raise node.error(f"strides ({o.stride_h}, {o.stride_w}) must be at least 1")
    return o.stride_h, o.stride_w


def _output(node, x, w, channels):
    o = node.options
    down, right = strides_of(node)
    dilations = o.dilation_h_factor, o.dilation_w_factor
    if min(dilations) < 1:
        raise node.error(f"dilations {dilations} must be at least 1")
    rows = shapes.window_output(x.shape[1], w.shape[1], down, dilations[0], o.padding)
    cols = shapes.window_output(x.shape[2], w.shape[2], right, dilations[1], o.padding)
    if rows < 0 or cols < 0:
        raise node.error(f"a filter of {w.shape[1]} x {w.shape[2]} does not fit", x)
    return [(x.shape[0], rows, cols, channels)]


def infer_conv(node):
    x, w = node.inputs[:2]
    check_images(node, x, w)
    filters, c = w.shape[0], w.shape[3]
    if c == 0 or x.shape[3] % c or filters % max(x.shape[3] // c, 1):
        raise node.error(f"filters of shape {list(w.shape)} do not divide its {x.shape[3]} channels into groups", x)
    return _output(node, x, w, filters)


def infer_depthwise(node):
    x, w = node.inputs[:2]
    check_images(node, x, w)
    if w.shape[0] != 1:
        raise node.error("the first dimension of a depthwise filter is 1", w)
    if x.shape[3] == 0 or w.shape[3] % x.shape[3]:
        raise node.error(f"its {w.shape[3]} channels are no multiple of the input's {x.shape[3]}", w)
    return _output(node, x, w, w.shape[3])


def _over_lines(x, w, y, window):
    """The Window in which whole lines of x and y are pixels of one line, or the same where that does not pay.

    Lines of a few pixels fill no tile; together they do, at the price of products with zeros.
    """
    n, h, width, c = x.shape
    _, oh, out, columns = y.shape
    if (not 0 < width <= min(NARROW, 2 * window.fw) or window.fh == 1 or oh < 8 or window.groups > 1
            or x.dtype not in ("float32", "int8") or (x.dtype == "float32") != (w.dtype == "float32")
            or (width > 1 and (width * c * window.fh > 512 or out * columns > 256))):
        return window
    layout = "lines", window.layout, width, out, window.stride[1], window.dilation[1], window.pad[1]
    lines = Window(1, window.fh, (1, window.stride[0]), (1, window.dilation[0]), (0, window.pad[0]), layout=layout)
    lines.note, lines.out = window.note, out
    lines.views = ((n, 1, h, width * c),), ((n, 1, oh, out * columns),)
    return lines


def _window(node, x, w, y):
    """The Window of CONV_2D and DEPTHWISE_CONV_2D, for one group."""
    o = node.options
    stride = o.stride_h, o.stride_w
    dilation = o.dilation_h_factor, o.dilation_w_factor
    fh, fw = w.shape[1:3]
    pad = (shapes.window_padding(x.shape[1], fh, stride[0], dilation[0], y.shape[1])[0],
           shapes.window_padding(x.shape[2], fw, stride[1], dilation[1], y.shape[2])[0])
    return Window(fh, fw, stride, dilation, pad)


def _unpadded(node, x, window):
    """What x was padded from, where that is a border that the kernels see around images anyway; else x."""
    reach = (window.fh - 1) * window.dilation[0], (window.fw - 1) * window.dilation[1]
    source, window.pad = fold_pad(node, x, x.zero_point, reach, window.pad)
    if source is not x:
        window.note = f"sees the border around tensor {source.index} by itself"
    return source


def lower_conv(node):
    x, w = node.inputs[:2]
    y = node.outputs[0]
    window = _window(node, x, w, y)
    x = _unpadded(node, x, window)
    window.groups = x.shape[3] // w.shape[3]
    products.check(node, x, w, node.input(2), y, y.shape[3], axis=0)
    return _noted(_lower_images(node, x, w, node.input(2), y, window), window.note)


def _lower_images(node, x, w, b, y, window):
    phases = _phases(node, x, w, y, _over_lines(x, w, y, window))
    return [lower_window(node, x, w, b, y, y.view(*phase.views[1]), phase, first=phase is phases[0])
            for phase in phases]


def _phases(node, x, w, y, window):
    """The Windows that do together what this one does, or itself.

    Of every second pixel of a line a filter that is dilated by 2 is a plain one, which finds its taps side by side.
    """
    right, down = window.dilation[1], window.dilation[0]
    if (x.dtype not in ("int8", "uint8", "float32") or w.dtype == "float32" or window.fh == 1
            or not 1 < right <= min(PHASES, x.shape[2]) or window.stride[1] > 1 or window.groups > 1 or window.layout):
        return [window]
    phases, room = [], products.shared_room(node, x, window.fw) if x.dtype == "float32" else None
    for i in range(min(right, y.shape[2])):
        left, first = divmod(i - window.pad[1], right)      # pixels before the first one that is seen
        phase = Window(window.fh, window.fw, window.stride, (down, 1), (window.pad[0], -left))
        phase.room = room
        phase.views = _every(x, first, right), _every(y, i, right)
        phases.append(phase)
    note = f"as {len(phases)} plain ones, each of every {right}th pixel of a line"
    window.note = f"{window.note}; {note}" if window.note else note
    return phases


def _every(value, first, step):
    """Arguments of value.view() for every `step`th pixel of the lines from `first` on."""
    n, h, w, c = value.shape
    return (n, h, -((first - w) // step), c), (h * w * c, w * c, step * c, 1), first * c


def _noted(calls, *notes):
    for call in calls:
        call.note = "; ".join(filter(None, notes)) or None
    return calls


def lower_depthwise(node):
    x, w = node.inputs[:2]
    y = node.outputs[0]
    b = node.input(2)
    window = _window(node, x, w, y)
    x = _unpadded(node, x, window)
    products.check(node, x, w, b, y, y.shape[3], axis=3)
    most = MAX_HYBRID_TAPS if x.dtype == "float32" != w.dtype else MAX_TAPS
    if x.shape[3] == y.shape[3] != 1 and window.fh * window.fw <= most:
        return _noted([_lower_channels(node, x, w, b, y, window)], "channel by channel", window.note)
    window.groups, window.layout = x.shape[3], "depthwise"
    return _noted(_lower_images(node, x, w, b, y, window),
                  "in groups, for a channel has several outputs" if y.shape[3] != x.shape[3] else None, window.note)


def _bytes(view):
    """The same window on single bytes."""
    view.dtype = "uint8"
    return view


def _zeros(x, n):
    """n bytes of x's zero point."""
    return bytes((x.zero_point & 0xFF,)) * n


def _by_winograd(x, y, window):
    """Does Winograd's way pay?  It takes 4 products for each pixel instead of 9, and sums before and behind them."""
    return (window.fh == window.fw == 3 and window.stride == window.dilation == (1, 1) and window.groups == 1
            and window.layout is None and 16 <= x.shape[3] <= 256 and y.shape[3] >= 16)


def _by_points(x, y, window):
    """May exact Winograd's way pay?  It takes 36 products of 16 bits for 4 x 4 pixels, each as long as two of 144."""
    n, h, w, c = y.shape
    return (window.fh == window.fw == 3 and window.stride == window.dilation == (1, 1) and window.groups == 1
            and window.layout is None and x.shape[3] % 16 == 0 and min(c, x.shape[3]) >= 32
            and 64 <= n * -(-h // 4) * -(-w // 4) * 16 <= 1.25 * n * h * w)


def _packed_pixels(image, part, window):
    """How many output pixels may count as one that has the columns of all: see matmul.packed_pixels."""
    plain = window.groups == 1 and window.layout is None and window.dilation[1] == 1 and part.strides is None
    most = 16 if image.shape[3] % 4 else 15     # 16 columns fill vectors, channels by fours their steps
    return math.gcd(part.shape[2], 4) if plain and part.shape[3] <= most else 1


def lower_window(node, x, w, b, y, part, window, shared=None, first=True):
    """A convolution into `part`, a View of y; shared: by the phases of a transposed one, of which one is the first."""
    image = x.view(*window.views[0])
    channels = image.shape[3] // window.groups
    bias = products.contents(node, b, "bias")
    products.contents(node, w, "filter")
    if bias is not None and window.out > 1:
        bias = np.tile(bias, window.out)
    if x.dtype == "float32":
        low, high = products.float_range(node)
        if w.dtype == "float32":
            winograd = _by_winograd(image, part, window)
            layout = (16, "winograd") if winograd else (window.groups, window.layout)
            packed = Packed("conv_float.pack_f32", w, *layout)
            return Call("conv_float.ConvF32", image, part, packed, bias, window.filter, window.groups, low, high, None,
                        None, winograd, strided=(0, 1))
        varied = shared is not None or products.varied(w.scales)
        depthwise = window.layout == "depthwise"
        packed = (Packed("hybrid.pack_in_turn", w, window.layout) if shared else
                  Packed("matmul.pack_weights", w, window.groups, window.layout))
        return products.hybrid(x.view(), part, packed, w, y.shape[3], bias, window, depthwise or varied, low, high,
                               varied and not depthwise, shared, first)
    low, high = products.integer_range(node, y)
    if x.dtype == "int16":
        rule = "MBQM32" if products.bias_is_int32(node, b) else "MBQM64"
        factors = products.multipliers(x, w, y, y.shape[3])
        return Call("conv16.Conv16", x, part, Packed("conv16.pack_s16", w, window.layout), False, window.filter,
                    window.groups, rule, products.wide(bias), factors, low, high, strided=(0, 1))
    multipliers, shifts = products.multipliers(x, w, y)
    if window.out > 1 and len(shifts) > 1:
        multipliers, shifts = np.tile(multipliers, window.out), np.tile(shifts, window.out)
    flip, lift = products.signs(x)
    image.dtype = "uint8"
    w_zero = w.zero_point - lift if flip else 0
    layout, most = window.layout, _packed_pixels(image, part, window)
    seen = window.fw + (most - 1) * window.stride[1]        # pixels of a line
    if most > 1:
        layout = "pixel packing", window.stride[1], most
    elif _by_points(image, part, window):
        layout = "points"
    return Call("conv.ConvQ8", image, _bytes(part),
                Packed("matmul.pack_q8", w, bias, multipliers, shifts, x.zero_point - lift, w_zero, window.groups,
                       layout, window.dilation[1], (low - y.zero_point, high - y.zero_point)),
                window.filter, window.groups, _zeros(x, seen * channels), w_zero, y.zero_point - lift,
                low - lift, high - lift, flip, flip, strided=(0, 1) if most == 1 else (0,))


def _lower_channels(node, x, w, b, y, window):
    """A depthwise convolution with one output per channel."""
    bias = products.contents(node, b, "bias")
    products.contents(node, w, "filter")
    if x.dtype == "float32":
        low, high = products.float_range(node)
        if w.dtype == "float32":
            return Call("conv_float.DepthwiseF32", x, y, w, bias, window.filter, low, high)
        return products.hybrid_depthwise(x, y, w, bias, window, low, high)
    low, high = products.integer_range(node, y)
    if x.dtype == "int16":
        rule = "MBQM32" if products.bias_is_int32(node, b) else "MBQM64"
        factors = products.multipliers(x, w, y, y.shape[3])
        return Call("conv16.Depthwise16", x, y, Packed("conv16.pack_depthwise_s16", w), window.filter, rule,
                    products.wide(bias), factors, low, high)
    multipliers, shifts = products.multipliers(x, w, y)
    flip, lift = products.signs(x)
    w_zero = w.zero_point - lift if flip else 0
    return Call("conv.DepthwiseQ8", x.view(dtype="uint8"), y.view(dtype="uint8"),
                Packed("conv.pack_depthwise_q8", w, bias, multipliers, shifts, x.zero_point - lift, w_zero,
                       window.filter, (low - y.zero_point, high - y.zero_point)),
                window.filter, _zeros(x, x.shape[3]), w_zero, y.zero_point - lift, low - lift, high - lift, flip, flip)


def reference_conv(x, w, b, o):
    """CONV_2D of real numbers, NHWC images and OHWI filters."""
    groups = x.shape[3] // w.shape[3]
    size = [shapes.window_output(n, f, s, d, o.padding) for n, f, s, d in zip(
        x.shape[1:3], w.shape[1:3], (o.stride_h, o.stride_w), (o.dilation_h_factor, o.dilation_w_factor), strict=True)]
    y = np.zeros((len(x), *size, len(w)))
    before = [shapes.window_padding(n, f, s, d, m)[0] for n, f, s, d, m in zip(
        x.shape[1:3], w.shape[1:3], (o.stride_h, o.stride_w), (o.dilation_h_factor, o.dilation_w_factor), size,
        strict=True)]
    reach = [math.ceil(s * m + d * f) for s, m, d, f in zip(
        (o.stride_h, o.stride_w), size, (o.dilation_h_factor, o.dilation_w_factor), w.shape[1:3], strict=True)]
    padded = np.pad(x, ((0, 0), *((p, max(0, r - n)) for p, r, n in zip(before, reach, x.shape[1:3], strict=True)),
                        (0, 0)))
    for i, j in np.ndindex(*w.shape[1:3]):
        seen = padded[:, i * o.dilation_h_factor:, j * o.dilation_w_factor:][:, ::o.stride_h, ::o.stride_w]
        seen = seen[:, :size[0], :size[1]]
        parts = zip(np.split(seen, groups, 3), np.split(w[:, i, j], groups), strict=True)
        y += np.concatenate([a @ v.T for a, v in parts], 3)
    return y if b is None else y + b


register("CONV_2D", versions=(1, 8), types=TYPES, infer=infer_conv, lower=lower_conv, reference=reference_conv,
         fuses_activation=True)
register("DEPTHWISE_CONV_2D", versions=(1, 7), types=TYPES, infer=infer_depthwise, lower=lower_depthwise,
         fuses_activation=True)
