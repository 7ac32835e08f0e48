"""Classify what the camera sees when a button is pressed, and light an LED if it is what is looked for.

The button connects GPIO 17 to ground, the LED with its resistor GPIO 27.  With --simulate there are neither: the
given number of presses follow one another, and the LED is printed.  Then the picture is a handwritten seven, or
--image.

    python button_classify.py --simulate 2
    python button_classify.py --wanted seven --paper          # a digit, written with a thick pen, before the camera
"""
import argparse
import sys

import classify_image
import common

from pylite.media import images, models
from pylite.tasks import ImageClassifier


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    common.add_arguments(parser, model="digits")
    parser.add_argument("--simulate", type=common.positive(int), metavar="N", help="N presses without hardware")
    parser.add_argument("--image", metavar="FILE", help="a picture instead of the camera's")
    parser.add_argument("--paper", action="store_true", help="cut one dark digit on bright paper out of the picture")
    parser.add_argument("--wanted", default="seven", help="the class for which the LED is lit (default: %(default)s)")
    parser.add_argument("--button", type=int, default=17, metavar="GPIO", help="(default: %(default)s)")
    parser.add_argument("--led", type=int, default=27, metavar="GPIO", help="(default: %(default)s)")
    args = parser.parse_args()
    try:
        classifier = common.make(ImageClassifier, args, max_results=1)
        image = args.image or (models.sample("seven") if args.simulate is not None else None)
        pictures = always(images.read(image)) if image else common.camera_pictures()
        led, presses = (PrintedLED(), range(args.simulate)) if args.simulate is not None else hardware(args)
        for _ in presses:
            pixels = next(pictures)
            best = classifier.classify(classify_image.cut_out(pixels) if args.paper else pixels).categories[0]
            sys.stdout.write(f"{best.score:7.2%}  {common.text(best)}\n")
            (led.on if common.text(best) == args.wanted else led.off)()
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        common.stop(f"button_classify: {error}")
    except KeyboardInterrupt:
        pass


def always(pixels):
    while True:
        yield pixels


class PrintedLED:
    def on(self):
        sys.stdout.write("LED on\n")

    def off(self):
        sys.stdout.write("LED off\n")


def hardware(args):
    """(LED, endless presses of the button)"""
    try:
        from gpiozero import LED, Button
    except ImportError:
        common.stop("the button needs gpiozero, a package of Raspberry Pi OS: sudo apt install python3-gpiozero "
                    "(and a virtual environment made with --system-site-packages); --simulate N does without")
    button = Button(args.button)

    def presses():
        while True:
            button.wait_for_press()
            yield
            button.wait_for_release()
    return LED(args.led), presses()


if __name__ == "__main__":
    main()
