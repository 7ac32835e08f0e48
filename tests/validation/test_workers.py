"""Samples shared among processes, runs and machines: the report stays the same, whoever is killed."""
import contextlib
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
from multiprocessing.context import SpawnProcess

import numpy as np
import pytest

from pylite import Model, cli, validation
from pylite.errors import ComparisonError
from pylite.media import models
from pylite.validation import measuring
from pylite.validation.measurement import Measurement, Measurer
from pylite.validation.partial import Partial
from pylite.validation.workers import measured
from tests.tools import resources
from tests.validation import planted

COUNT = 60
DIGITS = models.path("digits")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "samples.npz"
    np.savez(path, image=np.concatenate([arrays[0] for arrays in planted.samples(Model(DIGITS), COUNT)]))
    return path


@pytest.fixture(scope="module")
def plain(data):
    return validation.compare(DIGITS, DIGITS, data, local_samples=40).to_json()


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_gives_the_same_report(data, plain, workers):
    seen = []
    report = validation.compare(DIGITS, DIGITS, data, local_samples=40, workers=workers,
                                progress=lambda done, total: seen.append((done, total)))
    assert report.to_json() == plain
    assert seen[-1] == (COUNT, COUNT) and seen == sorted(seen)


def test_errors_from_the_inputs_on_alone_are_shared_and_merged_too(data, tmp_path, capsys):
    short = validation.compare(DIGITS, DIGITS, data, local_samples=0)
    assert short.local_samples == 0 and short.ranked_by == "cumulative_excess_db"
    files = [tmp_path / f"{part}.npz" for part in (1, 2)]
    for part, file in enumerate(files, 1):
        validation.compare(DIGITS, DIGITS, data, local_samples=0, workers=2, shard=(part, 2), save=file)
    assert validation.merge(DIGITS, DIGITS, files).to_json() == short.to_json()
    text = []
    for command in (["digits", "--reference", "digits", "--merge", *map(str, files)],
                    ["merge", "digits", *map(str, files), "--reference", "digits"]):
        assert cli.main(["validate", *command, "--json"]) == 0
        text.append(capsys.readouterr().out)
    assert text[0] == text[1] == short.to_json()
    assert cli.main(["validate", "merge", "digits"]) == 2       # no sums


def test_a_shard_without_local_samples_is_ranked_by_cumulative_errors(data):
    report = validation.compare(DIGITS, DIGITS, data, local_samples=4, shard=(2, 2))
    assert report.local_samples == 0 and report.ranked_by == "cumulative_excess_db"
    assert all(t.excess_db is None for t in report.tensors)


def test_a_worker_that_is_killed_loses_no_sample_and_counts_none_twice(data, plain):
    killed = []

    def kill(done, total):
        if not killed and done < total:
            victim = multiprocessing.active_children()[0]
            os.kill(victim.pid, signal.SIGKILL)
            victim.join()
            killed.append(victim.pid)
    report = validation.compare(DIGITS, DIGITS, data, local_samples=40, workers=4, progress=kill)
    assert killed and report.to_json() == plain


def cluster_of(count):
    """A Dask cluster of so many worker processes on this machine; the test is skipped without Dask."""
    resources.tool("distributed")
    from distributed import LocalCluster
    return LocalCluster(n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None)


def test_a_dask_worker_that_is_killed_loses_no_sample_and_counts_none_twice(data, plain, tmp_path):
    killed = []
    with cluster_of(4) as cluster:
        def kill(done, total):
            if not killed and done < total:
                victim = next(iter(cluster.workers.values()))
                killed.append(victim.pid)
                os.kill(victim.pid, signal.SIGKILL)
        report = validation.compare(DIGITS, DIGITS, data, local_samples=40, dask=cluster.scheduler_address,
                                    save=tmp_path / "sums.npz", progress=kill)
        assert killed and report.to_json() == plain
        again = []
        report = validation.compare(DIGITS, DIGITS, data, local_samples=40, dask=cluster.scheduler_address,
                                    save=tmp_path / "sums.npz", progress=lambda *numbers: again.append(numbers))
        assert not again and report.to_json() == plain
        (tmp_path / "list.csv").write_text("file\n" + f"{models.sample('one')}\n" * 8 + "gone.png\n" * 2)
        with pytest.raises(ComparisonError, match=r"gone\.png"):
            validation.compare(DIGITS, DIGITS, tmp_path / "list.csv", dask=cluster.scheduler_address)


def test_dask_that_is_absent_is_said(data, monkeypatch):
    if importlib.util.find_spec("distributed") is not None:
        from pylite.validation import cluster
        monkeypatch.setattr(cluster, "TIMEOUT", 1)
        with pytest.raises(ComparisonError, match="no scheduler answers"):
            validation.compare(DIGITS, DIGITS, data, dask="tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ComparisonError, match=r"pylite-runtime\[dask\]"):
        validation.compare(DIGITS, DIGITS, data, dask="tcp://127.0.0.1:1")


def test_workers_that_keep_dying_are_given_up(data, monkeypatch):
    def start(process):
        started(process)
        process.kill()
    started = SpawnProcess.start
    monkeypatch.setattr(SpawnProcess, "start", start)
    measurer = Measurer(Measurement(str(DIGITS), str(DIGITS), str(data)))
    with pytest.raises(ComparisonError, match="6 worker processes were lost"):
        list(measured(measurer, range(4), 2))


def test_an_error_in_a_worker_is_raised_here(data, tmp_path):
    (tmp_path / "list.csv").write_text("file\n" + f"{models.sample('one')}\n" * 8 + "gone.png\n" * 2)
    with pytest.raises(ComparisonError, match=r"gone\.png"):
        validation.compare(DIGITS, DIGITS, tmp_path / "list.csv", workers=2)


def test_shards_merge_to_the_same_report(data, plain, tmp_path, capsys):
    files = [str(tmp_path / f"{i}.npz") for i in range(3)]
    common = ["validate", str(DIGITS), "--reference", str(DIGITS)]
    for i, file in enumerate(files):
        assert cli.main([*common, "--data", str(data), "--local-samples", "40", "--shard", f"{i + 1}/3", "--save",
                         file, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["samples"] == COUNT // 3
    assert cli.main([*common, "--merge", *files[::-1], "--json"]) == 0
    assert capsys.readouterr().out == plain
    assert cli.main([*common, "--merge", files[0], files[0]]) == 2
    assert "sample 0 has been measured twice (20 samples in all)" in capsys.readouterr().err
    assert cli.main(["validate", "sounds", "--reference", "sounds", "--merge", *files]) == 2
    assert "sums of other models" in capsys.readouterr().err
    assert cli.main([*common[:2], "--record", "x", "--merge", *files]) == 2


def test_a_run_that_was_interrupted_goes_on(data, plain, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "SAVE_SECONDS", 0)
    file, done = tmp_path / "sums.npz", []

    def interrupt(count, total):
        done.append(count)
        if count > COUNT // 2:
            raise KeyboardInterrupt
    with contextlib.suppress(KeyboardInterrupt):
        validation.compare(DIGITS, DIGITS, data, local_samples=40, save=file, progress=interrupt)
    assert COUNT // 2 < len(Partial.load(file).done) == done[-1] < COUNT
    again = []
    report = validation.compare(DIGITS, DIGITS, data, local_samples=40, save=file,
                                progress=lambda count, total: again.append(count))
    assert report.to_json() == plain and again[0] > done[-1]
    assert validation.compare(DIGITS, DIGITS, data, local_samples=40, save=file).to_json() == plain
    with pytest.raises(ComparisonError, match="other models, data, settings"):
        validation.compare(DIGITS, DIGITS, data, local_samples=41, save=file)
    with pytest.raises(ComparisonError, match="no such part"):
        validation.compare(DIGITS, DIGITS, data, shard=(4, 3))


@pytest.mark.parametrize("damage", [lambda a: np.int64(3), lambda a: a.reshape(-1), lambda a: np.array("x"),
                                    lambda a: np.zeros((9, 9, 9))])
def test_sums_of_other_shapes_are_none(data, tmp_path, damage):
    file = tmp_path / "sums.npz"
    validation.compare(DIGITS, DIGITS, data, local_samples=4, save=file)
    whole = Partial.load(file)
    with np.load(file) as archive:
        arrays = dict(archive)
    counts = next(name for name in arrays if name.endswith(" counts") and arrays[name].ndim > 1)
    np.savez(file, **arrays | {counts: damage(arrays[counts])})
    with pytest.raises(ComparisonError, match="holds no sums"):
        Partial.load(file)
    assert whole.done


def test_other_files_hold_no_sums(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    (tmp_path / "no.npz").write_bytes(b"nothing")
    for name in ("other.npz", "no.npz"):
        with pytest.raises(ComparisonError, match="holds no sums"):
            validation.merge(DIGITS, DIGITS, [tmp_path / name])
