"""Each allocation of the plug-in host fails in turn: the model reports an error, and afterwards it runs."""
import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.errors import PyliteError
from pylite.plugins import resolver
from pylite.schema.builder import ModelBuilder
from pylite.schema.tables import table
from tests.capi.compiling import ENVIRONMENT, build, compiler
from tests.schema.sparse_models import sparse_constant
from tests.tools import programs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
X = np.arange(8, dtype=np.float32).reshape(2, 4)
DELEGATES = {"none": None, "classic": {}, "opaque": {"opaque": "1"}}


def model():
    """x -> Needy -> y, z, strings; y -> NEG -> Doubled -> NEG; z + z.  The ops: tests/capi/plugins/allocates.c."""
    m = ModelBuilder()
    x = m.tensor("x", (-1, 4))
    c = m.constant("c", np.ones((2, 2), np.int8), scale=[0.25, 0.5])
    k = sparse_constant(m, "k", np.float32([[0, 1], [2, 0]]), [0, 1], [1])
    blocks = m.constant("w", np.zeros((2, 32), np.int8), quantization=table("QuantizationParameters")(
        details=table("BlockwiseQuantization")(scales=m.constant("v", np.ones(2, np.float16)), zero_points=-1,
                                               block_size=32)))
    t = m.tensor("t", (1,), "string")
    y, z, s = m.tensor("y", (1, 4)), m.tensor("z", (1, 4)), m.tensor("s", (2,), "string")
    a, b, d, e = (m.tensor(name, (1, 4)) for name in "abde")
    m.operator("Needy", [x, c, k, blocks, t], [y, z, s], custom_options=b"words")
    m.operator("NEG", [y], [a])
    m.operator("Doubled", [a], [b], custom_options=b"")
    m.operator("NEG", [b], [d])
    m.operator("ADD", [z, z], [e])
    m.inputs([x, t])
    m.outputs([d, s, e])
    m.metadata("note", b"text")
    return m.build()


def run(i):
    """Run the model twice, and check what it gives."""
    for rows in (2, 1):
        i.resize_tensor_input(0, (rows, 4))
        i.allocate_tensors()
        i.set_tensor(0, X[:rows])
        i.set_tensor(i.get_input_details()[1]["index"], np.array([b"in"]))
        i.invoke()
        d, s, e = (i.get_tensor(detail["index"]) for detail in i.get_output_details())
        np.testing.assert_array_equal(d, 2 * (X[:rows] + 1))
        np.testing.assert_array_equal(e, 2 * (X[:rows] + 2))
        assert list(s) == [b"one", b"and another"]


def address_of(name):
    """An address of the loaded library with such a name."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if re.search(name, line):
            return int(line.split("-")[0], 16)
    raise LookupError(name)


def fail_in_turn(library, options):
    """Let one allocation after another fail until the model runs without a failure; print how many failed."""
    shim = ctypes.CDLL(None)
    ops = resolver.BuiltinOpResolver()
    for function in "Register_NEEDY", "DoubledOperator":
        op, = pylite.load_custom_ops(library, [function], register=False)
        ops.add_custom(op.name, op)
    content = model()
    for name in r"capi/_library\.", "libpylite_opaque", re.escape(library):
        shim.failing_in(ctypes.c_void_p(address_of(name)))
    number, failed = 0, True
    while failed:
        number, failed, i, closes = number + 1, False, None, False
        shim.failing_at(ctypes.c_long(number))
        try:
            delegates = [] if options is None else [pylite.load_delegate(library, options)]
            i = pylite.Interpreter(model_content=content, op_resolver=ops, experimental_delegates=delegates)
            i._main.plugin_structs.host.add_profiler()
            run(i)
            closes = True
            i.close()
        except (PyliteError, RuntimeError, ValueError, MemoryError):
            assert shim.failing_left() == 0, "an error although no allocation has failed"
        failed = shim.failing_left() == 0
        shim.failing_at(ctypes.c_long(0))
        if i is not None and not closes:
            run(i)
            i.close()
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("allocates")
    if not os.confstr("CS_GNU_LIBC_VERSION"):
        pytest.skip("the library that lets allocations fail is for glibc")
    if os.environ.get("LD_PRELOAD"):
        pytest.skip("a sanitizer has the allocations")
    shim = folder / "failing.so"
    subprocess.run([compiler(), "-O1", "-shared", "-fPIC", str(ROOT / "tests/native/failing.c"), "-o", str(shim)],
                   check=True)
    return build(HERE / "plugins" / "allocates.c", folder / "allocates.so", "-fno-optimize-sibling-calls"), shim


@pytest.mark.parametrize("delegate", DELEGATES)
def test_each_allocation_fails(compiled, delegate):
    library, shim = compiled
    done = programs.run([sys.executable, "-P", "-m", "tests.capi.test_failing_allocations", library, delegate],
                        cwd=ROOT, env={**ENVIRONMENT, "LD_PRELOAD": str(shim), "PYTHONFAULTHANDLER": "1",
                                       "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])})
    assert done.returncode == 0, f"allocation {len(done.stdout.split()) + 1}: {done.stderr}"
    assert len(done.stdout.split()) > 20


if __name__ == "__main__":
    fail_in_turn(sys.argv[1], DELEGATES[sys.argv[2]])
