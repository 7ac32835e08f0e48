"""Pairs of a quantized model and its float reference, with one layer of the quantized one spoiled on purpose.

    python -m tests.validation.planted [--cases N] [--seed N] [PAIR ...]
prints the rates, and the cases that were missed.  Another seed draws other cases.

The weights of the pairs are the converters'.  Their activations are calibrated anew, as a converter does it, on samples
like those that are then compared, since the data that they were calibrated on is not at hand.
"""
import argparse
import copy
import functools
import sys
from dataclasses import dataclass

import numpy as np

from pylite import Model
from pylite.ir.graph import NUMPY_DTYPES
from pylite.schema import read
from pylite.schema.writer import write
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from pylite.validation.measures import Errors
from pylite.validation.statistics import MAX_REFERENCE, MIN_REFERENCE
from pylite.validation.widening import widened
from tests.tools.resources import MODELS

KERAS, TINY = "keras/", "tiny/benchmark/training/"
PAIRS = {
    "conv1d": (KERAS + "conv1d_har_128_int8", KERAS + "conv1d_har_128_float32"),
    "lstm": (KERAS + "lstm_unrolled_k3_10_int8", KERAS + "lstm_unrolled_k3_10_float32"),
    "mobilenet": (KERAS + "mobilenet_v1_050_160_int8", KERAS + "mobilenet_v1_050_160_float32"),
    "unet": (KERAS + "unet_transpose_128_int8", KERAS + "unet_transpose_128_float32"),
    "transformer": (KERAS + "transformer_block_64_int8", KERAS + "transformer_block_64_float32"),
    "transformer-aeq": (KERAS + "transformer_block_64_aeq_static_wi8_ai8", KERAS + "transformer_block_64_float32"),
    "anomaly": (TINY + "anomaly_detection/trained_models/ad01_int8",
                TINY + "anomaly_detection/trained_models/ad01_fp32"),
    "resnet": (TINY + "image_classification/trained_models/pretrainedResnet_quant",
               TINY + "image_classification/trained_models/pretrainedResnet"),
    "person": (TINY + "visual_wake_words/trained_models/vww_96_int8",
               TINY + "visual_wake_words/trained_models/vww_96_float"),
    "keyword": (TINY + "keyword_spotting/trained_models/kws_ref_model",
                TINY + "keyword_spotting/trained_models/kws_ref_model_float32"),
}
WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")    # operand 1; the bias is 2 or 3
SAME_GRID = ("RESHAPE", "TRANSPOSE", "MAX_POOL_2D", "AVERAGE_POOL_2D", "PAD", "SPLIT", "UNPACK", "PACK", "SQUEEZE",
             "CONCATENATION", "EXPAND_DIMS", "STRIDED_SLICE", "RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR", "GATHER")
FIXED_GRID = ("SOFTMAX", "LOGISTIC", "TANH")
FAULTS = ("weight scale", "bias", "zero point", "range too narrow", "range too wide", "channel scale")
CALIBRATION = 256       # samples
# Most tensors of the LSTM have 32 or 128 numbers, those of convolutions thousands.  256 more samples widen a range by
# up to a fifth, and nodes diverge on other samples, so that a careful user calibrates on more.  The rates depend on how
# many: docs/measurements/validation.md.
MANY = {"lstm": 4096}
LEAST_EFFECT = 2.0      # times the error of the node by itself: with less there is no fault to find


def samples(model, count, seed=0):
    """`count` samples, each a list of arrays for the inputs: smooth noise over the range of the quantized input."""
    rng = np.random.default_rng(seed)
    subgraph = model.graph.subgraphs[0]
    return [[_array(rng, subgraph.tensors[i]) for i in subgraph.inputs] for _ in range(count)]


def _array(rng, tensor):
    if tensor.dtype == "int32":
        return rng.integers(0, 100, tensor.shape).astype(np.int32)
    q, limits = tensor.quantization, np.iinfo(tensor.dtype)
    low, high = ((end - int(q.zero_point[0])) * float(q.scale[0]) for end in (limits.min, limits.max))
    noise = rng.uniform(0, 1, tensor.shape)
    for axis in range(1, len(tensor.shape) - 1):
        noise = sum(np.roll(noise, shift, axis) for shift in range(4)) / 4
    noise = (noise - noise.min()) / (noise.max() - noise.min())
    return (low + (high - low) * noise).astype(np.float32)


class Editor:
    """A model's tables to be changed: of its main subgraph."""

    def __init__(self, contents):
        self.model = read(contents)
        self.subgraph = self.model.subgraphs[0]
        graph = Model(bytes(contents)).graph.subgraphs[0]
        self.names = [o.name for o in graph.operators]

    def written(self):
        return write(self.model)

    def tensor(self, index):
        return self.subgraph.tensors[index]

    def values(self, index):
        """A constant's elements, or None."""
        tensor = self.tensor(index)
        data = self.model.buffers[tensor.buffer].data
        if data is None or not len(data):
            return None
        return np.asarray(data).view(NUMPY_DTYPES[tensor.type]).reshape(tensor.shape)

    def own(self, node, operand):
        """The index of an operand that this node alone reads, copied if it shares it."""
        index = self.subgraph.operators[node].inputs[operand]
        readers = sum(o.inputs.count(index) for o in self.subgraph.operators)
        if readers > 1:
            self.subgraph.tensors.append(copy.deepcopy(self.tensor(index)))
            self._replace(node, operand, len(self.subgraph.tensors) - 1)
        return self.subgraph.operators[node].inputs[operand]

    def _replace(self, node, operand, index):
        inputs = list(self.subgraph.operators[node].inputs)
        inputs[operand] = index
        self.subgraph.operators[node].inputs = tuple(inputs)

    def set_values(self, index, array):
        """Give a constant other elements, in a buffer of its own."""
        buffer = copy.copy(self.model.buffers[self.tensor(index).buffer])
        buffer.data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.model.buffers.append(buffer)
        self.tensor(index).buffer = len(self.model.buffers) - 1

    def bias(self, node):
        """The operand that is the bias of a weighted node, or None."""
        position = 3 if self.names[node] == "TRANSPOSE_CONV" else 2
        inputs = self.subgraph.operators[node].inputs
        return position if len(inputs) > position and inputs[position] >= 0 else None

    def data(self, node):
        """The operand that is the activation of a weighted node."""
        return 2 if self.names[node] == "TRANSPOSE_CONV" else 0

    def scale(self, index):
        return np.asarray(self.tensor(index).quantization.scale, np.float64)

    def set_scale(self, index, scale):
        self.tensor(index).quantization = copy.copy(self.tensor(index).quantization)
        self.tensor(index).quantization.scale = np.asarray(scale, np.float32)

    def keep_bias(self, node, before):
        """Keep the bias as a real number after another scale of the input or the weights; before: their product."""
        operand = self.bias(node)
        if operand is None:
            return
        inputs = self.subgraph.operators[node].inputs
        after = self.scale(inputs[self.data(node)]) * self.scale(inputs[1])
        index = self.own(node, operand)
        values = np.rint(self.values(index) * np.broadcast_to(before / after, self.values(index).shape))
        limits = np.iinfo(self.values(index).dtype)
        self.set_values(index, np.clip(values, limits.min, limits.max).astype(self.values(index).dtype))
        self.set_scale(index, after)

    def tied(self, index):
        """All tensors that must have the grid of this one, since nodes between them only move values."""
        found, waiting = {index}, [index]
        while waiting:
            current = waiting.pop()
            for name, operator in zip(self.names, self.subgraph.operators, strict=True):
                if name in SAME_GRID:
                    group = [i for i in (*operator.inputs, *operator.outputs)
                             if i >= 0 and self.tensor(i).type == self.tensor(index).type]
                    if current in group:
                        waiting += [i for i in group if i not in found]
                        found |= set(group)
        return found

    def set_grid(self, index, scale, zero_point):
        """Give a tensor, and those tied to it, another grid; biases of nodes that read it stay as real numbers."""
        group = self.tied(index)
        readers = [i for i, (name, o) in enumerate(zip(self.names, self.subgraph.operators, strict=True))
                   if name in WEIGHTED and o.inputs[self.data(i)] in group]
        before = {i: self.scale(self.subgraph.operators[i].inputs[self.data(i)])
                  * self.scale(self.subgraph.operators[i].inputs[1]) for i in readers}
        for i in group:
            self.set_scale(i, [scale])
            self.tensor(i).quantization.zero_point = np.array([zero_point], np.int64)
        for i in readers:
            self.keep_bias(i, before[i])

    def alone(self, index):
        """Is a node that computes this tensor the only one whose grid it is?"""
        group = self.tied(index)
        writers = [i for i, o in enumerate(self.subgraph.operators) if set(o.outputs) & group
                   and self.names[i] not in SAME_GRID]
        return len(writers) == 1 and index in self.subgraph.operators[writers[0]].outputs

    def free(self, index):
        """May the grid change?  Not if an input or a node with a fixed grid is tied to it."""
        group = self.tied(index)
        if group & set(self.subgraph.inputs):
            return False
        return not any(name in FIXED_GRID and set(o.outputs) & group
                       for name, o in zip(self.names, self.subgraph.operators, strict=True)) and not any(
            self.values(i) is not None for i in group)


def calibrated(contents, comparison):
    """The model with the grid of each activation made for the range of the reference that `comparison` has seen."""
    editor, done = Editor(contents), set()
    for index in comparison.measured:
        if comparison.grids[index].dtype != "int8" or index in done:
            continue
        group = editor.tied(index)
        done |= group
        if not editor.free(index):
            continue
        seen = [comparison.cumulative[i].extremes for i in group if i in comparison.cumulative]
        low = min(0.0, *(float(e[MIN_REFERENCE].min()) for e in seen), 0.0)
        high = max(0.0, *(float(e[MAX_REFERENCE].max()) for e in seen), 0.0)
        if high > low:
            scale = (high - low) / 255
            editor.set_grid(index, scale, int(np.clip(np.rint(-128 - low / scale), -128, 127)))
    return editor.written()


@dataclass
class Case:
    """One spoiled model."""
    pair: str
    node: int
    op: str
    fault: str
    factor: float
    contents: bytes


def spoil(contents, node, fault, factor, rng, low, high):
    """The model with one node spoiled, or None where this node cannot have the fault.

    low, high: the range of the node's result.
    """
    editor = Editor(contents)
    operator = editor.subgraph.operators[node]
    output = operator.outputs[0]
    if fault in ("weight scale", "channel scale", "bias"):
        if editor.names[node] not in WEIGHTED or editor.values(operator.inputs[1]) is None:
            return None
        scales = editor.scale(operator.inputs[1])
        if fault == "channel scale" and scales.size < 4:
            return None
        if fault == "bias":
            if editor.bias(node) is None:
                return None
            index = editor.own(node, editor.bias(node))
            values, limit = editor.values(index), np.iinfo(editor.values(index).dtype).max
            spoiled = np.rint(values * factor)
            editor.set_values(index, np.where(np.abs(spoiled) < limit, spoiled, values).astype(values.dtype))
            return editor.written()
        before = editor.scale(operator.inputs[editor.data(node)]) * scales
        index = editor.own(node, 1)
        spoiled = scales.copy()
        if fault == "weight scale":
            spoiled *= factor
        else:
            spoiled[rng.integers(scales.size)] *= factor
        editor.set_scale(index, spoiled)
        editor.keep_bias(node, before)
        return editor.written()
    if not editor.free(output) or not editor.alone(output) or editor.tensor(output).type != "int8" or not high > low:
        return None
    scale, zero_point = float(editor.scale(output)[0]), int(editor.tensor(output).quantization.zero_point[0])
    if fault == "zero point":       # the range moves by as much as a range of 1 / factor would lack
        shift = int(np.rint(255 * (1 - 1 / factor) / 2)) * (1 if zero_point < 0 else -1)
        editor.set_grid(output, scale, int(np.clip(zero_point + shift, -128, 127)))
        return editor.written()
    editor.set_grid(output, scale * factor if fault == "range too wide" else scale / factor, zero_point)
    return editor.written()


class Pair:
    """A well calibrated quantized model, its reference and samples."""

    def __init__(self, name, count=8, calibration=None):
        """count: samples to compare; calibration: other samples for the ranges of activations (default: enough)."""
        quantized, real = (MODELS / (path + ".tflite") for path in PAIRS[name])
        quantized = quantized.read_bytes()
        self.name = name
        self.reference = widened(real)
        self.samples = samples(Model(quantized), calibration or MANY.get(name, CALIBRATION), seed=1)
        self.contents = calibrated(quantized, self.compared(quantized, local=False))
        self.samples = samples(Model(quantized), count)
        self.comparison = self.compared(self.contents)

    def compared(self, contents, local=True):
        """The Comparison of a model with the reference, over all samples."""
        comparison = Comparison(Model(contents), self.reference)
        for arrays in self.samples:
            comparison.add(arrays, local)
        return comparison

    def noise(self, comparison, tensor):
        errors = Errors.of(comparison.local[tensor])
        return errors.mean(errors.noise)

    def cases(self, count, local=True, seed=0):
        """`count` Cases with their Reports, each with an effect; node, fault and factor are drawn at random.

        local: may the Reports be by the errors of nodes by themselves?
        """
        rng = np.random.default_rng([*self.name.encode(), *([seed] if seed else [])])
        producer = {i: o for o in self.comparison.subgraph.operators for i in o.outputs}
        found = 0
        while found < count:
            tensor, fault = int(rng.choice(self.comparison.measured)), FAULTS[rng.integers(len(FAULTS))]
            factor = float(np.exp(rng.uniform(np.log(1.5), np.log(8))))
            operator = producer[tensor]
            errors = Errors.of(self.comparison.local[tensor])
            contents = spoil(self.contents, operator.index, fault, factor, rng, *errors.needed())
            if contents is None:
                continue
            comparison = self.compared(contents)
            if self.noise(comparison, tensor) < LEAST_EFFECT * self.noise(self.comparison, tensor):
                continue
            found += 1
            if not local:
                comparison.local = {}
            yield Case(self.name, operator.index, operator.name, fault, factor, contents), analyse(comparison)


@functools.cache
def shared_pair(name):
    """The Pair of this name, which takes seconds to make."""
    return Pair(name)


@dataclass
class Rates:
    """Of all cases: how often the spoiled node is first, and among the first three, and its cause the planted one."""
    cases: int = 0
    first: int = 0
    third: int = 0
    cause: int = 0

    def count(self, case, report):
        """Count one case; returns what was missed, as text, or None."""
        place = report.ranking.index(case.node)
        named = report.by_node(case.node).cause
        self.cases += 1
        self.first += place == 0
        self.third += place < 3
        self.cause += named == case.fault
        if place == 0 and named == case.fault:
            return None
        return f"{case.pair} node {case.node} {case.op}: {case.fault} x{case.factor:.2f}: place {place + 1}, {named!r}"

    def __str__(self):
        return (f"{self.cases} cases: first {self.first / self.cases:.1%}, first three {self.third / self.cases:.1%}, "
                f"cause {self.cause / self.cases:.1%}")


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("pairs", nargs="*", default=list(PAIRS))
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the cases")
    parser.add_argument("--cumulative", action="store_true", help="as with --local-samples 0")
    args = parser.parse_args(arguments)
    total = Rates()
    for name in args.pairs:
        rates = Rates()
        for case, report in Pair(name).cases(args.cases, not args.cumulative, args.seed):
            total.count(case, report)
            missed = rates.count(case, report)
            if missed:
                sys.stdout.write(f"  {missed}\n")
        sys.stdout.write(f"{name}: {rates}\n")
        sys.stdout.flush()
    sys.stdout.write(f"all: {total}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
