"""How pylite's modules are found, and what importing and loading leave to whoever needs it."""
import importlib
import importlib.util
import pkgutil
import shutil
import subprocess
import sys
import zipfile
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import pylite
from pylite import _core

MODULES = sorted(module.name for module in pkgutil.walk_packages(pylite.__path__, "pylite.")
                 if not module.name.endswith("__main__") and ".libpylite_" not in module.name)


def run(code):
    """What fresh Python prints."""
    return subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_modules_are_found_where_the_search_finds_them():
    assert len(MODULES) > 100
    for name in MODULES:
        found = importlib.util.find_spec(name)
        parent = sys.modules[name.rpartition(".")[0]]
        searched = PathFinder.find_spec(name, parent.__path__)
        assert (found.origin, found.cached, found.has_location, found.submodule_search_locations) == \
            (searched.origin, searched.cached, searched.has_location, searched.submodule_search_locations)


def test_modules_in_cython_come_from_the_library():
    spec = importlib.util.find_spec("pylite._core.kernels.conv")
    assert Path(spec.origin).name.startswith("_library") and Path(spec.origin).parent == Path(_core.__path__[0])
    assert importlib.import_module("pylite._core.kernels.conv").__spec__.origin == spec.origin


@pytest.mark.parametrize("name", ["pylite.nothing", "pylite._core.nothing", "pylite._core.kernels.nothing",
                                  "pylite.media.models.nothing"])
def test_modules_that_there_are_not(name):
    with pytest.raises(ImportError, match="nothing"):
        importlib.import_module(name)


def test_folders_without_a_module_are_left_to_the_search():
    assert _core._Finder.find_spec("pylite.include", pylite.__path__) is None
    assert importlib.util.find_spec("pylite.include").origin is None


def test_folders_that_cannot_be_listed():
    assert _core._Finder.find_spec("pylite.nothing", ["/there/is/no/such.zip"]) is None


def test_an_application_that_has_the_sources_in_an_archive(tmp_path):
    """As PyInstaller makes them: the libraries lie in folders, and a finder of its own knows the rest."""
    source = Path(pylite.__file__).parent
    for library in (source / "_core").rglob("*.so"):
        (tmp_path / library.relative_to(source.parent)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, tmp_path / library.relative_to(source.parent))
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        for file in source.rglob("*.py"):
            archive.write(file, file.relative_to(source.parent))
    code = f"""
import sys, zipimport, importlib.machinery
folder, archive = {str(tmp_path)!r}, zipimport.zipimporter({str(tmp_path / 'archive.zip')!r})
class Frozen:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = name.split(".")[0] == "pylite" and zipimport.zipimporter(
            archive.archive + "/" + "/".join(name.split(".")[:-1])).find_spec(name)
        if spec and spec.submodule_search_locations is not None:
            spec.submodule_search_locations = [folder + "/" + name.replace(".", "/")]
        return spec or None
sys.meta_path.insert(0, Frozen)
import pylite.interpreter, pylite.plugins.host.tables, pylite._core.kernels.conv
print(pylite.__file__.startswith(archive.archive), pylite._core.kernels.conv.__file__.startswith(folder))
"""
    assert run(code) == "True True"


def test_sources_that_are_not_built(tmp_path):
    """As Python finds them first where it runs in a checkout."""
    shutil.copytree(Path(pylite.__file__).parent, tmp_path / "pylite", ignore=shutil.ignore_patterns("*.so", "samples"))
    done = subprocess.run([sys.executable, "-c", "import pylite.interpreter"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.returncode and "has pylite's sources, not what is built" in done.stderr.splitlines()[-1]


def test_the_collector_of_the_host_program_is_left_alone():
    assert run("import gc\n"
               "seen, frozen = [], gc.get_freeze_count()\n"
               "gc.disable = gc.enable = gc.freeze = lambda: seen.append(1)\n"
               "import pylite.interpreter\n"
               "from pylite.media import models\n"
               "i = pylite.Interpreter(str(models.path('digits'))); i.allocate_tensors(); i.invoke()\n"
               "print(gc.isenabled(), gc.get_freeze_count() == frozen, seen)") == "True True []"


def test_the_collector_stays_off_where_it_is_off():
    assert run("import gc; gc.disable()\nimport pylite.interpreter\nprint(gc.isenabled())") == "False"


def test_the_index_of_ops_is_what_they_register():
    assert run("import importlib\n"
               "import pylite.ops\n"
               "from pylite.ir import registry\n"
               "from pylite.ops._index import MODULES\n"
               "print(sorted(MODULES) == registry.names(),"
               " all(registry.find(n).infer.__module__.startswith('pylite.ops') for n in MODULES))") == "True True"


def test_the_ops_are_registered_before_an_interpreter_is_imported():
    assert run("import pylite; print('ADD' in pylite.BuiltinOpResolver().names())") == "True"
    assert run("from pylite import cli; cli.main(['ops', 'ADD'])").startswith("ADD  versions 1-")
