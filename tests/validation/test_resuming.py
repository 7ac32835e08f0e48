"""An interrupted repair goes on where it stopped, with the same result, and never with measurements of something
else."""
import errno
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pylite import Model, cli
from pylite.media import models
from pylite.schema import read, write
from pylite.validation import repair as repairing
from pylite.validation import resuming
from pylite.validation.judging import Judge
from pylite.validation.repair import repair
from pylite.validation.requantizing import Changes, RealWeights


@pytest.fixture
def spoiled(tmp_path):
    """(spoiled model, its reference, samples)"""
    model = read(models.path("digits").read_bytes())
    weights = next(t for t in model.subgraphs[0].tensors if t.name == "trunk/4/weights")
    weights.quantization.scale = weights.quantization.scale * 3
    (tmp_path / "q.tflite").write_bytes(write(model))
    graph = Model(models.path("digits")).graph.subgraphs[0]
    rng, shape = np.random.default_rng(0), graph.tensors[graph.inputs[0]].shape
    return tmp_path / "q.tflite", models.path("digits"), [[rng.uniform(0, 1, shape).astype(np.float32)]
                                                          for _ in range(8)]


class Counted:
    """Counts measurements, and stops the repair after `most` of them."""

    def __init__(self, monkeypatch, most=None, error=KeyboardInterrupt):
        self.count, plain = 0, Judge.measure

        def measure(judge, model, places=None):
            if self.count == most:
                raise error
            self.count += 1
            return plain(judge, model, places)
        monkeypatch.setattr(Judge, "measure", measure)


@pytest.mark.parametrize("allow_float", [False, True])
def test_an_interrupted_repair_goes_on_and_gives_the_same(spoiled, tmp_path, monkeypatch, allow_float):
    state = tmp_path / "state"
    with monkeypatch.context() as patch:
        whole = Counted(patch)
        expected = repair(*spoiled, allow_float=allow_float)
    assert whole.count > 20
    for most in (1, 7, whole.count - 2):
        with monkeypatch.context() as patch:
            first = Counted(patch, most)
            with pytest.raises(KeyboardInterrupt):
                repair(*spoiled, allow_float=allow_float, state=state)
        with monkeypatch.context() as patch:
            rest = Counted(patch)
            found = repair(*spoiled, allow_float=allow_float, state=state)
        assert found.contents == expected.contents and found.steps == expected.steps
        assert found.after_db == expected.after_db and found.in_float == expected.in_float
        assert first.count + rest.count <= whole.count + 1      # the model as it is, is measured again
        assert any(note.startswith("continued from") for note in found.notes)
        state.unlink()


def test_a_killed_repair_goes_on(spoiled, tmp_path, monkeypatch):
    """The state that the file has at any time serves, although nothing could be written at the end."""
    state, kept = tmp_path / "state", []
    monkeypatch.setattr(resuming, "EVERY", 0)
    monkeypatch.setattr(resuming, "SHARE", 1e9)
    plain = Judge.measure

    def measure(judge, model, places=None):
        if state.exists():
            kept.append(state.read_bytes())
        return plain(judge, model, places)
    monkeypatch.setattr(Judge, "measure", measure)
    expected = repair(*spoiled, state=state)
    assert len(kept) > 30
    for contents in (kept[0], kept[len(kept) // 2], kept[-1]):
        state.write_bytes(contents)
        assert repair(*spoiled, state=state).contents == expected.contents


def test_the_state_of_something_else_is_not_used(spoiled, tmp_path, monkeypatch):
    model, reference, samples = spoiled
    state, other = tmp_path / "state", tmp_path / "other.tflite"
    repair(*spoiled, state=state)
    contents = state.read_bytes()
    file = read(model.read_bytes())
    file.description = "another"
    other.write_bytes(write(file))
    for arguments, more, named in (
            ((other, reference, samples), {}, "model"), ((model, other, samples), {}, "reference"),
            ((model, reference, samples[::-1]), {}, "samples"), (spoiled, {"samples": 6}, "samples"),
            (spoiled, {"threads": 2}, "number of threads")):
        state.write_bytes(contents)
        found = repair(*arguments, **more, state=state)
        assert found.notes[-1] == f"started again: the state in {state} is of another {named}"
        assert found.contents == repair(*arguments, **more).contents
    state.write_bytes(contents)
    monkeypatch.setattr(resuming, "build", lambda: "another")
    assert "is of another version of pylite" in repair(*spoiled, state=state).notes[-1]


def test_a_damaged_state_is_not_used(spoiled, tmp_path):
    state = tmp_path / "state"
    expected = repair(*spoiled, state=state).contents
    contents = state.read_bytes()
    first = json.loads(contents)
    key = next(key for key in first["values"] if key.startswith("fit"))
    first["values"][key] = (500.0).hex()
    for damaged in (b"", contents[:-9], contents.replace(b"p+4", b"p+7", 1), b"[" * 10 ** 6, b"[]", b"\xff\0",
                    json.dumps(first).encode()):
        assert damaged != contents
        state.write_bytes(damaged)
        found = repair(*spoiled, state=state)
        assert found.notes[-1] == f"started again: {state} is damaged" and found.contents == expected
        assert json.loads(state.read_bytes())["format"] == resuming.FORMAT


def test_options_may_differ(spoiled, tmp_path):
    """Stored measurements do not depend on the options that decide what is measured."""
    state = tmp_path / "state"
    repair(*spoiled, state=state)
    for options in ({"allow_float": True}, {"allow_float": True, "target": 50.0}, {}):
        assert repair(*spoiled, **options, state=state).contents == repair(*spoiled, **options).contents


def test_a_full_disk_is_an_error_that_names_the_state(spoiled, tmp_path, monkeypatch):
    state = tmp_path / "state"
    with monkeypatch.context() as patch:
        Counted(patch, 9)
        with pytest.raises(KeyboardInterrupt):
            repair(*spoiled, state=state)
    contents = state.read_bytes()

    class Full(io.BytesIO):
        def __init__(self, path, _):
            super().__init__()
            self._path = Path(path)

        def write(self, data):
            self._path.write_bytes(data[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(resuming, "EVERY", 0)
        patch.setattr("pylite.validation.files.open", Full, raising=False)
        with pytest.raises(OSError, match="No space left") as caught:
            repair(*spoiled, state=state)
    assert caught.value.filename == str(state)
    assert state.read_bytes() == contents and [p.name for p in tmp_path.iterdir() if ".new" in p.name] == []
    assert repair(*spoiled, state=state).contents == repair(*spoiled).contents


def test_the_command_leaves_a_state_only_where_it_was_interrupted(spoiled, tmp_path, monkeypatch, capsys):
    path, _, _ = spoiled
    shutil.copytree(models.sample("seven").parent, tmp_path / "pictures")
    out, state = tmp_path / "better.tflite", tmp_path / "better.tflite.state"
    command = ["validate", str(path), "--reference", "digits", "--data", str(tmp_path / "pictures"), "--mean", "0",
               "--std", "255", "--repair", str(out)]
    assert cli.main(command) == 0 and not state.exists()
    expected = out.read_bytes()
    out.unlink()
    with monkeypatch.context() as patch:
        Counted(patch, 9)
        assert cli.main(command) == 130
    assert state.exists() and not out.exists()
    capsys.readouterr()
    assert cli.main(command) == 0
    assert f"note: continued from {state}, which had " in " ".join(capsys.readouterr().out.split())
    assert out.read_bytes() == expected and not state.exists()


def test_a_result_that_cannot_be_written_keeps_the_state(spoiled, tmp_path, monkeypatch):
    path, _, _ = spoiled
    shutil.copytree(models.sample("seven").parent, tmp_path / "pictures")
    out = tmp_path / "better.tflite"
    plain = repairing.repair

    def blocked(*arguments, **options):
        found = plain(*arguments, **options)
        out.mkdir()
        return found
    monkeypatch.setattr(repairing, "repair", blocked)
    assert cli.main(["validate", str(path), "--reference", "digits", "--data", str(tmp_path / "pictures"), "--mean",
                     "0", "--std", "255", "--repair", str(out)]) == 2
    assert (tmp_path / "better.tflite.state").exists()


def test_numbers_that_differ_have_other_names():
    def weights(**changed):
        return RealWeights(**{"values": np.arange(4.0).reshape(2, 2), "scale": np.ones(1), **changed})
    bias = np.arange(3.0)
    every = [Changes(), Changes(grids={1: (0.5, 3)}), Changes(grids={1: (0.5, 4)}), Changes(grids={2: (0.5, 3)}),
             Changes(biases={1: bias}), Changes(constants={1: bias}), Changes(biases={2: bias}),
             Changes(biases={1: bias + 1e-12}), Changes(weights={1: weights()}), Changes(weights={2: weights()}),
             Changes(weights={1: weights(scale=np.ones(2))}), Changes(weights={1: weights(zero_point=1)}),
             Changes(weights={1: weights(values=np.arange(4.0))}),
             Changes(weights={1: weights(values=np.arange(4.0).reshape(2, 2).T)})]
    assert len({changes.digest() for changes in every}) == len(every)
    one, two = ({1: (0.5, 3), 2: (0.1, 0)}, {2: (0.1, 0), 1: (0.5, 3)})
    assert Changes(grids=one).digest() == Changes(grids=two).digest()
