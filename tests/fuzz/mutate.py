"""Mutations of a model: of table fields, of the graph, and of the bytes of the file."""
import io
import zipfile

import numpy as np
from flatbuffers import flexbuffers

from pylite.errors import ModelError
from pylite.ir.graph import DTYPES
from pylite.schema import flex
from pylite.schema.encodings import pack
from pylite.schema.tables import NUMBERS, Record, default_options, enum, table, union
from pylite.schema.writer import write
from tests.fuzz.seeds import seeds

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 64, 255, 1000, 65536, 2**20, 2**30, 2**31 - 1, -1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-38, 1e-45, 3e38, float("inf"), float("-inf"), float("nan"), 2.0**-15, 255.0)
WORDS = (b"", b"a", b"\0", "ü".encode(), b"\xff\xfe", b"word", b"x" * 300)


def model(rng, history=None):
    """(number of the seed, bytes of a model): one to six mutations of a seed, most often one or two.

    history: a list that gets (mutation, state of rng before) of each, and (None, state of rng) of what follows them.
    """
    known = seeds()
    number = int(rng.integers(len(known)))
    record = clone(known[number])
    for _ in range(1 + int(6 * rng.random() ** 3)):
        mutation = MUTATIONS[rng.integers(len(MUTATIONS))]
        if history is not None:
            history.append((mutation, rng.bit_generator.state))
        mutation(record, rng)
    if history is not None:
        history.append((None, rng.bit_generator.state))
    return number, finished(record, number, rng)


def finished(record, number, rng):
    """The bytes of a mutated seed, which may be damaged besides."""
    try:
        content = write(record, outside=rng.random() < 0.1)
    except Exception:       # a value that the format cannot represent
        content = write(seeds()[number])
    if rng.random() < 0.08 or not content:
        content = damaged(content, rng)
    return content


def replayed(number, history, rng):
    """The Record of seed `number` after some of the mutations of a history, each with its own random numbers."""
    record = clone(seeds()[number])
    for mutation, state in history:
        rng.bit_generator.state = state
        if mutation is not None:
            mutation(record, rng)
    return record


def clone(record):
    """A copy of a Record and the Records in it; arrays and tuples are shared, since mutations replace them."""
    copied = record.TABLE()
    fields = copied.__dict__
    for name, value in vars(record).items():
        if type(value) is list:
            value = [clone(v) if type(v) is Record else v for v in value]
        fields[name] = clone(value) if type(value) is Record else value
    return copied


# ---- any field of any table ----------------------------------------------------------------------------------
def records(record):
    """`record` and all Records in it."""
    found, fresh = [], [record]
    while fresh:
        one = fresh.pop()
        found.append(one)
        for value in vars(one).values():
            fresh += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, Record)]
    return found


def integer(rng, number):
    """An integer of the type `number`: an extreme, a small one, or a random one."""
    kind = np.dtype(NUMBERS[number][0])
    if kind.kind == "b":
        return bool(rng.integers(2))
    limits = np.iinfo(kind)
    choice = rng.integers(4)
    if choice == 0:
        return int((limits.min, limits.max, 0, 1)[rng.integers(4)])
    if choice == 1:
        return int(np.clip(SIZES[rng.integers(len(SIZES))], limits.min, limits.max))
    if choice == 2:
        return int(np.clip(rng.integers(-3, 12), limits.min, limits.max))
    return int(rng.integers(limits.min, limits.max, dtype=kind, endpoint=True))


def number_like(rng, number, old=None):
    if number == "f32":
        return FLOATS[rng.integers(len(FLOATS))]
    if isinstance(old, (int, np.integer)) and number != "bool" and rng.random() < 0.3:
        limits = np.iinfo(NUMBERS[number][0])
        return min(max(int(old) + (-1, 1)[rng.integers(2)], limits.min), limits.max)
    return integer(rng, number)


def changed(rng, field, old):
    """Another value for a field."""
    if field.kind == "number":
        return number_like(rng, field.number, old)
    if field.kind == "enum":
        names = enum(field.type)
        return names[rng.integers(len(names))] if rng.random() < 0.9 else integer(rng, field.number)
    if field.kind == "string":
        return None if rng.random() < 0.3 else WORDS[rng.integers(len(WORDS))].decode("utf-8", "surrogateescape")
    if field.kind in ("array", "tuple"):
        return sequence(rng, field, old)
    if field.kind == "tables" and old:
        old = list(old)
        at = rng.integers(len(old))
        choice = rng.integers(3)
        return old[:at] + old[at + 1:] if choice == 0 else [*old, clone(old[at])] if choice == 1 else old[::-1]
    if field.kind == "union":
        name = union(field.type)[rng.integers(1, len(union(field.type)))]
        return table(name)()
    return None


def sequence(rng, field, old):
    values = [] if old is None else list(old)
    choice = rng.integers(7)
    if choice == 0 or not values:
        values = [number_like(rng, field.number) for _ in range(rng.integers(0, 6))]
    elif choice == 1:
        del values[rng.integers(len(values))]
    elif choice == 2:
        values.insert(int(rng.integers(len(values) + 1)), number_like(rng, field.number))
    elif choice == 3 and rng.random() < 0.2:
        return None
    elif choice == 4:
        values[rng.integers(len(values))] = values[rng.integers(len(values))]
    elif len(values) < 10_000:
        at = rng.integers(len(values))
        values[at] = number_like(rng, field.number, values[at])
    if field.kind == "tuple":
        return tuple(values)
    return np.array(values, NUMBERS[field.number][0])


def any_field(record, rng):
    found = records(record)
    one = found[rng.integers(len(found))]
    if one.TABLE.fields:
        field = one.TABLE.fields[rng.integers(len(one.TABLE.fields))]
        setattr(one, field.name, changed(rng, field, getattr(one, field.name)))


def an_option(record, rng):
    """Change a field of an operator's options, or a value in its FlexBuffer."""
    _, operator = chosen(record, rng, "operators")
    options = None if operator is None else operator.builtin_options2 or operator.builtin_options
    if options is not None and options.TABLE is not None and options.TABLE.fields:
        field = options.TABLE.fields[rng.integers(len(options.TABLE.fields))]
        setattr(options, field.name, changed(rng, field, getattr(options, field.name)))
    elif operator is not None and operator.custom_options is not None:
        try:
            decoded = flex.decode(bytes(operator.custom_options), "")
        except ModelError:      # damaged by another mutation
            return
        if isinstance(decoded, dict) and decoded:
            decoded[list(decoded)[rng.integers(len(decoded))]] = (
                FLOATS[rng.integers(len(FLOATS))], int(SIZES[rng.integers(len(SIZES))]), integer(rng, "i64"), "word",
                None, True)[rng.integers(6)]
            operator.custom_options = np.frombuffer(flexbuffers.Dumps(decoded), np.uint8)


# ---- the graph -----------------------------------------------------------------------------------------------
def chosen(record, rng, what):
    """(a random subgraph, one of its elements `what`), or (None, None)."""
    subgraph = record.subgraphs[rng.integers(len(record.subgraphs))] if record.subgraphs else None
    items = getattr(subgraph, what, None)
    return (subgraph, items[rng.integers(len(items))]) if items else (None, None)


def a_shape(record, rng):
    _, tensor = chosen(record, rng, "tensors")
    if tensor is not None:
        shape = list(tensor.shape or ())
        choice = rng.integers(4)
        if choice == 0 or not shape:
            shape.insert(int(rng.integers(len(shape) + 1)), int(rng.integers(0, 5)))
        elif choice == 1:
            del shape[rng.integers(len(shape))]
        else:
            shape[rng.integers(len(shape))] = int(SIZES[rng.integers(len(SIZES))])
        tensor.shape = tuple(shape)
        if tensor.shape_signature is not None or rng.random() < 0.1:
            tensor.shape_signature = tuple(-1 if rng.random() < 0.3 else n for n in shape)


def a_type(record, rng):
    subgraph, tensor = chosen(record, rng, "tensors")
    if tensor is not None:
        dtype = DTYPES[rng.integers(len(DTYPES))]
        old = tensor.type
        for other in subgraph.tensors if rng.random() < 0.6 else [tensor]:
            if other.type == old:
                other.type = dtype


def a_quantization(record, rng):
    _, tensor = chosen(record, rng, "tensors")
    if tensor is not None:
        count = int(rng.integers(1, 5)) if rng.random() < 0.5 else max(1, (tensor.shape or (1,))[-1])
        if 0 < count < 1000:
            scales = [FLOATS[rng.integers(len(FLOATS))] if rng.random() < 0.5 else 0.1 for _ in range(count)]
            tensor.quantization = table("QuantizationParameters")(
                scale=np.array(scales, np.float32), zero_point=rng.integers(-130, 130, count),
                quantized_dimension=int(rng.integers(-1, 5)))


def contents(record, rng):
    """Replace the contents of a constant, by ones of the right or of a wrong size."""
    _, tensor = chosen(record, rng, "tensors")
    if tensor is None or not record.buffers:
        return
    buffer = record.buffers[(tensor.buffer or 0) % len(record.buffers)]
    if tensor.type == "string" or rng.random() < 0.05:
        words = np.array([WORDS[rng.integers(len(WORDS))] for _ in range(int(rng.integers(0, 6)))] + [None])[:-1]
        buffer.data = pack(words, "string")
    elif buffer.data is not None and len(buffer.data):
        data = np.array(buffer.data, np.uint8)
        choice = rng.integers(4)
        if choice == 0:
            data = data[:rng.integers(len(data) + 1)]
        elif choice == 1:
            data[:] = rng.integers(256)
        elif choice == 2 and len(data) % 4 == 0:
            words = data.view(np.int32)
            words[rng.integers(len(words))] = integer(rng, "i32")
        else:
            data[rng.integers(len(data), size=4)] = rng.integers(0, 256, 4)
        buffer.data = data


def a_constant(record, rng):
    """Add contents to a tensor, or remove them."""
    _, tensor = chosen(record, rng, "tensors")
    if tensor is not None and record.buffers is not None:
        if tensor.buffer and rng.random() < 0.6:
            tensor.buffer = 0
        elif 0 <= (size := int(np.prod(tensor.shape or (1,), dtype=np.float64))) < 4096:
            record.buffers.append(table("Buffer")(data=rng.integers(0, 4, 8 * size).astype(np.uint8)[:4 * size]))
            tensor.buffer = len(record.buffers) - 1


def operands(record, rng):
    """Swap, omit, repeat or replace operands."""
    subgraph, operator = chosen(record, rng, "operators")
    if operator is None or not subgraph.tensors:
        return
    side = ("inputs", "outputs")[int(rng.random() < 0.3)]
    values = list(getattr(operator, side) or ())
    choice = rng.integers(5)
    if choice == 0 and values:
        del values[rng.integers(len(values))]
    elif choice == 1 and values:
        values[rng.integers(len(values))] = -1
    elif choice == 2:
        values = [values[i] for i in rng.permutation(len(values))]
    elif choice == 3 or not values:
        values.append(int(rng.integers(len(subgraph.tensors))))
    else:
        values[rng.integers(len(values))] = int(rng.integers(len(subgraph.tensors)))
    setattr(operator, side, tuple(values))


def another_op(record, rng):
    """Replace an operator code by another one, with its options or without."""
    if record.operator_codes:
        names = enum("BuiltinOperator")
        code = record.operator_codes[rng.integers(len(record.operator_codes))]
        name = names[rng.integers(len(names))]
        code.builtin_code, code.deprecated_builtin_code = name, min(names.index(name), 127)
        code.version = int(rng.integers(1, 6))
        _, operator = chosen(record, rng, "operators")
        if operator is not None and rng.random() < 0.7:
            options = default_options(name)
            if isinstance(options, Record) and options.TABLE is not None and options.TABLE.name in union(
                    "BuiltinOptions"):
                operator.builtin_options = clone(options)


def another_operator(record, rng):
    """Add an operator of another seed that reads tensors of the graph."""
    subgraph, operator = chosen(record, rng, "operators")
    if operator is not None and subgraph.tensors:
        again = clone(operator)
        again.inputs = tuple(int(rng.integers(len(subgraph.tensors))) if rng.random() < 0.3 else i
                             for i in again.inputs or ())
        outputs = []
        for i in again.outputs or ():
            if 0 <= i < len(subgraph.tensors):
                subgraph.tensors.append(clone(subgraph.tensors[i]))
                outputs.append(len(subgraph.tensors) - 1)
        again.outputs = tuple(outputs)
        subgraph.operators.append(again)
        subgraph.outputs = (*(subgraph.outputs or ()), *outputs)


def inputs_and_outputs(record, rng):
    subgraph, _ = chosen(record, rng, "tensors")
    if subgraph is not None:
        side = ("inputs", "outputs")[rng.integers(2)]
        values = [*(getattr(subgraph, side) or ()), int(rng.integers(len(subgraph.tensors)))]
        setattr(subgraph, side, tuple(values[1:] if rng.random() < 0.3 else values))


def a_flag(record, rng):
    _, tensor = chosen(record, rng, "tensors")
    if tensor is not None:
        name = ("is_variable", "has_rank")[rng.integers(2)]
        setattr(tensor, name, not getattr(tensor, name))


def a_sparsity(record, rng):
    """Make a constant sparse, with random parameters."""
    _, tensor = chosen(record, rng, "tensors")
    if tensor is not None and tensor.shape:
        metadata = []
        for n in tensor.shape:
            if rng.random() < 0.5:
                metadata.append(table("DimensionMetadata")(dense_size=n))
            else:
                segments, indices = (np.sort(rng.integers(0, 5, rng.integers(1, 5))).astype(np.int32) for _ in "ab")
                metadata.append(table("DimensionMetadata")(
                    format="SPARSE_CSR", array_segments=table("Int32Vector")(values=segments),
                    array_indices=table("Int32Vector")(values=indices)))
        tensor.sparsity = table("SparsityParameters")(
            traversal_order=tuple(range(len(tensor.shape))), dim_metadata=metadata)


MUTATIONS = (any_field, any_field, any_field, an_option, an_option, a_shape, a_shape, a_type, a_quantization, contents,
             contents, a_constant, operands, operands, another_op, another_operator, inputs_and_outputs, a_flag,
             a_sparsity)


# ---- bytes ---------------------------------------------------------------------------------------------------
def damaged(content, rng):
    """The file truncated, with changed bytes, or followed by an archive."""
    choice = rng.integers(4)
    if choice == 0:
        return content[:rng.integers(1, len(content))]
    if choice == 1:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("labels.txt", b"a\nb")
        return content + bytes(rng.permutation(np.frombuffer(file.getvalue(), np.uint8))
                               if rng.random() < 0.3 else file.getvalue())
    data = np.frombuffer(content, np.uint8).copy()
    if choice == 2:
        data[rng.integers(len(data), size=3)] = rng.integers(0, 256, 3)
    else:
        words = data[:len(data) // 4 * 4].view(np.uint32)
        words[rng.integers(len(words), size=2)] = rng.integers(0, len(data), 2)
    return data.tobytes()


