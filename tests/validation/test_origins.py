"""How much of a node's error comes from its weights, and how much from activations."""
import json

import numpy as np
import pytest

from pylite import Model, cli, validation
from pylite.media import models
from pylite.schema import read, write
from pylite.validation.comparison import Comparison
from pylite.validation.measures import Errors
from pylite.validation.origins import SAMPLES
from pylite.validation.widening import dequantized, widened
from tests.tools import resources
from tests.validation import planted, shares

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["conv1d", "mobilenet", "unet", "transformer", "resnet"])
def test_planted_faults_come_from_where_they_were_planted(name):
    """Spoiled weights and biases from the weights, spoiled ranges of results from activations."""
    resources.models()
    pair, kinds = planted.Pair(name, shares.SAMPLES), set()
    for case, found in shares.found(pair, 10):
        kinds.add(case.fault in shares.OF_WEIGHTS)
        if found.from_weights is None:      # a node without weights
            assert case.fault not in shares.OF_WEIGHTS and found.sqnr_weights_db is None
            assert found.matched.startswith("through") or found.sqnr_activations_db < 40, case
        else:
            assert (found.from_weights > 0.8) if case.fault in shares.OF_WEIGHTS else (found.from_weights < 0.3), case
    assert kinds == {False, True}


def data(count=SAMPLES + 4):
    return [[x] for x in np.random.default_rng(0).random((count, 1, 8, 8, 1), np.float32)]


def test_the_noise_is_that_of_a_plain_computation(tmp_path):
    """Of a matrix product: once with the weights of the model, once with rounded operands and a rounded result."""
    comparison = Comparison(Model(models.path("digits")), widened(models.path("digits")))
    node = next(o for o in comparison.subgraph.operators if o.name == "FULLY_CONNECTED")
    x, w, b, y = *node.inputs[:3], node.outputs[0]
    spoiled = read(models.path("digits").read_bytes())
    for index in (w, b):
        quantization = spoiled.subgraphs[0].tensors[index].quantization
        quantization.scale = quantization.scale * np.float32(1.25)
    comparison = Comparison(Model(write(spoiled)), widened(models.path("digits")), origins=True)
    weights, biases = ([dequantized(model, model.graph.subgraphs[0].tensors[i]) for model in (
        comparison.model, comparison.reference)] for i in (w, b))
    expected = np.zeros(2)
    for sample in data(6):
        comparison.add(sample, True, True)
        run = ExposedReference(comparison).run(sample)
        real, result = run[x].reshape(-1).astype(np.float64), run[y].reshape(-1)
        grids = comparison.grids
        given = rounded(grids[x], real)
        own, theirs = (w.reshape(result.size, -1) @ given + b for w, b in zip(weights, biases, strict=True))
        expected += np.square(own - theirs).sum(), np.square(rounded(grids[y], theirs) - result).sum()
    for group, noise in zip((comparison.origins.constants, comparison.origins.activations), expected, strict=True):
        errors = Errors.of(group[y])
        assert errors.mean(errors.noise) * errors.count.sum() == pytest.approx(noise, rel=1e-3)


class ExposedReference:
    """The reference's activations, by the model's tensors."""

    def __init__(self, comparison):
        from pylite.validation.agreement import ExposedModel
        self.exposed = ExposedModel(comparison.reference)
        self.matches = comparison.matching.matches

    def run(self, sample):
        _, found = self.exposed.run(sample)
        return {i: found[m.reference] for i, m in self.matches.items() if m.reference in found}


def rounded(grid, real):
    low, high = np.iinfo(grid.dtype).min, np.iinfo(grid.dtype).max
    steps = np.clip(np.floor(np.abs(real) / grid.step + 0.5) * np.sign(real) + grid.zero_point, low, high)
    return (steps - grid.zero_point) * grid.step


def test_the_first_samples_give_the_same_wherever_they_are_measured(tmp_path):
    np.save(tmp_path / "d.npy", np.concatenate([x for x, in data()]))
    whole = validation.compare("digits", "digits", data())
    assert any(t.from_weights is not None for t in whole.tensors)
    for options in ({}, {"workers": 2}):
        found = validation.compare("digits", "digits", tmp_path / "d.npy", **options)
        assert [t.sqnr_activations_db for t in found.tensors] == [t.sqnr_activations_db for t in whole.tensors]
    few = validation.compare("digits", "digits", tmp_path / "d.npy", samples=SAMPLES)
    assert [t.sqnr_activations_db for t in few.tensors] == [t.sqnr_activations_db for t in whole.tensors]
    for part in (1, 2):
        validation.compare("digits", "digits", tmp_path / "d.npy", shard=(part, 2), save=tmp_path / f"{part}.npz")
    merged = validation.merge("digits", "digits", [tmp_path / "2.npz", tmp_path / "1.npz"])
    assert [t.from_weights for t in merged.tensors] == [t.from_weights for t in whole.tensors]
    none = validation.compare("digits", "digits", data(), local_samples=0)
    assert all(t.sqnr_activations_db is None for t in none.tensors)


def test_text_and_json_show_them(tmp_path, capsys, monkeypatch):
    spoiled = read(models.path("digits").read_bytes())
    weights = next(t for t in spoiled.subgraphs[0].tensors if t.name == "trunk/4/weights")
    weights.quantization.scale = weights.quantization.scale * 3
    (tmp_path / "spoiled.tflite").write_bytes(write(spoiled))
    np.save(tmp_path / "d.npy", np.concatenate([x for x, in data()]))
    arguments = ["validate", str(tmp_path / "spoiled.tflite"), "--reference", "digits", "--data",
                 str(tmp_path / "d.npy")]
    monkeypatch.setenv("COLUMNS", "120")
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "weights" in text.splitlines()[3] and "100% of its noise comes from its weights (SQNR" in text
    assert cli.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    worst = next(t for t in found["tensors"] if t["node"] == found["ranking"][0])
    assert worst["from_weights"] > 0.99 and worst["sqnr_weights_db"] < 20 < worst["sqnr_activations_db"]
