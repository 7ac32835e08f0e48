"""Write atan.tflite, y = atan(x + 1), where Atan is a custom op."""
from pathlib import Path

import numpy as np

from pylite.schema.builder import ModelBuilder


def build() -> bytes:
    m = ModelBuilder("y = atan(x + 1)")
    x = m.tensor("x", (None,))
    offset = m.constant("offset", np.array(1, np.float32))
    moved = m.tensor("moved", (None,))
    y = m.tensor("y", (None,))
    m.operator("ADD", [x, offset], [moved])
    m.operator("Atan", [moved], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    return m.build()


if __name__ == "__main__":
    Path(__file__).with_name("atan.tflite").write_bytes(build())
