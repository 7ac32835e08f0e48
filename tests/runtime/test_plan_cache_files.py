"""The files of the plan cache: damaged, foreign, of others; full disks; many writers at once."""
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite._core import simd
from pylite.runtime import cache_files, model_cache, plan_cache
from pylite.runtime.cache_files import Store
from pylite.runtime.cache_folder import Folder
from tests.tools.plans import assert_same, command, filled, network, plan_file, planned, run


@pytest.fixture
def folder(tmp_path):
    """A cache folder that is trusted, wherever pytest keeps its files."""
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    return path


# ---- files that are not what was written ---------------------------------------------------------------------
def test_any_damaged_byte_is_found_out(folder):
    wanted, whole = filled(folder, network()), plan_file(folder).read_bytes()
    file, rng = plan_file(folder), np.random.default_rng(5)
    places = {*range(64), *rng.integers(0, len(whole), 150).tolist(), len(whole) - 1}
    for place in sorted(places):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
        assert not planned(interpreter), place
        assert_same(run(interpreter), wanted)
        assert file.read_bytes() == whole, place        # made again


@pytest.mark.parametrize("contents", [b"", b"x", b"pylite cache 02\n", b"pylite cache 02\n" + bytes(64), bytes(4096)])
def test_foreign_and_truncated_files_are_replaced(folder, contents):
    wanted, whole = filled(folder, network()), plan_file(folder).read_bytes()
    for damaged in (contents, whole[:len(whole) // 2], whole[:-1], whole + b"x"):
        plan_file(folder).write_bytes(damaged)
        interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
        assert not planned(interpreter)
        assert_same(run(interpreter), wanted)
        assert plan_file(folder).read_bytes() == whole


def test_records_that_are_wrong_behind_a_right_checksum_are_replaced(folder):
    """As of a version of pylite whose number was not changed."""
    wanted = filled(folder, network())
    name = plan_file(folder).name
    with Store(folder) as store:
        record, data, _ = store.read(name)
        key, head, problem, (total, body, *rest), label = record
        data, rng = bytes(data), np.random.default_rng(3)
        shorter = [body[:place] for place in (0, 1, *rng.integers(2, len(body), 20))]
        missing = body.replace(b"conv.ConvQ8", b"conv.Missin")
        assert missing != body
        for program in ((0, body, *rest), 7, *[(total, wrong, *rest) for wrong in (*shorter, missing, body[:50] * 9)]):
            store.write(name, (key, head, problem, program, label), [data])
            interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
            assert_same(run(interpreter), wanted)
            assert store.read(name)[0] == record


def test_plans_of_other_versions_and_levels_are_not_used(folder, monkeypatch):
    filled(folder, network())
    monkeypatch.setattr(pylite, "__version__", "0.0.9")
    assert not planned(pylite.Interpreter(model_content=network(), cache_dir=folder))
    monkeypatch.undo()
    assert planned(pylite.Interpreter(model_content=network(), cache_dir=folder))
    before = simd.current
    try:
        for level in simd.available():
            simd.use(level)
            assert planned(pylite.Interpreter(model_content=network(), cache_dir=folder)) == (level == before)
    finally:
        simd.use(before)


def test_a_plan_under_the_name_of_another_is_not_used(folder):
    wanted = filled(folder, network(8))
    other = plan_file(folder)
    filled(folder, network(12))
    name = next(file for file in folder.glob("*.plan") if file != other)
    shutil.copy(name, other)
    interpreter = pylite.Interpreter(model_content=network(8), cache_dir=folder)
    assert not planned(interpreter)
    assert_same(run(interpreter), wanted)


def test_a_plan_that_is_truncated_while_it_is_used_is_reported(folder, tmp_path):
    """In another process, whose mapped pages are lost."""
    model = tmp_path / "model.tflite"
    model.write_bytes(network(64, (1, 6, 6, 64)))
    code = f"""
import os, sys, glob
import numpy as np
from pylite import Interpreter
for use in range(2):
    interpreter = Interpreter({os.fspath(model)!r}, cache_dir={os.fspath(folder)!r})
    interpreter.allocate_tensors()
os.truncate(glob.glob({os.fspath(folder)!r} + "/*.plan")[0], 4096)
try:
    interpreter.invoke()
except RuntimeError as error:
    print(error)"""
    done = subprocess.run(command(code), capture_output=True, text=True, check=True)
    assert "its plan in the cache, was truncated while it was in use" in done.stdout


def test_lost_pages_of_another_file_change_nothing(folder, tmp_path):
    wanted = filled(folder, network())
    path = tmp_path / "other.tflite"
    path.write_bytes(network(8))
    other = pylite.Interpreter(os.fspath(path), cache_dir="")
    os.truncate(path, 0)
    with pytest.raises(pylite.errors.PyliteError):
        run(other)
    assert other._model.lost_pages
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
    assert_same(run(interpreter), wanted)
    assert planned(interpreter)


# ---- models that change --------------------------------------------------------------------------------------
def test_a_model_that_is_replaced_gets_a_plan_of_its_own(folder, tmp_path):
    path = tmp_path / "model.tflite"
    for channels in (8, 12, 8):
        path.write_bytes(network(channels))
        found = run(pylite.Interpreter(os.fspath(path), cache_dir=folder))
        assert_same(found, run(pylite.Interpreter(model_content=network(channels), cache_dir="")))
    assert len(list(folder.glob("*.plan"))) == 2


def test_files_are_remembered_once_their_times_have_settled(folder, tmp_path, monkeypatch):
    path = tmp_path / "model.tflite"
    path.write_bytes(network())
    run(pylite.Interpreter(os.fspath(path), cache_dir=folder))
    assert planned(pylite.Interpreter(os.fspath(path), cache_dir=folder))
    assert not list(folder.glob("*.digest"))        # the file could change once more at the same time
    monkeypatch.setattr(model_cache, "AGED", 0)
    assert planned(pylite.Interpreter(os.fspath(path), cache_dir=folder))
    assert len(list(folder.glob("*.digest"))) == 1
    monkeypatch.setattr(cache_files, "digest_of", None)     # not needed
    assert planned(pylite.Interpreter(os.fspath(path), cache_dir=folder))


def test_a_remembered_digest_is_that_of_its_file_alone(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(model_cache, "AGED", 0)
    paths = [tmp_path / "8.tflite", tmp_path / "12.tflite"]
    for path in paths:
        path.write_bytes(network(int(path.stem)))
        run(pylite.Interpreter(os.fspath(path), cache_dir=folder))
    names = [plan_cache.identity_of(path.stat()) for path in paths]
    shutil.copy(folder / names[0], folder / names[1])
    assert_same(run(pylite.Interpreter(os.fspath(paths[1]), cache_dir=folder)),
                run(pylite.Interpreter(os.fspath(paths[1]), cache_dir="")))


def test_a_model_that_changes_while_it_is_prepared_is_not_kept(folder, tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(network())
    interpreter = pylite.Interpreter(os.fspath(path), cache_dir=folder)
    os.utime(path, (1, 1))
    interpreter.allocate_tensors()
    assert "has changed" in interpreter._main.plans.problem
    assert not list(folder.iterdir())


# ---- who may write -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_files_that_others_may_write_are_not_used(folder, mode):
    wanted = filled(folder, network())
    plan_file(folder).chmod(mode)
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
    assert not planned(interpreter)
    assert_same(run(interpreter), wanted)
    assert plan_file(folder).stat().st_mode & 0o777 == 0o600    # replaced


@pytest.mark.filterwarnings("ignore:cache_dir")
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
def test_folders_that_others_may_write_are_not_used(folder, mode):
    wanted = filled(folder, network())
    plan_file(folder).unlink()
    folder.chmod(mode)
    for _ in range(2):
        interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
        assert not planned(interpreter)
        assert_same(run(interpreter), wanted)
    assert "others may write it" in interpreter._main.plans.problem
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("mode", "trusted"), [(0o777, False), (0o1777, True), (0o755, True)])
def test_folders_above_count_unless_only_owners_rename_there(folder, mode, trusted):
    inner = folder / "inner"
    inner.mkdir(mode=0o700)
    folder.chmod(mode)
    if trusted:
        Folder(inner).__exit__()
    else:
        with pytest.raises(PermissionError, match=r"others may write it \(its mode is 777\)"):
            Folder(inner)


@pytest.mark.filterwarnings("ignore:cache_dir")
def test_files_and_folders_of_other_users_are_not_used(folder, monkeypatch):
    wanted = filled(folder, network())
    real = os.fstat

    def foreign(wrong):
        def fstat(descriptor):
            status = list(real(descriptor))
            if wrong(status[0]):
                status[4] = 12345
            return os.stat_result(status)
        return fstat
    for wrong in (lambda mode: mode & 0o170000 == 0o040000, lambda mode: mode & 0o170000 == 0o100000):
        monkeypatch.setattr(os, "fstat", foreign(wrong))
        interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
        assert not planned(interpreter)
        assert_same(run(interpreter), wanted)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to other users")
def test_files_that_are_given_to_other_users_are_not_used(folder):
    filled(folder, network())
    os.chown(plan_file(folder), 12345, 12345)
    assert not planned(pylite.Interpreter(model_content=network(), cache_dir=folder))


def test_symbolic_links_are_not_followed(folder, tmp_path):
    filled(folder, network())
    file = plan_file(folder)
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert not planned(pylite.Interpreter(model_content=network(), cache_dir=folder))


def test_pipes_are_not_waited_for(folder):
    filled(folder, network())
    file = plan_file(folder)
    file.unlink()
    os.mkfifo(file, 0o600)
    assert not planned(pylite.Interpreter(model_content=network(), cache_dir=folder))


# ---- disks ---------------------------------------------------------------------------------------------------
def test_a_full_disk_is_no_error(folder):
    code = f"""
import resource, sys
import pylite
from tests.tools.plans import network, run
run(pylite.Interpreter(model_content=network(), cache_dir=""))      # imports all there is to import
interpreter = pylite.Interpreter(model_content=network(), cache_dir={os.fspath(folder)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
run(interpreter)
print(interpreter._main.plans.problem)"""
    done = subprocess.run(command(code), capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[2])
    assert "File too large" in done.stdout
    assert list(folder.iterdir()) == []


@pytest.mark.filterwarnings("ignore:cache_dir")
@pytest.mark.parametrize("function", ["write", "fsync", "rename", "open"])
def test_whatever_fails_while_writing_the_model_runs(folder, monkeypatch, function):
    wanted = run(pylite.Interpreter(model_content=network(), cache_dir=""))
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
    real = getattr(os, function)

    def fails(*args, **named):
        if function == "open" and not args[1] & os.O_CREAT:
            return real(*args, **named)
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, function, fails)
    assert_same(run(interpreter), wanted)
    monkeypatch.undo()
    assert list(folder.iterdir()) == []
    assert "No space left" in interpreter._main.plans.problem


def test_plans_on_a_disk_that_is_read_only_are_used(folder, monkeypatch):
    wanted = filled(folder, network())
    os.utime(plan_file(folder), (10**9, 10**9))

    def fails(*_, **__):
        raise OSError(30, "Read-only file system")
    monkeypatch.setattr(os, "utime", fails)
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=folder)
    assert planned(interpreter)
    assert_same(run(interpreter), wanted)


@pytest.mark.filterwarnings("ignore:cache_dir")
def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    interpreter = pylite.Interpreter(model_content=network(), cache_dir=tmp_path / "file" / "cache")
    run(interpreter)
    assert "Not a directory" in interpreter._main.plans.problem


@pytest.mark.parametrize(("given", "error"), [(3, TypeError), (1.5, TypeError), ([1], TypeError), ("a\0b", ValueError)])
def test_what_is_no_path_is_refused(given, error):
    with pytest.raises(error, match="cache_dir must be the path of a folder"):
        pylite.Interpreter(model_content=network(), cache_dir=given)


def test_files_used_longest_ago_make_room(folder):
    with Store(folder) as store:
        for age, name in enumerate("dcba"):
            store.write(name, name, [bytes(1000)])
            os.utime(folder / name, (10**9 - age, 10**9 - age))
        size = (folder / "a").stat().st_size
        store.make_room(size, 4 * size)
        assert sorted(os.listdir(folder)) == ["b", "c", "d"]
        assert store.read("b") is not None      # used now
        store.make_room(2 * size, 4 * size)
        assert sorted(os.listdir(folder)) == ["b", "d"]


def test_a_plan_larger_than_the_cache_is_refused_and_removes_nothing(folder, monkeypatch):
    filled(folder, network())
    before = sorted(os.listdir(folder))
    monkeypatch.setattr(cache_files, "LIMIT", 1000)
    interpreter = pylite.Interpreter(model_content=network(40), cache_dir=folder)
    interpreter.allocate_tensors()
    assert set(before) < set(os.listdir(folder))        # the other model's files, and the refusal
    again = pylite.Interpreter(model_content=network(40), cache_dir=folder)
    again.allocate_tensors()
    assert "the cache at most 1000" in again._main.plans.problem


def test_abandoned_temporary_files_are_removed(folder):
    (folder / "x.plan.1.tmp").write_bytes(b"abandoned")
    (folder / "y.plan.2.tmp").write_bytes(b"in use")
    os.utime(folder / "x.plan.1.tmp", (10**9, 10**9))
    filled(folder, network())
    assert sorted(file.suffix for file in folder.iterdir()) == [".plan", ".tmp"]


def test_many_processes_write_and_read_at_once(folder):
    code = f"""
import sys
import pylite
from tests.tools.plans import network, run
total = 0
for turn in range(8):
    interpreter = pylite.Interpreter(model_content=network(8 + turn % 3), cache_dir={os.fspath(folder)!r})
    total += float(run(interpreter)[0].sum())
print(total)"""
    runs = [subprocess.Popen(command(code), stdout=subprocess.PIPE, text=True,
                             cwd=Path(__file__).parents[2]) for _ in range(6)]
    outputs = {process.communicate()[0] for process in runs}
    assert len(outputs) == 1
    assert [process.returncode for process in runs] == [0] * 6
    assert len(list(folder.glob("*.plan"))) == len(list(folder.iterdir())) == 3
