"""User-written Cython kernels, built against the published .pxd files and run without the GIL."""
import contextlib
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import pylite
from pylite.schema.builder import ModelBuilder
from tests.tools import resources

SOURCE = '''
# cython: language_level=3, boundscheck=False, initializedcheck=False
from pylite._core.run.kernel cimport Kernel, kernel_fn
from pylite._core.simd cimport parallel_for, pl_pool


cdef class Scale(Kernel):
    ERRORS = {1: "a number is too large"}
    cdef const float[::1] x
    cdef float[::1] y
    cdef float gain

    def __init__(self, const float[::1] x, float[::1] y, float gain=0.5):
        self.x, self.y, self.gain = x, y, gain
        self.fn = <kernel_fn>scale


cdef int scale(Scale self, pl_pool *pool) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(self.x.shape[0]):
        if self.x[i] > 1000:
            return 1
    parallel_for(pool, self.x.shape[0], 4, rows, <void *>self)
    return 0


cdef void rows(void *ctx, ptrdiff_t begin, ptrdiff_t end, int thread) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(begin, end):
        (<Scale>ctx).y[i] = (<Scale>ctx).x[i] * (<Scale>ctx).gain


cdef class Unset(Kernel):
    def __init__(self, x, y):
        pass
'''


def compiled(folder, source):
    """Build `source` in `folder` as the module `scaling`, and return it."""
    resources.tool("Cython")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (folder / "scaling.pyx").write_text(source)
    folders = Path(pylite.__file__).parents[1], Path(pylite.get_include(), "../_core").resolve()
    subprocess.run([sys.executable, "-m", "cython", *[f"-I{path}" for path in folders], "scaling.pyx"], cwd=folder,
                   check=True)
    library = folder / f"scaling{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-w", f"-I{sysconfig.get_path('include')}",
                    f"-I{pylite.get_include()}/pylite", "scaling.c", "-o", str(library)], cwd=folder, check=True)
    spec = importlib.util.spec_from_file_location("scaling", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("kernels"), SOURCE)


def interpreter(op, size=100, dtype="float32", **arguments):
    m = ModelBuilder()
    x, y = m.tensor("x", (size,), dtype), m.tensor("y", (size,), dtype)
    m.operator("Scale", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    known = pylite.BuiltinOpResolver()
    known.add_custom("Scale", op)
    return pylite.Interpreter(model_content=m.build(), op_resolver=known, **arguments)


def run(i, x):
    i.allocate_tensors()
    i.set_tensor(0, x)
    i.invoke()
    return i.get_tensor(1)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_kernel_class(kernels, threads):
    class Scale(pylite.CustomOp):
        kernel = kernels.Scale
    x = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(run(interpreter(Scale, num_threads=threads), x), x / 2)


def test_kernels_leave_the_references_to_their_type_alone(kernels):
    """Also those whose arrays are refused; the type was freed after some kernels."""
    kind, counts = kernels.Scale, []
    for shape in [(3,), (2, 3)] * 20:
        with contextlib.suppress(ValueError):
            kind(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
        counts.append(sys.getrefcount(kind))
    assert len(set(counts)) == 1


def test_a_kernel_method(kernels):
    class Scale(pylite.CustomOp):
        def kernel(self, x, y):
            return kernels.Scale(x, y, 3)
    i = interpreter(Scale)
    x = np.arange(100, dtype=np.float32)
    np.testing.assert_array_equal(run(i, x), x * 3)
    x[7] = 2000
    with pytest.raises(RuntimeError, match="node 0 Scale failed: a number is too large"):
        run(i, x)


def test_the_example_of_the_documents(tmp_path):
    page = Path(__file__).resolve().parents[2] / "docs" / "cython-kernels.md"
    block, = re.findall(r"^```cython\n(.*?)^```", page.read_text(), re.S | re.M)
    built = compiled(tmp_path, block)

    class Scale(pylite.CustomOp):
        kernel = built.Scale
    x = np.arange(10000, dtype=np.float32)
    np.testing.assert_array_equal(run(interpreter(Scale, len(x), num_threads=2), x), x / 2)


def test_kernels_that_cannot_be_bound_name_the_node(kernels):
    class Scale(pylite.CustomOp):
        kernel = kernels.Scale
    with pytest.raises(RuntimeError, match="node 0 Scale could not bind its kernel: ValueError: Buffer dtype mismatch"):
        interpreter(Scale, dtype="int8").allocate_tensors()
    resized = interpreter(Scale)
    resized.resize_tensor_input(0, [2, 3])
    with pytest.raises(RuntimeError, match=r"wrong number of dimensions.*let a method kernel\(\) flatten them: x"):
        resized.allocate_tensors()

    class Nothing(pylite.CustomOp):
        def kernel(self, x, y):
            return 3
    with pytest.raises(RuntimeError, match="node 0 Scale could not bind its kernel: TypeError: 3 is not a Kernel"):
        interpreter(Nothing).allocate_tensors()


def test_a_kernel_without_a_function_would_leave_the_output_as_it_is(kernels):
    class Forgotten(pylite.CustomOp):
        kernel = kernels.Unset
    with pytest.raises(RuntimeError, match="Unset has set no function, so it would compute nothing; end its __init__"):
        interpreter(Forgotten).allocate_tensors()


def test_a_kernel_is_no_op_by_itself(kernels):
    with pytest.raises(TypeError, match=r"Scale has no invoke\(\).*; set a Kernel in Cython as `kernel` of a pylite"):
        interpreter(kernels.Scale)


def test_a_kernel_of_one_dimension_for_tensors_of_any_rank(kernels):
    """The error names the tensors; the document says what to do."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2, 3)), m.tensor("y", (2, 3))
    m.operator("Scale", [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])

    class Narrow(pylite.CustomOp):
        kernel = kernels.Scale

    class Wide(pylite.CustomOp):
        def kernel(self, x, y):
            return kernels.Scale(x.reshape(-1), y.reshape(-1))
    ops = pylite.BuiltinOpResolver()
    ops.add_custom("Scale", Narrow)
    with pytest.raises(RuntimeError, match=r"wrong number of dimensions \(expected 1, got 2\); it got tensor 0 'x' .*, "
                                           "tensor 1 'y'"):
        pylite.Interpreter(model_content=m.build(), op_resolver=ops).allocate_tensors()
    ops.add_custom("Scale", Wide)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = run(pylite.Interpreter(model_content=m.build(), op_resolver=ops), array)
    assert found.shape == (2, 3) and (found == array / 2).all()
    page = (Path(__file__).resolve().parents[2] / "docs" / "cython-kernels.md").read_text()
    assert "        return scaling.Scale(x.reshape(-1), y.reshape(-1))\n" in page


def test_a_delegate_with_a_kernel(kernels):
    class D(pylite.PythonDelegate):
        def supports(self, node):
            return node.name == "ABS"

        def compile(self, part):
            class Kernel:
                kernel = kernels.Scale
            return Kernel()
    m = ModelBuilder()
    x, y = m.tensor("x", (3,)), m.tensor("y", (3,))
    m.operator("ABS", [x], [y])
    m.inputs([x])
    m.outputs([y])
    i = pylite.Interpreter(model_content=m.build(), experimental_delegates=[D()])
    assert run(i, np.array([2, 4, 6], np.float32)).tolist() == [1, 2, 3]
