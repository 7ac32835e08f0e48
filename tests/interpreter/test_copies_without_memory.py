"""Results too large to copy: pylite's own error, which names the tensor and the bytes."""
import subprocess
import sys

CODE = """
import resource
import numpy as np
import pylite
from pylite.schema.builder import ModelBuilder

m = ModelBuilder()
x, y = m.tensor("x", (1,)), m.tensor("large", (1 << 26,))
m.operator("BROADCAST_TO", [x, m.constant("shape", np.array([1 << 26], np.int32))], [y])
m.inputs([x])
m.outputs([y])
interpreter = pylite.Interpreter(model_content=m.build())
interpreter.allocate_tensors()
interpreter.invoke()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
try:
    interpreter.get_tensor(y)
except pylite.MemoryLimitError as error:
    print(error)
print(interpreter.tensor(y)().shape)
"""


def test_a_copy_without_memory():
    done = subprocess.run([sys.executable, "-P", "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"there is no memory for a copy of tensor 1 ('large', float32 [{1 << 26}]): {1 << 28} bytes. "
        "tensor(1)() gives its own memory", f"({1 << 26},)"]
