"""Rearranges an operator's weights into the filters (columns, fh, fw, c) of a plain convolution, before packing.

Functions that pack weights take a FilterLayout, or None if the weights already have this form.  Calls with the same
weights and equal layouts share the packed weights (runtime/weights.py).
"""
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np


class FilterLayout:
    """The base of all layouts, which takes the values of its slots.

    by_columns: can a part of the columns be arranged by itself?
    """
    ONLY_SLOTS = True           # it refers to nothing but its slots: see _core/graph/templates.pyx
    __slots__ = ()
    by_columns = False

    def __init__(self, *values):
        for name, value in zip(self.__slots__, values, strict=True):
            setattr(self, name, value)

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...        # the slots

    def arrange(self, w):
        """The filters of a plain convolution; w: the operator's weights."""
        return w

    def __eq__(self, other):
        return type(self) is type(other) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self):
        return hash((type(self), *[getattr(self, name) for name in self.__slots__]))


class Depthwise(FilterLayout):
    """Depthwise weights (1, fh, fw, columns) as filters of as many groups as input channels, and the reverse."""
    __slots__ = ()

    def arrange(self, w):
        return w.transpose(3, 1, 2, 0)


class NearTaps(FilterLayout):
    """The taps from `top` to `bottom` - 1 and `left` to `right` - 1 of filters, depthwise or not."""
    __slots__ = ("top", "bottom", "left", "right")

    def arrange(self, w):
        return w[:, self.top:self.bottom, self.left:self.right]


class MergedGroups(FilterLayout):
    """Filters that also have weights of 0 for the channels of neighbouring groups, so that there are fewer groups.

    groups: of the weights; merged: how many become one; zero: the stored value of weight 0.
    """
    __slots__ = ("groups", "merged", "zero")

    def arrange(self, w):
        columns, fh, fw, c = w.shape
        wide = np.full((self.groups, columns // self.groups, fh, fw, self.merged, c), self.zero, w.dtype)
        for group, filters in enumerate(np.split(w, self.groups)):
            wide[group, :, :, :, group % self.merged] = filters
        return wide.reshape(columns, fh, fw, self.merged * c)


class Matrices(FilterLayout):
    """Matrices (..., columns, depth), or (..., depth, columns) if `transposed`; each holds the filters of one group."""
    __slots__ = ("transposed",)

    def arrange(self, w):
        w = w.swapaxes(-1, -2) if self.transposed else w
        return w.reshape(math.prod(w.shape[:-1]), w.shape[-1])


class SignedBytes(FilterLayout):
    """uint8 weights whose bytes are read as int8, whatever their zero point, as in the hybrid reference kernels."""
    __slots__ = ()

    def arrange(self, w):
        return w.view(np.int8)


class Volumes(FilterLayout):
    """Filters (d, h, w, c, columns) of CONV_3D."""
    __slots__ = ()

    def arrange(self, w):
        return w.transpose(4, 0, 1, 2, 3)


# ---- transposed convolutions ---------------------------------------------------------------------------------
class PhaseTaps(FilterLayout):
    """The taps of a transposed convolution's filters (columns, fh, fw, c) that contribute to one phase of its output.

    These are every `down`th tap from `top` on and every `right`th tap from `left` on, in reverse order.
    """
    __slots__ = ("top", "down", "left", "right")

    def arrange(self, w):
        return w[:, self.top::self.down, self.left::self.right][:, ::-1, ::-1]


class NoTaps(FilterLayout):
    """Filters of one tap with weights of 0, for a phase without taps.  zero: the stored value of weight 0."""
    __slots__ = ("zero",)

    def arrange(self, w):
        return np.full((len(w), 1, 1, w.shape[3]), self.zero, w.dtype)


class VolumePhaseTaps(FilterLayout):
    """PhaseTaps of the filters (d, h, w, columns, c) of CONV_3D_TRANSPOSE.  slices: of each axis, a tuple."""
    __slots__ = ("slices",)

    def arrange(self, w):
        return w[self.slices].transpose(3, 0, 1, 2, 4)

    def __hash__(self):
        return hash(str(self.slices))       # Python before 3.12 has no hash of a slice


class SideBySide(FilterLayout):
    """The columns of several layouts (a tuple) of the same weights, concatenated."""
    __slots__ = ("layouts",)

    def arrange(self, w):
        return np.concatenate([layout.arrange(w) for layout in self.layouts])


# ---- several pixels as one -----------------------------------------------------------------------------------
def combined_filters(w, width, pixels, stride, dilation=1, pad=0, zero=0):
    """Filters (pixels * columns, fh, width, c) that compute `pixels` neighbouring output pixels at once.

    w: (columns, fh, fw, c); width: the input pixels under the combined windows; stride, dilation, pad: horizontal;
    zero: the stored value of weight 0, for input pixels outside an output pixel's own window.
    """
    columns, fh, fw, c = w.shape
    combined = np.full((pixels, columns, fh, width, c), zero, w.dtype)
    for x in range(pixels):
        for tap in range(fw):
            if 0 <= x * stride - pad + tap * dilation < width:
                combined[x, :, :, x * stride - pad + tap * dilation] = w[:, :, tap]
    return combined.reshape(pixels * columns, fh, width, c)


class LinesAsPixels(FilterLayout):
    """Filters that treat each line of the input and of the output as one pixel.

    inner: the layout of the weights, or None; width, out: pixels of a line of the input and of the output; stride,
    dilation, pad: horizontal; zero: the stored value of weight 0.
    """
    __slots__ = ("inner", "width", "out", "stride", "dilation", "pad", "zero")

    def arrange(self, w):
        plain = w if self.inner is None else self.inner.arrange(w)
        wide = combined_filters(plain, self.width, self.out, self.stride, self.dilation, self.pad, self.zero)
        return wide.reshape(len(wide), 1, plain.shape[1], -1)


class SpreadTaps(FilterLayout):
    """Filters without a dilation that have the results of dilated ones: weights of 0 are between their taps.

    inner: the layout of the weights, or None; dilation: horizontal; zero: the stored value of weight 0.
    """
    __slots__ = ("inner", "dilation", "zero")

    def arrange(self, w):
        plain = w if self.inner is None else self.inner.arrange(w)
        return combined_filters(plain, (plain.shape[2] - 1) * self.dilation + 1, 1, 1, self.dilation, zero=self.zero)


class PixelColumns(FilterLayout):
    """Filters that compute `pixels` neighbouring output pixels at once.

    inner: the layout of the weights, or None; stride: horizontal.
    """
    __slots__ = ("inner", "pixels", "stride")

    def arrange(self, w):
        plain = w if self.inner is None else self.inner.arrange(w)
        return combined_filters(plain, plain.shape[2] + (self.pixels - 1) * self.stride, self.pixels, self.stride)


class PixelPacking(FilterLayout):
    """Filters (columns, fh, fw, c) of which packing may combine several output pixels, so that columns fill vectors.

    inner: the layout of the weights, or None; stride: horizontal; most: a multiple of the number of pixels that packing
    chooses.
    """
    __slots__ = ("inner", "stride", "most")

    def arrange(self, w):
        return w if self.inner is None else self.inner.arrange(w)

    def combine(self, w, pixels, zero):
        """The filters of `pixels` pixels at once; zero: the stored value of weight 0."""
        return combined_filters(w, w.shape[2] + (pixels - 1) * self.stride, pixels, self.stride, zero=zero)


# ---- Winograd ------------------------------------------------------------------------------------------------
@cache
def _taps_to_products():
    """The filter transform of F(2x2, 3x3), float32 (16, 9): from a filter's taps, column by column, to operands."""
    axis = np.array([[1, 0, 0], [.5, .5, .5], [.5, -.5, .5], [0, 0, 1]], np.float32)
    return np.kron(axis, axis)


class WinogradFloat(FilterLayout):
    """float32 3 x 3 filters, transformed to the right operands of Winograd's 16 products, F(2x2, 3x3), as 16 groups."""
    __slots__ = ()
    by_columns = True

    def arrange(self, w):
        with np.errstate(all="ignore"):     # weights may be infinite
            w = _taps_to_products() @ w.swapaxes(1, 2).reshape(w.shape[0], 9, w.shape[3])
        return w.swapaxes(0, 1).reshape(-1, w.shape[2])


class TapsByChannel(FilterLayout):
    """3 x 3 filters as (columns, channels, 9 taps), which Winograd's algorithm transforms at run time."""
    __slots__ = ()
    by_columns = True

    def arrange(self, w):
        return np.moveaxis(w, 3, 1).reshape(w.shape[0], w.shape[3], 9)


class WinogradInteger(FilterLayout):
    """8-bit 3 x 3 filters for which packing chooses between a plain convolution and Winograd's F(4x4, 3x3)."""
    __slots__ = ()
