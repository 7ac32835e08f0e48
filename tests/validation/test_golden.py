"""Tensors of another framework, in its names and layouts, show the node at fault."""
import json

import numpy as np
import pytest

import pylite
from pylite import CustomOp, Model, cli, validation
from pylite.errors import ComparisonError
from pylite.schema.builder import ModelBuilder
from pylite.validation.agreement import ExposedModel
from pylite.validation.golden import compare
from pylite.validation.golden_arrays import arranged, layouts
from pylite.validation.statistics import Grid
from tests.tools import resources
from tests.validation import planted

SCALES = 1 / 127, 0.03, 0.08, 0.15      # of the activations


def network(dtype="float32", spoiled=1.0):
    """Three convolutions, 6 x 5 pixels; spoiled: a factor of the second one's weights."""
    rng, m = np.random.default_rng(0), ModelBuilder()

    def grid(scale):
        return {} if dtype == "float32" else {"scale": scale}
    x = first = m.tensor("image", (1, 6, 5, 3), dtype, **grid(SCALES[0]))
    for k, (inputs, outputs) in enumerate([(3, 4), (4, 4), (4, 2)]):
        w = rng.normal(0, 0.3, (outputs, 3, 3, inputs)).astype(np.float32) * np.float32(spoiled if k == 1 else 1)
        bias, step = np.zeros(outputs, np.float32 if dtype == "float32" else np.int32), np.abs(w).max() / 127
        operands = [m.constant(f"w{k}", w if dtype == "float32" else np.rint(w / step).astype(np.int8), **grid(step)),
                    m.constant(f"b{k}", bias, **grid(step * SCALES[k]))]
        y = m.tensor(f"block/conv{k}", (1, 6, 5, outputs), dtype, **grid(SCALES[k + 1]))
        m.operator("CONV_2D", [x, *operands], [y], padding="SAME", stride_h=1, stride_w=1)
        x = y
    m.inputs([first])
    m.outputs([x])
    return m.build()


def computed(count=4):
    """{name: (count, ...)} of every tensor of the float network."""
    model, rng = Model(network()), np.random.default_rng(1)
    runner, found = ExposedModel(model, 1), {}
    for _ in range(count):
        x = rng.uniform(-1, 1, (1, 6, 5, 3)).astype(np.float32)
        _, results = runner.run([x])
        for name, array in [("image", x), *((model.graph.subgraphs[0].tensors[i].name, a)
                                            for i, a in results.items())]:
            found.setdefault(name, []).append(array.copy())
    return {name: np.concatenate(arrays) for name, arrays in found.items()}


def saved(folder, arrays, change=lambda array: array):
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, change(array))


@pytest.fixture
def spoiled(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(network("int8", 1.4))
    return path


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "golden").mkdir()
    return tmp_path / "golden"


def check(report, samples=4):
    assert report.samples == report.local_samples == samples and len(report.tensors) == 3
    assert report.ranking[0] == 1 and report.first_divergence == 1
    assert report.by_node(0).excess_db < 3 and report.by_node(2).excess_db < 3
    assert report.by_node(2).sqnr_db < 20 < report.by_node(2).sqnr_local_db


def test_the_spoiled_node_is_first(spoiled, folder):
    saved(folder, computed())
    report = compare(spoiled, folder)
    check(report)
    assert not report.notes and not report.unmatched
    assert report.by_node(1).reference_name == "block/conv1"


@pytest.mark.filterwarnings("error")
def test_a_reference_of_zeros_is_not_exact(spoiled, folder):
    arrays = computed()
    saved(folder, {**arrays, "block/conv1": np.zeros_like(arrays["block/conv1"])})
    report = compare(spoiled, folder)
    found = report.by_node(1)
    assert found.cause == "unknown" and found.detail.startswith("the reference is 0 throughout")
    row, = (line.split() for line in report.lines() if "1  CONV_2D" in line)
    assert row.count("none") == 2 and "exact" not in row
    node, = (each for each in json.loads(report.to_json())["tensors"] if each["node"] == 1)
    assert node["sqnr_db"] == -200      # None would mean exact


def test_channels_may_come_first(spoiled, folder):
    saved(folder, computed(), lambda array: np.moveaxis(array, -1, 1))
    report = compare(spoiled, folder)
    check(report)
    assert any("channels first" in note and "block/conv1" in note for note in report.notes)


def test_an_npz_file_may_hold_each_sample(spoiled, folder):
    arrays = computed(12)
    for k in range(12):     # sample 10 comes after sample 2
        np.savez(folder / f"sample_{k}.npz", **{name: array[k] for name, array in arrays.items()})
    check(compare(spoiled, folder), 12)


def test_names_may_differ(spoiled, folder):
    arrays = computed()
    saved(folder, {"image": arrays["image"], "Block_Conv0": arrays["block/conv0"], "features.3": arrays["block/conv1"],
                   "loss": arrays["block/conv2"]})
    report = compare(spoiled, folder)
    assert [t.node for t in report.tensors] == [0]
    assert [row["name"] for row in report.unmatched] == ["block/conv1", "block/conv2"]
    assert any("features.3" in note and "loss" in note for note in report.notes)
    (folder / "names.json").write_text(json.dumps({"features.3": "block/conv1", "loss": "block/conv2"}))
    check(compare(spoiled, folder))


def test_nodes_without_an_array_are_measured_with_the_next_one(spoiled, folder):
    arrays = computed()
    del arrays["block/conv1"]
    saved(folder, arrays)
    report = compare(spoiled, folder)
    assert report.ranking[0] == 2 and report.by_node(0).excess_db < 3


def test_quantized_values_count_as_what_they_represent(folder, tmp_path):
    model = tmp_path / "right.tflite"
    model.write_bytes(network("int8"))
    tensors, arrays = Model(model).graph.subgraphs[0].tensors, computed()
    expected = {}
    for t in tensors:
        if t.name in arrays:
            grid = Grid.of(t)
            expected[t.name] = np.clip(np.rint(arrays[t.name] / grid.step) + grid.zero_point, -128, 127).astype(np.int8)
    saved(folder, expected)
    report = compare(model, folder)
    assert min(t.sqnr_db for t in report.tensors) > 25


def test_a_float_model_agrees_but_for_the_last_bits(folder, tmp_path):
    model = tmp_path / "float.tflite"
    model.write_bytes(network())
    saved(folder, computed())
    report = compare(model, folder)
    assert all(t.sqnr_db is None or t.sqnr_db > 100 for t in report.tensors)
    assert report.first_divergence is None
    model.write_bytes(network(spoiled=1.1))
    assert compare(model, folder).first_divergence == 1


def test_samples_of_the_inputs_may_come_from_data(spoiled, folder, tmp_path):
    arrays = computed()
    np.save(tmp_path / "d.npy", arrays.pop("image"))
    saved(folder, arrays)
    with pytest.raises(ComparisonError, match=r"no array of the input 'image'.*--data"):
        compare(spoiled, folder)
    check(compare(spoiled, folder, tmp_path / "d.npy"))
    np.save(tmp_path / "d.npy", np.zeros((3, 6, 5, 3), np.float32))
    with pytest.raises(ComparisonError, match=r"has 3 samples, and .* 4"):
        compare(spoiled, folder, tmp_path / "d.npy")


def test_what_does_not_fit_is_named(spoiled, folder):
    with pytest.raises(ComparisonError, match="has no arrays"):
        compare(spoiled, folder)
    with pytest.raises(ComparisonError, match="is not a folder"):
        compare(spoiled, spoiled)
    with pytest.raises(FileNotFoundError):
        compare(spoiled, folder / "nowhere")
    saved(folder, {"other": np.zeros(3)})
    with pytest.raises(ComparisonError, match=r"none of its 1 arrays \('other'\).*names.json"):
        compare(spoiled, folder)
    saved(folder, {"image": np.zeros((2, 6, 5, 3)), "block/conv0": np.zeros((1, 6, 5, 4))})
    with pytest.raises(ComparisonError, match="different numbers of samples: 'block/conv0' 1, 'image' 2"):
        compare(spoiled, folder)
    saved(folder, {"block/conv0": np.zeros((2, 6, 5, 3))})
    with pytest.raises(ComparisonError, match=r"'block/conv0' has the shape \[2, 6, 5, 3\].*\[1, 6, 5, 4\]"):
        compare(spoiled, folder)
    for text, message in (("{", "names.json"), ("[]", "an object"), ('{"x": "image"}', "no array 'x'")):
        (folder / "names.json").write_text(text)
        with pytest.raises(ComparisonError, match=message):
            compare(spoiled, folder)


def test_layouts_of_as_many_elements():
    array = np.arange(24).reshape(2, 3, 4)
    first, last = np.moveaxis(array, -1, 0), np.moveaxis(array, 0, -1)
    for given, wanted, how, expected in ((first[None], (1, 2, 3, 4), "channels first", array),
                                         (first, (1, 2, 3, 4), "channels first", array),
                                         (last[None], (1, 2, 3, 4), "channels last", array),
                                         (array, (1, 2, 3, 4), "as it is", array)):
        found = layouts(given.shape, wanted)
        assert list(found) == [how]
        back = arranged(given, wanted, found[how])
        assert back.shape == wanted and (back == expected[None]).all() and back.flags.c_contiguous
    assert layouts((24,), (1, 2, 3, 4)) == {"in order": ()}
    assert set(layouts((1, 3, 3, 3), (1, 3, 3, 3))) == {"as it is", "channels first", "channels last"}


@pytest.mark.parametrize("name", ["unet", "transformer", "resnet"])
def test_real_models_rank_as_with_their_reference(name, tmp_path):
    resources.models()
    pair = planted.shared_pair(name)
    node = next(o.index for o in pair.comparison.subgraph.operators if o.name in planted.WEIGHTED and o.index > 3)
    contents = planted.spoil(pair.contents, node, "weight scale", 3.0, np.random.default_rng(0), -1.0, 1.0)
    (tmp_path / "q.tflite").write_bytes(contents)
    reference = planted.MODELS / f"{planted.PAIRS[name][1]}.tflite"
    samples = planted.samples(Model(contents), 4)
    expected = validation.compare(tmp_path / "q.tflite", reference, samples)
    runner, tensors = ExposedModel(pair.reference, 1), pair.reference.graph.subgraphs[0].tensors
    arrays = {}
    for sample in samples:
        for index, array in runner.run(sample)[1].items():
            arrays.setdefault(tensors[index].name, []).append(array.copy())
    np.savez(tmp_path / "d.npz", *map(np.concatenate, zip(*samples, strict=True)))
    (tmp_path / "golden").mkdir()
    np.savez(tmp_path / "golden" / "all.npz", **{str(k): np.concatenate(a) for k, a in enumerate(arrays.values())})
    (tmp_path / "golden" / "names.json").write_text(json.dumps({str(k): name for k, name in enumerate(arrays)}))
    report = compare(tmp_path / "q.tflite", tmp_path / "golden", tmp_path / "d.npz")
    assert report.ranking[0] == expected.ranking[0] == node
    assert len(report.tensors) > len(expected.tensors) / 2


def test_the_command_takes_a_folder(spoiled, folder, capsys):
    saved(folder, computed())
    command = ["validate", str(spoiled), "--golden", str(folder)]
    assert cli.main(command) == 0
    assert "First divergence: node 1" in capsys.readouterr().out
    assert cli.main([*command, "--min-sqnr", "20", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ranking"][0] == 1
    assert cli.main([*command, "--workers", "2"]) == 2
    assert "--golden cannot be combined with --workers" in capsys.readouterr().err
    assert cli.main(["validate", str(spoiled), "--reference", str(spoiled)]) == 2
    assert "--data" in capsys.readouterr().err


def test_unused_levels_are_no_cause_of_noise_that_they_cannot_make(folder, tmp_path):
    """The weights are twice as large as they should be, and the range has room for that."""
    model, arrays = tmp_path / "model.tflite", computed()
    model.write_bytes(network("int8", 2.0))
    saved(folder, arrays)
    worst = compare(model, folder).by_node(1)
    assert worst.range_used < 0.75 and worst.cause == "unknown"


def test_ops_with_a_state_reset_it_before_each_sample(registered, tmp_path, folder):
    class Counting(CustomOp):
        count = 0

        def invoke(self, x, y):
            self.count += 1
            y[...] = x * self.count

        def reset(self):
            self.count = 0
    pylite.custom_op("Counting")(Counting)
    m = ModelBuilder()
    x, y = m.tensor("x", (1, 4)), m.tensor("y", (1, 4))
    m.operator("Counting", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    samples = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    saved(folder, {"x": samples, "y": samples})
    tensor, = compare(path, folder).tensors
    assert tensor.sqnr_db == tensor.sqnr_local_db == float("inf")
