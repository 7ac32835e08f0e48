"""Speed of `pylite validate`: images a second with every tensor observed, beside plain inference and the peer.

    python benchmarks/validation.py [MODEL.tflite [REFERENCE.tflite]] [--samples N] [--peer]

Times are the sums of each step's shortest time, on one core; so other processes disturb little.  Without REFERENCE the
model is compared with the real numbers that it stands for.  --peer: also the comparison of ai-edge-quantizer, where
that is installed, on N samples of several pairs: processor time, by how many of its measures it takes, beside what
`--local-samples 0` takes, which measures the same, and what everything takes; and its squared errors beside pylite's.
"""
import argparse
import sys
import time

import _common
import numpy as np

DEFAULT = "test_data/mobilenet_v2_1.0_224_quant.tflite"
KERAS, TINY = "keras/", "tiny/benchmark/training/"
PAIRS = ((KERAS + "mobilenet_v1_050_160_int8", KERAS + "mobilenet_v1_050_160_float32"),
         (KERAS + "unet_transpose_128_int8", KERAS + "unet_transpose_128_float32"),
         (KERAS + "lstm_unrolled_k3_10_int8", KERAS + "lstm_unrolled_k3_10_float32"),
         (KERAS + "conv1d_har_128_int8", KERAS + "conv1d_har_128_float32"),
         (TINY + "anomaly_detection/trained_models/ad01_int8", TINY + "anomaly_detection/trained_models/ad01_fp32"),
         (TINY + "keyword_spotting/trained_models/kws_ref_model",
          TINY + "keyword_spotting/trained_models/kws_ref_model_float32"))      # whose results have the same names
RUNS = 30
IMAGES = 50_000


def shortest(program):
    """Seconds of a Program: each step's shortest time of many runs."""
    clock = np.zeros((RUNS, program.size + 2), np.int64)
    program.profile(clock)
    times = np.diff(clock)
    return (times[:, 1:] - times[:, :1].min()).min(0).sum() / 1e9


def plain(model):
    from pylite.interpreter import Interpreter
    interpreter = Interpreter(model=model)
    interpreter.allocate_tensors()
    interpreter.invoke()
    return shortest(interpreter._main.current.program)


def compared(path, reference):
    from pylite.runtime.model import Model
    from pylite.validation.comparison import Comparison
    from pylite.validation.widening import widened
    model, other = Model(path), widened(reference)
    comparison = Comparison(model, other)
    graph = comparison.subgraph
    rng = np.random.default_rng(0)
    sample = [rng.uniform(-1, 1, graph.tensors[i].shape).astype(np.float32) for i in graph.inputs]
    for local in (False, True):
        comparison.add(sample, local)
    integer, real = plain(Model(path)), plain(widened(reference))
    rows = []
    for name, seconds in (("plain, quantized", integer), ("plain, both models", integer + real),
                          ("cumulative errors", shortest(comparison.sampler.programs[False].program)),
                          ("and local errors", shortest(comparison.sampler.programs[True].program))):
        rows.append([name, f"{seconds * 1e3:.2f}", f"{1 / seconds:.0f}", f"{seconds / integer:.2f}",
                     f"{seconds / (integer + real):.2f}", f"{IMAGES * seconds / 120:.1f}"])
    _common.say(f"{_common.short(path)}: {len(comparison.measured)} tensors")
    _common.print_table(["one core", "ms", "images/s", "of quantized", "of both", f"{IMAGES} on 2 cores, min"], rows)


def signed(model):
    """The contents of a model that `read` has given, with a signature, without which the peer compares nothing."""
    from pylite.schema import write
    from pylite.schema.tables import table
    graph = model.subgraphs[0]

    def maps(indices):
        return [table("TensorMap")(name=f"t{k}", tensor_index=i) for k, i in enumerate(indices)]
    model.signature_defs = [table("SignatureDef")(inputs=maps(graph.inputs), outputs=maps(graph.outputs),
                                                  signature_key="serving_default", subgraph_index=0)]
    return write(model)


def floating(path):
    """The contents of a quantized model with the real numbers that its constants stand for in their place."""
    from pylite.runtime.model import Model
    from pylite.schema import read, write
    from pylite.validation.widening import quantized, real
    model, file = Model(path), read(path.read_bytes())
    for record, tensor in zip(file.subgraphs[0].tensors, model.graph.subgraphs[0].tensors, strict=True):
        if quantized(tensor):
            numbers = real(model, tensor)
            record.type, record.quantization = "float32", None
            if numbers.data is not None:
                file.buffers[record.buffer].data = np.asarray(numbers.data).view(np.uint8)
    return write(file)


def quantized_by_peer(contents, shapes):
    """An int8 model that ai-edge-quantizer makes of a float one."""
    from ai_edge_quantizer import quantizer, recipe
    rng = np.random.default_rng(0)
    quantizer = quantizer.Quantizer(contents)
    quantizer.load_quantization_recipe(recipe.static_wi8_ai8())
    calibrated = quantizer.calibrate({"serving_default": [
        {f"t{k}": rng.uniform(-1, 1, shape).astype(np.float32) for k, shape in enumerate(shapes)}]})
    return bytes(quantizer.quantize(calibrated).quantized_model)


def pairs():
    """(name, contents of the quantized model, of the float one): MobileNetV2, and those of the shared models."""
    from pylite.runtime.model import Model
    from pylite.schema import read
    path = _common.MODELS / DEFAULT
    graph = Model(path).graph.subgraphs[0]
    real = signed(read(floating(path)))
    yield "mobilenet_v2_1.0_224", quantized_by_peer(real, [graph.tensors[i].shape for i in graph.inputs]), real
    for name, reference in PAIRS:
        both = [signed(read((_common.MODELS / f"{path}.tflite").read_bytes())) for path in (name, reference)]
        yield name.rpartition("/")[2], *both


def _representable(rng, tensor):
    """Real numbers that an input represents exactly, since the peer rounds others otherwise."""
    from pylite.validation.statistics import Grid
    grid = Grid.of(tensor)
    if not grid.step:
        return rng.uniform(-1, 1, tensor.shape).astype(np.float32)
    limits = np.iinfo(tensor.dtype)
    return grid.real(rng.integers(limits.min, limits.max, tensor.shape, endpoint=True).astype(tensor.dtype))


def beside_peer(count):
    """pylite and ai-edge-quantizer compare the same pairs on the same samples, alternately."""
    try:
        import ai_edge_quantizer  # noqa: F401 # what the rest takes
    except ImportError:
        sys.exit("--peer takes: pip install ai-edge-quantizer")
    rows = []
    for name, *contents in pairs():
        best, agreement = raced(contents, count)
        ours, plainly = best["pylite, cumulative"], best["both models plainly"]
        rows.append([name, *(f"{best[key] * 1e3:.2f}" for key in (
            "both models plainly", "pylite, cumulative", "pylite, everything")),
            *(f"{best[key] / ours:.1f}" for key in ("squared error", "snr", "all five")),
            *(f"{best[key] / other:.1f}" for key, other in (("all five", best["pylite, everything"]),
                                                            ("squared error", plainly))), agreement])
    _common.say(f"ai-edge-quantizer beside pylite: one thread each, the shortest processor time of {count} samples by "
                "turns (three of each); ms for a sample; then how many times as long ai-edge-quantizer takes")
    _common.print_table(["pair", "plain ms", "--local-samples 0", "everything", "squared error", "SNR",
                         "all five", "all five / everything", "squared error / plain", "errors agree"], rows)


def raced(contents, count):
    """({what: seconds for a sample}, how near the squared errors of both are) of the contents of a pair."""
    from ai_edge_quantizer import model_validator
    from ai_edge_quantizer.utils.validation_utils import ValidationErrorMetric as Metric

    from pylite.runtime.model import Model
    from pylite.validation.comparison import Comparison
    from pylite.validation.measures import Errors
    comparisons = [Comparison(Model(contents[0]), Model(contents[1]), alone=alone) for alone in (False, True)]
    graph, rng, found = comparisons[0].subgraph, np.random.default_rng(0), {}
    samples = [[_representable(rng, graph.tensors[i]) for i in graph.inputs] for _ in range(count)]
    for comparison in comparisons:      # a data set does not notice the time to prepare
        comparison.add(samples[0])
        comparison.clear()

    def peer(arrays, measures, xnnpack=True):
        return model_validator.compare_model(
            contents[1], contents[0], {"serving_default": [{f"t{k}": array for k, array in enumerate(arrays)}]},
            measures, use_xnnpack=xnnpack, num_threads=1)
    models = plainly(contents, graph)
    runs = {"both models plainly": models, "pylite, cumulative": comparisons[0].add,
            "pylite, everything": comparisons[1].add, "squared error": lambda arrays: peer(arrays, [Metric.MSE]),
            "snr": lambda arrays: peer(arrays, [Metric.SNR]), "all five": lambda arrays: peer(arrays, list(Metric))}
    best = dict.fromkeys(runs, np.inf)
    for arrays in samples * 3:
        for name, run in runs.items():
            start = time.process_time()
            run(arrays)
            best[name] = min(best[name], time.process_time() - start)
    for arrays in samples:
        for tensor, measures in peer(arrays, [Metric.MSE], False).get_all_tensor_results().items():
            found.setdefault(tensor, []).append(measures["mse"])
    comparison = comparisons[0]
    errors = {graph.tensors[i].name: Errors.of(comparison.cumulative[i]) for i in comparison.measured
              if comparison.matching.matches[i].how == "name"}
    ratios = [errors[name].mean(errors[name].noise) / np.mean(found[name]) for name in set(errors) & set(found)
              if np.mean(found[name]) > 0]
    return best, f"{min(ratios):.3f} to {max(ratios):.3f}"


def plainly(contents, graph):
    """A function that runs both models of a pair on a sample, as any program would."""
    from pylite.interpreter import Interpreter
    from pylite.validation.comparison import fill
    from pylite.validation.statistics import Grid
    interpreters = [Interpreter(model_content=content) for content in contents]
    for interpreter in interpreters:
        interpreter.allocate_tensors()

    def run(arrays):
        for interpreter in interpreters:
            for detail, array, index in zip(interpreter.get_input_details(), arrays, graph.inputs, strict=True):
                given = np.empty(detail["shape"], detail["dtype"])
                fill(given, array, Grid.of(graph.tensors[index]) if given.dtype != np.float32 else None)
                interpreter.set_tensor(detail["index"], given)
            interpreter.invoke()
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=str(_common.MODELS / DEFAULT))
    parser.add_argument("reference", nargs="?")
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--peer", action="store_true")
    options = parser.parse_args()
    compared(options.model, options.reference or options.model)
    if options.peer:
        beside_peer(options.samples)


if __name__ == "__main__":
    main()
