"""Makes stored.npz with TensorFlow: `python tests/flex/make.py`; needs tensorflow.

"c/NAME/...": models of its converter, which keep Flex ops, and their results; "r/NAME/...": results of single ops.
"""
import json
import os
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

F32 = tf.float32
random = np.random.default_rng(0)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def corners(*shape):
    """Boxes: y and x of two corners, in any order."""
    return random.random((*shape, 4)).astype(np.float32)


def array_by_loop(x):
    array = tf.TensorArray(F32, size=5, element_shape=[3])
    for k in tf.range(5):
        array = array.write(k, x * tf.cast(k, F32))
    return array.stack()


def array_that_grows(x):
    array = tf.TensorArray(F32, size=0, dynamic_size=True, element_shape=[3])
    for _ in tf.range(5):
        array = array.write(array.size(), x * tf.cast(array.size(), F32))
    return array.stack()


def array_unstacked(x):
    given, found = tf.TensorArray(F32, size=4).unstack(x), tf.TensorArray(F32, size=4)
    for k in tf.range(4):
        found = found.write(k, given.read(k) * 2.0)
    return found.stack()


def keras(layer, shape):
    layer.build(shape)
    return lambda x: layer(x)


raw = tf.raw_ops
CONVERTED = {       # name: (function, inputs)
    "atan": (tf.math.atan, [floats(9)]), "tan": (tf.math.tan, [floats(9)]), "sinh": (tf.math.sinh, [floats(9)]),
    "erf": (tf.math.erf, [floats(2, 30)]),
    "bicubic": (lambda x: tf.image.resize(x, [20, 14], "bicubic"), [floats(1, 9, 11, 2)]),
    "bincount": (lambda x: raw.Bincount(arr=x, size=4, weights=np.zeros([0], np.float32)),
                 [random.integers(0, 6, 9).astype(np.int32)]),
    "combined": (lambda b, s: tuple(tf.image.combined_non_max_suppression(b, s, 4, 6, .5, .1)),
                 [corners(2, 10, 1), random.random((2, 10, 3)).astype(np.float32)]),
    "contrast": (lambda x: tf.image.adjust_contrast(x, 2.), [floats(4, 4, 3)]),
    "crop": (lambda x, b: tf.image.crop_and_resize(x, b, [0, 1, 0], [5, 4]), [floats(2, 9, 7, 2), floats(3, 4)]),
    "cumprod": (lambda x: tf.math.cumprod(x, 1, exclusive=True, reverse=True), [floats(3, 9)]),
    "fft": (lambda x: tf.abs(tf.signal.fft(tf.complex(x, x))), [floats(2, 10)]),
    "hsv": (tf.image.rgb_to_hsv, [random.random((4, 4, 3)).astype(np.float32)]),
    "inverse": (tf.linalg.inv, [floats(2, 3, 3)]),
    "istft": (lambda x: tf.signal.inverse_stft(tf.signal.stft(x, 256, 128, 256), 256, 128), [floats(1, 1024)]),
    "mfcc": (lambda x: raw.Mfcc(spectrogram=x, sample_rate=16000), [np.abs(floats(1, 4, 129))]),
    "nms_v2": (lambda b, s: raw.NonMaxSuppressionV2(boxes=b, scores=s, max_output_size=5, iou_threshold=.5),
               [corners(10), floats(10)]),
    "patches": (lambda x: tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 2, 1], [1, 1, 2, 1], "SAME"),
                [floats(1, 9, 8, 2)]),
    "spectrogram": (lambda x: raw.AudioSpectrogram(input=x, window_size=200, stride=128), [floats(1000, 2)]),
    "list_of_loop": (array_by_loop, [floats(3)]), "list_that_grows": (array_that_grows, [floats(3)]),
    "list_unstacked": (array_unstacked, [floats(4, 3)]),
    "lstm": (keras(tf.keras.layers.LSTM(4, return_sequences=True), [1, 5, 3]), [floats(1, 5, 3)]),
    "gru": (keras(tf.keras.layers.GRU(4), [1, 5, 3]), [floats(1, 5, 3)]),
}
SPECIAL = np.float32([0, -0., 1, -1, 0.5, -0.25, 3, -4, 7, -9, 30, -30, 1e-6, np.inf, -np.inf, np.nan])
UNIT = np.float32([0, 0.5, -0.5, 1, -1, 0.999, 2, np.nan])
SPECTRUM = (floats(2, 8, 9) + 1j * floats(2, 8, 9)).astype(np.complex64)
SOFT = {"boxes": corners(30), "scores": random.random(30).astype(np.float32), "max_output_size": np.int32(12),
        "iou_threshold": np.float32(0.4), "score_threshold": np.float32(0.15)}
RAW = [(name, {"x": SPECIAL}, {}) for name in (
    "Atan", "Cosh", "Erf", "Erfc", "Expm1", "IsFinite", "IsInf", "IsNan", "Lgamma", "Rint", "Sinh", "Tan", "Asinh",
    "Reciprocal", "Inv")]
RAW += [(name, {"features": SPECIAL}, {}) for name in ("Selu", "Softplus", "Softsign")]
RAW += [(name, {"x": UNIT}, {}) for name in ("Acos", "Asin", "Atanh")]
RAW += [("Acosh", {"x": np.abs(SPECIAL)}, {}), ("Log1p", {"x": np.abs(SPECIAL)}, {}),
        ("Atan2", {"y": floats(3, 1), "x": floats(4)}, {}),
        ("Xlogy", {"x": np.float32([0, 1, 2, 0]), "y": np.float32([0, 2, 0.1, -1])}, {}),
        ("Xdivy", {"x": np.float32([0, 1, 2]), "y": np.float32([0, 2, -5])}, {}),
        ("Xlog1py", {"x": np.float32([0, 1, 2]), "y": np.float32([-1, 2, 5])}, {}),
        ("Cross", {"a": floats(2, 3), "b": floats(2, 3)}, {}),
        ("Roll", {"input": floats(4, 5), "shift": np.int32([1, -7]), "axis": np.int32([0, 1])}, {}),
        ("DenseBincount", {"input": random.integers(0, 5, (3, 8)).astype(np.int32), "size": np.int32(4),
                           "weights": np.zeros((0,), np.float32)}, {"binary_output": True}),
        ("DenseBincount", {"input": random.integers(0, 5, (3, 8)).astype(np.int32), "size": np.int32(4),
                           "weights": floats(3, 8)}, {"binary_output": False}),
        ("Complex", {"real": floats(3), "imag": floats(3)}, {}), ("ComplexAbs", {"x": SPECTRUM}, {}),
        ("Real", {"input": SPECTRUM}, {}), ("Imag", {"input": SPECTRUM}, {}), ("Angle", {"input": SPECTRUM}, {}),
        ("Conj", {"input": SPECTRUM}, {}), ("FFT", {"input": SPECTRUM}, {}), ("IFFT", {"input": SPECTRUM}, {}),
        ("FFT2D", {"input": SPECTRUM}, {}), ("IFFT2D", {"input": SPECTRUM}, {}),
        ("RFFT", {"input": floats(2, 100), "fft_length": np.int32([96])}, {}),
        ("RFFT2D", {"input": floats(2, 8, 10), "fft_length": np.int32([6, 10])}, {}),
        ("IRFFT", {"input": SPECTRUM, "fft_length": np.int32([15])}, {}),
        ("IRFFT2D", {"input": SPECTRUM, "fft_length": np.int32([8, 16])}, {}),
        ("NonMaxSuppression", {key: SOFT[key] for key in ("boxes", "scores", "max_output_size")},
         {"iou_threshold": 0.25}),
        ("NonMaxSuppressionV3", SOFT, {}),
        ("NonMaxSuppressionV4", SOFT, {"pad_to_max_output_size": True}),
        ("NonMaxSuppressionV5", {**SOFT, "soft_nms_sigma": np.float32(0.5)}, {"pad_to_max_output_size": True}),
        ("NonMaxSuppressionV5", {**SOFT, "soft_nms_sigma": np.float32(0)}, {"pad_to_max_output_size": False}),
        ("CombinedNonMaxSuppression",
         {"boxes": 2 * corners(2, 20, 3) - 0.5, "scores": random.random((2, 20, 3)).astype(np.float32),
          "max_output_size_per_class": np.int32(3), "max_total_size": np.int32(12),
          "iou_threshold": np.float32(0.3), "score_threshold": np.float32(0.5)},
         {"pad_per_class": True, "clip_boxes": True}),
        ("CropAndResize", {"image": floats(2, 6, 5, 2), "boxes": floats(3, 4), "box_ind": np.int32([0, 1, 1]),
                           "crop_size": np.int32([4, 1])}, {"method": "nearest", "extrapolation_value": 0.5}),
        ("HSVToRGB", {"images": random.random((5, 3)).astype(np.float32)}, {}),
        ("ResizeBicubic", {"images": floats(1, 6, 7, 2), "size": np.int32([13, 4])},
         {"align_corners": True, "half_pixel_centers": False}),
        ("ResizeBicubic", {"images": floats(1, 6, 7, 2), "size": np.int32([4, 15])},
         {"align_corners": False, "half_pixel_centers": False}),
        ("ExtractImagePatches", {"images": floats(1, 7, 6, 2)},
         {"ksizes": [1, 3, 3, 1], "strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "VALID"})]


def listed(results):
    return [np.asarray(y) for y in (results if isinstance(results, (list, tuple)) else [results])]


def main():
    stored = {}
    for name, (function, inputs) in CONVERTED.items():
        specs = [tf.TensorSpec(x.shape, x.dtype) for x in inputs]
        graph = tf.function(function, input_signature=specs).get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([graph])
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
        converter._experimental_lower_tensor_list_ops = False
        stored[f"c/{name}/model"] = np.frombuffer(converter.convert(), np.uint8)
        stored |= {f"c/{name}/x{i}": x for i, x in enumerate(inputs)}
        stored |= {f"c/{name}/y{i}": y for i, y in enumerate(listed(graph(*map(tf.constant, inputs))))}
    for number, (name, inputs, attributes) in enumerate(RAW):
        results = getattr(raw, name)(**{key: tf.constant(x) for key, x in inputs.items()}, **attributes)
        key = f"r/{number:02}{name}"
        stored[f"{key}/attributes"] = np.array(json.dumps(attributes))
        stored |= {f"{key}/x{i}": x for i, x in enumerate(inputs.values())}
        stored |= {f"{key}/y{i}": y for i, y in enumerate(listed(results))}
    np.savez_compressed(Path(__file__).with_name("stored.npz"), **stored)


if __name__ == "__main__":
    main()
