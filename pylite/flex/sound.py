"""Flex ops of sound: Fourier transforms, spectrograms, and the coefficients of MFCC."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.flex.op import flex_op
from pylite.ops.audio import hann, mel_filters

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    _Array = NDArray[Any]

_COMPLEX = ("complex64 -> complex64", "complex128 -> complex128")
_FLOOR = 1e-12      # least energy of a band before its logarithm is taken


def _fitted(x: _Array, length: _Array, last: int) -> _Array:
    """x, cut or zero-padded so that its last axes have the sizes `length`, and the last axis the size `last`."""
    sizes = [*map(int, length[:-1]), last]
    if min(map(int, length)) < 0 or len(sizes) > x.ndim:
        raise ValueError(f"the length {length.tolist()} does not fit the shape {list(x.shape)}")
    result = np.zeros((*x.shape[:x.ndim - len(sizes)], *sizes), x.dtype)
    kept: Any = (..., *[slice(min(n, m)) for n, m in zip(sizes, x.shape[-len(sizes):], strict=True)])
    result[kept] = x[kept]
    return result


def _transform(function: Callable[..., _Array], rank: int) -> Callable[[_Array], _Array]:
    return lambda x: function(x, axes=tuple(range(-rank, 0)))


def _to_spectrum(rank: int) -> Callable[[_Array, _Array], _Array]:
    def transform(x: _Array, length: _Array) -> _Array:
        return np.fft.rfftn(_fitted(x, length, int(length[-1])), axes=tuple(range(-rank, 0)))
    return transform


def _from_spectrum(rank: int) -> Callable[[_Array, _Array], _Array]:
    def transform(x: _Array, length: _Array) -> _Array:
        half = int(length[-1]) // 2 + 1
        return np.fft.irfftn(_fitted(x, length, half), list(map(int, length)), tuple(range(-rank, 0)))
    return transform


def _sizes(rank: int, halved: bool) -> Callable[..., list[tuple[int, ...]] | None]:
    """shapes() for the transforms from and to real numbers."""
    def shapes(node: Any, **_: Any) -> list[tuple[int, ...]] | None:
        x, length = node.inputs
        if length.data is None:
            return None
        sizes = list(map(int, length.data))
        if len(sizes) != rank or len(x.shape) < rank or min(sizes) < 1:
            raise node.error(f"{sizes} should be {rank} positive sizes, for an input of at least as many dimensions",
                             length)
        return [(*x.shape[:-rank], *sizes[:-1], sizes[-1] // 2 + 1 if halved else sizes[-1])]
    return shapes


for _suffix, _rank in {"": 1, "2D": 2}.items():
    flex_op("FFT" + _suffix, *_COMPLEX)(_transform(np.fft.fftn, _rank))
    flex_op("IFFT" + _suffix, *_COMPLEX)(_transform(np.fft.ifftn, _rank))
    flex_op("RFFT" + _suffix, "float32 int32 -> complex64", "float64 int32 -> complex128",
            shapes=_sizes(_rank, halved=True))(_to_spectrum(_rank))
    flex_op("IRFFT" + _suffix, "complex64 int32 -> float32", "complex128 int32 -> float64",
            shapes=_sizes(_rank, halved=False))(_from_spectrum(_rank))


@flex_op("AudioSpectrogram", "float32 -> float32")
def audio_spectrogram(sound: _Array, *, window_size: int, stride: int, magnitude_squared: bool = False) -> _Array:
    """sound: (samples, channels); (channels, windows, frequencies)."""
    if sound.ndim != 2 or window_size < 2 or stride < 1:
        raise ValueError(f"sound of shape {list(sound.shape)} in windows of {window_size} every {stride} samples; "
                         f"expected [samples, channels], windows of at least 2 samples, and a stride of at least 1")
    count = max(0, (len(sound) - window_size) // stride + 1)
    length = 1 << (window_size - 1).bit_length()
    at = stride * np.arange(count)[:, None] + np.arange(window_size)
    window = np.asarray(hann(window_size)).view(np.float32).astype(np.float64)
    magnitudes = np.abs(np.fft.rfft(sound.T[:, at] * window, length))
    return magnitudes ** 2 if magnitude_squared else magnitudes


@flex_op("Mfcc", "float32 int32 -> float32", sized_by=(1,))
def mfcc(spectrogram: _Array, rate: _Array, *, upper_frequency_limit: float = 4000.0,
         lower_frequency_limit: float = 20.0, filterbank_channel_count: int = 40,
         dct_coefficient_count: int = 13) -> _Array:
    """spectrogram: (channels, windows, frequencies) of squared magnitudes; (channels, windows, coefficients)."""
    filters = mel_filters(spectrogram.shape[2], int(rate), lower_frequency_limit, upper_frequency_limit,
                          filterbank_channel_count)
    if filters is None:
        raise ValueError(f"a sample rate of {int(rate)} has no frequency of {upper_frequency_limit} Hz")
    bands = np.sqrt(spectrogram.astype(np.float64)) @ filters.T
    angles = np.pi / filterbank_channel_count * (np.arange(filterbank_channel_count) + 0.5)
    cosines = np.sqrt(2 / filterbank_channel_count) * np.cos(np.outer(np.arange(dct_coefficient_count), angles))
    return np.log(np.maximum(bands, _FLOOR)) @ cosines.T
