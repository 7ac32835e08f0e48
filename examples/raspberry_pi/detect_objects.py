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
        interpreter, names = common.load(args)
        pictures = common.camera_pictures() if args.camera else [images.read(args.image)]
        for pixels in pictures:
            found, seconds = detect(interpreter, 255 - pixels if args.invert else pixels, args.threshold)
            report(found, names, pixels.shape, seconds)
            images.write(args.output, draw(pixels, found, names))
            sys.stdout.write(f"wrote {args.output}\n")
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        common.stop(f"detect_objects: {error}")
    except KeyboardInterrupt:
        pass


def detect(interpreter, pixels, threshold):
    """([(score, class, [top, left, bottom, right] as fractions of the picture)], seconds)"""
    common.set_picture(interpreter, pixels)
    start = time.perf_counter()
    interpreter.invoke()
    seconds = time.perf_counter() - start
    results = common.outputs(interpreter)
    if len(results) != 4:
        raise ValueError(f"the model has {len(results)} outputs, not the 4 of TFLite_Detection_PostProcess")
    boxes, classes, scores, count = (y.reshape(-1, 4) if i == 0 else y.reshape(-1) for i, y in enumerate(results))
    return [(float(scores[i]), int(classes[i]), boxes[i].clip(0, 1).tolist())
            for i in range(int(count[0])) if scores[i] >= threshold], seconds


def report(found, names, shape, seconds):
    """Print the detected objects, with boxes in pixels."""
    for score, kind, box in found:
        top, left, bottom, right = (round(edge * shape[i % 2]) for i, edge in enumerate(box))
        sys.stdout.write(f"{score:7.2%}  {names.get(kind, f'class {kind}'):12}  rows {top} to {bottom}, "
                         f"columns {left} to {right}\n")
    sys.stdout.write(f"{len(found)} found ({seconds * 1e3:.2f} ms)\n")


def draw(pixels, found, names):
    """The picture in colour with a box around each object, and its name if Pillow is installed."""
    scale = -(-MIN_WIDTH // pixels.shape[1])
    picture = np.repeat(np.repeat(images.channels(pixels, 3), scale, 0), scale, 1)
    height, width = picture.shape[:2]
    corners = []
    for _, kind, (top, left, bottom, right) in found:
        y0, y1 = (min(round(y * height), height - 1) for y in (top, bottom))
        x0, x1 = (min(round(x * width), width - 1) for x in (left, right))
        colour = COLOURS[kind % len(COLOURS)]
        inside = picture[y0 + 2:y1 - 2, x0 + 2:x1 - 2].copy()
        picture[y0:y1, x0:x1] = colour
        picture[y0 + 2:y1 - 2, x0 + 2:x1 - 2] = inside
        corners.append((x0, y0, colour))
    return write_names(picture, found, names, corners)


def write_names(picture, found, names, corners):
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        return picture
    canvas = Image.fromarray(picture)
    pen = ImageDraw.Draw(canvas)
    for (score, kind, _), (x, y, colour) in zip(found, corners, strict=True):
        pen.text((x, max(y - 12, 0)), f"{names.get(kind, kind)} {score:.0%}", fill=colour)
    return np.asarray(canvas)


if __name__ == "__main__":
    main()
