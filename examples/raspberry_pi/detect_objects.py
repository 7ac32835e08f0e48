"""Detect objects in a picture, print them, and write the picture with boxes around them.

Without arguments it detects handwritten digits in samples/scene.pgm with the model `digit-detector`, which is bundled
with pylite.  It takes any SSD model that ends in TFLite_Detection_PostProcess:

    python detect_objects.py --model ssd_mobilenet.tflite --labels coco.txt --image street.jpg --output found.jpg
    python detect_objects.py --camera --invert       # digits drawn with a thick pen on paper
"""
import argparse
import sys
import time
from pathlib import Path

import common
import numpy as np

from pylite.media import images
from pylite.tasks import ObjectDetector

COLOURS = ((230, 60, 60), (60, 160, 240), (70, 200, 90), (240, 170, 30), (190, 90, 220))
MIN_WIDTH = 480         # pixels of the written picture, so that the text is readable


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_arguments(parser, model="digit-detector")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--image", metavar="FILE", default=Path(__file__).parent / "samples" / "scene.pgm",
                        help="(default: a scene with digits)")
    source.add_argument("--camera", action="store_true", help="use the Raspberry Pi's camera, until Ctrl-C")
    parser.add_argument("--invert", action="store_true",
                        help="invert the picture for the model, which is trained on bright digits on a dark background")
    parser.add_argument("--threshold", type=float, default=0.5, help="minimum score of a box (default: %(default)s)")
    parser.add_argument("--output", metavar="FILE", default="detected.ppm",
                        help="picture to write; .png or .jpg, and names beside the boxes, need Pillow "
                             "(default: %(default)s)")
    args = parser.parse_args()
    try:
        detector = common.make(ObjectDetector, args, score_threshold=args.threshold)
        pictures = common.camera_pictures() if args.camera else [images.read(args.image)]
        for pixels in pictures:
            found = detect(detector, 255 - pixels if args.invert else pixels)
            images.write(args.output, draw(pixels, found))
            sys.stdout.write(f"wrote {args.output}\n")
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        common.stop(f"detect_objects: {error}")
    except KeyboardInterrupt:
        pass


def detect(detector, pixels):
    """Print and return the objects in uint8 pixels (height, width, channels)."""
    start = time.perf_counter()
    found = detector.detect(pixels)
    seconds = time.perf_counter() - start
    for detection in found:
        box, category = detection.bounding_box, detection.categories[0]
        sys.stdout.write(f"{category.score:7.2%}  {common.text(category):12}  rows {box.origin_y} to "
                         f"{box.origin_y + box.height}, columns {box.origin_x} to {box.origin_x + box.width}\n")
    sys.stdout.write(f"{len(found)} found ({seconds * 1e3:.2f} ms)\n")
    return found


def draw(pixels, found):
    """The picture in colour with a box around each object, and its name if Pillow is installed."""
    scale = -(-MIN_WIDTH // pixels.shape[1])
    picture = np.repeat(np.repeat(images.channels(pixels, 3), scale, 0), scale, 1)
    height, width = picture.shape[:2]
    corners = []
    for detection in found:
        box = detection.bounding_box
        y0, y1 = (min(y * scale, height - 1) for y in (box.origin_y, box.origin_y + box.height))
        x0, x1 = (min(x * scale, width - 1) for x in (box.origin_x, box.origin_x + box.width))
        colour = COLOURS[detection.categories[0].index % len(COLOURS)]
        inside = picture[y0 + 2:y1 - 2, x0 + 2:x1 - 2].copy()
        picture[y0:y1, x0:x1] = colour
        picture[y0 + 2:y1 - 2, x0 + 2:x1 - 2] = inside
        corners.append((x0, y0, colour))
    return write_names(picture, found, corners)


def write_names(picture, found, corners):
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        return picture
    canvas = Image.fromarray(picture)
    pen = ImageDraw.Draw(canvas)
    for detection, (x, y, colour) in zip(found, corners, strict=True):
        category = detection.categories[0]
        pen.text((x, max(y - 12, 0)), f"{common.text(category)} {category.score:.0%}", fill=colour)
    return np.asarray(canvas)


if __name__ == "__main__":
    main()
