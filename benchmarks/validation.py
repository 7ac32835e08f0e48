"""Speed of `pylite validate`: images a second with every tensor observed, beside plain inference and the peer.

    python benchmarks/validation.py [MODEL.tflite [REFERENCE.tflite]] [--samples N] [--peer]

Times are the sums of each step's shortest time, on one core; so other processes disturb little.  Without REFERENCE the
model is compared with the real numbers that it stands for.  --peer: also the comparison of ai-edge-quantizer, where
that is installed, on N samples: processor time, by how many of its measures it takes, and its errors beside pylite's.
"""
import argparse
import sys
import time

import _common
import numpy as np

DEFAULT = "test_data/mobilenet_v2_1.0_224_quant.tflite"
PAIR = "keras/mobilenet_v1_050_160_int8.tflite", "keras/mobilenet_v1_050_160_float32.tflite"
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
                          ("cumulative errors", shortest(comparison.programs[False].program)),
                          ("and local errors", shortest(comparison.programs[True].program))):
        rows.append([name, f"{seconds * 1e3:.2f}", f"{1 / seconds:.0f}", f"{seconds / integer:.2f}",
                     f"{seconds / (integer + real):.2f}", f"{IMAGES * seconds / 120:.1f}"])
    _common.say(f"{_common.short(path)}: {len(comparison.measured)} tensors")
    _common.print_table(["one core", "ms", "images/s", "of quantized", "of both", f"{IMAGES} on 2 cores, min"], rows)


def signed(path):
    """The contents of a model with a signature, without which the peer compares nothing."""
    from pylite.schema import read, write
    from pylite.schema.tables import table
    model = read(path.read_bytes())
    graph = model.subgraphs[0]

    def maps(indices):
        return [table("TensorMap")(name=f"t{k}", tensor_index=i) for k, i in enumerate(indices)]
    model.signature_defs = [table("SignatureDef")(inputs=maps(graph.inputs), outputs=maps(graph.outputs),
                                                  signature_key="serving_default", subgraph_index=0)]
    return write(model)


def _representable(rng, tensor):
    """Real numbers that an input represents exactly, since the peer rounds others otherwise."""
    from pylite.validation.statistics import Grid
    return Grid.of(tensor).real(rng.integers(-128, 127, tensor.shape, endpoint=True).astype(tensor.dtype))


def beside_peer(count):
    """pylite and ai-edge-quantizer compare the same pair on the same samples, sample by sample in turn."""
    try:
        from ai_edge_quantizer import model_validator
        from ai_edge_quantizer.utils.validation_utils import ValidationErrorMetric
    except ImportError:
        sys.exit("--peer takes: pip install ai-edge-quantizer")
    from pylite.runtime.model import Model
    from pylite.validation.comparison import Comparison
    from pylite.validation.measures import Errors
    path, reference = (_common.MODELS / name for name in PAIR)
    contents = signed(path), signed(reference)
    comparison = Comparison(Model(path), Model(reference))
    graph, rng = comparison.subgraph, np.random.default_rng(0)
    samples = [[_representable(rng, graph.tensors[i]) for i in graph.inputs] for _ in range(count)]
    comparison.add(samples[0])      # a data set does not notice the time to prepare
    comparison.clear()
    found, every = {}, list(ValidationErrorMetric)

    def peer(arrays, xnnpack=False, measures=every[:1]):
        return model_validator.compare_model(
            contents[1], contents[0], {"serving_default": [{f"t{k}": array for k, array in enumerate(arrays)}]},
            measures, use_xnnpack=xnnpack, num_threads=1)
    runs = {"ai-edge-quantizer, squared error alone": peer,
            "the same with XNNPACK": lambda arrays: peer(arrays, True),
            "with XNNPACK, squared error and SNR": lambda arrays: peer(
                arrays, True, [ValidationErrorMetric.MSE, ValidationErrorMetric.SNR]),
            f"with XNNPACK, all its {len(every)} measures": lambda arrays: peer(arrays, True, every),
            "pylite, cumulative errors": lambda arrays: comparison.add(arrays, False),
            "pylite, and local errors": comparison.add}
    best = dict.fromkeys(runs, np.inf)
    for arrays in samples:
        for name, run in runs.items():
            start = time.process_time()
            result = run(arrays)
            best[name] = min(best[name], time.process_time() - start)
            if run is peer:
                for tensor, measures in result.get_all_tensor_results().items():
                    found.setdefault(tensor, []).append(measures["mse"])
    _common.say(f"{_common.short(path)}: {count} samples, the shortest processor times")
    cumulative = best["pylite, cumulative errors"]
    _common.print_table(["one core", "ms", "times pylite's"], [
        [name, f"{seconds * 1e3:.1f}", f"{seconds / cumulative:.1f}"] for name, seconds in best.items()])
    compared = {graph.tensors[i].name: Errors.of(comparison.cumulative[i]) for i in comparison.measured
                if comparison.matching.matches[i].how == "name"}
    shared = sorted(set(compared) & set(found))
    ratios = [compared[name].mean(compared[name].noise) / np.mean(found[name]) for name in shared]
    _common.say(f"mean squared error of {len(shared)} tensors: pylite's is {min(ratios):.6f} to {max(ratios):.6f} "
                "times the peer's")


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
