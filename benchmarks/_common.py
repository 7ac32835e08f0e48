"""Helpers of the benchmarks: models, the peer (LiteRT), clocks and tables."""
import statistics
import sys
import time
from pathlib import Path

MODELS = Path(__file__).resolve().parents[2] / "shared" / "models"
FIRST_RUN = """
from {module} import Interpreter
interpreter = Interpreter({path!r}{options})
interpreter.allocate_tensors()
for detail in interpreter.get_input_details():
    interpreter.set_tensor(detail["index"], numpy.zeros(detail["shape"], detail["dtype"]))
interpreter.invoke()
interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
"""


def models(*patterns):
    """Sorted paths of the models in ../shared/models that match any of the glob `patterns` (default: all)."""
    if not MODELS.is_dir():
        raise SystemExit(f"no models: {MODELS} does not exist")
    return sorted({path for pattern in patterns or ("**/*.tflite",) for path in MODELS.glob(pattern)})


def short(path):
    return str(Path(path).relative_to(MODELS)) if MODELS in Path(path).parents else Path(path).name


def peer():
    """The module of the peer (ai-edge-litert or tflite-runtime), or None if neither is installed."""
    for name in ("ai_edge_litert.interpreter", "tflite_runtime.interpreter"):
        try:
            return __import__(name, fromlist=["Interpreter"])
        except ImportError:
            continue
    return None


def peer_interpreter(path, threads=1, reference=False):
    litert = peer()
    kind = "BUILTIN_REF" if reference else "AUTO"
    return litert.Interpreter(str(path), num_threads=threads,
                              experimental_op_resolver_type=getattr(litert.OpResolverType, kind))


def first_run(module, path, options=""):
    """Code for a new process that has imported numpy: run a model once.  options: ", name=value" for Interpreter."""
    return FIRST_RUN.format(module=module, path=str(path), options=options)


def median_seconds(function, budget=0.3, least=5):
    """Median seconds of a call, repeated for `budget` seconds and at least `least` times after one warm-up call."""
    function()
    times, start = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - start < budget:
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def print_table(headers, rows, right=None):
    """Print a table; right: headers of right-aligned columns, by default all but the first."""
    from pylite.cli._format import table
    sys.stdout.write("\n".join(table(headers, rows, headers[1:] if right is None else right)) + "\n")


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
