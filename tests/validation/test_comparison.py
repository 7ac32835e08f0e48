"""Measures are those of a plain statement in numpy: over the peer's tensors, and over nodes run one at a time."""
import numpy as np
import pytest

from pylite import Model, validation
from pylite.compiler import memory_planner
from pylite.errors import ComparisonError
from pylite.interpreter import Interpreter
from pylite.media import images, models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.schema.tables import table
from pylite.validation.analysis import analyse
from pylite.validation.comparison import Comparison
from pylite.validation.measures import Errors
from pylite.validation.statistics import Grid
from pylite.validation.widening import widened
from tests.tools import resources
from tests.validation import planted


def test_bundled_models_are_known_by_name(tmp_path, monkeypatch):
    """As on the command line, where a file of that name comes first."""
    data = [[np.zeros((1, 8, 8, 1), np.float32)], [np.ones((1, 8, 8, 1), np.float32)]]
    report = validation.compare("digits", "digits", data)
    assert report.model == report.reference == str(models.path("digits"))
    np.savez(tmp_path / "d.npz", np.concatenate([sample for sample, in data]), labels=[0, 1])
    assert validation.accuracy("digits", tmp_path / "d.npz", "digits").drop == 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").write_bytes(models.path("digits").read_bytes())
    assert validation.compare("digits", models.path("digits"), data).model == "digits"

SCALES = 1 / 127, 0.05, 0.08        # of the activations of two_layers()
PAIRS = ("unet", "lstm", "resnet", "person", "transformer")


def peers_tensors(path, arrays):
    """{tensor: array} of every tensor that the peer's reference kernels compute."""
    peer = resources.peer()
    run = peer.Interpreter(model_path=str(path), experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF,
                           experimental_preserve_all_tensors=True)
    run.allocate_tensors()
    for detail, array in zip(run.get_input_details(), arrays, strict=True):
        run.set_tensor(detail["index"], quantized(array, detail))
    run.invoke()
    found = {}
    for detail in run.get_tensor_details():
        if detail["shape"].size or detail["name"]:
            try:
                found[detail["index"]] = real(run.get_tensor(detail["index"]), detail)
            except ValueError:      # no memory: not a result
                continue
    return found


def quantized(array, detail):
    scale, zero_point = detail["quantization"]
    if not scale or array.dtype != np.float32:
        return array.astype(detail["dtype"])
    limits, steps = np.iinfo(detail["dtype"]), array / np.float32(scale)
    rounded = np.trunc(steps + np.copysign(np.float32(0.5), steps)) + zero_point
    return np.clip(rounded, limits.min, limits.max).astype(detail["dtype"])


def real(array, detail):
    scale, zero_point = detail["quantization"]
    return (array.astype(np.float32) - zero_point) * np.float32(scale) if scale else array


@pytest.mark.parametrize("name", PAIRS)
def test_cumulative_errors_are_those_of_the_peers_tensors(name):
    model, reference = (resources.models() / (path + ".tflite") for path in planted.PAIRS[name])
    comparison = Comparison(Model(str(model)), widened(reference))
    taken = planted.samples(comparison.model, 3)
    total = {}
    for arrays in taken:
        comparison.add(arrays, local=False)
        ours, theirs = peers_tensors(model, arrays), peers_tensors(reference, arrays)
        for tensor, found in comparison.matching.matches.items():
            if tensor in comparison.measured:
                pair = total.setdefault(tensor, ([], []))
                pair[0].append(ours[tensor].reshape(-1).astype(np.float64))
                pair[1].append(theirs[found.reference].reshape(-1).astype(np.float64))
    assert len(total) > 5
    for tensor, (values, expected) in total.items():
        y, r = np.concatenate(values), np.concatenate(expected)
        errors, step = Errors.of(comparison.cumulative[tensor]), comparison.grids[tensor].step or np.abs(r).max()
        # Floats of two runtimes differ in their last bits.
        assert errors.count.sum() == y.size
        np.testing.assert_allclose(errors.mean(errors.noise), np.mean((y - r) ** 2), rtol=2e-3, atol=1e-9 * step * step)
        np.testing.assert_allclose(errors.mean(errors.signal), np.mean(r * r), rtol=1e-4)
        np.testing.assert_allclose(errors.mean(errors.mean_error), np.mean(y - r), rtol=1e-2, atol=1e-4 * step)
        np.testing.assert_allclose(errors.max_error.max(), np.abs(y - r).max(), rtol=1e-2, atol=1e-4 * step)


@pytest.mark.parametrize("name", ["transformer-aeq", "anomaly"])
def test_squared_errors_are_those_of_ai_edge_quantizer(name, monkeypatch):
    """Its comparison, with the reference kernels, defines the same mean squared error."""
    resources.tool("ai_edge_quantizer")
    from ai_edge_quantizer import model_validator as validator
    from ai_edge_quantizer.utils.validation_utils import ValidationErrorMetric
    peer, contents = resources.peer(), []

    def exact(tflite_model, **_):
        run = peer.Interpreter(model_content=bytes(tflite_model), experimental_preserve_all_tensors=True,
                               experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF)
        run.allocate_tensors()
        return run
    monkeypatch.setattr(validator.utils, "create_tfl_interpreter", exact)
    pair = [resources.models() / (path + ".tflite") for path in planted.PAIRS[name]]
    for path in pair:
        model = read(path.read_bytes())
        graph = model.subgraphs[0]
        sides = [[table("TensorMap")(name=f"t{k}", tensor_index=i) for k, i in enumerate(indices)]
                 for indices in (graph.inputs, graph.outputs)]
        model.signature_defs = [table("SignatureDef")(inputs=sides[0], outputs=sides[1], signature_key="main",
                                                      subgraph_index=0)]
        contents.append(write(model))
    comparison = Comparison(Model(str(pair[0])), Model(str(pair[1])))
    taken = []
    for arrays in planted.samples(comparison.model, 3):
        grids = [Grid.of(comparison.subgraph.tensors[i]) for i in comparison.subgraph.inputs]
        # Numbers that the input represents: the two round others in different ways.
        taken.append([a if g is None else np.rint(a / g.scale).astype(np.float32) * g.scale
                      for a, g in zip(arrays, grids, strict=True)])
        comparison.add(taken[-1], local=False)
    found = validator.compare_model(contents[1], contents[0], {"main": [
        {f"t{k}": a for k, a in enumerate(arrays)} for arrays in taken]}, [ValidationErrorMetric.MSE])
    theirs, checked = found.get_all_tensor_results(), 0
    for index in comparison.measured:
        tensor = comparison.subgraph.tensors[index]
        if tensor.name in theirs and comparison.matching.matches[index].how == "name":
            errors, step = Errors.of(comparison.cumulative[index]), comparison.grids[index].step
            np.testing.assert_allclose(errors.mean(errors.noise), theirs[tensor.name]["mse"], rtol=2e-3,
                                       atol=1e-6 * step * step)
            checked += 1
    assert checked >= 10


def two_layers():
    """(quantized, float): two fully connected layers; and a function that gives layer i's (weights, bias)."""
    rng = np.random.default_rng(5)
    layers = [(rng.standard_normal((6, 4)).astype(np.float32), rng.standard_normal(6).astype(np.float32)),
              (rng.standard_normal((3, 6)).astype(np.float32), rng.standard_normal(3).astype(np.float32))]
    models = []
    for number in ("int8", "float32"):
        m = ModelBuilder()
        grid = [{"scale": s} if number == "int8" else {} for s in SCALES]
        x = source = m.tensor("x", (1, 4), number, **grid[0])
        for i, (weights, bias) in enumerate(layers):
            if number == "int8":
                scale = np.abs(weights).max(1) / 127
                w = m.constant(f"w{i}", np.rint(weights / scale[:, None]).astype(np.int8), scale=scale)
                b = m.constant(f"b{i}", np.rint(bias / (scale * SCALES[i])).astype(np.int32), scale=scale * SCALES[i])
            else:
                w, b = m.constant(f"w{i}", weights), m.constant(f"b{i}", bias)
            y = m.tensor(f"y{i}", (1, len(bias)), number, **grid[i + 1])
            m.operator("FULLY_CONNECTED", [x, w, b], [y])
            x = y
        m.inputs([source])
        m.outputs([x])
        models.append(m.build())
    return models, layers


def test_local_errors_are_those_of_nodes_run_one_at_a_time():
    """The second layer reads the float model's activations, quantized; its counterpart the same as real numbers."""
    (quantized_model, float_model), layers = two_layers()
    comparison = Comparison(Model(quantized_model), Model(float_model))
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(20):
        x = rng.uniform(-1, 1, (1, 4)).astype(np.float32)
        comparison.add([x])
        hidden = x @ layers[0][0].T + layers[0][1]
        q = np.clip(np.rint(hidden / np.float32(SCALES[1])), -128, 127)
        sums = q @ np.rint(layers[1][0] / (np.abs(layers[1][0]).max(1) / 127)[:, None]).T
        scale = np.abs(layers[1][0]).max(1) / 127 * SCALES[1]
        result = np.clip(np.rint((sums + np.rint(layers[1][1] / scale)) * scale / SCALES[2]), -128, 127) * SCALES[2]
        errors.append(result - ((q * SCALES[1]) @ layers[1][0].T + layers[1][1]))
    found = Errors.of(comparison.local[comparison.measured[1]])
    np.testing.assert_allclose(found.noise, np.mean(np.square(errors), axis=0)[0], rtol=1e-4)
    report = analyse(comparison)
    assert report.first_divergence is None and [t.matched for t in report.tensors] == ["name", "name"]
    assert 0.2 < report.by_node(1).rmse_over_scale < 0.4


@pytest.mark.parametrize("name", ["unet", "lstm", "transformer-aeq"])
def test_errors_from_the_inputs_on_are_the_same_bits_without_nodes_by_themselves(name):
    model, reference = (str(resources.models() / (path + ".tflite")) for path in planted.PAIRS[name])
    taken = planted.samples(Model(model), 2)
    found = [Comparison(Model(model), widened(reference), alone=alone) for alone in (True, False)]
    for comparison in found:
        for arrays in taken:
            comparison.add(arrays)
    full, short = (comparison.sums() for comparison in found)
    assert short and set(short) == {key for key in full if key.split()[0] in ("cumulative", "input")}
    for key, sums in short.items():
        for row, expected in full[key].state().items():
            np.testing.assert_array_equal(sums.state()[row], expected)
    for one, other in zip(*(analyse(comparison).tensors for comparison in found), strict=True):
        assert (one.sqnr_db, one.cumulative_excess_db) == (other.sqnr_db, other.cumulative_excess_db)
        assert one.excess_db is not None and other.excess_db is None and other.cause is None


def test_results_do_not_depend_on_the_order_of_samples():
    pair, _ = two_layers()
    rng = np.random.default_rng(3)
    samples = [[rng.uniform(-1, 1, (1, 4)).astype(np.float32)] for _ in range(9)]
    reports = []
    for order in (samples, samples[::-1]):
        comparison = Comparison(*map(Model, pair))
        for arrays in order:
            comparison.add(arrays)
        reports.append(analyse(comparison).to_json())
    assert reports[0] == reports[1]


def test_a_saturated_input_does_not_accuse_a_node():
    pair, _ = two_layers()
    comparison = Comparison(*map(Model, pair))
    rng = np.random.default_rng(3)
    for _ in range(20):
        comparison.add([rng.uniform(-1.5, 1.5, (1, 4)).astype(np.float32)])
    assert analyse(comparison).first_divergence is None


def test_a_quantized_reference_is_taken_as_real_numbers():
    """The widened graph computes what the quantized one does, but for rounding."""
    model = widened(models.path("digits"))
    graph = model.graph.subgraphs[0]
    assert {graph.tensors[i].dtype for o in graph.operators for i in o.outputs} == {"float32"}
    rough, exact = Interpreter(str(models.path("digits"))), Interpreter(model=model)
    for name in models.samples():
        pixels = images.read(models.sample(name)).reshape(1, 8, 8, 1).astype(np.float32) / 255
        answers = []
        for run in (rough, exact):
            run.allocate_tensors()
            given, = run.get_input_details()
            run.set_tensor(given["index"], quantized(pixels, given))
            run.invoke()
            out, = run.get_output_details()
            answers.append(real(run.get_tensor(out["index"]), out))
        np.testing.assert_allclose(answers[0], answers[1], atol=0.02)


def test_a_cast_of_the_input_stands_for_the_reference_s_input():
    m, f = ModelBuilder(), ModelBuilder()
    x, y = m.tensor("x", (1, 4), "float32"), m.tensor("x_int8", (1, 4), "int8", scale=0.01)
    z, real = m.tensor("y", (1, 4), "int8", scale=0.01), f.tensor("x", (1, 4), "float32")
    m.operator("QUANTIZE", [x], [y])
    m.operator("RELU", [y], [z])
    m.inputs([x])
    m.outputs([z])
    out = f.tensor("y", (1, 4), "float32")
    f.operator("RELU", [real], [out])
    f.inputs([real])
    f.outputs([out])
    comparison = Comparison(Model(m.build()), Model(f.build()))
    comparison.add([np.array([[0.111, -0.5, 0.3, 0.52]], np.float32)])
    report = analyse(comparison)
    assert [t.matched for t in report.tensors] == ["through QUANTIZE", "name"] and report.first_divergence is None
    assert report.tensors[0].max_error_steps == pytest.approx(0.1, rel=1e-3)


def test_what_cannot_be_compared_is_said(tmp_path):
    m = ModelBuilder()
    x = m.tensor("x", (1, 4), "float32")
    y = m.tensor("other", (1, 2), "float32")
    m.operator("SUM", [x, m.constant("axis", np.array([1], np.int32))], [y])
    m.inputs([x])
    m.outputs([y])
    pair, _ = two_layers()
    (tmp_path / "a.tflite").write_bytes(pair[0])
    (tmp_path / "b.tflite").write_bytes(m.build())
    with pytest.raises(ComparisonError, match="no tensor of the model has a counterpart"):
        validation.compare(tmp_path / "a.tflite", tmp_path / "b.tflite", [[np.zeros((1, 4), np.float32)]])
    with pytest.raises(ComparisonError, match="no samples"):
        validation.compare(tmp_path / "a.tflite", tmp_path / "a.tflite", [])


@pytest.mark.parametrize("name", ["lstm", "unet", "transformer", "keyword"])
def test_tensors_that_share_memory_are_observed_before_they_are_lost(name, monkeypatch):
    """The sums are those that all tensors give when each keeps its memory, and the arenas are smaller."""
    resources.models()
    quantized, reference = (planted.MODELS / f"{part}.tflite" for part in planted.PAIRS[name])

    def compared():
        comparison = Comparison(Model(quantized), Model(reference), histograms=True, origins=True)
        for arrays in planted.samples(Model(quantized), 2):
            comparison.add(arrays, True, True)
        executors = (comparison._full, comparison._full_reference, comparison.origins.executor,
                     *[side.executor for side in comparison.sampler._separate])
        return analyse(comparison).to_json(), sum(executor.current.placement.total for executor in executors)
    shared, nbytes = compared()
    placed = memory_planner.placement_of
    monkeypatch.setattr(memory_planner, "placement_of",
                        lambda lowered, preserve, guard, access: placed(lowered, preserve, guard))
    kept, more = compared()
    assert shared == kept and nbytes < more
