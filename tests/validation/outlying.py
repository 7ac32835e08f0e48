"""A transformer with GELU whose attention has outlier channels, so that it quantizes badly, and its float model.

Some channels of the values of attention are FACTOR times as large, and what reads them as many times smaller: the float
model computes the same, and int8, with one scale for all channels of an activation, loses the other channels.  The
classes are made equally likely, since the block is not trained.
"""
import numpy as np

from pylite import Model
from pylite.interpreter import Interpreter
from pylite.validation.comparison import Comparison
from pylite.validation.widening import widened
from tests.tools.resources import MODELS
from tests.validation.planted import Editor, calibrated

PAIR = [MODELS / f"keras/transformer_block_64_{kind}.tflite" for kind in ("int8", "float32")]
VALUES, READER = "multi_head_attention_1_2/value", "multi_head_attention_1_2/attention_output"
CHANNELS, FACTOR = 3, 60
SHARPNESS = 40          # of the classes: the weights of the last layer are as many times larger
WORDS = 1000


def inputs(count, seed=0):
    """As many samples of words, (count, 64)."""
    return np.random.default_rng(seed).integers(0, WORDS, (count, 64)).astype(np.int32)


def results(contents, words):
    """What a model answers for each sample: numbers for 4 classes."""
    run = Interpreter(model_content=contents)
    run.allocate_tensors()
    found = []
    for sample in words:
        run.set_tensor(run.get_input_details()[0]["index"], sample[None])
        run.invoke()
        found.append(run.get_tensor(run.get_output_details()[0]["index"])[0].copy())
    return np.array(found)


def _layer(editor, name):
    """The node with weights whose result has this in its name."""
    return next(n for n, (op, o) in enumerate(zip(editor.names, editor.subgraph.operators, strict=True))
                if op == "FULLY_CONNECTED" and name in editor.tensor(o.outputs[0]).name)


def _real(editor, node, operand):
    """(index, real numbers) of a constant operand."""
    index = editor.subgraph.operators[node].inputs[operand]
    values = editor.values(index)
    if values.dtype == np.float32:
        return index, values.copy()
    scale = editor.scale(index)
    return index, values * (scale.reshape(-1, *[1] * (values.ndim - 1)) if scale.size > 1 else scale)


def _store(editor, node, weights, bias):
    """Give a node weights and a bias, real numbers, quantized where it is."""
    w, _ = _real(editor, node, 1)
    b, _ = _real(editor, node, 2)
    if editor.values(w).dtype == np.float32:
        editor.set_values(w, weights.astype(np.float32))
        editor.set_values(b, bias.astype(np.float32))
        return
    scale = np.abs(weights).max(1) / 127
    editor.set_values(w, np.rint(weights / scale[:, None]).astype(np.int8))
    editor.set_scale(w, scale)
    step = editor.scale(editor.subgraph.operators[node].inputs[0]) * scale
    editor.set_values(b, np.rint(bias / step).astype(np.int32))
    editor.set_scale(b, step)


def pair():
    """[contents of the quantized model, of its float model]"""
    words = inputs(64, 1)
    last = np.log(results(PAIR[1].read_bytes(), words))
    shift = (last - last.mean(1, keepdims=True)).mean(0)        # of the numbers that SOFTMAX reads, but for a constant
    built = []
    for path in PAIR:
        editor = Editor(path.read_bytes())
        values, reader = _layer(editor, VALUES), _layer(editor, READER)
        _, weights = _real(editor, values, 1)
        _, bias = _real(editor, values, 2)
        weights[:CHANNELS] *= FACTOR
        bias[:CHANNELS] *= FACTOR
        _store(editor, values, weights, bias)
        _, weights = _real(editor, reader, 1)
        weights[:, :CHANNELS] /= FACTOR
        _store(editor, reader, weights, _real(editor, reader, 2)[1])
        head = max(n for n, op in enumerate(editor.names) if op == "FULLY_CONNECTED")
        _store(editor, head, SHARPNESS * _real(editor, head, 1)[1], SHARPNESS * (_real(editor, head, 2)[1] - shift))
        built.append(editor.written())
    comparison = Comparison(Model(built[0]), widened(built[1]))
    for sample in words:
        comparison.add([sample[None]], local=False)
    return calibrated(built[0], comparison), built[1]
