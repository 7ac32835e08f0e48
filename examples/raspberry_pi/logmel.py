"""Log-mel features in numpy, the input of the keyword and sound models here.

One second of 16 kHz sound becomes 49 frames (32 ms long, 20 ms apart) of 40 mel bands.  A feature is the band's
power in bel (tens of decibels) relative to the median of the second, clipped to -2..6, so that it does not depend on
the volume of the microphone.
"""
import numpy as np

RATE = 16000            # samples per second
WINDOW, HOP = 512, 320  # samples
FRAMES, BANDS = 49, 40
LOW, HIGH = 60.0, 7600.0        # Hz
LEAST, MOST = -2.0, 6.0         # bel


def _mel(hertz):
    return 2595 * np.log10(1 + np.asarray(hertz) / 700)


def _filters():
    """Triangles, evenly spaced on the mel scale: (WINDOW / 2 + 1, BANDS)."""
    edges = 700 * (10 ** (np.linspace(_mel(LOW), _mel(HIGH), BANDS + 2) / 2595) - 1)
    bins = np.arange(WINDOW // 2 + 1)[:, None] * (RATE / WINDOW)
    width = np.maximum(np.diff(edges), RATE / WINDOW)       # at least a bin of the spectrum
    rising = 1 - (edges[1:-1] - bins) / width[:-1]
    falling = 1 - (bins - edges[1:-1]) / width[1:]
    return np.clip(np.minimum(rising, falling), 0, None)


_FILTERS = _filters().astype(np.float32)
_HANN = np.hanning(WINDOW + 1)[:-1].astype(np.float32)


def features(samples):
    """float32 samples in -1..1, (..., RATE) -> float32 (..., FRAMES, BANDS)."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, WINDOW, -1)[..., ::HOP, :][..., :FRAMES, :]
    power = np.abs(np.fft.rfft(frames * _HANN)).astype(np.float32) ** 2
    bel = np.log10(power @ _FILTERS + 1e-7)
    bel = np.maximum(bel, bel.max((-2, -1), keepdims=True) - MOST)     # a lower limit for digital silence
    return np.clip(bel - np.median(bel, (-2, -1), keepdims=True), LEAST, MOST)
