"""Shared by the three examples: loading a model and its labels, setting pictures, reading outputs, the camera."""
import os
import sys

import numpy as np

from pylite import Model
from pylite.interpreter import Interpreter
from pylite.media import images, labels, models


def stop(text):
    """End the program with a message and exit code 2."""
    sys.stderr.write(text + "\n")
    raise SystemExit(2)


def add_arguments(parser, model):
    parser.add_argument("--model", default=model, metavar="MODEL",
                        help="a .tflite file, or a model that is bundled with pylite (default: %(default)s)")
    parser.add_argument("--labels", metavar="FILE",
                        help="names of the classes, one per line (default: those inside the model)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="(default: %(default)s, all cores)")


def load(args):
    """(interpreter, {class: name}) for parsed arguments of add_arguments()."""
    path = models.path(args.model) if args.model in models.names() else args.model
    model = Model(path)
    if args.labels:
        names = labels.read(args.labels)
    else:
        names = next(iter(labels.attached(path, model.associated_files)), {})
    interpreter = Interpreter(model=model, num_threads=args.threads)
    interpreter.allocate_tensors()
    return interpreter, names


def set_picture(interpreter, pixels):
    """Set the model's input to uint8 pixels (height, width, channels), converted to its size and type."""
    detail = interpreter.get_input_details()[0]
    _, height, width, channels = detail["shape"]
    pixels = images.resize(images.channels(pixels, channels), height, width)[None]
    if detail["dtype"] == np.int8:
        pixels = (pixels ^ 0x80).view(np.int8)      # int8 is uint8 - 128
    elif detail["dtype"] == np.float32:
        pixels = pixels.astype(np.float32) / 127.5 - 1
    interpreter.set_tensor(detail["index"], pixels)


def outputs(interpreter):
    """All outputs as real numbers."""
    found = []
    for detail in interpreter.get_output_details():
        y = interpreter.get_tensor(detail["index"])
        scale, zero_point = detail["quantization"]
        found.append((y.astype(np.float32) - zero_point) * scale if scale else y)
    return found


def camera_pictures(width=640, height=480):
    """Endless pictures from the Raspberry Pi's camera: uint8 (height, width, 3)."""
    try:
        from picamera2 import Picamera2
    except ImportError:
        stop("--camera needs picamera2, a package of Raspberry Pi OS: sudo apt install python3-picamera2 "
             "(and a virtual environment made with --system-site-packages)")
    with Picamera2() as camera:
        # BGR888 is picamera2's name for arrays with red first
        camera.configure(camera.create_preview_configuration({"format": "BGR888", "size": (width, height)}))
        camera.start()
        while True:
            yield camera.capture_array()
