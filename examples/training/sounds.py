"""The model `sounds`: which of five simple sounds, if any, a second of sound contains.

All training sound is synthesized here: tones, whistles and claps that differ in pitch, length, timbre, echo and noise,
and, as background, noise, hum, clicks, voice-like babble and melodies.  It uses no recordings, and is not a speech
model.
"""
import os
import sys
import wave

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")      # sums in one order: the same weights every time

import numpy as np
import task
from export import Exporter
from nn import Conv, Dense, Depthwise, Network, softmax_cross_entropy, train

EXAMPLES = task.HERE.parent / "raspberry_pi"
sys.path.append(str(EXAMPLES))
from logmel import BANDS, FRAMES, LEAST, MOST, RATE, features  # noqa: E402

NAME = "sounds"
LABELS = ["background", "low tone", "high tone", "rising whistle", "falling whistle", "double clap"]
TRAINING, TEST = 12000, 1200        # clips
STEPS = 3000


def _times(seconds):
    return np.arange(round(seconds * RATE)) / RATE


def _voiced(rng, pitch, richness):
    """A sound whose pitch (Hz) changes over time: fundamental and weaker harmonics."""
    phase = 2 * np.pi * np.cumsum(pitch) / RATE + rng.uniform(0, 6)
    y = np.sin(phase)
    for harmonic in range(2, 5):
        y += rng.uniform(0, richness) / harmonic * np.sin(harmonic * phase + rng.uniform(0, 6))
    return y


def _faded(y, seconds):
    """`y` with a soft start and end."""
    n = min(max(round(seconds * RATE), 1), len(y) // 2)
    ramp = np.sin(np.linspace(0, np.pi / 2, n)) ** 2
    y[:n] *= ramp
    y[-n:] *= ramp[::-1]
    return y


def _tone(rng, low, high):
    seconds = rng.uniform(0.2, 0.6)
    pitch = np.exp(rng.uniform(np.log(low), np.log(high))) * (1 + rng.uniform(-0.02, 0.02) * _times(seconds) / seconds)
    return _faded(_voiced(rng, pitch, 0.6), rng.uniform(0.005, 0.05))


def _whistle(rng, rising):
    seconds = rng.uniform(0.25, 0.65)
    low = np.exp(rng.uniform(np.log(500), np.log(1500)))
    bend = (_times(seconds) / seconds) ** rng.uniform(0.6, 1.6)
    pitch = low * rng.uniform(1.5, 2.6) ** (bend if rising else 1 - bend)
    breath = rng.uniform(0, 0.1) * rng.standard_normal(len(pitch))
    return _faded(_voiced(rng, pitch, 0.3) + breath, rng.uniform(0.02, 0.1))


def _clap(rng):
    decay = rng.uniform(0.008, 0.03)
    y = _coloured(rng, round(6 * decay * RATE), rng.uniform(0, 0.6))
    return y * np.exp(-_times(len(y) / RATE) / decay) / np.abs(y).max()


def _double_clap(rng):
    first, second, gap = _clap(rng), _clap(rng), round(rng.uniform(0.15, 0.4) * RATE)
    y = np.zeros(max(len(first), gap + len(second)))
    y[:len(first)] += first
    y[gap:gap + len(second)] += rng.uniform(0.6, 1.4) * second
    return y


SOUNDS = {"low tone": lambda rng: _tone(rng, 250, 600), "high tone": lambda rng: _tone(rng, 1200, 3000),
          "rising whistle": lambda rng: _whistle(rng, True), "falling whistle": lambda rng: _whistle(rng, False),
          "double clap": _double_clap}


def _coloured(rng, n, slope):
    """Noise whose amplitude falls as frequency ** -slope."""
    spectrum = np.fft.rfft(rng.standard_normal(n))
    spectrum *= np.maximum(np.arange(len(spectrum)), 1) ** -slope
    y = np.fft.irfft(spectrum, n)
    return y / (y.std() + 1e-9)


def _babble(rng):
    """Syllables with varying pitch and formants, which resemble a distant voice."""
    y = np.zeros(RATE)
    at = round(rng.uniform(0, 0.2) * RATE)
    while at < RATE:
        n = round(rng.uniform(0.08, 0.25) * RATE)
        pitch = rng.uniform(90, 260) * np.linspace(1, rng.uniform(0.8, 1.25), n)
        phase = 2 * np.pi * np.cumsum(pitch) / RATE
        formants = [(rng.uniform(300, 800), 90), (rng.uniform(900, 2300), 140), (rng.uniform(2400, 3200), 200)]
        syllable = sum(sum(1 / (1 + ((h * pitch.mean() - f) / w) ** 2) for f, w in formants) * np.sin(h * phase)
                       for h in range(1, 24))
        end = min(RATE, at + n)
        y[at:end] += _faded(syllable, 0.03)[:end - at]
        at += n + round(rng.exponential(0.06) * RATE)
    return y


def _melody(rng):
    """Notes without pauses between them."""
    y, at = np.zeros(RATE), 0
    while at < RATE:
        n = round(rng.uniform(0.06, 0.2) * RATE)
        note = _faded(_voiced(rng, np.full(n, 220 * 2 ** (rng.integers(0, 36) / 12)), 1.0), 0.01)
        y[at:at + n] += note[:RATE - at]
        at += n
    return y


def _clicks(rng):
    """One clap, or four to nine."""
    y, at = np.zeros(RATE), round(rng.uniform(0, 0.2) * RATE)
    gap = round(rng.uniform(0.1, 0.2) * RATE)
    for _ in range(rng.choice([1, rng.integers(4, 10)])):
        clap = rng.uniform(0.6, 1.4) * _clap(rng)
        y[at:at + len(clap)] += clap[:max(RATE - at, 0)]
        at += round(rng.uniform(0.85, 1.15) * gap)
    return np.roll(y, rng.integers(0, RATE))


def _hum(rng):
    return sum(rng.uniform(0, 1) * np.sin(2 * np.pi * rng.choice([50, 60]) * h * _times(1)) for h in range(1, 6))


def _other_tone(rng):
    """A tone that lasts the whole second, or one with a pitch between the low and the high tones."""
    if rng.random() < 0.5:
        return _voiced(rng, np.full(RATE, np.exp(rng.uniform(np.log(150), np.log(4000)))), 0.6)
    return _placed(_tone(rng, 750, 950), RATE, rng)


BACKGROUND = [_babble, _babble, _melody, _clicks, _hum, _other_tone, lambda rng: np.zeros(RATE)]


def _placed(sound, n, rng, inside=0.85):
    """`n` samples with `sound` at a random position, of which at least the fraction `inside` is in them."""
    hidden = round((1 - inside) * len(sound))
    at = rng.integers(-hidden, n - len(sound) + hidden + 1)
    y = np.zeros(n)
    y[max(at, 0):at + len(sound)] = sound[max(-at, 0):n - at]
    return y


def _recorded(rng, y):
    """`y` at a random volume, with noise and sometimes a short echo."""
    if rng.random() < 0.5:
        tail = rng.standard_normal(round(0.15 * RATE)) * np.exp(-_times(0.15) / rng.uniform(0.01, 0.05))
        tail[0] = rng.uniform(4, 20)
        size = 2 * RATE
        y = np.fft.irfft(np.fft.rfft(y, size) * np.fft.rfft(tail / tail[0], size), size)[:len(y)]
    y = y / (np.abs(y).max() + 1e-9)
    noise = _coloured(rng, len(y), rng.uniform(0, 1)) * 10 ** rng.uniform(-3.5, -1.3)
    return 10 ** rng.uniform(-1.5, 0) * (y + noise) * 0.5


def clip(rng, label):
    """One second of sound that contains `label`, sometimes with weak background sound."""
    if label == "background":
        y = _recorded(rng, BACKGROUND[rng.integers(len(BACKGROUND))](rng))
        return _muted(rng, y, np.sort(rng.integers(0, RATE, 2)))
    y = _placed(SOUNDS[label](rng), RATE, rng, inside=1 if label == "double clap" else 0.85)
    y /= np.abs(y).max()
    heard = np.flatnonzero(y)[[0, -1]]
    if rng.random() < 0.3:
        other = [_babble, _hum][rng.integers(2)](rng)
        y += rng.uniform(0, 0.15) * other / (np.abs(other).max() + 1e-9)
    return _muted(rng, _recorded(rng, y), heard)


def _muted(rng, y, keep):
    """`y` with occasional digital silence before keep[0] or after keep[1], as at the start of a recording."""
    if rng.random() < 0.1:
        y[:rng.integers(0, keep[0] + 1)] = 0
    if rng.random() < 0.1:
        y[rng.integers(keep[1], RATE):] = 0
    return y


def data(seed, count):
    """(features (count, FRAMES, BANDS, 1), classes); a third is background."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(-2, len(LABELS), count).clip(0)
    found = [features(clip(rng, LABELS[c]).astype(np.float32)) for c in classes]
    return np.stack(found)[..., None], classes


def network():
    rng = np.random.default_rng(1)
    return Network([Conv(rng, 1, 16, stride=2), Depthwise(rng, 16, stride=2), Conv(rng, 16, 32, kernel=1),
                    Depthwise(rng, 32, stride=2), Conv(rng, 32, 32, kernel=1)],
                   [Dense(rng, 7 * 5 * 32, len(LABELS))])


def fit(net):
    rng = np.random.default_rng(2)
    x, classes = data(3, TRAINING)
    task.say(f"made {len(x)} clips")

    def batches():
        while True:
            pick = rng.integers(0, len(x), 64)
            yield _shaken(rng, x[pick]), classes[pick]

    def loss(outputs, target):
        value, gradient = softmax_cross_entropy(outputs[0], target)
        return value, [gradient]
    train(net, batches(), loss, STEPS, decay=1e-2, report=task.progress)


def _shaken(rng, x):
    """Features `x`, shifted randomly in time and with noise, so that each batch is new."""
    frames = np.arange(FRAMES) + rng.integers(-3, 4, (len(x), 1))
    x = x[np.arange(len(x))[:, None], frames.clip(0, FRAMES - 1)]
    return np.clip(x + rng.normal(0, 0.12, x.shape).astype(np.float32), LEAST, MOST)


def calibration():
    yield data(4, 500)[0]


def build(net, ranges):
    model = Exporter(net, ranges, "pylite sounds: tones, whistles and claps in a second of log-mel features",
                     "features", (1, FRAMES, BANDS, 1), LEAST, MOST, limit=20)
    y = model.probabilities("SOFTMAX", model.heads[0], "probabilities", beta=1.0)
    return model.finish(LABELS, {"probabilities": y})


def measure_float(net):
    x, classes = data(5, TEST)
    return _score(net.forward(x)[0].argmax(1), classes)


def measure(run):
    x, classes = data(5, TEST)
    steps = np.rint(x * (255 / (MOST - LEAST)) - 128 - round(LEAST * 255 / (MOST - LEAST))).clip(-128, 127)
    return _score([run(s[None])[0].argmax() for s in steps.astype(np.int8)], classes)


def _score(found, classes):
    found = np.asarray(found)
    right = found == classes
    each = ", ".join(f"{label} {right[classes == i].mean():.1%}" for i, label in enumerate(LABELS))
    return f"{right.mean():.2%} of {len(classes)} new clips right ({each})"


def samples():
    """Write a .wav file with one sound of every kind to the examples."""
    rng = np.random.default_rng(6)
    y = np.zeros(round(4.4 * RATE))
    for label, second in (("rising whistle", 0.3), ("double clap", 1.1), ("low tone", 1.9), ("falling whistle", 2.7),
                          ("high tone", 3.5)):
        sound = SOUNDS[label](rng)
        at = round(second * RATE)
        y[at:at + len(sound)] += 0.5 * sound / np.abs(sound).max()
    y += 0.002 * _coloured(rng, len(y), 0.5)
    (EXAMPLES / "samples").mkdir(exist_ok=True)
    with wave.open(str(EXAMPLES / "samples" / "sounds.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.rint(y * 32767).astype("<i2").tobytes())


if __name__ == "__main__":
    task.main(sys.modules[__name__])
