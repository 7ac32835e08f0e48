"""TRANSPOSE_CONV: several plain convolutions.  docs/numerics.md sections 3 and 4."""
from pylite._core.product.layouts import NoTaps, PhaseTaps, SideBySide
from pylite.ir import shapes
from pylite.ir.registry import register
from pylite.ops import products
from pylite.ops.convolution import TYPES
from pylite.ops.convolution_calls import lower_window
from pylite.ops.convolution_window import Operands, Window, check_images, strides_of

MOST_PHASES = 1 << 14       # each becomes a kernel


def infer(node):
    shape_input, w, x = node.inputs[:3]
    check_images(node, x, w)
    strides_of(node)
    shape = tuple(int(n) for n in node.constant(0, "output shape").ravel())
    if len(shape) != 4 or min(shape) < 0:
        raise node.error(f"the output shape must have 4 dimensions, not {list(shape)}", shape_input)
    if x.shape[3] != w.shape[3]:
        raise node.error(f"has {x.shape[3]} channels and the filter {w.shape[3]}", x)
    if shape[3] != w.shape[0]:
        raise node.error(f"asks for {shape[3]} channels of {w.shape[0]} filters", shape_input)
    if shape[0] != x.shape[0]:
        raise node.error(f"is for a batch of {shape[0]}, but the input has a batch of {x.shape[0]}. If the input was "
                         "resized, the shape was fixed when the model was converted", shape_input)
    return [shape]


class Phase:
    """The outputs i, i + stride, ... along one axis, which see the input through the same taps.

    top: their first tap; count: the number of taps, every `stride`th one; pad: the padding before.
    """
    __slots__ = ("top", "count", "pad")

    def __init__(self, i, taps, stride, pad):
        self.top = min((i + pad) % stride, taps)    # the same for all phases without taps, which share their weights
        self.count = max(-(-(taps - self.top) // stride), 0)
        self.pad = self.count - 1 - (i + pad - self.top) // stride

    def sees_as(self, other):
        """Do the outputs of both see the same pixels?"""
        return (self.count, self.pad) == (other.count, other.pad)


def lower(node):
    """A plain convolution for each phase of the output.

    If all phases of a line read the same pixels, for example with filters as wide as the stride, they are joined into
    one, whose pixels have the columns of all; so are those of lines that no tap sees.
    """
    w, x = node.inputs[1:3]
    y = node.outputs[0]
    operands = Operands(x, w, node.input(3), y)
    products.check(node, x, w, operands.b, y, y.shape[3], axis=0)
    products.contents(node, w, "filter")
    strides, sizes = strides_of(node), y.shape[1:3]
    pad = [shapes.window_padding(size, taps, stride, 1,
                                 shapes.window_output(size, taps, stride, 1, node.options.padding))[0]
           for size, taps, stride in zip(sizes, w.shape[1:3], strides, strict=True)]
    down, across = ([Phase(i, w.shape[1 + k], strides[k], pad[k]) for i in range(min(strides[k], sizes[k]))]
                    for k in (0, 1))
    joins = sizes[1] % strides[1] == 0 and x.dtype != "int16" and len(across) > 0
    together = len(across) if joins and all(p.sees_as(across[0]) for p in across) else 1
    if len(down) * len(across) > MOST_PHASES * together:
        raise node.error(f"its strides {list(strides)} give {len(down) * len(across) // together} kinds of output "
                         f"pixels; at most {MOST_PHASES} are possible", y)
    windows = _windows(operands, strides, down, across, together, joins)
    hybrid = x.dtype == "float32" and w.dtype != "float32"
    shared = products.shared_scratch(node, x, w.shape[2]) if hybrid else None
    for window in windows:
        window.shared, window.first = shared, window is windows[0]
    return [lower_window(node, operands, window) for window in windows]


def _windows(operands, strides, down, across, together, joins):
    """The Windows of all phases.  together: how many across are computed at once; joins: may all be?"""
    y, has_bytes, windows = operands.y, operands.x.dtype in ("int8", "uint8"), []
    for i, phase in enumerate(down):
        pixels = len(across) if joins and has_bytes and not phase.count else together
        for j in range(0, len(across), pixels):
            window = _window(phase, across[j:j + pixels], strides)
            if has_bytes and window.fh * window.fw == 0:        # not for floats: 0 times infinity is NaN
                window = _without_taps(operands.w, pixels)
            window.y_view = _every(y, (i, j), strides, pixels)
            windows.append(window)
    return windows


def _window(vertical, horizontal, strides):
    """The Window of a vertical Phase and of horizontal ones that are computed together."""
    taps = [PhaseTaps(vertical.top, strides[0], phase.top, strides[1]) for phase in horizontal]
    window = Window(vertical.count, horizontal[0].count, pad=(vertical.pad, horizontal[0].pad),
                    layout=taps[0] if len(taps) == 1 else SideBySide(tuple(taps)))
    window.pixels, window.transposed = len(taps), True
    return window


def _without_taps(w, pixels):
    """The Window of `pixels` Phases that no tap sees: products with 0 take less time than rows without elements."""
    window = Window(1, 1, layout=SideBySide((NoTaps(w.zero_point),) * pixels))
    window.pixels, window.transposed = pixels, True
    return window


def _every(y, first, strides, pixels):
    """The arguments of y.view() for every `strides`th pixel from `first` on, `pixels` neighbours as one."""
    batch, rows, cols, channels = y.shape
    return ((batch, -(-(rows - first[0]) // strides[0]), -(-(cols - first[1]) // strides[1]), pixels * channels),
            (rows * cols * channels, strides[0] * cols * channels, strides[1] * channels, 1),
            (first[0] * cols + first[1]) * channels)


register("TRANSPOSE_CONV", versions=(1, 5), types=["int32 " + " ".join(
    [t.split()[1], t.split()[0], *t.split()[2:]]) for t in TYPES], infer=infer, lower=lower, fuses_activation=True,
    packs=1)
