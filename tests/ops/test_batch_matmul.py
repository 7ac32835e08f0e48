"""BATCH_MATMUL in all its types."""
import numpy as np

from pylite.schema import load
from tests.ops.draw import mild_quantization, values
from tests.tools.oneop import differential

KINDS = ("float32", "int8", "int8 int32", "int16", "int16 int8", "hybrid", "hybrid columns")


def batches(rng):
    """Leading dimensions of x and w that broadcast."""
    batch = [int(i) for i in rng.integers(1, 4, int(rng.integers(0, 4)))]
    sides = [[1 if rng.random() < 0.3 else i for i in batch] for _ in range(2)]
    sides[int(rng.integers(2))] = batch
    cut = int(rng.integers(2))
    sides[cut] = sides[cut][int(rng.integers(len(batch) + 1)):] if rng.random() < 0.5 else sides[cut]
    return [tuple(side) for side in sides]


def few(rng, shape, dtype):
    """Random values; many repeat, so that stored models are small."""
    return np.resize(values(rng, (499,), dtype), shape) if np.prod(shape) > 499 else values(rng, shape, dtype)


def types(kind):
    """Data types of (x, w, y)."""
    if "hybrid" in kind:
        return "float32", "int8", "float32"
    x_type = kind.split()[0]
    return x_type, "int8" if kind == "int16 int8" else x_type, {"int8 int32": "int32"}.get(kind, x_type)


def integer_quantization(rng, kind, k):
    """Quantization of (x, w, y) for products of `k` integers."""
    x_type, w_type, y_type = types(kind)
    x_fields, w_fields, y_fields = mild_quantization(rng, x_type), mild_quantization(rng, w_type), {}
    if kind == "int16 int8":
        w_fields["zero_point"] = 0
    if y_type != "int32":
        reach = {"int8": 74, "int16": 19000}
        scale = x_fields["scale"] * w_fields["scale"] * reach[x_type] * reach[w_type] * np.sqrt(k)
        y_fields = mild_quantization(rng, y_type, scale / {"int8": 60, "int16": 8000}[y_type])
    return x_fields, w_fields, y_fields


def sizes(rng, depth):
    """(rows of x, columns of w, depth of the products)"""
    rows, columns = (int(rng.choice([1, 2, 5, 8] if depth else [1, 2, 5, 8, 13, 16, 33, 70])) for _ in range(2))
    return rows, columns, depth or int(rng.choice([1, 2, 3, 8, 15, 16, 32, 64, 130]))


def product(m, rng, kind, constant, depth=None):
    rows, columns, k = sizes(rng, depth)
    adj_x, adj_y = bool(rng.integers(2)), bool(rng.integers(2))
    before, w_before = batches(rng)
    if rng.random() < 0.04:
        rows = 0
    x_type, w_type, y_type = types(kind)
    if "hybrid" in kind:
        before, w_before = before[-1:], w_before[-1:]   # with more dimensions the peer uses the scales of other rows
    x = few(rng, (*before, k, rows) if adj_x else (*before, rows, k), x_type)
    w = few(rng, (*w_before, columns, k) if adj_y else (*w_before, k, columns), w_type)
    options, fields, w_fields, y_fields = {}, {}, {}, {}
    if "hybrid" in kind:
        w = np.maximum(w, -127)                         # the peer's vector code computes wrongly with -128
        # With one x for several w, and zero points, the peer uses the sums of other columns.
        options["asymmetric_quantize_inputs"] = bool(rng.integers(2)) and np.prod(before) >= np.prod(w_before)
        several = kind == "hybrid columns"
        w_fields = {"scale": rng.random(columns if several else 1) + 1e-3, "axis": w.ndim - (2 if adj_y else 1)}
    elif x_type != "float32":
        fields, w_fields, y_fields = integer_quantization(rng, kind, k)
    a = m.tensor("x", x.shape, x_type, **fields)
    b = m.constant("w", w, **w_fields) if constant else m.tensor("w", w.shape, w_type, **w_fields)
    shape = (*np.broadcast_shapes(before, w_before), rows, columns)
    y = m.tensor("y", shape, y_type, **y_fields)
    m.operator("BATCH_MATMUL", [a, b], [y], adj_x=adj_x, adj_y=adj_y, **options)
    m.inputs([a] if constant else [a, b])
    m.outputs([y])
    return [x] if constant else [x, w]


@differential(*KINDS, count=30)
def test_late(m, rng, kind):
    """Both operands are inputs."""
    return product(m, rng, kind, constant=False)


@differential(*KINDS, count=30)
def test_constant(m, rng, kind):
    """The right operand is a constant."""
    return product(m, rng, kind, constant=True)


@differential(*KINDS, count=3)
def test_deep(m, rng, kind):
    """A depth larger than any local buffer."""
    return product(m, rng, kind, bool(rng.integers(2)), depth=int(rng.integers(2000, 5000)))


def several_batches(inputs, model):
    """A hybrid product with several batch dimensions, for which the peer uses the scales of other rows."""
    subgraph = load(model).subgraphs[0]
    w = subgraph.tensors[1]
    scale = w.quantization.scale[0]
    x, q = inputs
    top = np.abs(x).max(-1, keepdims=True)
    rounded = np.clip(np.round(x * (np.float32(127) / top)), -127, 127)
    return [(rounded * (top / np.float32(127)) @ (q.astype(np.float32) * scale)).astype(np.float32)]


@differential("float32", count=10, tolerance=1e-2, reference=several_batches)
def test_hybrid_batches(m, rng, dtype):
    """A deviation from the reference, which is wrong (docs/numerics.md section 4)."""
    x = rng.standard_normal((2, 3, 4, 16)).astype(np.float32)
    w = rng.integers(-127, 128, (2, 3, 16, 5)).astype(np.int8)
    a, b = m.tensor("x", x.shape), m.tensor("w", w.shape, "int8", scale=0.01)
    y = m.tensor("y", (2, 3, 4, 5))
    m.operator("BATCH_MATMUL", [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    return [x, w]
