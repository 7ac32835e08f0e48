"""Importing: how modules in Cython are found, and the imports and allocations that are made on demand only."""
import importlib
import importlib.util
import pkgutil
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

import pylite
import pylite.media.models

MODULES = sorted(module.name for module in pkgutil.walk_packages(pylite.__path__, "pylite.")
                 if not module.name.endswith("__main__") and ".libpylite_" not in module.name)
PACKAGES = Path(numpy.__file__).parents[1]


def run(code, *flags):
    """The output of a new Python process."""
    return subprocess.run([sys.executable, "-P", *flags, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip()


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with a copy of pylite's modules in the layout of a wheel, for any kind of installation."""
    folder = tmp_path_factory.mktemp("installed")
    for name in ["pylite", *MODULES]:
        spec = importlib.util.find_spec(name)
        file = Path(spec.origin)
        package = name if spec.submodule_search_locations else spec.parent
        copy = folder / package.replace(".", "/") / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return folder


def test_modules_in_cython_come_from_the_library():
    spec = importlib.util.find_spec("pylite._core.kernels.conv")
    assert spec.origin == importlib.util.find_spec("pylite._core._library").origin
    assert importlib.import_module("pylite._core.kernels.conv").__spec__.origin == spec.origin


@pytest.mark.parametrize("name", ["pylite.nothing", "pylite._core.nothing", "pylite._core.kernels.nothing",
                                  "pylite.media.models.nothing"])
def test_missing_modules_raise_import_errors(name):
    with pytest.raises(ImportError, match="nothing"):
        importlib.import_module(name)


def test_the_import_system_of_the_host_program_stays_as_it_was(installed):
    """No finder sees its imports; one hook makes finders, of two entries of paths and no others."""
    assert run(f"""
import sys
sys.path[:0] = {[str(installed), str(PACKAGES)]}
before = list(sys.meta_path), len(sys.path_hooks)
import pylite.interpreter, pylite._core.capi.hosting
assert sys.meta_path == before[0]
hook = sys.path_hooks[-1]
assert len(sys.path_hooks) == before[1] + 1
entries = [path for path, finder in sys.path_importer_cache.items() if type(finder) is hook]
assert len(entries) == 2 and all("_library" in entry for entry in entries)
try:
    hook({str(installed)!r})
except ImportError:
    print("refused")""", "-S") == "refused"


def test_applications_with_the_sources_in_an_archive(installed, tmp_path):
    """As PyInstaller builds them: libraries in folders, all other modules by a finder of its own."""
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        for file in installed.rglob("*"):
            if file.suffix == ".so":
                (tmp_path / file.relative_to(installed)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, tmp_path / file.relative_to(installed))
            elif file.suffix == ".py":
                archive.write(file, file.relative_to(installed))
    code = f"""
import sys, zipimport, importlib.machinery
sys.path.append({str(PACKAGES)!r})
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
import pylite.interpreter, pylite.plugins.host.plugin_structs, pylite._core.kernels.conv
print(pylite.__file__.startswith(archive.archive), pylite._core.kernels.conv.__file__.startswith(folder))
"""
    assert run(code, "-S") == "True True"


def test_packages_in_virtual_folders(installed):
    """As in an editable install: its finder maps names of modules to files."""
    code = f"""
import sys, pathlib, importlib.util
root = pathlib.Path({str(installed)!r})
sys.path.append({str(PACKAGES)!r})
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        stem = root / name.replace(".", "/")
        if (stem / "__init__.py").exists():
            return importlib.util.spec_from_file_location(
                name, stem / "__init__.py", submodule_search_locations=["/virtual/" + name])
        for file in stem.parent.glob(stem.name + ".*"):
            return importlib.util.spec_from_file_location(name, file)
sys.meta_path.insert(0, Editable)
import pylite.interpreter, pylite.plugins.host.plugin_structs, pylite._core.kernels.conv, pylite._core.capi.hosting
print(pylite.__path__, *(pathlib.Path(module.__file__).parent.relative_to(root) for module in (
    pylite._core.kernels.conv, pylite._core.capi.hosting)))
"""
    assert run(code, "-S") == "['/virtual/pylite'] pylite/_core pylite/_core/capi"


@pytest.fixture
def checkout(installed, tmp_path):
    """A folder with a copy of pylite's sources, of which nothing is built."""
    shutil.copytree(installed / "pylite", tmp_path / "checkout" / "pylite", ignore=shutil.ignore_patterns("*.so"))
    return tmp_path / "checkout"


def in_folder(folder, code, *path):
    """A new Python whose working folder this is, with `path` after it in sys.path, and neither -P nor site-packages."""
    return subprocess.run([sys.executable, "-S", "-c", f"import sys; sys.path += {[*map(str, path)]}\n{code}"],
                          capture_output=True, text=True, check=False, cwd=folder)


def test_unbuilt_sources_raise_an_error_with_the_remedy(checkout):
    """As when Python runs in a checkout from which nothing was installed."""
    done = in_folder(checkout, "import pylite")
    last = done.stderr.splitlines()[-1]
    assert done.returncode and "has pylite's sources, not what is built" in last
    assert last.endswith(f"{sys.executable} -m pip install {checkout}")


def test_unbuilt_sources_give_way_to_an_installed_pylite(checkout, installed):
    """As when Python runs in a checkout after `pip install .`."""
    done = in_folder(checkout, """
import pylite.interpreter, pylite._core.capi.hosting
from pylite.media import models
print(pylite.__file__, pylite.interpreter.__file__, pylite._core.capi.hosting.__file__, models.__file__)""",
                     installed, PACKAGES)
    assert done.returncode == 0, done.stderr
    assert all(file.startswith(str(installed)) for file in done.stdout.split())


@pytest.mark.parametrize("first_file", ["from .simplite import *\n", None], ids=["overwritten", "removed with it"])
def test_a_foreign_package_of_the_same_name_is_an_error_with_the_remedy(installed, tmp_path, first_file):
    """The distribution `pylite` writes into the same folder, or its removal takes the common file away."""
    shutil.copytree(installed / "pylite", tmp_path / "pylite")
    (tmp_path / "pylite" / "__init__.py").unlink()
    for package in PACKAGES.glob("numpy*"):
        (tmp_path / package.name).symlink_to(package)
    if first_file is not None:
        (tmp_path / "pylite" / "__init__.py").write_text(first_file)
        (tmp_path / "pylite" / "simplite.py").touch()
    for module in "pylite.interpreter", "pylite.cli":
        code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {module}"
        done = subprocess.run([sys.executable, "-P", "-S", "-c", code], capture_output=True, text=True, check=False)
        last = done.stderr.splitlines()[-1]
        assert done.returncode and "ImportError" in last and "pip uninstall pylite pylite-runtime" in last


def test_another_distribution_of_the_same_name_is_named_with_the_version(tmp_path):
    foreign = tmp_path / "pylite-0.1.0.dist-info"
    foreign.mkdir()
    (foreign / "METADATA").write_text("Metadata-Version: 2.1\nName: pylite\nVersion: 0.1.0\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from pylite.cli import main; main(['--version'])"
    first, *warnings = run(code).splitlines()
    assert first == f"pylite {pylite.__version__}"
    assert len(warnings) == 1 and f"pylite 0.1.0 is installed in {tmp_path}" in warnings[0]


def test_a_new_module_of_ops_is_found(installed, tmp_path):
    """Without a build, which would enter it in the index."""
    shutil.copytree(installed / "pylite", tmp_path / "pylite")
    (tmp_path / "pylite" / "ops" / "brand_new.py").write_text(
        "from pylite.ir.registry import register\n"
        "register('BrandNew', types=['any -> any'], infer=lambda node: [node.inputs[0].shape])\n")
    assert run(f"import sys; sys.path[:0] = {[str(tmp_path), str(PACKAGES)]}\n"
               "import pylite.interpreter\n"
               "from pylite.ir import registry\n"
               "print(registry.find('BrandNew').name, registry.find('BrandNewer'))", "-S") == "BrandNew None"


def test_libraries_are_found_without_asking_hooks_of_the_host_program(installed):
    """zipimport's, for one, reads the end of each file; a cache that was emptied is no problem."""
    assert run(f"""
import sys
sys.path[:0] = {[str(installed), str(PACKAGES)]}
asked = []
sys.path_hooks.insert(0, lambda path: asked.append(path) or exec("raise ImportError"))
import pylite._core.kernels.conv, pylite._core.capi.hosting
print(len(asked) > 3, any("_library" in path for path in asked))
sys.path_importer_cache.clear()
import pylite._core.kernels.pooling
print(any("_library" in path for path in asked))""", "-S") == "True False\nTrue"


LATER = ["errors", "compiler.recorded", "ir.flex_ops", "plugins", "tflite.signature", "_core.graph.tapes",
         *(f"_core.run.{module}" for module in ("parts", "plans", "rebinding", "reshaping", "buffers", "statistics"))]
LATER_WITH_A_PLAN = ["compiler", "errors", "numerics", "ops", "plugins", "schema", "_core.graph",
                     "_core.product.layouts", "runtime.executor", "runtime.plan_store", "runtime.plan_record"]


@pytest.mark.parametrize(("plan", "later"), [(False, LATER), (True, LATER_WITH_A_PLAN)], ids=["compiled", "planned"])
def test_modules_that_the_first_result_does_not_need_are_not_imported(plan, later, tmp_path):
    """Each takes 0.1 ms or more of a cold start."""
    tmp_path.chmod(0o700)
    code = ("import pylite, sys\n"
            "from pylite.media import models\n"
            f"i = pylite.Interpreter(str(models.path('digits')), cache_dir={str(tmp_path) if plan else ''!r})\n"
            "i.allocate_tensors(); i.set_tensor(i.get_input_details()[0]['index'], i.get_tensor("
            "i.get_input_details()[0]['index'])); i.invoke(); i.get_tensor(i.get_output_details()[0]['index'])\n"
            "print(*sys.modules)")
    imported = [run(code) for _ in range(2)][-1].split()      # the first process writes the plan
    assert "pylite.interpreter" in imported
    assert [module for module in later if f"pylite.{module}" in imported] == []


def test_modules_of_ops_import_nothing_slow_beyond_numpy():
    """Python's fractions alone take 2 ms: as long as all modules of a small model's ops."""
    code = ("import numpy, sys\n"
            "before = set(sys.modules)\n"
            "from pylite.ir import registry\n"
            "registry.names()\n"
            "print(*set(sys.modules) - before)")
    imported = {name.partition(".")[0] for name in run(code).split()}
    assert {"pylite", "pkgutil"} <= imported
    assert {name for name in imported if not name.startswith(("_cy", "cython", "_pylite"))} <= {
        "pylite", "pkgutil", "zipimport", "importlib", "gc"}


def test_errors_are_imported_when_one_is_needed():
    assert run("import sys, pylite\n"
               "from pylite.media import models\n"
               "i = pylite.Interpreter(str(models.path('digits')), cache_dir='')\n"
               "i.allocate_tensors(); i.invoke()\n"
               "before = 'pylite.errors' in sys.modules\n"
               "from pylite import errors, interpreter\n"
               "try:\n"
               "    i.get_tensor(1000)\n"
               "except errors.TensorError as error:\n"
               "    print(before, type(error) is pylite.errors.TensorError is interpreter.errors.TensorError)\n"
               "print(pylite.errors is sys.modules['pylite.errors'])") == "False True\nTrue"


def test_no_module_makes_the_classes_of_errors_when_it_is_imported():
    """An annotation without quotes would, for one."""
    assert run(f"""
import importlib, pylite, sys
used = []
def noted(module, name):
    used.append((sys._getframe(1).f_globals["__name__"], name))
    return getattr(importlib.import_module(module.__name__), name)
later = pylite.errors
type(later).__getattr__ = noted
for name in {[name for name in MODULES if not name.startswith(("pylite.errors", "pylite._core."))]}:
    pylite.errors = later
    importlib.import_module(name)
print(used)""") == "[]"


@pytest.mark.parametrize("asked", ["dir(errors)", "errors.PyliteError", "errors.shortened('')",
                                   "__import__('pickle').loads(b'cpylite.errors\\nTensorError\\n.')"])
def test_whatever_is_asked_of_errors_first_finds_them(asked):
    assert run(f"from pylite import errors; {asked}\n"
               "import pylite.errors\n"
               "print('TensorError' in dir(errors), errors.TensorError is pylite.errors.TensorError,"
               " errors.__doc__ == pylite.errors.__doc__)") == "True True True"


def test_the_collector_need_not_walk_over_imported_modules():
    """They are in the oldest generation, though it has not run."""
    assert run("import gc; gc.disable()\n"
               "import pylite._core.simd, pylite._core.run.program\n"
               "print(any(found is pylite._core.simd for found in gc.get_objects(2)))") == "True"


def test_the_garbage_collectors_state_is_unchanged():
    assert run("import gc\n"
               "calls, frozen = [], gc.get_freeze_count()\n"
               "gc.disable = gc.enable = gc.collect = lambda *a: calls.append(1)\n"
               "import pylite.interpreter\n"
               "from pylite.media import models\n"
               "i = pylite.Interpreter(str(models.path('digits'))); i.allocate_tensors(); i.invoke()\n"
               "print(gc.isenabled(), gc.get_freeze_count() == frozen, calls)") == "True True []"


def test_a_disabled_garbage_collector_stays_disabled():
    assert run("import gc; gc.disable()\nimport pylite.interpreter\nprint(gc.isenabled())") == "False"


def test_the_index_of_ops_equals_their_registrations():
    assert run("import importlib\n"
               "import pylite.ops\n"
               "from pylite.ir import registry\n"
               "from pylite.ops._index import MODULES\n"
               "print(sorted(MODULES) == registry.names(),"
               " all(registry.find(n).infer.__module__.startswith('pylite.ops') for n in MODULES))") == "True True"


@pytest.mark.parametrize("frozen", [False, True])
def test_what_a_program_froze_stays_frozen(frozen):
    """The import passes older objects to the oldest generation, and changes nothing else of the collector."""
    code = f"import gc; a = []; {'gc.freeze()' if frozen else 'pass'}; before = gc.get_freeze_count(); import pylite"
    count = run(code + "; print(before, gc.get_freeze_count(), gc.isenabled(), gc.get_threshold())").split(maxsplit=2)
    assert count[0] == count[1] and (count[0] != "0") == frozen
    assert count[2] == run("import gc; print(gc.isenabled(), gc.get_threshold())")


def test_the_garbage_of_a_program_stays_young():
    """Only what is alive before an import is passed to the oldest generation, not what is alive when a model loads."""
    assert run("import gc; gc.disable()\n"
               "from pylite import Interpreter\n"
               "from pylite.media.models import named\n"
               "Interpreter(named('digits')).allocate_tensors()\n"
               "garbage = [[]]\n"
               "Interpreter(model_content=open(named('digits'), 'rb').read()).allocate_tensors()\n"
               "print(any(found is garbage for found in gc.get_objects(generation=2)))") == "False"
