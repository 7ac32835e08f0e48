"""Programs in C on libtensorflowlite_c.so: in processes without Python, which it starts, and on their threads."""
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.clib import library_path
from pylite.schema.builder import ModelBuilder
from tests.capi.compiling import ENVIRONMENT, FLAGS, build, compiler
from tests.tools import programs, resources

HERE = Path(__file__).parent
PLUGINS = HERE.parent / "capi" / "plugins"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the library is one of Linux")


def one(operator, inputs=1, shape=(2, 3), dtype="float32", key=None, **options):
    m = ModelBuilder()
    given = [m.tensor("ab"[i], shape, dtype) for i in range(inputs)]
    result = m.tensor("c", shape, dtype)
    m.operator(operator, given, [result], **options)
    m.inputs(given)
    m.outputs([result])
    if key:
        m.signature(key, {"xy"[i]: index for i, index in enumerate(given)}, {"z": result})
    return m


def two_signatures():
    m = one("ADD", 2, key="add")
    m.subgraph("two")
    p, r = m.tensor("p", (4,)), m.tensor("r", (4,))
    m.operator("MUL", [p, p], [r])
    m.inputs([p])
    m.outputs([r])
    m.signature("square", {"p": p}, {"r": r})
    return m.build()


def strings():
    m = ModelBuilder()
    a, c = m.tensor("a", (2,), "string"), m.tensor("c", (1, 2), "string")
    m.operator("RESHAPE", [a, m.constant("shape", np.int32([1, 2]))], [c], new_shape=(1, 2))
    m.inputs([a])
    m.outputs([c])
    return m.build()


MODELS = {"plain": one("ADD", 2, (-1, 3)).build(), "signatures": two_signatures(),
          "wrong": one("ADD", 2, (-1, 3)).build(), "ops": one("Twice", custom_options=b"").build(),
          "delegates": one("ADD", 2).build(), "strings": strings(), "signals": one("ADD", 2).build(),
          "leaks": one("ADD", 2, key="add").build()}
PRINTED = {
    "plain": ["1 3 5 7 9 11", "1 3 5 7 9 11 13 15 17", "1 3 5"],
    "signatures": ["add: x y -> z: 1 3 5 7 9 11", "square: p -> r: 0 1 4 9"], "wrong": ["all refused"],
    "ops": ["0 2 4 6 8 10"], "delegates": ["1 3 5 7 9 11"] * 2, "strings": ["strings"],
    "signals": ["1 3 5 7 9 11"], "leaks": ["no leak"]}


def linked(source, made):
    """A program, linked as `pylite config` says."""
    options = subprocess.run([sys.executable, "-P", "-m", "pylite", "config", "--cflags", "--libs"],
                             capture_output=True, text=True, check=True).stdout.split()
    done = subprocess.run([compiler(), "-O1", "-g", *FLAGS, str(HERE / source), *options, "-lpthread", "-ldl", "-o",
                           str(made)], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return linked("program.c", tmp_path_factory.mktemp("program") / "program")


def started(program, *arguments, **environment):
    """What the program prints, in a process with this Python to be started."""
    found = os.pathsep.join(p for p in sys.path if p)
    return programs.run([str(program), *map(str, arguments)], seconds=300, env={
        **ENVIRONMENT, "PYLITE_PYTHON": sys.executable, "PYTHONPATH": found, **environment})


@pytest.mark.parametrize("way", MODELS)
def test_a_program(way, program, tmp_path):
    model = tmp_path / "m.tflite"
    model.write_bytes(MODELS[way])
    libraries = [build(PLUGINS / "delegate.c", tmp_path / "delegate.so")] if way == "delegates" else []
    done = started(program, way, model, *libraries)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.strip() for line in done.stdout.splitlines()] == PRINTED[way]
    assert done.stderr == "" or (way == "delegates" and "/no/such.so" in done.stderr)


def test_each_allocation_fails(tmp_path):
    """One after another: a call fails, and the next ones run."""
    if not os.confstr("CS_GNU_LIBC_VERSION") or os.environ.get("LD_PRELOAD"):
        pytest.skip("the library that lets allocations fail is for glibc, without a sanitizer")
    shim = build(HERE.parent / "native" / "failing.c", tmp_path / "failing.so")
    (tmp_path / "m.tflite").write_bytes(one("Twice", custom_options=b"", key="twice").build())
    (tmp_path / "s.tflite").write_bytes(strings())
    done = started(linked("failing.c", tmp_path / "program"), tmp_path / "m.tflite", tmp_path / "s.tflite",
                   build(PLUGINS / "delegate.c", tmp_path / "delegate.so"), LD_PRELOAD=shim)
    assert (done.returncode, done.stdout) == (0, "each failed\n"), done.stdout + done.stderr


def test_what_is_refused(tmp_path):
    """Null pointers, libraries of no delegate, wrong indices, calls after the end of Python."""
    (tmp_path / "m.tflite").write_bytes(one("ADD", 2, key="add").build())
    (tmp_path / "half.c").write_text("void *tflite_plugin_create_delegate(void) { return 0; }\n")
    libraries = [build(source, tmp_path / f"{source.stem}.so")
                 for source in (PLUGINS / "delegate.c", PLUGINS / "words.c", tmp_path / "half.c")]
    done = started(linked("refused.c", tmp_path / "program"), tmp_path / "m.tflite", *libraries)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stdout + done.stderr
    assert "it has no tflite_plugin_destroy_delegate" in done.stderr
    assert "it has no tflite_plugin_create_delegate" in done.stderr


def test_a_go_program(tmp_path):
    """Its runtime calls from threads of its own, and from another one each time."""
    if shutil.which("go") is None or shutil.which("gcc") is None:
        resources.lack("Go with cgo (Debian: golang-go and gcc) is not installed")
    cflags, libs = [subprocess.run([sys.executable, "-P", "-m", "pylite", "config", option], capture_output=True,
                                   text=True, check=True).stdout.strip() for option in ("--cflags", "--libs")]
    (tmp_path / "m.tflite").write_bytes(MODELS["delegates"])
    done = subprocess.run(["go", "build", "-o", str(tmp_path / "program"), str(HERE / "program.go")], cwd=tmp_path,
                          capture_output=True, text=True, env={
                              **ENVIRONMENT, "CGO_ENABLED": "1", "CGO_CFLAGS": cflags, "CGO_LDFLAGS": libs,
                              "CGO_LDFLAGS_ALLOW": ".*", "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod",
                              "HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    done = started(tmp_path / "program", tmp_path / "m.tflite")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(2 * sum(range(k, k + 6))) for k in range(8)]


def test_another_environment_is_active(program, tmp_path):
    """The first python3 on PATH is that of a venv where pylite cannot be imported: it has no say."""
    packages = tmp_path / "venv" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "hides.pth").write_text("import sys; sys.modules['pylite'] = None\n")
    (tmp_path / "venv" / "pyvenv.cfg").write_text(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    folder = tmp_path / "venv" / "bin"
    folder.mkdir()
    (folder / "python3").symlink_to(sys.executable)
    (tmp_path / "m.tflite").write_bytes(MODELS["delegates"])
    done = started(program, "signals", tmp_path / "m.tflite", PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 0, done.stdout + done.stderr


def library_of_python():
    library = Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or "none")
    if not library.is_file():
        pytest.skip("this Python has no shared library there")
    return str(library)


@pytest.mark.parametrize(("script", "text"), [
    (None, "cannot run {} (exit code 127); set PYLITE_PYTHON to"), ("exit 3", "cannot run {} (exit code 3)"),
    ("echo /usr:/usr", "cannot run {} (exit code 0)"), ("kill -9 $$", "{} was ended by signal 9"),
    ("echo $0; echo /usr:/usr; echo; echo /no/such.so; echo .", "{} has no shared library (libpython3.X.so): install"),
    ("echo $0; echo /usr:/usr; echo; echo $0; echo .", "the shared library of {} cannot be loaded: "),
    ("echo $0; echo /usr:/usr; echo; echo libm.so.6; echo .", "the library of {} has no Py_IsInitialized"),
    ("echo $0; echo /usr:/usr; yes | head -c 70000", "cannot run {}"),
    ("echo $0; echo $BASE:$BASE; echo; echo $LIBRARY; echo .", "cannot be imported: No module named 'pylite'. Set")])
def test_without_python(script, text, program, tmp_path):
    """Where Python or its library cannot be run, the message says why, and what to do."""
    model, python = tmp_path / "m.tflite", tmp_path / "python"
    if "LIBRARY" in (script or ""):
        script = f"BASE={sys.base_prefix} LIBRARY={library_of_python()}; {script}"
    model.write_bytes(MODELS["plain"])
    if script:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    done = started(program, "plain", model, PYLITE_PYTHON=str(python), PYTHONPATH="")
    assert done.returncode == 1 and "model != NULL" in done.stdout
    assert text.format(python) in done.stdout


@pytest.mark.parametrize(("way", "chosen", "text"), [
    ("plain", "", "cannot run python3 (exit code 4)"), ("plain", "p" * 5000, "cannot run python3 (exit code 4)"),
    ("plain", "it's", "cannot start it's; set PYLITE_PYTHON"), ("signals", "", "cannot run python3 (exit code -1)")])
def test_the_python_that_is_asked(way, chosen, text, program, tmp_path):
    """Without a valid PYLITE_PYTHON, and outside an installed Python, it is python3 of PATH."""
    if "/lib/python" in os.path.realpath(library_path()):
        pytest.skip("the library is in an installed Python, which it asks")
    (tmp_path / "m.tflite").write_bytes(MODELS["plain"])
    python = tmp_path / "python3"
    python.write_text("#!/bin/sh\nexit 4\n")
    python.chmod(0o755)
    done = started(program, way, tmp_path / "m.tflite", PYLITE_PYTHON=chosen,
                   PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 1 and text in done.stdout, done.stdout


@pytest.mark.parametrize(("folder", "text"), [
    ("lib/python3.99/site-packages", "cannot run {}/bin/python3.99 (exit code 5)"),
    ("lib/python3.98/site-packages", "cannot run python3 (exit code 4)"), ("lib/python", "python3 (exit code 4)")])
def test_the_python_of_an_installed_library(folder, text, program, tmp_path):
    """It is beside the library's folder, if there is one."""
    for name, code in ("python3.99", 5), ("python3", 4):
        python = tmp_path / "bin" / name
        python.parent.mkdir(exist_ok=True)
        python.write_text(f"#!/bin/sh\nexit {code}\n")
        python.chmod(0o755)
    (tmp_path / folder).mkdir(parents=True)
    shutil.copy(library_path(), tmp_path / folder)
    (tmp_path / "m.tflite").write_bytes(MODELS["plain"])
    done = started(program, "plain", tmp_path / "m.tflite", PYLITE_PYTHON="",
                   LD_LIBRARY_PATH=str(tmp_path / folder), PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
                   LD_PRELOAD=str(tmp_path / folder / Path(library_path()).name))
    assert done.returncode == 1 and text.format(tmp_path) in done.stdout, done.stdout


def test_a_python_that_has_not_started(program, tmp_path):
    """A program that is linked to Python, but has not started it."""
    (tmp_path / "m.tflite").write_bytes(MODELS["plain"])
    done = started(program, "plain", tmp_path / "m.tflite", LD_PRELOAD=library_of_python())
    assert done.returncode == 0, done.stdout + done.stderr


def test_pythonhome_stays(program, tmp_path):
    (tmp_path / "m.tflite").write_bytes(MODELS["plain"])
    done = started(program, "plain", tmp_path / "m.tflite", PYTHONHOME=sys.base_prefix)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_exported_functions():
    """Those of the headers, and no other names but musl's start and end of a library."""
    if shutil.which("nm") is None:
        pytest.skip("nm is missing")
    done = subprocess.run(["nm", "-D", "--defined-only", library_path()], capture_output=True, text=True, check=True)
    exported = {line.split()[-1] for line in done.stdout.splitlines()}
    assert exported >= {"TfLiteInterpreterInvoke", "TfLiteOpaqueTensorData", "TfLiteOperatorCreate",
                        "TfLiteIntArrayCreate", "TfLiteExternalDelegateCreate", "TfLiteXNNPackDelegateCreate"}
    assert all(name.startswith("TfLite") for name in exported - {"_init", "_fini"}), exported


def test_under_the_address_sanitizer(tmp_path):
    """The sources of the library, compiled into the program with AddressSanitizer and UndefinedBehaviorSanitizer."""
    core, checks = HERE.parents[1] / "pylite" / "_core", tmp_path / "checks"
    if not (core / "clib" / "python.c").exists():
        pytest.skip("the sources are not beside the tests")
    checks.mkdir()
    layouts = core.parent / "plugins" / "host" / "layouts.py"
    subprocess.run([sys.executable, "-P", str(layouts), str(checks / "capi_assertions.h")], check=True)
    sources = [*(core / "clib").glob("*.c"), *(core / "capi").glob("opaque_*.c")]
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    done = subprocess.run([compiler(), "-O1", "-g", "-w", "-D_GNU_SOURCE", *sanitize, "-I", pylite.get_include(), "-I",
                           str(checks), str(HERE / "program.c"), *map(str, sources), "-rdynamic", "-ldl", "-lpthread",
                           "-o", str(tmp_path / "program")], capture_output=True, text=True, env=ENVIRONMENT)
    if done.returncode and "san" in done.stderr.splitlines()[-2]:
        pytest.skip("the compiler has no AddressSanitizer")
    assert done.returncode == 0, done.stderr
    for way in ("plain", "signatures", "wrong", "ops", "strings"):
        model = tmp_path / "m.tflite"
        model.write_bytes(MODELS[way])
        done = started(tmp_path / "program", way, model, ASAN_OPTIONS="detect_leaks=0")     # Python frees little
        if done.returncode == 127 and "libasan" in done.stderr:
            pytest.skip("AddressSanitizer does not run with this C library")
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line.strip() for line in done.stdout.splitlines()] == PRINTED[way]
