"""The quality of int8 models after `pylite validate --repair`, beside other quantizers' results on the float models.

    pip install ai-edge-quantizer nncf openvino
    python benchmarks/repair.py [PAIR ...]      pairs of tests/validation/planted.py, and outliers

All see the same SEEN samples, and are measured on UNSEEN others, by the SQNR of the result and of what its softmax
reads against the float model.  A quantizer that is not installed, or cannot quantize a model, leaves its rows empty.
Figures of NNCF are the best of its presets, and for transformers with and without its model type.

OpenVINO computes the models of NNCF in float32, rounded where NNCF says so: on a CPU without VNNI, its sums of int8
products saturate, which costs some models 20 dB.
"""
import argparse
import contextlib
import itertools
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import _common
from validation import signed

from pylite import Interpreter, Model
from pylite.schema import read
from pylite.schema.tables import enum
from pylite.validation.activations import Activations
from pylite.validation.judging import Judge, judged
from pylite.validation.matching import match
from pylite.validation.measures import decibels
from pylite.validation.repair import repair
from pylite.validation.statistics import Grid
from pylite.validation.ties import tied
from pylite.validation.widening import widened
from tests.validation import outlying
from tests.validation.planted import MODELS, PAIRS, Pair, samples

SEEN, UNSEEN = 64, 32
NAMES = ("outliers", "person", "keyword", "resnet", "anomaly", "conv1d", "mobilenet")
TRANSFORMERS = ("outliers", "transformer", "transformer-aeq")
ALGORITHMS = {"ai-edge-quantizer": "MIN_MAX_UNIFORM_QUANT", "with GPTQ": "GPTQ"}
CORRECTIONS = {"NNCF, biases as they are": None, "with fast bias correction": True, "with bias correction": False}
ROUNDED = "the same, results rounded"
ROWS = ("as it is", "repaired", *ALGORITHMS, *CORRECTIONS, ROUNDED)
IN_FLOAT = {"LP_TRANSFORMS_MODE": "NO"}     # for OpenVINO


class Case:
    """A pair and its samples.  quantized, real: contents of both models; tensors: [(of the model, of the float one)]"""

    def __init__(self, name):
        self.name = name
        if name == "outliers":
            self.quantized, real = outlying.pair()
            self.seen, self.unseen = ([[words[None]] for words in outlying.inputs(count, seed)]
                                      for count, seed in ((SEEN, 5), (2 * UNSEEN, 6)))
        else:
            self.quantized, real = Pair(name, 1).contents, (MODELS / f"{PAIRS[name][1]}.tflite").read_bytes()
            self.seen, self.unseen = (samples(Model(self.quantized), count, seed)
                                      for count, seed in ((SEEN, 2), (UNSEEN, 3)))
        self.real = renewed(real)
        self.reference, model = widened(self.real), Model(self.quantized)
        graph = self.reference.graph.subgraphs[0]
        matches = match(model.graph.subgraphs[0], graph).matches
        self.tensors = judged(model, self.reference, {i: m.reference for i, m in matches.items()}, tied(model))
        assert len(graph.outputs) == 1 and self.tensors[0][1] == graph.outputs[0]
        self._judge = Judge(self.reference, self.tensors, self.unseen, 1)

    def of_file(self, contents):
        """SQNR of a .tflite file, in dB"""
        model = Model(contents)
        graph, other = model.graph.subgraphs[0], self.reference.graph.subgraphs[0]
        found = {m.reference: i for i, m in match(graph, other).matches.items()}
        places = {i: graph.outputs[0] if o in other.outputs else found[o] for i, o in self.tensors}
        return self._judge.measure(model, places)

    def of_results(self, run, grids=None):
        """SQNR of a function of a sample that returns an array for each of `tensors`, rounded to `grids`, in dB"""
        activations = Activations(self.reference, [o for _, o in self.tensors])
        power, noise = np.zeros((2, len(self.tensors)))
        for sample in self.unseen:
            activations.run(sample)
            for k, (array, (_, o)) in enumerate(zip(run(sample), self.tensors, strict=True)):
                y = activations.array(o).reshape(-1).astype(np.float64)
                x = array.reshape(-1) if grids is None else rounded(array.reshape(-1), grids[k])
                power[k] += np.square(y).sum()
                noise[k] += np.square(x - y).sum()
        return float(np.mean([decibels(p, n) for p, n in zip(power, noise, strict=True)]))


def renewed(contents):
    """The contents of a model with a signature and with codes of ops where ai-edge-quantizer reads them."""
    model = read(contents)
    for code in model.operator_codes:
        if code.builtin_code == "ADD":      # or older converters have written the deprecated field only
            code.builtin_code = enum("BuiltinOperator")[code.deprecated_builtin_code]
    return signed(model)


def rounded(array, grid):
    """Numbers as a tensor with this Grid has them."""
    if not grid.step:       # it has floats
        return array
    limits = np.iinfo(grid.dtype)
    return grid.real(np.clip(np.rint(array / grid.step) + grid.zero_point, limits.min, limits.max))


def repaired(case, folder):
    """The contents of the repaired model."""
    paths = folder / "quantized.tflite", folder / "float.tflite"
    for path, contents in zip(paths, (case.quantized, case.real), strict=True):
        path.write_bytes(contents)
    return repair(*paths, case.seen).contents


def by_ai_edge(case, algorithm):
    """(SQNR, nodes that compute in float32) of the float model, quantized by ai-edge-quantizer"""
    from ai_edge_quantizer import quantizer, recipe
    made = quantizer.Quantizer(case.real)
    made.load_quantization_recipe(recipe.static_wi8_ai8(recipe.AlgorithmName[algorithm]))
    contents = bytes(made.quantize(made.calibrate({"serving_default": [
        {f"t{k}": array for k, array in enumerate(sample)} for sample in case.seen]})).quantized_model)
    Interpreter(model_content=contents).allocate_tensors()      # fails, and says why, if the model cannot run
    graph = Model(contents).graph.subgraphs[0]
    in_float = [o for o in graph.operators if o.name not in ("QUANTIZE", "DEQUANTIZE")
                and graph.tensors[o.outputs[0]].dtype == "float32"]
    return case.of_file(contents), len(in_float)


def by_nncf(case, folder, fast):
    """Functions of a sample: the float model, quantized by NNCF in several ways.

    fast: its bias correction, None for none
    """
    import nncf
    import openvino
    nncf.set_log_level(logging.ERROR)
    core, path = openvino.Core(), folder / "real.tflite"
    path.write_bytes(case.real)
    plainly = openvino.Core.compile_model

    def compiled(self, model, device_name="CPU", config=None):
        return plainly(self, model, device_name, {**(config or {}), **IN_FLOAT})
    kinds = (None, nncf.ModelType.TRANSFORMER) if case.name in TRANSFORMERS else (None,)
    for preset, kind in itertools.product(nncf.QuantizationPreset, kinds):
        with mock.patch.object(openvino.Core, "compile_model", compiled):       # NNCF corrects biases by it, too
            quantized = nncf.quantize(
                with_logits(core.read_model(path), case), nncf.Dataset(case.seen, lambda sample: sample),
                subset_size=SEEN, preset=preset, fast_bias_correction=bool(fast), model_type=kind,
                advanced_parameters=nncf.AdvancedQuantizationParameters(disable_bias_correction=fast is None))
            run = core.compile_model(quantized, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
        yield lambda sample, run=run: [run(sample)[k] for k in range(len(case.tensors))]


def with_logits(model, case):
    """A model of OpenVINO with the shapes of the case, and what its softmax reads as another result."""
    graph = case.reference.graph.subgraphs[0]
    model.reshape({x: list(graph.tensors[i].shape) for x, i in zip(model.inputs, graph.inputs, strict=True)})
    if len(case.tensors) > 1:
        softmax = model.get_results()[0].input_value(0).get_node()
        assert softmax.get_type_name() == "Softmax" and len(case.tensors) == 2
        model.add_outputs(softmax.input_value(0))
    return model


def measured(case, folder):
    """{row: text}"""
    mended = repaired(case, folder)
    found = {"as it is": f"{case.of_file(case.quantized):.1f}", "repaired": f"{case.of_file(mended):.1f}"}
    for row, algorithm in ALGORITHMS.items():
        with attempt(case, row):
            value, in_float = by_ai_edge(case, algorithm)
            found[row] = f"{value:.1f}" + (f" ({in_float})" if in_float else "")
    tensors = Model(mended).graph.subgraphs[0].tensors
    for row, fast in CORRECTIONS.items():
        with attempt(case, row):
            value, run = max(((case.of_results(run), run) for run in by_nncf(case, folder, fast)), key=lambda x: x[0])
            found[row] = f"{value:.1f}"
            found[ROUNDED] = f"{case.of_results(run, [Grid.of(tensors[i]) for i, _ in case.tensors]):.1f}"
    return found


@contextlib.contextmanager
def attempt(case, row):
    """Let a quantizer fail, with a line that says why, and print nothing of its own."""
    try:
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), contextlib.redirect_stderr(null), \
                warnings.catch_warnings(action="ignore"):
            yield
    except Exception as error:      # of any kind, if a quantizer cannot take the model
        _common.say(f"{case.name}, {row}: left out: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", default=NAMES)
    columns = {}
    for name in parser.parse_args(arguments).pairs:
        with tempfile.TemporaryDirectory() as folder:
            columns[name] = measured(Case(name), Path(folder))
        _common.say(f"{name}: {columns[name]}")
    _common.say("\nSQNR in dB, of results on unseen samples; in parentheses, nodes left in float32\n")
    _common.print_table(["", *columns], [[row, *(found.get(row, "") for found in columns.values())] for row in ROWS])


if __name__ == "__main__":
    main(sys.argv[1:])
