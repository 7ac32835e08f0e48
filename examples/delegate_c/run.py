"""Build MyDelegate and a small model, and run the model with and without the delegate.

    python run.py [folder for the library]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import pylite
from pylite.schema.builder import ModelBuilder


def build(folder: str) -> str:
    """Compile the delegate; return the path of the library."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    library = Path(folder) / "libmy_delegate.so"
    source = Path(__file__).parent / "my_delegate.cc"
    subprocess.run(["c++", "-std=c++11", "-O2", "-shared", "-fPIC", "-I", pylite.get_include(), source, "-o", library],
                   check=True)
    return str(library)


def model() -> bytes:
    """CONV_2D, TANH, CONV_2D, MEAN: the delegate takes three of these nodes, in two partitions."""
    rng = np.random.default_rng(1)
    m = ModelBuilder()
    x = z = m.tensor("x", (1, 10, 10, 2))
    for number, (rows, channels_in, channels) in enumerate([(10, 2, 4), (8, 4, 3)]):
        w = m.constant(f"w{number}", rng.normal(size=(channels, 3, 3, channels_in)).astype(np.float32))
        b = m.constant(f"b{number}", rng.normal(size=channels).astype(np.float32))
        y = m.tensor(f"conv{number}", (1, rows - 2, rows - 2, channels))
        m.operator("CONV_2D", [z, w, b], [y], padding="VALID", stride_w=1, stride_h=1,
                   fused_activation_function="RELU")
        if number == 0:
            z = m.tensor("tanh", (1, 8, 8, 4))
            m.operator("TANH", [y], [z])
    mean = m.tensor("mean", (1, 3))
    m.operator("MEAN", [y, m.constant("axes", np.array([1, 2], np.int32))], [mean], version=2, keep_dims=False)
    m.inputs([x])
    m.outputs([mean])
    return m.build()


def run(content: bytes, delegates: list[pylite.Delegate]) -> tuple[NDArray[np.float32], list[str]]:
    i = pylite.Interpreter(model_content=content, experimental_delegates=delegates)
    i.allocate_tensors()
    i.set_tensor(0, np.random.default_rng(2).normal(size=(1, 10, 10, 2)).astype(np.float32))
    i.invoke()
    return i.get_tensor(i.get_output_details()[0]["index"]), [op["op_name"] for op in i._get_ops_details()]


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    content = model()
    without, _ = run(content, [])
    result, ops = run(content, [pylite.load_delegate(build(folder))])
    np.testing.assert_allclose(result, without, rtol=1e-5)
    sys.stdout.write(f"nodes: {', '.join(ops)}\nresult: {result}\n")


if __name__ == "__main__":
    main()
