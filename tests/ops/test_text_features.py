"""LSH_PROJECTION and SKIP_GRAM."""
import numpy as np

from tests.ops.draw import values
from tests.tools.oneop import differential

TEXTS = [b"the quick brown fox jumps over the lazy dog", b"", b"one", b" leading  and   several spaces ", b"a\tb\nc d",
         b"x y"]


@differential("SPARSE", "DENSE", count=20)
def test_projection(m, rng, kind):
    dtype = str(rng.choice(["int32", "float32", "int8", "int64"]))
    shape = (int(rng.integers(1, 6)), *[int(rng.choice([1, 2, 3, 7, 9, 17, 40]))] * int(rng.integers(2)))
    count, bits = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    functions = m.constant("functions", rng.standard_normal((count, bits)).astype(np.float32))
    inputs = [values(rng, shape, dtype)]
    operands = [m.tensor("x", shape, dtype)]
    if rng.random() < 0.5:
        inputs.append(rng.standard_normal(shape[0]).astype(np.float32))
        operands.append(m.tensor("weights", shape[:1]))
    y = m.tensor("y", (count if kind == "SPARSE" else count * bits,), "int32")
    m.operator("LSH_PROJECTION", [functions, *operands], [y], type=kind)
    m.inputs(operands)
    m.outputs([y])
    return inputs


@differential("string", count=24)
def test_skip_gram(m, rng, dtype):
    x, y = m.tensor("x", (1,), dtype), m.tensor("y", (1,), dtype)
    m.operator("SKIP_GRAM", [x], [y], ngram_size=int(rng.integers(1, 5)), max_skip_size=int(rng.integers(0, 4)),
               include_all_ngrams=bool(rng.integers(2)))
    m.inputs([x])
    m.outputs([y])
    return [np.array([TEXTS[int(rng.integers(len(TEXTS)))]], object)]
