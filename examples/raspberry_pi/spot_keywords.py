"""Spot short sounds or words in a .wav file or from the microphone.

Without arguments it reads samples/sounds.wav with the model `sounds`, which is bundled with pylite: low and high tones,
rising and falling whistles, double claps.  `sounds` was trained on synthetic sound, not on speech.  It takes any
keyword model whose input is one second of the features of logmel.py, (1, 49, 40, 1), and whose class 0 is "nothing":

    python spot_keywords.py --model keywords.tflite --labels words.txt --wav recording.wav
    python spot_keywords.py --microphone             # then whistle, or clap twice
"""
import argparse
import sys
from pathlib import Path

import common
import logmel
import numpy as np

from pylite import Interpreter, Model
from pylite.media import audio, capture, labels, metadata, tensors

STEP = logmel.RATE // 10        # samples between two inferences
AVERAGED = 3                    # inferences whose scores are averaged
PAUSE = 0.5                     # seconds before another sound is reported


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_arguments(parser, model="sounds")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--wav", metavar="FILE", default=Path(__file__).parent / "samples" / "sounds.wav",
                        help="any rate, width and number of channels (default: one sound of every kind)")
    source.add_argument("--microphone", action="store_true", help="listen until Ctrl-C (sounddevice, or arecord)")
    parser.add_argument("--threshold", type=float, default=0.7, help="minimum score (default: %(default)s)")
    args = parser.parse_args()
    try:
        model = Model(common.path_of(args))
        interpreter = Interpreter(model=model, num_threads=args.threads)
        interpreter.allocate_tensors()
        names = labels.read(args.labels) if args.labels else metadata.read(model)[1][0].labels.get("", {})
        pieces = microphone() if args.microphone else wav_pieces(args.wav)
        count = 0
        for second, score, kind in spot(interpreter, pieces, args.threshold):
            count += 1
            sys.stdout.write(f"{second:6.1f} s  {score:7.2%}  {names.get(kind, f'class {kind}')}\n")
            sys.stdout.flush()
        sys.stdout.write(f"{count} heard\n")
    except (OSError, ValueError) as error:
        common.stop(f"spot_keywords: {error}")
    except KeyboardInterrupt:
        pass


def spot(interpreter, pieces, threshold):
    """Yield (second, score, class) for each sound in `pieces` of STEP samples (float32, -1..1)."""
    detail = interpreter.get_input_details()[0]
    if tuple(detail["shape"][-3:]) != (logmel.FRAMES, logmel.BANDS, 1):
        raise ValueError(f"the model takes {detail['shape'].tolist()}, not the features of logmel.py, "
                         f"[1, {logmel.FRAMES}, {logmel.BANDS}, 1]")
    output = interpreter.get_output_details()[0]
    heard = np.zeros(logmel.RATE, np.float32)
    recent, ready, reported = [], 0.0, 0
    for i, piece in enumerate(pieces, 1):
        heard = np.concatenate([heard[STEP:], piece])
        x = logmel.features(heard)[None, ..., None]
        interpreter.set_tensor(detail["index"], tensors.quantize(x, detail))
        interpreter.invoke()
        y = tensors.dequantize(interpreter.get_tensor(output["index"]), output)
        recent = [*recent, y.reshape(-1)][-AVERAGED:]
        scores, now = np.mean(recent, 0), i * STEP / logmel.RATE
        best = int(scores.argmax())
        if scores[reported] < threshold / 2:        # the sound is over, and may be reported again
            reported = 0
        if best not in (0, reported) and scores[best] >= threshold and len(recent) == AVERAGED and now >= ready:
            yield now, float(scores[best]), best
            ready, reported = now + PAUSE, best


def wav_pieces(path):
    """The file's sound in pieces of STEP samples, followed by a second of silence."""
    samples = audio.resample(*audio.read(path), logmel.RATE)
    samples = np.pad(samples, (0, logmel.RATE + -len(samples) % STEP)).astype(np.float32)
    yield from samples.reshape(-1, STEP)


def microphone():
    """Endless sound from the microphone in pieces of STEP samples."""
    try:
        yield from capture.sounds(logmel.RATE, STEP)
    except ImportError as error:
        common.stop(f"--microphone: {error}")


if __name__ == "__main__":
    main()
