"""Write models of Keras architectures that nobody tuned for, with random weights.  Needs tensorflow.

    python benchmarks/keras_models.py FOLDER [NAME ...] [--kinds int8,float32,dynamic,float16,int16x8]

Then `python benchmarks/speed.py FOLDER/*.tflite` races them.  Without names: all.  Files that exist stay;
conversions that TensorFlow refuses are printed.
"""
import argparse
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import _common
import keras
import numpy as np
import tensorflow as tf
from keras import applications, layers

APPLICATIONS = {        # name: (architecture, pixels of a side, further arguments)
    "mobilenet_v1": ("MobileNet", 96, {"alpha": 0.25}), "mobilenet_v2": ("MobileNetV2", 128, {"alpha": 0.75}),
    "mobilenet_v3_small": ("MobileNetV3Small", 128, {}),
    "mobilenet_v3_large_minimalistic": ("MobileNetV3Large", 160, {"minimalistic": True}),
    "efficientnet_b0": ("EfficientNetB0", 112, {}), "efficientnet_v2": ("EfficientNetV2B0", 96, {}),
    "resnet50_v2": ("ResNet50V2", 96, {}), "densenet": ("DenseNet121", 96, {}), "xception": ("Xception", 96, {}),
    "inception": ("InceptionV3", 96, {}), "nasnet": ("NASNetMobile", 96, {}), "convnext": ("ConvNeXtTiny", 64, {}),
}


def _network(shape, body, dtype="float32"):
    x = keras.Input(shape, batch_size=1, dtype=dtype)
    return keras.Model(x, body(x))


def _conv(x, channels, size=3, stride=1, activation="relu"):
    return layers.Conv2D(channels, size, stride, "same", activation=activation)(x)


def _depthwise_blocks(x):
    x = layers.Conv2D(64, (10, 4), 2, "same", activation="relu")(x)
    for _ in range(4):
        x = _conv(layers.DepthwiseConv2D(3, padding="same", activation="relu")(x), 64, 1)
    return layers.Dense(12, "softmax")(layers.GlobalAveragePooling2D()(x))


def _residual(x):
    x = _conv(x, 16)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = _conv(_conv(x, channels, stride=stride), channels, activation=None)
        x = layers.Activation("relu")(layers.Add()([_conv(x, channels, 1, stride, None), y]))
    return layers.Dense(10, "softmax")(layers.GlobalAveragePooling2D()(x))


def _unet(x):
    skips = []
    for channels in (16, 24, 40):
        x = layers.SeparableConv2D(channels, 3, padding="same", activation="relu")(_conv(x, channels))
        skips.append(x)
        x = layers.MaxPool2D()(x)
    for skip in skips[::-1]:
        x = layers.Concatenate()([layers.UpSampling2D(interpolation="bilinear")(x), skip])
        x = layers.SeparableConv2D(skip.shape[3], 3, padding="same", activation="relu")(x)
    return _conv(x, 5, 1, activation="softmax")


def _squeeze_excite(x):
    for channels in (24, 48, 96):
        x = layers.PReLU(shared_axes=[1, 2])(_conv(x, channels, stride=2, activation=None))
        s = _conv(layers.GlobalAveragePooling2D(keepdims=True)(x), channels // 4, 1)
        x = layers.Multiply()([x, _conv(s, channels, 1, activation="hard_sigmoid")])
    return layers.Dense(7)(layers.GlobalMaxPooling2D()(x))


def _group_norm(x):
    for channels in (16, 32):
        x = layers.Activation("silu")(layers.GroupNormalization(4)(_conv(x, channels, activation=None)))
        x = layers.MaxPool2D()(x)
    return layers.Dense(7)(layers.GlobalAveragePooling2D()(x))


def _dilated_series(x):
    x = layers.Conv1D(24, 2, padding="causal")(x)
    for dilation in (1, 2, 4, 8, 16, 32):
        gates = [layers.Conv1D(24, 2, dilation_rate=dilation, padding="causal", activation=f)(x)
                 for f in ("tanh", "sigmoid")]
        x = layers.Add()([x, layers.Conv1D(24, 1)(layers.Multiply()(gates))])
    return layers.Conv1D(30, 1)(layers.Activation("relu")(x))


def _recurrent(x):
    x = layers.Bidirectional(layers.GRU(32, return_sequences=True, unroll=True))(x)
    return layers.Dense(4)(layers.GRU(24, unroll=True)(x))


def _attention(x):
    x = layers.Reshape((64, 96))(layers.Conv2D(96, 8, 8)(x))
    for _ in range(4):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(3, 32)(y, y)])
        y = layers.Dense(192, "gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(96)(y)])
    return layers.Dense(10)(layers.GlobalAveragePooling1D()(x))


def _autoencoder(x):
    for channels in (128, 128, 128, 8, 128, 128, 128):
        x = layers.Dense(channels, "relu")(x)
    return layers.Dense(640)(x)


def _words(x):
    x = layers.Conv1D(48, 5, activation="relu")(layers.Embedding(1000, 32)(x))
    return layers.Dense(3)(layers.GlobalMaxPooling1D()(x))


NETWORKS = {            # name: the shape of the input, the function of its layers, the input's type
    "depthwise_blocks": ((49, 10, 1), _depthwise_blocks), "residual": ((32, 32, 3), _residual),
    "unet": ((96, 96, 3), _unet), "squeeze_excite": ((64, 64, 3), _squeeze_excite),
    "group_norm": ((40, 40, 3), _group_norm), "dilated_series": ((256, 16), _dilated_series),
    "recurrent": ((40, 20), _recurrent), "attention": ((64, 64, 3), _attention), "autoencoder": ((640,), _autoencoder),
    "words": ((64,), _words, "int32"),
}
KINDS = "int8", "float32", "dynamic", "float16", "int16x8"


def network(name):
    """The Keras model of a name."""
    keras.utils.set_random_seed(0)
    if name in NETWORKS:
        return _network(*NETWORKS[name])
    architecture, side, options = APPLICATIONS[name]
    return getattr(applications, architecture)(input_shape=(side, side, 3), weights=None, classes=100, **options)


def samples(model):
    """Four random inputs, for calibration: pixels up to 255 if the model scales them itself, indices if they are."""
    rng = np.random.default_rng(0)
    top = 255 if any(isinstance(layer, layers.Rescaling) for layer in model.layers) else 1
    for _ in range(4):
        yield [rng.integers(0, 1000, x.shape).astype(np.int32) if x.dtype == "int32" else
               (rng.random((1, *x.shape[1:])) * top).astype(np.float32) for x in model.inputs]


def converted(model, kind):
    """The bytes of the .tflite file of a Keras model."""
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if kind != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if kind in ("int8", "int16x8"):
        sets = tf.lite.OpsSet
        converter.representative_dataset = lambda: samples(model)
        converter.target_spec.supported_ops = [
            sets.TFLITE_BUILTINS_INT8 if kind == "int8" else
            sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]
    return converter.convert()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kinds", default=",".join(KINDS))
    args = parser.parse_args()
    known = [*NETWORKS, *APPLICATIONS]
    if not set(args.names) <= set(known) or not set(args.kinds.split(",")) <= set(KINDS):
        parser.error(f"names: {', '.join(known)}; kinds: {', '.join(KINDS)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or known:
        model = network(name)
        for kind in args.kinds.split(","):
            path = args.folder / f"{name}_{kind}.tflite"
            if path.exists():
                continue
            try:
                path.write_bytes(converted(model, kind))
            except Exception as problem:        # some kinds lack an op in 16 bits
                _common.say(f"{path.name}: {type(problem).__name__}: {str(problem).splitlines()[0][:100]}")


if __name__ == "__main__":
    main()
