"""The geometry of convolutions: which pixels filters see, and rewrites of it that kernels run faster.

docs/numerics.md section 3 has the windows and paddings.
"""
from pylite._core import simd
from pylite._core.product import layouts
from pylite.ir import shapes

SHORT_LINE = 4              # most pixels of a line that may count as one pixel, unless it has few channels and columns
LARGEST_EXTENT = 1 << 28    # most pixels that a dilated filter spans
SPREAD = 64                 # most bytes of an image's line under a filter whose taps are spread; twice as many
FEW_COLUMNS = 8             # if it has so few columns
PHASES = 8                  # the largest dilation that is lowered to plain convolutions
PHASE_PIXELS = 4            # least pixels of a line for each of these; fewer do not fill a tile


class Operands:
    """The images x, weights w, bias b (None without a bias) and output y of a convolution, Values."""
    __slots__ = ("x", "w", "b", "y")

    def __init__(self, x, w, b, y):
        self.x = x
        self.w = w
        self.b = b
        self.y = y


class Window:
    """The input pixels that each output pixel of a kernel reads, and how the kernel sees its operands.

    fh, fw: taps; stride, dilation, pad: (vertical, horizontal), pad: before the image; groups: number of groups of
    channels; layout: FilterLayout of the weights, or None; note: the choice that was made, for users, or None
    x_view, y_view: the arguments of Value.view() with which the kernel sees the images and the output; pixels: output
    pixels that count as one there, with the columns of all of them
    For phases of a convolution: shared: the scratch that they have in common (products.shared_scratch), or None; first:
    is it the phase that runs first?  transposed: do they belong to a transposed convolution?
    """
    __slots__ = ("fh", "fw", "stride", "dilation", "pad", "groups", "layout", "note", "x_view", "y_view", "pixels",
                 "shared", "first", "transposed")

    def __init__(self, fh, fw, stride=(1, 1), dilation=(1, 1), pad=(0, 0), groups=1, layout=None):
        self.fh = fh
        self.fw = fw
        self.stride = stride
        self.dilation = dilation
        self.pad = pad
        self.groups = groups
        self.layout = layout
        self.note = None
        self.x_view = self.y_view = ()
        self.pixels = 1
        self.shared = None
        self.first = True
        self.transposed = False

    def explain(self, note):
        """Append to the note."""
        self.note = f"{self.note}; {note}" if self.note else note

    @property
    def filter(self):
        """(fh, fw, stride, dilation, pad) flattened, as the kernels take it."""
        return (self.fh, self.fw, *self.stride, *self.dilation, *self.pad)


# ---- checks and output shapes --------------------------------------------------------------------------------
def check_images(node, x, w):
    for value, what in ((x, "input"), (w, "filter")):
        if len(value.shape) != 4:
            raise node.error(f"the {what} of a 2-D convolution must have 4 dimensions", value)


def strides_of(node):
    """(vertical, horizontal)"""
    o = node.options
    if min(o.stride_h, o.stride_w) < 1:
        raise node.error(f"strides ({o.stride_h}, {o.stride_w}) must be at least 1")
    return o.stride_h, o.stride_w


def output_shape(node, x, w, channels):
    """The output's shape for images x and filters whose taps are the axes 1 and 2 of w."""
    o = node.options
    down, right = strides_of(node)
    dilations = o.dilation_h_factor, o.dilation_w_factor
    if min(dilations) < 1:
        raise node.error(f"dilations {dilations} must be at least 1")
    rows = shapes.window_output(x.shape[1], w.shape[1], down, dilations[0], o.padding)
    cols = shapes.window_output(x.shape[2], w.shape[2], right, dilations[1], o.padding)
    if rows < 0 or cols < 0:
        raise node.error(f"a filter of {w.shape[1]} x {w.shape[2]} does not fit", x)
    return x.shape[0], rows, cols, channels


def effective_dilation(node, w, taps, dilation, size):
    """A dilation of the filters w with the same results: taps that no pixel meets may as well be nearer.

    taps: along an axis with `size` pixels.  From 2 * size + 1 on, at most the middle tap meets pixels; the parity is
    kept, because half of the filter's extent is padding.  A single tap has none.
    """
    if taps == 1:
        return 1
    least = 2 * size + 1
    dilation = min(dilation, least + (dilation - least) % 2)
    extent = (taps - 1) * dilation + 1
    if extent > LARGEST_EXTENT:
        raise node.error(f"spans {extent} pixels with a dilation of {dilation}; at most {LARGEST_EXTENT} are possible",
                         w)
    return dilation


def window_of(node, x, w, y):
    """The Window of CONV_2D and DEPTHWISE_CONV_2D with one group."""
    o = node.options
    stride = o.stride_h, o.stride_w
    fh, fw = w.shape[1:3]
    dilation = (effective_dilation(node, w, fh, o.dilation_h_factor, x.shape[1]),
                effective_dilation(node, w, fw, o.dilation_w_factor, x.shape[2]))
    pad = (shapes.window_padding(x.shape[1], fh, stride[0], dilation[0], y.shape[1])[0],
           shapes.window_padding(x.shape[2], fw, stride[1], dilation[1], y.shape[2])[0])
    return Window(fh, fw, stride, dilation, pad)


# ---- rewrites ------------------------------------------------------------------------------------------------
def lines_as_pixels(operands, window):
    """A Window in which lines of x and y are pixels of one line, or the same Window where that does not pay.

    Lines of a few pixels do not fill a tile; together they do, at the price of products with zeros.
    """
    x, (n, h, width, c), (_, oh, out, columns) = operands.x, operands.x.shape, operands.y.shape
    most = 160 if simd.current.startswith("avx") else 64    # few columns leave much of a long vector empty
    if (window.fh == 1 or window.groups > 1 or oh < 8 or not 0 < width <= 2 * window.fw
            or (x.dtype == "int16" and max(width, out) > 1)
            or (width > 1 and (width * c * window.fh > 512 or out * columns > 256))
            or (width > SHORT_LINE and (width * c * window.fh > most or columns > FEW_COLUMNS))):
        return window
    zero = operands.w.zero_point if x.dtype == "uint8" else 0
    layout = layouts.LinesAsPixels(window.layout, width, out, window.stride[1], window.dilation[1], window.pad[1], zero)
    lines = Window(1, window.fh, (1, window.stride[0]), (1, window.dilation[0]), (0, window.pad[0]), layout=layout)
    lines.note, lines.pixels = window.note, out
    lines.x_view, lines.y_view = ((n, 1, h, width * c),), ((n, 1, oh, out * columns),)
    return lines


def column_as_line(x, y, window):
    """A Window in which images of one column are images of one line, whose pixels are neighbours; else the same one."""
    if x.shape[2] != 1 or window.fw != 1 or window.pad[1]:
        return window
    n, h, _, c = x.shape
    line = Window(1, window.fh, (1, window.stride[0]), (1, window.dilation[0]), (0, window.pad[0]))
    line.note, line.x_view, line.y_view = window.note, ((n, 1, h, c),), ((n, 1, y.shape[1], y.shape[3]),)
    return line


def spread_taps(operands, window):
    """A Window without a horizontal dilation, its filter with weights of 0 instead, where that pays; else the same one.

    If a line under the filter is short, that costs less than phases.  Not for floats: 0 times infinity is NaN.
    """
    x, w, step = operands.x, operands.w, window.dilation[1]
    reach, most = (window.fw - 1) * step + 1, 2 * SPREAD if operands.y.shape[3] <= FEW_COLUMNS else SPREAD
    if (step == 1 or window.groups > 1 or x.dtype not in ("int8", "uint8") or reach * x.shape[3] > most
            or not (window.layout is None or isinstance(window.layout, layouts.Depthwise))):
        return window
    spread = Window(window.fh, reach, window.stride, (window.dilation[0], 1), window.pad,
                    layout=layouts.SpreadTaps(window.layout, step, w.zero_point))
    window.explain("weights of 0 between the taps of a line")
    return spread


def has_phases(operands, window):
    """Can the Window be rewritten by dilation_phases(), and does that pay?"""
    x, w = operands.x, operands.w
    return (x.dtype in ("int8", "uint8", "float32") and w.dtype != "float32" and window.fh > 1
            and 1 < window.dilation[1] <= min(PHASES, x.shape[2] // PHASE_PIXELS) and window.stride[1] == 1
            and window.groups == 1 and window.layout is None)


def dilation_phases(operands, window, shared):
    """The Windows without a horizontal dilation that are equivalent together.

    With a dilation of 2 an output pixel sees either even or odd pixels of a line; on these alone the filter is plain,
    and its taps are adjacent.  shared: see Window.
    """
    x, y, step = operands.x, operands.y, window.dilation[1]
    phases = []
    for i in range(min(step, y.shape[2])):
        left, first = divmod(i - window.pad[1], step)       # taps before the first pixel that is seen, and that pixel
        phase = Window(window.fh, window.fw, window.stride, (window.dilation[0], 1), (window.pad[0], -left))
        phase.shared, phase.first = shared, i == 0
        phase.x_view, phase.y_view = _every(x, first, step), _every(y, i, step)
        phases.append(phase)
    window.explain(f"as {len(phases)} plain ones, each of every {step}th pixel of a line")
    return phases


def _every(value, first, step):
    """The arguments of value.view() for every `step`th pixel of the lines, from `first` on."""
    n, h, w, c = value.shape
    return (n, h, -((first - w) // step), c), (h * w * c, w * c, step * c, 1), first * c
