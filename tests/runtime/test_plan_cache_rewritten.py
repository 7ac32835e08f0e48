"""Files of plans to which their owner writes while they are mapped: results change, and nothing else."""
import os
import subprocess

import numpy as np
import pytest

import pylite
from pylite.errors import PyliteError
from pylite.runtime.cache_files import Store
from pylite.schema.builder import ModelBuilder
from tests.tools import op_models
from tests.tools.plans import assert_same, command, filled, network, plan_file, planned, run


@pytest.fixture
def folder(tmp_path):
    """A cache folder that is trusted, wherever pytest keeps its files."""
    path = tmp_path / "cache"
    path.mkdir(mode=0o700)
    return path


def positioned():
    """A model whose plan has numbers that kernels use as positions in memory."""
    rng = np.random.default_rng(0)
    m = ModelBuilder()
    x, a = m.tensor("x", (1, 5, 7, 3)), m.tensor("a", (3, 1, 4, 5))
    size = m.constant("size", np.array([11, 13], np.int32))
    near, linear = m.tensor("near", (1, 11, 13, 3)), m.tensor("linear", (1, 11, 13, 3))
    products = m.tensor("products", (3, 2, 4, 6))
    m.operator("RESIZE_NEAREST_NEIGHBOR", [x, size], [near])
    m.operator("RESIZE_BILINEAR", [x, size], [linear])
    m.operator("BATCH_MATMUL", [a, m.constant("w", rng.random((1, 2, 5, 6)).astype(np.float32))], [products])
    m.inputs([x, a])
    m.outputs([near, linear, products])
    return m.build()


@pytest.mark.parametrize("contents", ["b'\\xff' * n", "(b'\\0\\0\\0\\x40' * n)[:n]", "os.urandom(n)"])
@pytest.mark.parametrize("model", [positioned, network])
def test_a_plan_that_is_written_to_while_it_is_used(folder, tmp_path, model, contents):
    """By its owner, whom nothing keeps from it: weights change, but nothing outside the arrays is read or written."""
    path = tmp_path / "model.tflite"
    path.write_bytes(model())
    wanted = filled(folder, model())
    name, data = plan_file(folder), size_of_data(folder)
    code = f"""
import os
from pylite import Interpreter
from tests.tools.plans import planned, run
interpreter = Interpreter({os.fspath(path)!r}, cache_dir={os.fspath(folder)!r})
interpreter.allocate_tensors()
assert planned(interpreter)
n = {data}
with open({os.fspath(name)!r}, "r+b") as file:
    file.seek(-n, os.SEEK_END)
    file.write({contents})
print([array.shape for array in run(interpreter)])"""
    done = subprocess.run(command(code), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([array.shape for array in wanted])
    assert_same(run(pylite.Interpreter(path, cache_dir=folder)), wanted)     # the file is made again


def size_of_data(folder):
    with Store(folder) as store:
        return len(store.read(plan_file(folder).name)[1])


@pytest.mark.parametrize("op", sorted({line.op for line in op_models.lines()}))
def test_no_op_takes_positions_from_the_file(folder, op):
    """The first model of the op with a plan that has data."""
    models = [line.model(choice) for line in op_models.lines() if line.op == op for choice in line.cases()]
    for number, model in enumerate(models):
        home = folder / str(number)
        home.mkdir(mode=0o700)
        try:
            run(pylite.Interpreter(model_content=model, cache_dir=home))
            size = size_of_data(home)
        except (PyliteError, StopIteration, IndexError, TypeError):       # it does not run, or has no plan
            continue
        if size:
            break
    else:
        return
    child = os.fork()
    if not child:
        status = 3
        try:
            interpreter = pylite.Interpreter(model_content=model, cache_dir=home)
            interpreter.allocate_tensors()
            with plan_file(home).open("r+b") as file:
                file.seek(-size, os.SEEK_END)
                file.write(np.random.default_rng(1).bytes(size))
            status = 0 if planned(interpreter) else 4
            run(interpreter)
        except PyliteError:
            pass
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
