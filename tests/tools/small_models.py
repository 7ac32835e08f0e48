"""Small models for tests of the interpreter."""
import numpy as np

from pylite.schema.builder import ModelBuilder


def reshape(dtype="float32", shape=(2, 3), to=(3, 2), name="input", shape_signature=None, **quantization):
    """One RESHAPE from `shape` to `to`, which may have a -1."""
    m = ModelBuilder()
    _reshape(m, dtype, shape, to, name, shape_signature, **quantization)
    return m.build()


def _reshape(m, dtype="float32", shape=(2, 3), to=(3, 2), name="input", shape_signature=None, **quantization):
    x = m.tensor(name, shape, dtype, shape_signature=shape_signature, **quantization)
    target = m.constant("shape", np.array(to, np.int32))
    size = int(np.prod(shape))
    known = int(np.prod([n for n in to if n >= 0]))
    y = m.tensor("output", [size // known if n < 0 else n for n in to], dtype, **quantization)
    m.operator("RESHAPE", [x, target], [y], new_shape=to)
    m.inputs([x])
    m.outputs([y])
    return x, y


def two_signatures():
    """Signatures "rows" and "columns", each on a subgraph of its own with input "x" and output "y"."""
    m = ModelBuilder()
    x, y = _reshape(m, to=(6, 1), shape_signature=(-1, 3))
    m.signature("rows", {"x": x}, {"y": y})
    m.subgraph("second")
    m.constant("padding", np.zeros(1, np.float32))      # so that tensors have other indices here
    x, y = _reshape(m, to=(1, 6), name="other")
    m.signature("columns", {"x": x}, {"y": y})
    return m.build()


def variable(dtype="float32", **quantization):
    """Input and variable of shape (2, 3), each reshaped to an output."""
    m = ModelBuilder()
    x, y = _reshape(m, dtype, **quantization)
    state = m.tensor("state", (2, 3), dtype, variable=True, **quantization)
    out = m.tensor("state_output", (6,), dtype, **quantization)
    m.operator("RESHAPE", [state, m.constant("flat", np.array([6], np.int32))], [out], new_shape=(6,))
    m.inputs([x])
    m.outputs([y, out])
    return m.build()


def unknown_ops():
    """Three unsupported nodes: a builtin op of version 99, and two of a custom op."""
    m = ModelBuilder()
    x = m.tensor("x", (2,))
    a, b, c = (m.tensor(name, (2,)) for name in "abc")
    m.operator("RESHAPE", [x], [a], version=99)
    m.operator("Mystery", [a], [b], custom_options=b"")
    m.operator("Mystery", [b], [c], custom_options=b"")
    m.inputs([x])
    m.outputs([c])
    return m.build()


def mixed_types():
    """One ADD of float32 "a" and int64 "b"."""
    m = ModelBuilder()
    a, b, y = m.tensor("a", (2,)), m.tensor("b", (2,), "int64"), m.tensor("y", (2,))
    m.operator("ADD", [a, b], [y])
    m.inputs([a, b])
    m.outputs([y])
    return m.build()


def superfluous_operand():
    """One ABS of two operands."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2,)), m.tensor("y", (2,))
    m.operator("ABS", [x, x], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()


def custom_op(name="Mystery"):
    """One unresolved custom op."""
    m = ModelBuilder()
    x, y = m.tensor("x", (2,)), m.tensor("y", (2,))
    m.operator(name, [x], [y], custom_options=b"")
    m.inputs([x])
    m.outputs([y])
    return m.build()


def no_ops(dtype, contents, shape, quantization=None):
    """An input, and a constant that is the output."""
    m = ModelBuilder()
    x = m.tensor("x", shape, dtype, **(quantization or {}))
    y = m.constant("y", contents, dtype=dtype, **(quantization or {}))
    m.inputs([x])
    m.outputs([y])
    return m.build()


def int16_window(size=4):
    """A model whose window is int16 samples, and whose output are these as floats."""
    m = ModelBuilder()
    x, y = m.tensor("x", (1, size), "int16"), m.tensor("y", (1, size))
    m.operator("CAST", [x], [y])
    m.inputs([x])
    m.outputs([y])
    return m.build()
