"""Detect objects in a stream of pictures, as many per second as the camera delivers and the model manages.

Another thread takes the pictures.  The model always gets the newest one, and those that it is too slow for are dropped,
so that what is printed is never older than one picture.  Without arguments the stream is simulated: the digits of
samples/scene.pgm on their way through the picture.

    python camera_loop.py --frames 20
    python camera_loop.py --source holiday/ --model ssd_mobilenet.tflite --labels coco.txt    # files, none dropped
    python camera_loop.py --camera --rate 30 --invert                                         # until Ctrl-C
"""
import argparse
import signal
import sys
import threading
import time
from pathlib import Path

import common
import numpy as np

from pylite.media import images
from pylite.tasks import ObjectDetector


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_arguments(parser, model="digit-detector")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--camera", action="store_true", help="use the Raspberry Pi's camera")
    source.add_argument("--source", metavar="PATH", help="a picture, or a folder of them, by their names")
    parser.add_argument("--rate", type=common.positive(float), default=30,
                        help="pictures per second (default: %(default)s)")
    parser.add_argument("--frames", type=common.positive(int),
                        help="end after so many (default: with the source, or on Ctrl-C)")
    parser.add_argument("--invert", action="store_true", help="invert the pictures, for dark digits on paper")
    parser.add_argument("--threshold", type=float, default=0.5, help="minimum score of a box (default: %(default)s)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())        # as from systemd: the summary is printed
    try:
        detector = common.make(ObjectDetector, args, score_threshold=args.threshold)
        if args.camera:
            stream = Newest(common.camera_pictures(rate=args.rate))
        else:
            stream = files(args.source) if args.source else Newest(simulated(args.rate))
        watch(detector, stream, args.frames, args.invert)
    except (OSError, ValueError) as error:
        common.stop(f"camera_loop: {error}")


def watch(detector, stream, count, invert):
    """Print what is in each picture, and at the end how many there were."""
    done, busy, start = 0, 0.0, time.perf_counter()
    try:
        for pixels in stream:
            begin = time.perf_counter()
            found = detector.detect(255 - pixels if invert else pixels)
            busy += time.perf_counter() - begin
            done += 1
            names = ", ".join(f"{common.text(d.categories[0])} {d.categories[0].score:.0%}" for d in found)
            sys.stdout.write(f"{done:6}  {names or 'nothing'}\n")
            sys.stdout.flush()
            if done == count:
                break
    except KeyboardInterrupt:
        pass
    finally:
        if done:        # else an error says why
            seconds = time.perf_counter() - start
            sys.stdout.write(f"{done} picture{'s' * (done != 1)} in {seconds:.1f} s, {done / seconds:.1f} per second, "
                             f"{busy / done * 1e3:.1f} ms each for detection, "
                             f"{getattr(stream, 'dropped', 0)} dropped\n")
            sys.stdout.flush()


class Newest:
    """A stream that another thread reads, always with its newest picture; dropped: number of the others."""

    def __init__(self, stream):
        self.dropped, self._stream, self._newest, self._ended = 0, stream, None, None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        ended = StopIteration()
        try:
            for pixels in self._stream:
                with self._changed:
                    self.dropped += self._newest is not None
                    self._newest = pixels
                    self._changed.notify()
        except BaseException as error:      # for the thread that waits for pictures
            ended = error
        with self._changed:
            self._ended = ended
            self._changed.notify()

    def __iter__(self):
        return self

    def __next__(self):
        with self._changed:
            self._changed.wait_for(lambda: self._newest is not None or self._ended is not None)
            pixels, self._newest = self._newest, None
            if pixels is None:
                raise self._ended
            return pixels


def simulated(rate):
    """Endless pictures of a scene that moves, `rate` per second."""
    scene = images.read(Path(__file__).parent / "samples" / "scene.pgm")
    due, shift = time.monotonic(), 0
    while True:
        yield np.roll(scene, shift, 1)
        shift += 1
        due += 1 / rate
        time.sleep(max(0.0, due - time.monotonic()))


def files(path):
    """The pictures in a file or a folder."""
    path = Path(path)
    found = sorted(p for p in path.iterdir() if p.suffix.lower() in images.SUFFIXES) if path.is_dir() else [path]
    if not found:
        raise ValueError(f"{path} has no pictures ({', '.join(images.SUFFIXES)})")
    return (images.read(file) for file in found)


if __name__ == "__main__":
    main()
