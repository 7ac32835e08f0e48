"""How weights of an operator become the filters (columns, fh, fw, c) of a plain convolution, before they are packed.

The functions that pack weights take a FilterLayout, or None where the weights are such filters.  Equal layouts
compare equal: calls with the same weights and layout share the packed weights (runtime/model.py).
"""
import math
from functools import cache

import numpy as np


class FilterLayout:
    """The base of all layouts.  by_columns: can some of the columns be arranged without the others?"""
    ONLY_SLOTS = True           # its slots are all that it refers to: see _core/graph/templates.pyx
    __slots__ = ()
    by_columns = False

    def arrange(self, w):
        """The filters of a plain convolution, from the array of the weights."""
        raise NotImplementedError

    def __eq__(self, other):
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


class Depthwise(FilterLayout):
    """(1, fh, fw, columns): each column is a filter of one channel, used with as many groups as input channels."""
    __slots__ = ()

    def arrange(self, w):
        return w.transpose(3, 1, 2, 0)


class Matrices(FilterLayout):
    """Matrices (..., columns, depth), or (..., depth, columns) where `transposed`; each is the filters of a group."""
    __slots__ = ("transposed",)

    def __init__(self, transposed=False):
        self.transposed = transposed

    def arrange(self, w):
        w = w.swapaxes(-1, -2) if self.transposed else w
        return w.reshape(math.prod(w.shape[:-1]), w.shape[-1])


class SignedBytes(FilterLayout):
    """uint8 weights whose bytes are read as int8, whatever their zero point, as hybrid reference kernels do."""
    __slots__ = ()

    def arrange(self, w):
        return w.view(np.int8)


class Volumes(FilterLayout):
    """Filters (d, h, w, c, columns) of a convolution of volumes."""
    __slots__ = ()

    def arrange(self, w):
        return w.transpose(4, 0, 1, 2, 3)


# ---- transposed convolutions ---------------------------------------------------------------------------------
class PhaseTaps(FilterLayout):
    """The taps of a transposed convolution's filters (columns, fh, fw, c) that contribute to one phase of its output.

    They are every `down`th tap from `top` on and every `right`th tap from `left` on, in reverse order.
    """
    __slots__ = ("top", "down", "left", "right")

    def __init__(self, top, down, left, right):
        self.top = top
        self.down = down
        self.left = left
        self.right = right

    def arrange(self, w):
        return w[:, self.top::self.down, self.left::self.right][:, ::-1, ::-1]


class VolumePhaseTaps(FilterLayout):
    """The same of the filters (d, h, w, columns, c) of volumes.  slices: the slice of the taps of each axis."""
    __slots__ = ("slices",)

    def __init__(self, slices):
        self.slices = tuple(slices)

    def arrange(self, w):
        return w[self.slices].transpose(3, 0, 1, 2, 4)


class SideBySide(FilterLayout):
    """The columns of several layouts of the same weights, one layout's after the other's."""
    __slots__ = ("layouts",)

    def __init__(self, layouts):
        self.layouts = tuple(layouts)

    def arrange(self, w):
        return np.concatenate([layout.arrange(w) for layout in self.layouts])


# ---- several pixels as one -----------------------------------------------------------------------------------
def combined_filters(w, width, pixels, stride, dilation=1, pad=0, zero=0):
    """Filters (pixels * columns, fh, width, c) that compute `pixels` output pixels of a line at once.

    w: (columns, fh, fw, c); width: the input pixels that they see; stride, dilation, pad: the horizontal ones of w;
    zero: the weight of pixels that an output pixel does not see.
    """
    columns, fh, fw, c = w.shape
    combined = np.full((pixels, columns, fh, width, c), zero, w.dtype)
    for x in range(pixels):
        for tap in range(fw):
            if 0 <= x * stride - pad + tap * dilation < width:
                combined[x, :, :, x * stride - pad + tap * dilation] = w[:, :, tap]
    return combined.reshape(pixels * columns, fh, width, c)


class LinesAsPixels(FilterLayout):
    """Filters for images in which a line counts as one pixel; so does a line of the output.

    inner: the layout of the weights, or None; width, out: pixels of a line of the input and of the output; stride,
    dilation, pad: the horizontal ones.
    """
    __slots__ = ("inner", "width", "out", "stride", "dilation", "pad")

    def __init__(self, inner, width, out, stride, dilation, pad):
        self.inner = inner
        self.width = width
        self.out = out
        self.stride = stride
        self.dilation = dilation
        self.pad = pad

    def arrange(self, w):
        plain = w if self.inner is None else self.inner.arrange(w)
        wide = combined_filters(plain, self.width, self.out, self.stride, self.dilation, self.pad)
        return wide.reshape(len(wide), 1, w.shape[1], -1)


class PixelPacking(FilterLayout):
    """Filters (columns, fh, fw, c); packing chooses how many output pixels to combine, so that columns fill vectors.

    stride: the horizontal one; most: the largest number, of which the chosen one is a divisor.
    """
    __slots__ = ("stride", "most")

    def __init__(self, stride, most):
        self.stride = stride
        self.most = most

    def arrange(self, w):
        return w

    def combine(self, w, pixels, zero):
        """The filters for that many pixels; zero: the stored value of the weight 0."""
        return combined_filters(w, w.shape[2] + (pixels - 1) * self.stride, pixels, self.stride, zero=zero)


# ---- Winograd ------------------------------------------------------------------------------------------------
@cache
def _taps_to_products():
    """float32 (16, 9): from the taps of a filter, column by column, to the operands of its products."""
    axis = np.array([[1, 0, 0], [.5, .5, .5], [.5, -.5, .5], [0, 0, 1]], np.float32)
    return np.kron(axis, axis)


class WinogradFloat(FilterLayout):
    """3 x 3 filters of float32 as the right operands of the 16 products of F(2x2, 3x3), each a group's."""
    __slots__ = ()
    by_columns = True

    def arrange(self, w):
        with np.errstate(all="ignore"):     # weights may be infinite
            w = _taps_to_products() @ w.swapaxes(1, 2).reshape(w.shape[0], 9, w.shape[3])
        return w.swapaxes(0, 1).reshape(-1, w.shape[2])


class WinogradInteger(FilterLayout):
    """3 x 3 filters of 8 bits for which packing chooses between Winograd's products of 16 bits and plain ones."""
    __slots__ = ()

    def arrange(self, w):
        return w
