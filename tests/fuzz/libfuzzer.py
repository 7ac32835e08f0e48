"""libFuzzer on the decoder and on the host of plug-ins: `python -m tests.fuzz.libfuzzer TARGET SECONDS FOLDER [FILE]`.

TARGET: `decoder` loads the bytes of a model; `host` runs an op and a delegate whose calls the bytes choose
(tests/native/host/drives.c).  The C that Cython writes of the modules, and the C of the host, are built in FOLDER for
libFuzzer and AddressSanitizer, and stand in for those of the installed pylite.  A crash, an exception that is not one
of pylite's, and a read beyond an array end the run; FILE, which libFuzzer then stored, repeats it.  .ci/fuzz calls
this.
"""
import ctypes
import glob
import importlib
import importlib.machinery
import os
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "pylite/_core"
CLANG = "clang-16"
INSTRUMENTED = ("-g", "-gline-tables-only", "-O1", "-fPIC", "-w", "-fsanitize=fuzzer-no-link,address",
                "-DPy_LIMITED_API=0x030b0000", "-D_GNU_SOURCE", "-DADDED_TENSORS=64", "-fexceptions")
MEMORY = 64 << 20       # bytes of a model's tensors: more would take seconds to copy
MODULES = {"decoder": ("graph/decoder", "graph/records"),
           "host": ("capi/plugin_structs", "capi/callbacks", "capi/hosting", "capi/kernels")}


# ---- the build -------------------------------------------------------------------------------------------------
def run(*command):
    subprocess.run([str(word) for word in command], check=True, cwd=ROOT)


def runtime(name):
    """A library of clang's."""
    return subprocess.run([CLANG, f"-print-file-name=libclang_rt.{name}-x86_64.{'so' if name == 'asan' else 'a'}"],
                          check=True, capture_output=True, text=True).stdout.strip()


def build(target, folder):
    """Make FOLDER/TARGET.so of the modules, libFuzzer, and for the host the plug-in, too."""
    folder.mkdir(parents=True, exist_ok=True)
    generated = folder / "simd_declarations.pxi"
    if not generated.exists():
        run(sys.executable, CORE / "simd/declarations.py", generated)
        run(sys.executable, ROOT / "pylite/plugins/host/layouts.py", folder / "capi_assertions.h")
    includes = [f"-I{path}" for path in (CORE / "simd", CORE / "capi", folder, ROOT / "pylite/include",
                                         sysconfig.get_path("include"))]
    sources = [(CORE / f"{name}.pyx", folder / f"{Path(name).name}.o") for name in MODULES[target]]
    if target == "host":
        paths = [ROOT / "tests/native/host/drives.c", *map(Path, glob.glob(f"{CORE}/capi/*.c"))]
        sources += [(path, folder / f"{path.stem}.o") for path in paths if path.stem != "resolver"]

    def compile(pair):
        source, made = pair
        if source.suffix == ".pyx":
            written = made.with_suffix(".c")
            run(sys.executable, "-m", "cython", source, "-o", written, "-I", ROOT, "-I", folder, "-3",
                "--no-docstrings", "--shared=pylite._core._cyutility", "-Xfreethreading_compatible=True",
                "-Xboundscheck=False", "-Xinitializedcheck=False", "-Xcdivision=True", "-Xauto_pickle=False",
                "-Xbinding=False")
            source = written
        run(CLANG, *INSTRUMENTED, *includes, "-c", source, "-o", made)
    declared = max(path.stat().st_mtime for pattern in ("*.h", "*.pxd") for path in CORE.rglob(pattern))
    outdated = [pair for pair in sources if not pair[1].exists() or
                pair[1].stat().st_mtime < max(declared, pair[0].stat().st_mtime)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile, outdated))
    # The sanitizer has functions of libFuzzer's names, which do nothing, and comes first: -Bsymbolic-functions.
    run(CLANG, "-shared", "-fsanitize=address", "-shared-libasan", "-Wl,-Bsymbolic-functions",
        *[made for _, made in sources], "-Wl,--whole-archive", runtime("fuzzer_no_main"), "-Wl,--no-whole-archive",
        "-lstdc++", "-lm", "-lpthread", "-o", folder / f"{target}.so")


# ---- the targets -----------------------------------------------------------------------------------------------
def substitute(target, library):
    """Let the modules of `library` be those of pylite."""
    for module in MODULES[target]:
        name = "pylite._core." + module.replace("/", ".")
        loader = importlib.machinery.ExtensionFileLoader(name, str(library))
        made = module_from_spec(spec_from_loader(name, loader))
        sys.modules[name] = made
        loader.exec_module(made)
        setattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2], made)


def decoder():
    """(function of the bytes, models to begin with)"""
    import numpy as np

    from pylite.errors import PyliteError
    from pylite.schema import load, read
    from tests.schema.test_damage import OUTSIDE, RICH

    def one(data):
        try:
            read(np.frombuffer(data, np.uint8).copy())      # ends with the last byte, where bytes have one more
            load(data)
        except PyliteError:
            pass
    return one, [RICH, OUTSIDE]


def host(folder):
    import numpy as np

    import pylite
    from pylite.plugins import resolver
    from pylite.schema.builder import ModelBuilder

    m = ModelBuilder()
    x, c = m.tensor("x", (1, 4)), m.constant("c", np.ones((2, 2), np.float32))
    y, z, s = m.tensor("y", (1, 4)), m.tensor("z", (1, 4)), m.tensor("s", (2,), "string")
    v = m.tensor("v", (3,), variable=True)
    m.operator("Driven", [x, c, v], [y, s], custom_options=b"options")
    m.operator("NEG", [y], [z])
    m.inputs([x])
    m.outputs([z, s])
    model = m.build()
    path = str(folder / "host.so")
    ops = resolver.BuiltinOpResolver()
    ops.add_custom("Driven", pylite.load_custom_ops(path, ["Register_DRIVEN"], register=False)[0])
    plugin = ctypes.CDLL(path)      # with the functions that it imports

    def one(data):
        kept = ctypes.create_string_buffer(data, len(data) or 1)
        plugin.drive_input(kept, ctypes.c_size_t(len(data)))
        interpreter = None
        try:
            delegates = [pylite.load_delegate(path)] if data[:1] > b"\x80" else []
            interpreter = pylite.Interpreter(model_content=model, op_resolver=ops, experimental_delegates=delegates,
                                             max_memory=MEMORY)
            for rows in (1, 1, 2):
                interpreter.resize_tensor_input(x, [rows, 4])
                interpreter.allocate_tensors()
                interpreter.set_tensor(x, np.ones((rows, 4), np.float32))
                interpreter.invoke()
                [interpreter.get_tensor(i) for i in (z, s)]
        except (pylite.PyliteError, RuntimeError, ValueError):      # load_delegate() raises tf.lite's
            pass
        finally:
            if interpreter is not None:
                interpreter.close()
    return one, [bytes(range(0, 250, 3)), bytes([255, *range(90)])]


def fuzz(target, seconds, folder, file=None):
    library = ctypes.CDLL(str(folder / f"{target}.so"), ctypes.RTLD_GLOBAL)
    for package in ("pylite._core.capi", "pylite._core.graph"):
        importlib.import_module(package)
    substitute(target, folder / f"{target}.so")
    one, seeds = decoder() if target == "decoder" else host(folder)

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_uint8), ctypes.c_size_t)
    def call(data, size):
        try:
            one(ctypes.string_at(data, size))
        except BaseException:
            traceback.print_exc()
            os.abort()
        return 0

    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed{number}").write_bytes(seed)
    options = [f"-max_total_time={seconds}", "-max_len=4096" if target == "decoder" else "-max_len=200",
               f"-artifact_prefix={folder}/", "-print_final_stats=1", "-reload=0", "-rss_limit_mb=4096", "-timeout=60",
               "-detect_leaks=0", str(file or corpus)]
    words = (ctypes.c_char_p * (len(options) + 2))(b"libfuzzer", *[word.encode() for word in options], None)
    argv = ctypes.cast(words, ctypes.POINTER(ctypes.c_char_p))
    library.LLVMFuzzerRunDriver(ctypes.byref(ctypes.c_int(len(options) + 1)), ctypes.byref(argv), call)


def replay(folder):
    """Run both corpora on the installed pylite, for .ci/coverage."""
    with tempfile.TemporaryDirectory() as plain:
        run(CLANG, "-shared", "-fPIC", "-w", f"-I{ROOT / 'pylite/include'}", ROOT / "tests/native/host/drives.c", "-o",
            f"{plain}/host.so")
        for target, (one, seeds) in {"decoder": decoder(), "host": host(Path(plain))}.items():
            for data in (*seeds, *[path.read_bytes() for path in sorted(folder.glob(f"{target}/corpus/*"))]):
                one(data)


def main(target, seconds, folder, *file):
    if target == "replay":
        return replay(Path(folder))
    folder = Path(folder).resolve() / target
    if "LIBFUZZER_CHILD" in os.environ:
        return fuzz(target, seconds, folder, *file)
    build(target, folder)
    environment = {**os.environ, "LIBFUZZER_CHILD": "1", "LD_PRELOAD": runtime("asan"), "PYTHONMALLOC": "malloc",
                   "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_segv=0:quarantine_size_mb=16",
                   "PYLITE_CACHE_DIR": "", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "tests.fuzz.libfuzzer", target, seconds, str(folder.parent), *file],
                          env=environment, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
