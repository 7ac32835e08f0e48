"""What the numbers in a model's outputs mean, by the ops that compute them."""
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pylite.ir.graph import Subgraph

PASS_THROUGH = {"DEQUANTIZE", "QUANTIZE", "RESHAPE", "SQUEEZE", "CAST"}     # ops that keep the meaning of the numbers
PROBABILITIES = {"SOFTMAX", "LOGISTIC"}
DETECTION = "TFLite_Detection_PostProcess"


def producer(subgraph: Subgraph, index: int) -> str | None:
    """The name of the op that computed tensor `index`, without regard to PASS_THROUGH ops; None for an input."""
    made_by = {output: operator for operator in subgraph.operators for output in operator.outputs}
    operator = made_by.get(index)
    while operator is not None and operator.name in PASS_THROUGH:
        operator = made_by.get(operator.inputs[0])
    return None if operator is None else operator.name
