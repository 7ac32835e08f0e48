"""Copies, buffers and weights for which there is no memory: pylite's own error, which names the bytes."""
import subprocess
import sys

# Some models, and `limited`, which prints the error of a call that may take `left` more bytes.
CODE = """
import resource
import numpy as np
import pylite
from pylite.schema.builder import ModelBuilder

def limited(call, left=64 << 20):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + left, before[1]))
    try:
        call()
    except pylite.MemoryLimitError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, before)

m = ModelBuilder()
x, y = m.tensor("x", (1,)), m.tensor("large", (1 << 26,))
m.operator("BROADCAST_TO", [x, m.constant("shape", np.array([1 << 26], np.int32))], [y])
m.inputs([x])
m.outputs([y])
model = m.build()
"""
SIZE = f"float32 [{1 << 26}]"
COPY = """
interpreter = pylite.Interpreter(model_content=model)
interpreter.allocate_tensors()
interpreter.invoke()
limited(lambda: interpreter.get_tensor(y))
print(interpreter.tensor(y)().shape)
"""
BUFFERS = """
compiled = pylite.CompiledModel.from_buffer(model)
first = compiled.create_output_buffers(0)
limited(lambda: compiled.create_output_buffers(0))
limited(lambda: first[0].read(1 << 26, np.float32))
first[0].read(1 << 26, np.float32)
limited(lambda: first[0].read(1 << 26, np.float32))
"""
WEIGHTS = """
def connected(n):
    m = ModelBuilder()
    x, y = m.tensor("x", (4, n)), m.tensor("y", (4, n))
    m.operator("FULLY_CONNECTED", [x, m.constant("w", np.ones((n, n), np.float32)), -1], [y])
    m.inputs([x])
    m.outputs([y])
    return pylite.Interpreter(model_content=m.build())

def run(interpreter):
    interpreter.allocate_tensors()
    interpreter.invoke()

run(connected(8))       # imports take memory, too
interpreter = connected(8192)
limited(lambda: run(interpreter))
"""


def printed(code):
    done = subprocess.run([sys.executable, "-P", "-c", CODE + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_copy_without_memory():
    assert printed(COPY) == [
        f"there is no memory for a copy of tensor 1 ('large', {SIZE}): {1 << 28} bytes. tensor(1)() gives its own "
        "memory", f"({1 << 26},)"]


def test_buffers_without_memory():
    of = "TensorBuffer of float32 with the shape"
    assert printed(BUFFERS) == [
        f"there is no memory for a {of} [{1 << 26}]: {1 << 28} bytes",
        *[f"there is no memory for a copy of a {of} [{1 << 26}]: {1 << 28} bytes"] * 2]


def test_weights_without_memory():
    error, = printed(WEIGHTS)
    assert "node 0 FULLY_CONNECTED: there is no memory for its results or its weights" in error
