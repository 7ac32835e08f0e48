"""Nodes that are cut out of a model compute what they do in it."""
import shutil
from functools import partial

import numpy as np
import pytest

from pylite import Interpreter, Model, cli
from pylite.errors import ComparisonError
from pylite.media import models
from pylite.validation.agreement import ExposedModel
from pylite.validation.excerpt import excerpt
from tests.tools import resources
from tests.validation import planted


def outputs(contents, inputs, interpreter):
    run = interpreter(model_content=contents)
    run.allocate_tensors()
    for detail in run.get_input_details():
        run.set_tensor(detail["index"], inputs[detail["name"]])
    run.invoke()
    return {detail["name"]: run.get_tensor(detail["index"]) for detail in run.get_output_details()}


@pytest.mark.parametrize("name", ["unet", "transformer", "lstm", "resnet", "transformer-aeq"])
def test_nodes_by_themselves_compute_what_they_do_in_the_model(name):
    resources.models()
    peer = resources.peer()
    reference = partial(peer.Interpreter, experimental_op_resolver_type=peer.OpResolverType.BUILTIN_REF)
    model = Model(planted.MODELS / f"{planted.PAIRS[name][0]}.tflite")
    sample = planted.samples(model, 1)[0]
    _, results = ExposedModel(model, 1).run(sample)
    tensors, count = model.graph.subgraphs[0].tensors, len(model.graph.subgraphs[0].operators)
    rng = np.random.default_rng(0)
    for first in [0, count - 1, *rng.integers(0, count, 4).tolist()]:
        last = min(count - 1, first + int(rng.integers(0, 5)))
        contents, inputs = excerpt(model, first, last, sample)
        assert len(Model(contents).graph.subgraphs[0].operators) == last - first + 1
        assert len(contents) < len(model.graph.contents)
        for interpreter in (Interpreter, reference):
            found = outputs(contents, inputs, interpreter)
            assert found
            for index in Model(contents).graph.subgraphs[0].outputs:
                assert (found[tensors[index].name] == results[index]).all(), (first, last, index)


def test_the_command_writes_both_files(tmp_path, monkeypatch, capsys):
    shutil.copytree(models.sample("seven").parent, tmp_path / "pictures")
    monkeypatch.chdir(tmp_path)
    command = ["validate", "digits", "--data", "pictures", "--mean", "0", "--std", "255", "--isolate"]
    assert cli.main([*command, "2..4"]) == 0
    assert "digits_2-4.tflite: 3 nodes" in capsys.readouterr().out
    assert outputs((tmp_path / "digits_2-4.tflite").read_bytes(), np.load("digits_2-4.npz"), Interpreter)
    assert cli.main([*command, "99"]) == 2 and "nodes 0 to 9" in capsys.readouterr().err
    assert cli.main([*command, "3"]) == 0 and (tmp_path / "digits_3.npz").exists()


def test_nodes_that_are_not_there_are_named():
    model = Model(models.path("digits"))
    with pytest.raises(ComparisonError, match="no nodes 5 to 4"):
        excerpt(model, 5, 4, [])
