"""AudioSpectrogram and Mfcc, custom ops that TensorFlow Lite has built in: the features of sound."""
from functools import lru_cache
from math import prod
from struct import pack

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call, Temporary
from pylite.ops.complex import TABLE_BYTES, transform_scratch
from pylite.ops.custom_options import decoded, integer_option
from pylite.ops.elementwise import UNBOUNDED, row_function
from pylite.ops.moves import filled, scalar


# ---- AudioSpectrogram --------------------------------------------------------------------------------------------
def windows(node):
    """(window size, step, number of windows, length of the transform)."""
    x = node.inputs[0]
    if len(x.shape) != 2:
        raise node.error(f"of shape {list(x.shape)} should be [samples, channels]", x)
    options = decoded(node)
    size, step = integer_option(node, options, "window_size", 2), integer_option(node, options, "stride", 1)
    return size, step, max(0, (x.shape[0] - size) // step + 1), 1 << (size - 1).bit_length()


def infer_spectrogram(node):
    _, _, count, length = windows(node)
    return [(node.inputs[0].shape[1], count, length // 2 + 1)]


@lru_cache(8)
def hann(size):
    """The periodic Hann window as bytes of float32."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32).view(np.uint8)


def lower_spectrogram(node):
    """Copies of the overlapping windows, times the Hann window; their Fourier transform; its magnitudes."""
    x, y = node.inputs[0], node.outputs[0]
    size, step, count, length = windows(node)
    channels = x.shape[1]
    n = channels * count
    node.check_memory(TABLE_BYTES * length, "tables of the Fourier transform")
    frames = Temporary(node, (channels, count, size), "float32")
    spectrum = Temporary(node, (n, 1, length + 2), "float32", 1)
    calls = [Call("movement.Copy", x.view(frames.shape, (1, step * channels, channels)), frames.view()),
             Call("elementwise.Binary", "mul_f32", (n, size), frames.bytes, hann(size), frames.bytes,
                  a_strides=(size, 1), b_strides=(0, 1), p=UNBOUNDED),
             Call("fourier.Rfft2d", frames.view((n, 1, size)), spectrum.view(), transform_scratch(n, 1, length), 1,
                  length),
             Call("fourier.Abs", spectrum.flat, y.flat)]
    if decoded(node).get("magnitude_squared"):
        calls.append(Call("elementwise.Unary", "square_f32", y.size, y.bytes, y.bytes))
    return calls


register("AudioSpectrogram", types=["float32 -> float32"], infer=infer_spectrogram, lower=lower_spectrogram)


# ---- Mfcc --------------------------------------------------------------------------------------------------------
def infer_mfcc(node):
    x = node.inputs[0]
    if len(x.shape) != 3:
        raise node.error(f"of shape {list(x.shape)} should be spectrograms, [channels, windows, frequencies]", x)
    return [(*x.shape[:2], integer_option(node, decoded(node), "dct_coefficient_count", 1))]


def mel(frequency):
    return 1127.0 * np.log1p(frequency / 700.0)


@lru_cache(8)
def mel_filters(bins, rate, low, high, channels):
    """(channels, bins): triangles that overlap by half, evenly spaced on the mel scale; None if `high` is too high.

    bins: frequencies of the spectrogram; rate: samples a second; low, high: limits in Hz.
    """
    width = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / width), int(high / width)
    if last >= bins:
        return None
    edges = mel(low) + (mel(high) - mel(low)) / (channels + 1) * np.arange(channels + 2)
    filters = np.zeros((channels, bins))
    for i in range(first, last + 1):
        position = mel(i * width)
        band = min(int(np.searchsorted(edges[1:-1], position)), channels)    # between edges[band] and edges[band + 1]
        weight = (edges[band + 1] - position) / (edges[band + 1] - edges[band])
        if band > 0:
            filters[band - 1, i] += weight
        if band < channels:
            filters[band, i] += 1 - weight
    return filters


def lower_mfcc(node):
    """Magnitudes weighted by the mel filters; the cosine transform of their logarithms."""
    x, y = node.inputs[0], node.outputs[0]
    rate = scalar(node, 1, "sample rate")
    options = decoded(node)
    low, high, channels = (integer_option(node, options, name, least) for name, least in (
        ("lower_frequency_limit", 0), ("upper_frequency_limit", 1), ("filterbank_channel_count", 1)))
    count, bins = y.shape[2], x.shape[2]
    if count > channels or high <= low or rate <= 0 or bins < 2:
        raise node.error(f"has {bins} frequencies at a rate of {rate}, which do not give {count} coefficients of "
                         f"{channels} filters from {low} to {high} Hz", x)
    node.check_memory(8 * (channels * (bins + count) + 4 * channels), "tables of filters")
    filters = mel_filters(bins, rate, low, high, channels)
    if filters is None:
        return filled(y, 0.0)
    angles = np.pi / channels * (np.arange(channels) + 0.5)
    cosines = np.sqrt(2 / channels) * np.cos(np.outer(np.arange(count), angles))
    rows = prod(x.shape[:2])
    magnitudes = Temporary(node, (rows, bins), "float32")
    bands = Temporary(node, (rows, channels), "float32", 1)
    positive = pack("2f", 1e-12, float("inf"))
    return [Call("elementwise.Unary", "sqrt_f32", x.size, x.bytes, magnitudes.bytes),
            row_function("project", rows, 0, (bins, channels), magnitudes, filters, bands),
            Call("elementwise.Unary", "clamp_f32", bands.size, bands.bytes, bands.bytes, positive),
            Call("elementwise.Unary", "log_f32", bands.size, bands.bytes, bands.bytes),
            row_function("project", rows, 0, (channels, count), bands, cosines, y)]


register("Mfcc", types=["float32 int32 -> float32"], infer=infer_mfcc, lower=lower_mfcc)
