"""The custom ops that tf.lite has built in: AudioSpectrogram, Mfcc, NumericVerify, aeq.hadamard_rotation.

(TFLite_Detection_PostProcess is in detection.py.)
"""
from functools import cache
from math import prod
from struct import pack

import numpy as np

from pylite.ir.registry import register
from pylite.ir.values import Call, Scratch, Temporary
from pylite.ops.complex import _LOCAL
from pylite.ops.elementwise import raw, require_quantized, task
from pylite.ops.filling import filled
from pylite.ops.moves import scalar
from pylite.schema import flex

_OPEN = pack("2f", float("-inf"), float("inf"))


def option(node, name, least):
    """A whole number among the options, at least `least`."""
    value = flex.decode(node.operator.custom_options, node.name).get(name, 0)
    if not isinstance(value, (int, float)) or not least <= int(value) < 2**31:
        raise node.error(f"its option {name} is {value!r}, not a number of at least {least}")
    return int(value)


# ---- AudioSpectrogram --------------------------------------------------------------------------------------------
def windows(node):
    """(window size, step, number of windows, length of the transform)."""
    x = node.inputs[0]
    if len(x.shape) != 2:
        raise node.error(f"of shape {list(x.shape)} should be [samples, channels]", x)
    size, step = option(node, "window_size", 2), option(node, "stride", 1)
    return size, step, max(0, (x.shape[0] - size) // step + 1), 1 << (size - 1).bit_length()


def infer_spectrogram(node):
    _, _, count, length = windows(node)
    return [(node.inputs[0].shape[1], count, length // 2 + 1)]


@cache
def hann(size):
    """The periodic Hann window as bytes of float32."""
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)).astype(np.float32).view(np.uint8)


def lower_spectrogram(node):
    """Overlapping windows, one below the other, times the Hann window; transformed; magnitudes."""
    x, y = node.inputs[0], node.outputs[0]
    size, step, count, length = windows(node)
    channels = x.shape[1]
    n = channels * count
    frames = Temporary(node, (channels, count, size), "float32")
    spectrum = Temporary(node, (n, 1, length + 2), "float32", 1)
    room = Scratch((min(n, 4), 2, 1, length + 2), "float32") if 2 * (length + 2) > _LOCAL else None
    calls = [Call("movement.Copy", x.view(frames.shape, (1, step * channels, channels)), frames.view()),
             Call("elementwise.Binary", "mul_f32", (n, size), raw(frames), (size, 1), hann(size), (0, 1), raw(frames),
                  _OPEN),
             Call("fourier.Rfft2d", frames.view((n, 1, size)), spectrum.view(), room, 1, length),
             Call("fourier.Abs", spectrum.flat, y.flat)]
    if flex.decode(node.operator.custom_options, node.name).get("magnitude_squared"):
        calls.append(Call("elementwise.Unary", "square_f32", y.size, raw(y), raw(y)))
    return calls


register("AudioSpectrogram", types=["float32 -> float32"], infer=infer_spectrogram, lower=lower_spectrogram)


# ---- Mfcc --------------------------------------------------------------------------------------------------------
def infer_mfcc(node):
    x = node.inputs[0]
    if len(x.shape) != 3:
        raise node.error(f"of shape {list(x.shape)} should be spectrograms, [channels, windows, frequencies]", x)
    return [(*x.shape[:2], option(node, "dct_coefficient_count", 1))]


def mel(frequency):
    return 1127.0 * np.log1p(frequency / 700.0)


@cache
def mel_filters(bins, rate, low, high, channels):
    """(channels, bins): triangles that overlap by half, evenly spaced on the mel scale; None: they go too far up."""
    width = 0.5 * rate / (bins - 1)
    first, last = int(1.5 + low / width), int(high / width)
    if last >= bins:
        return None
    edges = mel(low) + (mel(high) - mel(low)) / (channels + 1) * np.arange(channels + 2)
    filters = np.zeros((channels, bins))
    for i in range(first, last + 1):
        at = mel(i * width)
        band = min(int(np.searchsorted(edges[1:-1], at)), channels)          # between edges[band] and edges[band + 1]
        weight = (edges[band + 1] - at) / (edges[band + 1] - edges[band])
        if band > 0:
            filters[band - 1, i] += weight
        if band < channels:
            filters[band, i] += 1 - weight
    return filters


def lower_mfcc(node):
    """Magnitudes through the mel filters; their logarithms through a cosine transform."""
    x, y = node.inputs[0], node.outputs[0]
    rate = scalar(node, 1, "sample rate")
    low, high = option(node, "lower_frequency_limit", 0), option(node, "upper_frequency_limit", 1)
    channels, count, bins = option(node, "filterbank_channel_count", 1), y.shape[2], x.shape[2]
    if count > channels or high <= low or rate <= 0 or bins < 2:
        raise node.error(f"has {bins} frequencies at a rate of {rate}, which do not give {count} coefficients of "
                         f"{channels} filters from {low} to {high} Hz", x)
    filters = mel_filters(bins, rate, low, high, channels)
    if filters is None:
        return filled(y, 0.0)
    angles = np.pi / channels * (np.arange(channels) + 0.5)
    cosines = np.sqrt(2 / channels) * np.cos(np.outer(np.arange(count), angles))
    rows = prod(x.shape[:2])
    magnitudes = Temporary(node, (rows, bins), "float32")
    bands = Temporary(node, (rows, channels), "float32", 1)
    return [Call("elementwise.Unary", "sqrt_f32", x.size, raw(x), raw(magnitudes)),
            task("project", rows, 0, (bins, channels), magnitudes, filters, bands),
            Call("elementwise.Unary", "clamp_f32", bands.size, raw(bands), raw(bands), pack("2f", 1e-12, float("inf"))),
            Call("elementwise.Unary", "log_f32", bands.size, raw(bands), raw(bands)),
            task("project", rows, 0, (channels, count), bands, cosines, y)]


register("Mfcc", types=["float32 int32 -> float32"], infer=infer_mfcc, lower=lower_mfcc)


# ---- NumericVerify -----------------------------------------------------------------------------------------------
def lower_verify(node):
    """How far the first input, once dequantized, is from the second; an error where the options ask for one."""
    x, wanted, y = node.inputs[0], node.inputs[1], node.outputs[0]
    if x.shape != wanted.shape:
        raise node.error(f"of shape {list(wanted.shape)} should have the shape {list(x.shape)}", wanted)
    row, p = "half_to_float", b""
    if x.dtype != "float16":
        require_quantized(node, x)
        row = {"int8": "dequantize_i8", "uint8": "dequantize_u8", "int16": "dequantize_i16"}[x.dtype]
        p = pack("fi", x.scale, x.zero_point)
    calls = [Call("elementwise.Unary", row, x.size, raw(x), raw(y), p),
             Call("elementwise.Binary", "sub_f32", (y.size,), raw(y), (1,), raw(wanted), (1,), raw(y), _OPEN)]
    options = flex.decode(node.operator.custom_options, node.name)
    if options.get("log_if_failed"):
        calls.append(task("require_within", y.size, 0, (), y,
                          reals=(float(options.get("tolerance", 0)) * float(x.scale),)))
    return calls


register("NumericVerify", types=["int8|uint8|int16|float16 float32 -> float32"],
         infer=lambda node: [node.inputs[0].shape], lower=lower_verify)


# ---- aeq.hadamard_rotation ---------------------------------------------------------------------------------------
def lower_rotation(node):
    x, y = node.inputs[0], node.outputs[0]
    size = option(node, "hadamard_size", 1)
    if size & size - 1 or not x.shape or x.shape[-1] % size:
        raise node.error(f"of shape {list(x.shape)} cannot be rotated {size} elements at a time, which must be a power "
                         "of two that divides the last dimension", x)
    return [Call("movement.Copy", x, y), task("hadamard", y.size // size, 1 + 4096 // size, (size,), y)]


register("aeq.hadamard_rotation", types=["float32 -> float32"], infer=lambda node: [node.inputs[0].shape],
         lower=lower_rotation)
