"""Write two_convolutions.tflite: CONV_2D, TANH, CONV_2D, MEAN, with random weights."""
from pathlib import Path

import numpy as np

from pylite.schema.builder import ModelBuilder


def build() -> bytes:
    rng = np.random.default_rng(1)
    m = ModelBuilder("two convolutions and a mean")
    x = m.tensor("picture", (1, 8, 8, 3))
    a, b, c = m.tensor("a", (1, 6, 6, 4)), m.tensor("b", (1, 6, 6, 4)), m.tensor("c", (1, 4, 4, 5))
    y = m.tensor("features", (1, 5))
    weights = [m.constant(f"weights{i}", rng.normal(size=shape).astype(np.float32) / 4)
               for i, shape in enumerate([(4, 3, 3, 3), (5, 3, 3, 4)])]
    biases = [m.constant(f"bias{i}", rng.normal(size=n).astype(np.float32)) for i, n in enumerate([4, 5])]
    axes = m.constant("axes", np.array([1, 2], np.int32))
    m.operator("CONV_2D", [x, weights[0], biases[0]], [a], fused_activation_function="RELU", padding="VALID",
               stride_w=1, stride_h=1)
    m.operator("TANH", [a], [b])
    m.operator("CONV_2D", [b, weights[1], biases[1]], [c], padding="VALID", stride_w=1, stride_h=1)
    m.operator("MEAN", [c, axes], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


if __name__ == "__main__":
    Path(__file__).with_name("two_convolutions.tflite").write_bytes(build())
