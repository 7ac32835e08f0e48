"""Classify a picture from a file, or pictures from the camera.

Without arguments it classifies a handwritten seven with the model `digits`, which is bundled with pylite.  It takes any
int8, uint8 or float32 image classifier, such as MobileNet:

    python classify_image.py --model mobilenet_v2.tflite --labels imagenet.txt --image cat.jpg
    python classify_image.py --camera --paper        # hold a digit, written with a thick pen, before the camera
"""
import argparse
import sys
import time

import common
import numpy as np

from pylite.media import images, models
from pylite.tasks import ImageClassifier


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_arguments(parser, model="digits")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--image", metavar="FILE", default=models.sample("seven"), help="(default: a seven)")
    source.add_argument("--camera", action="store_true", help="use the Raspberry Pi's camera, until Ctrl-C")
    parser.add_argument("--paper", action="store_true",
                        help="the picture is one dark digit on bright paper: cut out the digit for `digits`")
    parser.add_argument("--top", type=common.positive(int), default=3,
                        help="number of answers to print (default: %(default)s)")
    args = parser.parse_args()
    try:
        classifier = common.make(ImageClassifier, args, max_results=args.top)
        pictures = common.camera_pictures() if args.camera else [images.read(args.image)]
        for pixels in pictures:
            classify(classifier, cut_out(pixels) if args.paper else pixels)
    except (OSError, ValueError) as error:
        common.stop(f"classify_image: {error}")
    except KeyboardInterrupt:
        pass


def classify(classifier, pixels):
    """Print the best answers for uint8 pixels (height, width, channels)."""
    start = time.perf_counter()
    result = classifier.classify(pixels)
    seconds = time.perf_counter() - start
    for category in result.categories:
        sys.stdout.write(f"{category.score:7.2%}  {common.text(category)}\n")
    sys.stdout.write(f"({seconds * 1e3:.2f} ms)\n")
    sys.stdout.flush()


def cut_out(pixels):
    """The dark pixels as white on black, in a square: the format of the pictures that `digits` was trained on."""
    grey = images.channels(pixels, 1)[:, :, 0].astype(np.float32)
    ink = grey < (grey.min() + np.median(grey)) / 2         # most of the picture is paper
    rows, columns = np.flatnonzero(ink.any(1)), np.flatnonzero(ink.any(0))
    ink = ink[rows[0]:rows[-1] + 1, columns[0]:columns[-1] + 1] if len(rows) else ink
    height, width = ink.shape
    side = max(height, width)
    square = np.zeros((side, side, 1), np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    square[top:top + height, left:left + width, 0] = ink * 255
    return square


if __name__ == "__main__":
    main()
