"""A repaired model has the same graph and less error, on samples that the repair has not seen, and LiteRT computes the
same with it."""
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pylite import Interpreter, Model, cli
from pylite.errors import ComparisonError
from pylite.media import labels, models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.validation import agreement
from pylite.validation.calibration import Observed, grid_for
from pylite.validation.litert import LiteRT
from pylite.validation.repair import repair
from pylite.validation.repair_steps import STEPS
from pylite.validation.repairer import Repairer
from pylite.validation.requantizing import Changes, RealWeights, Requantizer
from pylite.validation.widening import widened
from tests.tools import resources
from tests.validation import planted, regained
from tests.validation.test_sensitivity import outliers

pytestmark = pytest.mark.slow
CASES = {"conv1d": 6, "anomaly": 3, "resnet": 2, "keyword": 3, "transformer-aeq": 1, "person": 1}     # for each pair


@pytest.mark.parametrize("name", CASES)
def test_planted_faults_are_repaired(name, tmp_path):
    """At least 95 % of the lost SQNR is regained in all cases but one."""
    resources.models()
    found = list(regained.regained(planted.shared_pair(name), CASES[name], tmp_path))
    missed = [(case.fault, case.node, lost, share) for case, lost, share in found if share < regained.REGAINED]
    assert len(missed) <= 1, missed
    assert all(share > 0.5 for _, _, _, share in missed), missed


def test_ranges_by_few_samples_are_calibrated_anew(tmp_path):
    """Measured on samples that neither the poor calibration nor the repair has seen."""
    resources.models()
    before, after, good = regained.scarce("keyword", 2, tmp_path)
    assert before < good - 3 and after >= before + 6 and after > good


def test_each_pair_has_faults_that_cost_something():
    """Otherwise the test above would be about nothing."""
    resources.models()
    pairs = ((planted.shared_pair(name), count) for name, count in list(CASES.items())[:4])
    assert sum(len(list(regained.Unseen(pair).costly(pair, count))) for pair, count in pairs) >= 8


@pytest.mark.parametrize(("name", "fault"), [
    ("transformer", "zero point"), ("resnet", "channel scale"), ("lstm", "range too narrow"),
    ("anomaly", "weight scale")])
def test_litert_computes_the_same_with_the_repaired_model(name, fault, tmp_path):
    resources.models()
    resources.peer()
    pair, rng = planted.shared_pair(name), np.random.default_rng(0)
    nodes = iter(pair.comparison.subgraph.operators)
    contents = None
    while contents is None:
        contents = planted.spoil(pair.contents, next(nodes).index, fault, 3.0, rng, -1.0, 1.0)
    (tmp_path / "q.tflite").write_bytes(contents)
    found = repair(tmp_path / "q.tflite", planted.MODELS / f"{planted.PAIRS[name][1]}.tflite", pair.samples)
    model = Model(found.contents)
    result = agreement.compare_with(model, pair.samples[:2], LiteRT(found.contents).results, "litert")
    assert result.equal and result.tensors, result.lines(3)


@pytest.fixture
def spoiled(tmp_path):
    """The digits' model with a wrong layer, its reference, and samples: noisy pictures."""
    model = read(models.path("digits").read_bytes())
    weights = next(t for t in model.subgraphs[0].tensors if t.name == "trunk/4/weights")
    weights.quantization.scale = weights.quantization.scale * 3
    (tmp_path / "q.tflite").write_bytes(write(model))
    reference = Model(models.path("digits"))
    rng, samples = np.random.default_rng(0), []
    shape = reference.graph.subgraphs[0].tensors[reference.graph.subgraphs[0].inputs[0]].shape
    for _ in range(16):
        samples.append([rng.uniform(0, 1, shape).astype(np.float32)])
    return tmp_path / "q.tflite", models.path("digits"), samples


def test_a_repair_keeps_the_graph_and_gives_the_same_file_again(spoiled):
    path, reference, samples = spoiled
    found = repair(path, reference, samples)
    assert found.contents == repair(path, reference, samples).contents
    before, after = Model(path).graph.subgraphs[0], Model(found.contents).graph.subgraphs[0]
    assert [(o.name, o.inputs, o.outputs) for o in before.operators] == [
        (o.name, o.inputs, o.outputs) for o in after.operators]
    assert [(t.name, t.shape, t.dtype) for t in before.tensors] == [(t.name, t.shape, t.dtype) for t in after.tensors]
    for index in before.inputs:
        assert (before.tensors[index].quantization.scale == after.tensors[index].quantization.scale).all()
    assert len(found.contents) < path.stat().st_size + 2048


def test_what_is_said_to_be_gained_is_gained(spoiled):
    path, reference, samples = spoiled
    found = repair(path, reference, samples)
    assert (found.fitted, found.held_out) == (8, 8)
    assert found.steps[0].name == "weights from the float model" and found.steps[0].kept
    assert found.steps[0].changed == 1 and found.steps[0].gained_db > 10
    gained = sum(step.gained_db for step in found.steps if step.kept)
    assert found.after_db == pytest.approx(found.before_db + gained)
    assert all(step.gained_db > 0 for step in found.steps if step.kept)
    repairer = Repairer(Model(found.contents), widened(reference), samples[::2], samples[1::2], 1)
    assert repairer.before_db == found.after_db
    path.write_bytes(found.contents)
    again = repair(path, reference, samples)
    assert again.before_db == found.after_db and again.after_db >= again.before_db


def test_steps_that_held_out_samples_do_not_confirm_are_refused(spoiled):
    """The samples to fit on are of another kind than those that judge: every range for them would be too narrow."""
    _, reference, samples = spoiled
    narrow = [[array * np.float32(0.02)] for array, in samples]
    found = Repairer(Model(reference), widened(reference), narrow[::2], samples[1::2], 1)
    found.run(STEPS)
    assert any(not step.kept and step.fitted_db > 0 > step.gained_db for step in found.steps)
    assert found.held_db >= found.before_db


def test_a_repair_that_gains_nothing_says_so(tmp_path):
    for dtype in ("int8", "float32"):
        m, grid = ModelBuilder(), {"scale": 1 / 255, "zero_point": -128} if dtype == "int8" else {}
        x, y = m.tensor("x", (1, 64), dtype, **grid), m.tensor("y", (1, 64), dtype, **grid)
        m.operator("RELU", [x], [y])
        m.inputs([x])
        m.outputs([y])
        (tmp_path / f"{dtype}.tflite").write_bytes(m.build())
    samples = [[np.random.default_rng(i).random((1, 64), np.float32)] for i in range(4)]
    found = repair(tmp_path / "int8.tflite", tmp_path / "float32.tflite", samples)
    assert found.contents == (tmp_path / "int8.tflite").read_bytes()
    assert found.notes == ["no step helped on the held-out samples, so the repaired model is the model as it is"]


def one_scale():
    """[int8, float]: a layer whose first channel has many small weights, and whose second has a single large one."""
    rng, built = np.random.default_rng(0), []
    weights = np.zeros((2, 256), np.float32)
    weights[0] = rng.uniform(0.004, 0.016, 256)
    weights[1, 0] = 2.5
    scale = np.float32(2.5 / 127)
    for dtype in ("int8", "float32"):
        m = ModelBuilder()
        grids = [{"scale": s, "zero_point": -128} if dtype == "int8" else {} for s in (1 / 255, 3 / 255)]
        x = m.tensor("x", (1, 256), dtype, **grids[0])
        w = m.constant("w", np.rint(weights / scale).astype(np.int8), scale=[scale]) if grids[0] else (
            m.constant("w", weights))
        y = m.tensor("y", (1, 2), dtype, **grids[1])
        m.operator("FULLY_CONNECTED", [x, w], [y])
        m.inputs([x])
        m.outputs([y])
        built.append(m.build())
    return built


def test_channels_under_one_scale_get_their_own(tmp_path):
    for name, contents in zip("qf", one_scale(), strict=True):
        (tmp_path / f"{name}.tflite").write_bytes(contents)
    samples = [[x] for x in np.random.default_rng(1).uniform(0, 1, (40, 1, 256)).astype(np.float32)]
    found = repair(tmp_path / "q.tflite", tmp_path / "f.tflite", samples)
    model = Model(found.contents)
    operator = model.graph.subgraphs[0].operators[0]
    weights = model.graph.subgraphs[0].tensors[operator.inputs[1]]
    assert weights.quantization.scale.size == 2 and weights.quantization.axis == 0
    assert found.after_db > found.before_db + 10
    file = read(found.contents)
    code = file.operator_codes[file.subgraphs[0].operators[0].opcode_index]
    assert code.version >= 12       # readers that know one scale only must refuse it
    resources.peer()
    result = agreement.compare_with(model, samples[:3], LiteRT(found.contents).results, "litert")
    assert result.equal, result.lines(3)


def test_weights_that_two_nodes_share_are_copied_where_only_one_changes():
    m = ModelBuilder()
    x = m.tensor("x", (1, 4), "int8", scale=0.1)
    w = m.constant("w", np.full((4, 4), 9, np.int8), scale=[0.1])
    b = m.constant("b", np.arange(4, dtype=np.int32), scale=[0.01])
    first, second = m.tensor("y", (1, 4), "int8", scale=0.5), m.tensor("z", (1, 4), "int8", scale=0.5)
    m.operator("FULLY_CONNECTED", [x, w, b], [first])
    m.operator("FULLY_CONNECTED", [first, w, b], [second])
    m.inputs([x])
    m.outputs([second])
    model = Model(m.build())
    requantizer = Requantizer(model)
    values = np.linspace(-1, 1, 16).reshape(4, 4)
    changes = Changes(weights={1: RealWeights.fitted(values, 0, "int8", False)}, grids={first: (0.25, 3)})
    for changed in (requantizer.model(changes), Model(requantizer.written(changes))):
        graph = changed.graph.subgraphs[0]
        assert graph.operators[0].inputs == (x, w, b)
        assert graph.operators[1].inputs[1:] != (w, b)
        own, bias = (graph.tensors[i] for i in graph.operators[1].inputs[1:])
        step = np.float32(own.quantization.scale[0]) * np.float32(0.25)
        assert bias.quantization.scale[0] == step
        assert (changed.weights.constant(bias) == np.rint(np.arange(4) * 0.01 / step)).all()
        np.testing.assert_allclose(changed.weights.constant(own) * own.quantization.scale[0], values, atol=0.5 / 127)
        assert (changed.weights.constant(graph.tensors[w]) == 9).all()


def test_a_bias_that_would_overflow_widens_the_scale_of_its_weights():
    weights = RealWeights.fitted(np.array([[1e-6, 0], [1.0, -2.0]]), 0, "int8", True)
    m = ModelBuilder()
    x = m.tensor("x", (1, 2), "int8", scale=1e-4)
    w = m.constant("w", np.ones((2, 2), np.int8), scale=[1, 1])
    b = m.constant("b", np.ones(2, np.int32), scale=[1e-4, 1e-4])
    y = m.tensor("y", (1, 2), "int8", scale=1)
    m.operator("FULLY_CONNECTED", [x, w, b], [y])
    m.inputs([x])
    m.outputs([y])
    changed = Requantizer(Model(m.build())).model(Changes(weights={0: weights}, biases={0: np.array([50.0, 1.0])}))
    graph = changed.graph.subgraphs[0]
    bias = graph.tensors[graph.operators[0].inputs[2]]
    np.testing.assert_allclose(changed.weights.constant(bias) * bias.quantization.scale, [50, 1], rtol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_the_grid_of_a_range_holds_it_and_zero(dtype):
    rng = np.random.default_rng(0)
    for _ in range(200):
        low, high = -rng.exponential() * rng.integers(0, 2), rng.exponential() * rng.integers(0, 2)
        scale, zero_point = grid_for(low, high, dtype)
        limits = np.iinfo(dtype)
        assert limits.min <= zero_point <= limits.max and scale > 0
        assert (limits.min - zero_point) * scale <= low + 0.51 * scale
        assert (limits.max - zero_point) * scale >= high - 0.51 * scale


def test_the_least_error_leaves_outliers_outside():
    values = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    values[0] = 40
    seen = Observed()
    seen.extend(values)
    seen.count(values)
    def noise(grid):
        real = (np.clip(np.rint(values / grid[0]) + grid[1], -128, 127) - grid[1]) * grid[0]
        return float(np.square(real - values).mean())
    grids = {method: seen.grid(method, "int8") for method in ("min / max", "99.9 %", "least error")}
    for grid in grids.values():
        assert noise(grid) == pytest.approx(seen.noise(grid, "int8"), rel=0.1)
    assert noise(grids["least error"]) < 0.9 * noise(grids["min / max"])
    assert noise(grids["least error"]) <= noise(grids["99.9 %"])


def test_values_that_are_not_finite_do_not_count():
    seen = Observed()
    values = np.array([np.nan, np.inf, 1, -2], np.float32)
    seen.extend(values)
    seen.count(values)
    assert (seen.low, seen.high, seen.counts.sum()) == (-2, 1, 2)


def test_the_command_writes_a_model_that_runs(tmp_path, capsys, spoiled):
    path, _, _ = spoiled
    shutil.copytree(models.sample("seven").parent, tmp_path / "pictures")
    out = tmp_path / "better.tflite"
    command = ["validate", str(path), "--reference", "digits", "--data", str(tmp_path / "pictures"), "--mean", "0",
               "--std", "255", "--repair", str(out)]
    assert cli.main(command) == 0
    text = capsys.readouterr().out
    assert "weights from the float model (1)" in text and text.splitlines()[-1].startswith("repaired")
    run = Interpreter(str(out))
    run.allocate_tensors()
    run.invoke()
    assert list(labels.attached(Model(out))) == list(labels.attached(Model(path)))
    assert cli.main([*command, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "docs/validation.schema.json").read_text())
    jsonschema.validate(shown, {**schema["$defs"]["repair"], "$defs": schema["$defs"]})
    assert cli.main([*command, "--min-sqnr", "200"]) == 1
    assert "--min-sqnr 200" in capsys.readouterr().err
    assert cli.main([*command, "--html", str(tmp_path / "x.html")]) == 2
    assert cli.main([*command[:2], *command[4:]]) == 2


def test_errors_say_what_is_wrong(tmp_path, spoiled):
    path, reference, samples = spoiled
    with pytest.raises(ComparisonError, match="at least two samples"):
        repair(path, reference, samples[:1])
    _, real = outliers()[0]
    (tmp_path / "f.tflite").write_bytes(real)
    with pytest.raises(ComparisonError, match="has no quantized tensors"):
        repair(tmp_path / "f.tflite", tmp_path / "f.tflite", samples)
