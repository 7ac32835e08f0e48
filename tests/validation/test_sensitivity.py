"""Nodes that cost quality are found, and a model with the proposed ones in float is as good as it is said to be."""
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pylite import Model, cli
from pylite.media import labels, models
from pylite.schema import read, write
from pylite.schema.builder import ModelBuilder
from pylite.validation import Settings
from pylite.validation.mixture import Mixture
from pylite.validation.predicting import Predictor
from pylite.validation.sensitivity import sensitivity
from pylite.validation.widening import widened
from tests.tools import resources
from tests.validation import outlying, planted

pytestmark = pytest.mark.slow

REPAIRABLE = "weight scale", "channel scale", "bias"


def outliers():
    """([quantized, float], layers, scales of the activations): three layers; the second has one scale for channels of
    which one is 200 times as large, so that its others are lost.  layers: [(weights, quantized ones, scale, bias)]"""
    rng = np.random.default_rng(2)
    shapes, layers = ((8, 4), (8, 8), (3, 8)), []
    for number, shape in enumerate(shapes):
        weights = rng.standard_normal(shape).astype(np.float32)
        if number == 1:
            weights[2] *= 200
        if number == 2:
            weights[:, 2] *= 0.005
        scale = np.float32(np.abs(weights).max() / 127)
        layers.append((weights, np.rint(weights / scale).astype(np.int8), scale,
                       rng.standard_normal(shape[0]).astype(np.float32)))
    scales = 1 / 127, 0.1, 40.0, 0.3
    built = []
    for kind in ("int8", "float32"):
        m = ModelBuilder()
        x = source = m.tensor("x", (1, 4), kind, **({"scale": scales[0]} if kind == "int8" else {}))
        for i, (weights, values, scale, bias) in enumerate(layers):
            if kind == "int8":
                w = m.constant(f"w{i}", values, scale=[scale])
                step = scale * np.float32(scales[i])
                b = m.constant(f"b{i}", np.rint(bias / step).astype(np.int32), scale=[step])
            else:
                w, b = m.constant(f"w{i}", weights), m.constant(f"b{i}", bias)
            y = m.tensor(f"y{i}", (1, len(bias)), kind, **({"scale": scales[i + 1]} if kind == "int8" else {}))
            m.operator("FULLY_CONNECTED", [x, w, b], [y])
            x = y
        m.inputs([source])
        m.outputs([x])
        built.append(m.build())
    return built, layers, scales


def quantized(x, scale):
    return np.clip(np.trunc(x / np.float32(scale) + np.copysign(0.5, x)), -128, 127)


@pytest.fixture
def files(tmp_path):
    built, layers, scales = outliers()
    for name, contents in zip(("q", "f"), built, strict=True):
        (tmp_path / f"{name}.tflite").write_bytes(contents)
    x = np.random.default_rng(1).uniform(-1, 1, (40, 1, 4)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x)
    return tmp_path, x, layers, scales


def test_nodes_in_float_compute_what_a_plain_statement_does(files):
    folder, x, layers, scales = files
    mixture = Mixture(Model(folder / "q.tflite"), widened(folder / "f.tflite"))
    assert mixture.candidates == [0, 1, 2] and mixture.names[1] == ["y1"]
    for chosen in ((), (1,), (0, 1), (1, 2), (0, 1, 2)):
        model = Predictor(mixture.of(frozenset(chosen)), None)
        for sample in x[:5]:
            value = quantized(sample, scales[0]) * scales[0]        # of the tensor between two nodes
            for i, (weights, values, scale, bias) in enumerate(layers):
                if i in chosen:
                    value = value @ weights.T + bias
                else:
                    step = scale * np.float32(scales[i])
                    value = quantized(value, scales[i]) @ values.T * step + np.rint(bias / step) * step
                if i not in chosen or i == 2 or i + 1 not in chosen:
                    value = quantized(value, scales[i + 1]) * scales[i + 1]
            np.testing.assert_allclose(model.run([sample])[0], value, atol=scales[3] * 1.01)


def test_an_outlier_channel_is_found_and_what_is_regained_is_true(files):
    folder, x, _, _ = files
    found = sensitivity(folder / "q.tflite", folder / "f.tflite", folder / "d.npz", 20)
    assert found.quantized < 10 and found.proposed and found.ok and len(found.proposed) < 3
    assert found.ranking == sorted(found.ranking, key=lambda n: -n.regained)
    model = Predictor(Mixture(Model(folder / "q.tflite"), widened(folder / "f.tflite")).of(
        frozenset(found.proposed)), None)
    other = Predictor(Model(folder / "f.tflite"), None)
    pairs = [(model.run([a])[0], other.run([a])[0]) for a in x]
    y, r = (np.concatenate([p[i] for p in pairs]).astype(np.float64) for i in (0, 1))
    np.testing.assert_allclose(found.reached, 10 * np.log10((r * r).sum() / ((y - r) ** 2).sum()), rtol=1e-9)


def test_a_target_beyond_float_is_not_reached(files):
    folder = files[0]
    found = sensitivity(folder / "q.tflite", folder / "f.tflite", folder / "d.npz", 500)
    assert not found.ok and found.reached >= found.real and "no set reaches 500.0 dB" in found.lines()[-1]


@pytest.mark.parametrize("name", ["keyword", "resnet"])
def test_the_spoiled_node_is_proposed(name, tmp_path):
    resources.models()
    pair, checked = planted.shared_pair(name), 0
    arrays = [np.concatenate(one) for one in zip(*pair.samples, strict=True)]
    np.savez(tmp_path / "d.npz", **{str(i): array for i, array in enumerate(arrays)})
    reference = planted.MODELS / (planted.PAIRS[name][1] + ".tflite")
    (tmp_path / "good.tflite").write_bytes(pair.contents)
    good = sensitivity(tmp_path / "good.tflite", reference, tmp_path / "d.npz", -100).quantized
    for case, _ in pair.cases(24):
        (tmp_path / "bad.tflite").write_bytes(case.contents)
        if case.fault not in REPAIRABLE:
            continue
        found = sensitivity(tmp_path / "bad.tflite", reference, tmp_path / "d.npz", good - 1)
        if found.quantized < good - 3:
            assert found.ok and case.node in found.proposed and len(found.proposed) <= 2, case
            assert found.ranking[0].node == case.node, case
            checked += 1
    assert checked >= 2


def test_files_of_the_command(files, capsys):
    folder = files[0]
    command = ["validate", str(folder / "q.tflite"), "--reference", str(folder / "f.tflite"), "--data",
               str(folder / "d.npz"), "--sensitivity"]
    written = ["--recipe", str(folder / "r.json"), "--denylist", str(folder / "d.txt"), "--mixed",
               str(folder / "m.tflite")]
    assert cli.main([*command, "--target", "20dB", *written]) == 0
    assert "reach" in capsys.readouterr().out
    recipe, names = json.loads((folder / "r.json").read_text()), (folder / "d.txt").read_text().split()
    assert recipe[0]["regex"] == ".*" and recipe[0]["op_config"]["activation_tensor_config"]["num_bits"] == 8
    assert [r["regex"] for r in recipe[1:]] == [f"^{name};$" for name in names]
    assert {r["algorithm_key"] for r in recipe[1:]} == {"no_quantize"}
    assert {t.dtype for t in Model(folder / "m.tflite").graph.subgraphs[0].tensors} >= {"int8", "float32"}
    assert cli.main([*command, "--target", "300db", "--json", "--blocks"]) == 1
    shown = json.loads(capsys.readouterr().out)
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(__file__).parents[2] / "docs/validation.schema.json").read_text())
    jsonschema.validate(shown, {**schema["$defs"]["sensitivity"], "$defs": schema["$defs"]})
    assert cli.main(command) == 2 and cli.main([*command[:-1], "--recipe", "x"]) == 2


def test_recipes_are_those_of_ai_edge_quantizer(files):
    resources.tool("ai_edge_quantizer")
    from ai_edge_quantizer import recipe_manager as recipes
    folder = files[0]
    found = sensitivity(folder / "q.tflite", folder / "f.tflite", folder / "d.npz", 20)
    manager = recipes.RecipeManager()
    manager.load_quantization_recipe(found.recipe())
    for node in found.ranking:
        key, _ = manager.get_quantization_configs("FULLY_CONNECTED", f"y{node.node};")
        assert (key == "no_quantize") == (node.node in found.proposed)


def test_accuracy_can_be_the_target(tmp_path):
    rows = "".join(f"{models.sample(name)},{label}\n" for label, name in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")))
    (tmp_path / "d.csv").write_text("file,label\n" + rows)
    found = sensitivity(models.path("digits"), models.path("digits"), tmp_path / "d.csv", 0.9, accuracy=Settings(),
                        mean=[0], std=[255])
    assert found.measure == "top1" and found.quantized >= 0.9 and found.ok and not found.proposed
    assert "as it is" in found.lines()[-1]


@pytest.mark.parametrize("whole", [True, False])
def test_the_set_for_a_transformer_with_outlier_channels_is_as_accurate_as_it_says(whole, tmp_path):
    """Also in the file that is written, for LiteRT, and on samples that the search has not seen."""
    resources.models()
    contents, reference = outlying.pair()
    words, others = outlying.inputs(200, 5), outlying.inputs(200, 6)
    labels, wanted = (outlying.results(reference, x).argmax(1) for x in (words, others))
    assert np.bincount(labels, minlength=4).min() >= 30
    for name, data in (("q", contents), ("f", reference)):
        (tmp_path / f"{name}.tflite").write_bytes(data)
    np.savez(tmp_path / "d.npz", words=words, labels=labels)
    found = sensitivity(tmp_path / "q.tflite", tmp_path / "f.tflite", tmp_path / "d.npz", 0.9, samples=len(words),
                        accuracy=Settings(), blocks=whole)
    assert found.quantized < 0.6 and found.real == 1 and found.reached >= 0.9
    spoiled = {59, 62, 65}      # the values of attention, their weighted mean, and what reads it
    assert found.proposed == sorted(found.ranking[0].nodes if whole else spoiled) and spoiled <= set(found.proposed)
    assert np.mean(outlying.results(found.contents, words).argmax(1) == labels) == found.reached
    before = np.mean(outlying.results(contents, others).argmax(1) == wanted)
    after = np.mean(outlying.results(found.contents, others).argmax(1) == wanted)
    assert after > 0.85 and after - before > 0.3
    peer = resources.peer()
    run = peer.Interpreter(model_content=found.contents, experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF)
    run.allocate_tensors()
    right = 0
    for sample, label in zip(words, labels, strict=True):
        run.set_tensor(run.get_input_details()[0]["index"], sample[None])
        run.invoke()
        right += run.get_tensor(run.get_output_details()[0]["index"])[0].argmax() == label
    assert abs(right / len(words) - found.reached) <= 0.01      # its kernels of floats round otherwise


@pytest.mark.parametrize("name", ["keyword", "resnet", "unet"])
def test_a_mixed_file_computes_what_the_mixture_does(name):
    resources.models()
    quantized_, reference = (planted.MODELS / f"{part}.tflite" for part in planted.PAIRS[name])
    mixture = Mixture(Model(quantized_), widened(reference))
    rng = np.random.default_rng(3)
    for share in (0.0, 0.3, 1.0):
        chosen = frozenset(n for n in mixture.candidates if rng.uniform() < share)
        plain, written = (Predictor(m, None) for m in (mixture.of(chosen), Model(mixture.written(chosen))))
        for arrays in planted.samples(Model(quantized_), 2):
            for one, other in zip(plain.run(arrays), written.run(arrays), strict=True):
                np.testing.assert_array_equal(one, other)


def test_the_reference_names_the_classes(tmp_path):
    """As for the accuracy of both: an edited model has lost the files that were attached to it."""
    (tmp_path / "bare.tflite").write_bytes(write(read(models.path("digits").read_bytes())))
    for name in models.samples():
        (tmp_path / "classes" / name).mkdir(parents=True)
        shutil.copy(models.sample(name), tmp_path / "classes" / name)
    found = sensitivity(tmp_path / "bare.tflite", models.path("digits"), tmp_path / "classes", 1.0, accuracy=Settings())
    assert found.quantized == 1 and not found.proposed


def test_a_mixed_file_keeps_attached_files():
    model = Model(models.path("digits"))
    written = Mixture(model, widened(models.path("digits"))).written(frozenset({0, 4}))
    names = Model(written).associated_files
    assert names == model.associated_files and names
    assert labels.attached(Model(written)) == labels.attached(model) != []
    damaged = models.path("digits").read_bytes().replace(b"PK\3\4", b"PK\3\5")
    assert Model(Mixture(Model(damaged), widened(damaged)).written(frozenset({0}))).associated_files == ()
