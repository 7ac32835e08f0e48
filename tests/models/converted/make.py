"""Makes the models of this folder with TensorFlow's converter: `python make.py [NAME ...]`; needs tensorflow.

Each function below is a model; its decorator has the inputs' shapes and types.  The calibrator of TensorFlow 2.21
crashes on `lstm_integer`; 2.15 makes it.
"""
import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent
MODELS = {}


def spec(*shape, dtype=tf.float32):
    return tf.TensorSpec(shape, dtype)


def save(name, converter, **settings):
    for key, value in settings.items():
        setattr(converter, key, value)
    (HERE / f"{name}.tflite").write_bytes(converter.convert())


def model(*inputs):
    """Make a model of a function."""
    def register(function):
        def make():
            concrete = tf.function(function, input_signature=inputs).get_concrete_function()
            save(function.__name__, tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module()))
        MODELS[function.__name__] = make
        return function
    return register


@model(spec(dtype=tf.int32))
def collatz(n):
    """The number of steps, and the sequence, a growing vector."""
    return tf.while_loop(lambda n, way: n > 1,
                         lambda n, way: (tf.where(n % 2 == 0, n // 2, 3 * n + 1), tf.concat([way, [n]], 0)),
                         (n, tf.reshape(n, [1])), shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])))


@model(spec(None, 4), spec(dtype=tf.bool))
def branches(x, which):
    """Branches of different shapes; one has a nested branch."""
    def inner():
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.nn.relu(x), lambda: -x)
    return tf.cond(which, inner, lambda: tf.concat([x, x + 1], 0))


@model(spec(6, 3))
def tensor_array(x):
    """Rows written in sequence, each computed from the previous one."""
    made = tf.TensorArray(tf.float32, 6, element_shape=[3])
    state = tf.zeros([3])
    for i in tf.range(6):
        state = tf.tanh(x[i] + 0.5 * state)
        made = made.write(i, state)
    return made.stack()


@model(spec(5, 2))
def mapped(x):
    return tf.map_fn(lambda row: tf.nn.softmax(row) * tf.reduce_max(row), x)


@model(spec(5, 2))
def scanned(x):
    return tf.scan(lambda before, row: before * 0.5 + row, x)


@model(spec(None, 3))
def masked(x):
    """The rows with a positive sum, their number, and their mean."""
    rows = tf.boolean_mask(x, tf.reduce_sum(x, 1) > 0)
    return rows, tf.shape(rows)[0], tf.reduce_mean(rows, 0)


@model(spec(None, dtype=tf.int32), spec(dtype=tf.int32))
def counted(x, n):
    """The unique elements, a repeated range up to n, and a matrix of ones."""
    different, index = tf.unique(x)
    steps = tf.range(n) * 2
    return different, index, tf.tile(steps, [n]), tf.fill([n, tf.size(different)], 1.5)


@model(spec(1, None, None, 2), spec(2, dtype=tf.int32))
def resized(image, size):
    """An image resized to a computed size, padded, then cropped."""
    larger = tf.image.resize(image, size)
    padded = tf.pad(larger, [[0, 0], [1, 2], [3, 1], [0, 0]])
    return padded[:, 1:-1, :, :], tf.reduce_max(larger, [1, 2])


@model(spec(8, 4), spec(8))
def suppressed(boxes, scores):
    """The boxes that overlap no box with a higher score."""
    chosen = tf.image.non_max_suppression(boxes, scores, 5, 0.4, 0.1)
    return tf.gather(boxes, chosen), chosen


@model(spec(None, dtype=tf.string), spec(2, dtype=tf.int32))
def words(x, which):
    return tf.gather(x, which), tf.reshape(x, [-1, 1]), x[1:]


class Counter(tf.Module):
    """Accumulates into a variable vector; two signatures share the variable."""

    def __init__(self):
        super().__init__()
        self.total = tf.Variable(tf.zeros([3]))

    @tf.function(input_signature=[spec(3)])
    def add(self, x):
        self.total.assign_add(x)
        return {"total": self.total.read_value()}

    @tf.function(input_signature=[])
    def reset(self):
        before = self.total.read_value() + 0.0
        self.total.assign(tf.zeros([3]))
        return {"before": before}


def keep(name, module, signatures, **settings):
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures)
        save(name, tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=list(signatures)),
             experimental_enable_resource_variables=True, **settings)


def counter():
    module = Counter()
    keep("counter", module, {"add": module.add, "reset": module.reset})


class Vocabulary(tf.Module):
    """A hash table from words to numbers, and one from numbers to words."""

    def __init__(self, keys, values, default):
        super().__init__()
        self.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), default)

    def find(self, x):
        return {"found": self.table.lookup(x), "size": self.table.size()}


def _vocabulary(name, keys, values, default):
    module = Vocabulary(keys, values, default)
    find = tf.function(module.find, input_signature=[spec(None, dtype=keys.dtype)])
    keep(name, module, {"find": find.get_concrete_function()})


def vocabulary():
    _vocabulary("vocabulary", tf.constant(["the", "cat", "sat"]), tf.constant([1, 2, 3], tf.int64), -1)


def names():
    _vocabulary("names", tf.constant([1, 2, 3], tf.int64), tf.constant(["the", "cat", "sat"]), "?")


def _layers(name, *layers, shape=(7, 4), **settings):
    tf.keras.utils.set_random_seed(1)
    net = tf.keras.Sequential([tf.keras.Input(shape, batch_size=1), *layers])
    save(name, tf.lite.TFLiteConverter.from_keras_model(net), **settings)


def lstm():
    _layers("lstm", tf.keras.layers.LSTM(5, return_sequences=True), tf.keras.layers.Dense(3))


def lstm_dynamic():
    _layers("lstm_dynamic", tf.keras.layers.LSTM(40), tf.keras.layers.Dense(3),
            optimizations=[tf.lite.Optimize.DEFAULT])


def _integer(name, *layers, activations):
    """An integer-only model, calibrated on noise."""
    rng = np.random.default_rng(0)
    _layers(name, *layers, optimizations=[tf.lite.Optimize.DEFAULT], target_spec=tf.lite.TargetSpec([activations]),
            representative_dataset=lambda: ([rng.standard_normal((1, 7, 4)).astype("f4")] for _ in range(50)),
            inference_input_type=tf.int8, inference_output_type=tf.int8)


def lstm_integer():
    _integer("lstm_integer", tf.keras.layers.LSTM(5, return_sequences=True), tf.keras.layers.Dense(3),
             activations=tf.lite.OpsSet.TFLITE_BUILTINS_INT8)


def gru():
    _layers("gru", tf.keras.layers.GRU(5, return_sequences=True), tf.keras.layers.Dense(3))


def both_ways():
    _layers("both_ways", tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(4, return_sequences=True)))


def rnn():
    _layers("rnn", tf.keras.layers.SimpleRNN(5, return_sequences=True))


MODELS |= {f.__name__: f for f in (counter, vocabulary, names, lstm, lstm_dynamic, lstm_integer, gru, both_ways, rnn)}

if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        MODELS[name]()
