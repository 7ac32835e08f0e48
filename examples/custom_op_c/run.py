"""Build the custom op Atan and a model that needs it, y = atan(x + offset), and run the model.

    python run.py [folder for the library]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import pylite
from pylite.schema.builder import ModelBuilder


def build(folder: str) -> str:
    """Compile the op; return the path of the library."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    library = Path(folder) / "libatan.so"
    source = Path(__file__).parent / "atan.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-I", pylite.get_include(), source, "-o", library, "-lm"],
                   check=True)
    return str(library)


def model() -> bytes:
    m = ModelBuilder()
    x, total, y = (m.tensor(name, (5,)) for name in ("x", "sum", "y"))
    m.operator("ADD", [x, m.constant("offset", np.float32(1))], [total])
    m.operator("Atan", [total], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    return m.build()


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    pylite.load_custom_ops(build(folder), ["AtanOpRegistration"])
    i = pylite.Interpreter(model_content=model())
    i.allocate_tensors()
    x = np.array([-8, 0.5, 2, 2.2, 201], np.float32)
    i.set_tensor(0, x)
    i.invoke()
    y = i.get_tensor(i.get_output_details()[0]["index"])
    np.testing.assert_allclose(y, np.arctan(x + 1), rtol=1e-6)
    sys.stdout.write(f"atan(x + 1): {y}\n")


if __name__ == "__main__":
    main()
