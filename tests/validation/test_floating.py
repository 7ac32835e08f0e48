"""A repair may run few nodes in float, where 8 bits cannot hold what they compute."""
import json

import numpy as np
import pytest

from pylite import Interpreter, Model, cli
from pylite.schema.builder import ModelBuilder
from pylite.validation import agreement, floating, repair_steps, steps
from pylite.validation.judging import Judge
from pylite.validation.litert import LiteRT
from pylite.validation.repair import repair
from tests.tools import resources

SCALES = 1 / 127, 8.0, 0.3, 0.3, 0.3


def models(seed=0):
    """[int8, float32] of four layers: in the result of the first, one channel is 1000 times as large as the others, and
    the second layer makes it small again.  Both must be in float, or one step of the large channel hides the others."""
    rng = np.random.default_rng(seed)
    layers = [rng.standard_normal((6, 6)).astype(np.float32) for _ in range(4)]
    layers[0][2] *= 1000
    layers[1][:, 2] /= 1000
    built = []
    for dtype in ("int8", "float32"):
        m, whole = ModelBuilder(), dtype == "int8"
        x = first = m.tensor("x", (1, 6), dtype, **({"scale": SCALES[0]} if whole else {}))
        for k, weights in enumerate(layers):
            step = np.abs(weights).max(1) / 127
            values = np.rint(weights / step[:, None]).astype(np.int8) if whole else weights
            w = m.constant(f"w{k}", values, **({"scale": step} if whole else {}))
            b = m.constant(f"b{k}", np.zeros(6, np.int32 if whole else np.float32),
                           **({"scale": step * np.float32(SCALES[k])} if whole else {}))
            y = m.tensor(f"y{k}", (1, 6), dtype, **({"scale": SCALES[k + 1]} if whole else {}))
            m.operator("FULLY_CONNECTED", [x, w, b], [y], version=12)
            x = y
        m.inputs([first])
        m.outputs([x])
        built.append(m.build())
    return built


def samples(count, seed=1):
    rng = np.random.default_rng(seed)
    return [[rng.uniform(-1, 1, (1, 6)).astype(np.float32)] for _ in range(count)]


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """Files of the models.  Channels are not scaled across layers, which would repair them without float nodes."""
    monkeypatch.setitem(repair_steps.STEPS, steps.EQUALIZED, lambda _: iter(()))
    for name, contents in zip(("q.tflite", "f.tflite"), models(), strict=True):
        (tmp_path / name).write_bytes(contents)
    return tmp_path / "q.tflite", tmp_path / "f.tflite"


def test_the_nodes_that_8_bits_cannot_hold_run_in_float(pair):
    plain = repair(*pair, samples(32))
    found = repair(*pair, samples(32), allow_float=True)
    assert plain.in_float == [] and {0, 1} <= set(found.in_float)
    assert found.after_db > plain.after_db + 10 and found.steps[-1].kept
    assert found.steps[-1].name == floating.NAME and found.steps[-1].changed == len(found.in_float)
    names = [o.name for o in Model(found.contents).graph.subgraphs[0].operators]
    assert names.count("FULLY_CONNECTED") == 4 and "QUANTIZE" in names and "DEQUANTIZE" in names
    assert repair(*pair, samples(32), allow_float=True).contents == found.contents


def test_a_target_ends_the_search(pair):
    base = repair(*pair, samples(32)).after_db
    some = repair(*pair, samples(32), allow_float=True, target=base + 3)
    every = repair(*pair, samples(32), allow_float=True, target=200.0)
    assert 0 < len(some.in_float) <= len(every.in_float)
    assert repair(*pair, samples(32), allow_float=True, target=base - 20).in_float == []


def test_nodes_stay_quantized_where_held_out_samples_do_not_gain(pair, monkeypatch):
    whole, measured = repair(*pair, samples(17)), Judge.measure

    def held_lose(self, model, places=None):
        value = measured(self, model, places)
        return value - 100 if places and len(self.samples) == 8 else value
    monkeypatch.setattr(Judge, "measure", held_lose)
    found = repair(*pair, samples(17), allow_float=True)       # 9 are fitted, 8 held out
    assert found.in_float == [] and not found.steps[-1].kept and found.steps[-1].name == floating.NAME
    assert found.contents == whole.contents


def test_litert_runs_the_file(pair):
    resources.peer()
    found = repair(*pair, samples(32), allow_float=True)
    model = Model(found.contents)
    result = agreement.compare_with(model, samples(3), LiteRT(found.contents).results, "litert")
    assert result.equal, result.lines(3)


def test_the_command_says_which(pair, tmp_path, capsys):
    np.save(tmp_path / "d.npy", np.concatenate([array for array, in samples(32)]))
    out = tmp_path / "out.tflite"
    command = ["validate", str(pair[0]), "--reference", str(pair[1]), "--data", str(tmp_path / "d.npy")]
    assert cli.main([*command, "--repair", str(out), "--allow-float"]) == 0
    assert "nodes in float (" in capsys.readouterr().out
    Interpreter(str(out)).allocate_tensors()
    assert cli.main([*command, "--repair", str(out), "--allow-float", "--target", "300dB", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["in_float"] and "--target 300dB" in captured.err
    for wrong in (["--allow-float"], ["--repair", str(out), "--target", "30dB"],
                  ["--repair", str(out), "--allow-float", "--target", "0.9"]):
        assert cli.main([*command, *wrong]) == 2
