"""Models of single Flex ops: a NodeDef of TensorFlow, encoded, in the operator's custom options."""
import struct

import numpy as np
from flatbuffers import flexbuffers

from pylite.schema.builder import ModelBuilder

TYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "complex64": 8, "int64": 9, "bool": 10, "variant": 21}


def varint(number):
    number &= (1 << 64) - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def sized(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def attr_value(value):
    """An AttrValue; a type is written as ("type", name), a shape as ("shape", sizes)."""
    if isinstance(value, bool):
        return varint(5 << 3) + varint(value)
    if isinstance(value, int):
        return varint(3 << 3) + varint(value)
    if isinstance(value, float):
        return varint(4 << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, str):
        return sized(2, value.encode())
    if isinstance(value, list):
        kinds = {bool: 5, int: 3, float: 4}
        packed = b"".join(struct.pack("<f", v) if isinstance(v, float) else varint(v) for v in value)
        return sized(1, sized(kinds[type(value[0])], packed) if value else b"")
    kind, content = value
    if kind == "type":
        return varint(6 << 3) + varint(TYPES[content])
    if content is None:
        return sized(7, varint(3 << 3) + varint(True))
    return sized(7, b"".join(sized(2, varint(1 << 3) + varint(n)) for n in content))


def node_def(op, **attributes):
    entries = [sized(5, sized(1, name.encode()) + sized(2, attr_value(value))) for name, value in attributes.items()]
    return sized(1, b"node") + sized(2, op.encode()) + sized(3, b"") + b"".join(entries)


def custom_options(op, **attributes):
    """What the converter writes: a vector of the op's name and its NodeDef."""
    builder = flexbuffers.Builder()
    with builder.Vector():
        builder.String(op)
        # a string, as the converter has it, of bytes that are no text
        builder._WriteBlob(node_def(op, **attributes), append_zero=True, type_=flexbuffers.Type.STRING)
    return bytes(builder.Finish())


def dtype_name(array):
    return "string" if array.dtype.kind in "OS" else array.dtype.name


def model(op, inputs, outputs, attributes=None, constant=()):
    """A model of the op "Flex" + `op`.

    inputs: arrays, of which those at the positions `constant` are constants of the model; outputs: (shape, type) of
    each.
    """
    m = ModelBuilder()
    indices = [m.constant(f"x{i}", x) if i in constant else m.tensor(f"x{i}", np.shape(x), dtype_name(np.asarray(x)))
               for i, x in enumerate(inputs)]
    results = [m.tensor(f"y{i}", shape, dtype) for i, (shape, dtype) in enumerate(outputs)]
    m.operator("Flex" + op, indices, results, custom_options=custom_options(op, **(attributes or {})))
    m.inputs([index for i, index in enumerate(indices) if i not in constant])
    m.outputs(results)
    return m.build()
