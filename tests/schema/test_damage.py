"""Damaged and hostile files: each raises a ModelError that names the damage, in bounded time and memory."""
import contextlib
import os
import struct
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pylite.errors import ModelError
from pylite.schema import encodings, load, read, write
from pylite.schema.builder import ModelBuilder
from pylite.schema.reader import INVALID
from pylite.schema.tables import table
from tests.schema.test_builder import conv_model
from tests.tools.resources import MODELS, models


def rich_model():
    """A model with values in most fields."""
    m = conv_model()
    x, c = 0, m.tensor("c", (), "bool")
    s = m.constant("s", ["a", "bc"])
    q = m.constant("q", np.arange(-4, 4), dtype="int4", scale=1.0)
    y = m.tensor("sparse", (2, 2), sparsity=table("SparsityParameters")(
        traversal_order=(0, 1), block_map=(), dim_metadata=[
            table("DimensionMetadata")(dense_size=2),
            table("DimensionMetadata")(format="SPARSE_CSR", array_segments=table("Uint8Vector")(
                values=np.array([0, 1, 1], np.uint8)), array_indices=table("Int32Vector")(
                values=np.array([1], np.int32)))]), buffer=m.buffer(np.ones(1, np.float32).view(np.uint8)))
    z = m.tensor("z", (2, 2), "variant", variant_tensors=[table("VariantSubType")(shape=(2,), type="int8")])
    m.operator("IF", [c, x, s], [z], then_subgraph_index=1, else_subgraph_index=1)
    m.operator("RESHAPE", [y, q], [m.tensor("flat", (4,))], new_shape=(4,))
    m.operator("Mine", [x, None], [m.tensor("mine", (1,))], custom_options=b"\x01\x04\x01", intermediates=[c])
    m.operator("STABLEHLO_SLICE", [x], [m.tensor("part", (1,))], start_indices=(1, 2), strides=(1, 1))
    m.inputs([x, c])
    m.subgraph("branch")
    m.outputs([m.tensor("w", (3,), variable=True)])
    m.signature("branch", {}, {"w": 0})
    return m


RICH = rich_model().build()
OUTSIDE = rich_model().build(outside=True)


def test_the_rich_model_round_trips():
    record = read(RICH)
    assert read(write(record)) == record == read(OUTSIDE)
    model = load(RICH)
    sparse = model.subgraphs[0].tensors[7]
    assert [d.format for d in sparse.sparsity.dimensions] == ["DENSE", "SPARSE_CSR"]
    assert model.subgraphs[0].tensors[8].variants == (("int8", (2,)),)


@contextlib.contextmanager
def bounded(size):
    """Time and memory that reading a file of `size` bytes may take."""
    tracemalloc.start()
    begun = time.perf_counter()
    try:
        yield
        assert time.perf_counter() - begun < 5
        assert tracemalloc.get_traced_memory()[1] < 4_000_000 + 200 * size
    finally:
        tracemalloc.stop()


def survive(data):
    """Load `data`; no exception other than ModelError may be raised."""
    with bounded(len(data)), contextlib.suppress(ModelError):
        load(data)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([RICH, OUTSIDE]), st.data())
def test_flipped_bytes(model, data):
    damaged = bytearray(model)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    survive(bytes(damaged))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([RICH, OUTSIDE]), st.data())
def test_random_offsets(model, data):
    damaged = bytearray(model)
    for _ in range(data.draw(st.integers(1, 3))):
        at = 4 * data.draw(st.integers(0, len(damaged) // 4 - 1))
        value = data.draw(st.integers(0, len(damaged)) | st.integers(0, 2**32 - 1))
        struct.pack_into("<I", damaged, at, value)
    survive(bytes(damaged))


def test_every_truncation_is_refused_or_harmless():
    for end in range(len(RICH)):
        try:
            load(RICH[:end])
        except ModelError as error:
            assert str(error).startswith(INVALID)   # noqa: PT017


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_random_bytes_after_the_identifier(data):
    survive(struct.pack("<I4s", 8, b"TFL3") + data)


def test_damaged_real_models():
    rng = np.random.default_rng(0)
    paths = [p for p in sorted(models().rglob("*.tflite")) if p.stat().st_size < 100_000]
    for path in paths:
        whole = np.fromfile(path, np.uint8)
        for _ in range(3):
            damaged = whole.copy()
            words = damaged[:len(damaged) // 4 * 4].view(np.uint32)
            words[rng.integers(0, len(words), 6)] = rng.integers(0, len(damaged), 6)
            damaged[rng.integers(0, len(damaged), 6)] = rng.integers(0, 256, 6)
            with contextlib.suppress(ModelError):
                load(damaged.tobytes())
            with contextlib.suppress(ModelError):
                load(whole[:rng.integers(0, len(whole))].tobytes())
    assert paths, MODELS


def hostile(body):
    """A file whose Model table has one field, `subgraphs`, the vector at the start of `body`."""
    # vtable (10 bytes: sizes, slots 0 to 2), 2 bytes of padding, the table (vtable offset, vector offset), body
    return (struct.pack("<I4s", 20, b"TFL3") + struct.pack("<HHHHH2x", 10, 8, 0, 0, 4) + struct.pack("<iI", 12, 4)
            + body)


def test_shared_tables_are_bounded():
    """n references to one subgraph with n references to one tensor: n * n tensors."""
    n = 20_000
    subgraphs = struct.pack("<I", n) + b"".join(struct.pack("<I", 4 * (n - i)) for i in range(n))
    subgraph = struct.pack("<iI", -8, 12) + struct.pack("<HHH2x", 6, 8, 4)
    tensors = struct.pack("<I", n) + b"".join(struct.pack("<I", 4 * (n - i)) for i in range(n))
    tensor = struct.pack("<i", -4) + struct.pack("<HH", 4, 4)
    data = hostile(subgraphs + subgraph + tensors + tensor)
    with bounded(len(data)), pytest.raises(ModelError, match="more than a file of this size holds"):
        load(data)
    small = hostile(struct.pack("<II", 1, 4) + subgraph + struct.pack("<II", 1, 4) + tensor)
    assert len(read(small).subgraphs[0].tensors) == 1      # without sharing, it is valid


def test_a_vector_longer_than_the_file():
    with pytest.raises(ModelError, match=r"subgraphs, at byte 28: the vector's 4294967295 elements reach beyond"):
        load(hostile(struct.pack("<I", 2**32 - 1)))


def test_a_table_that_contains_itself():
    data = hostile(struct.pack("<II", 1, 0))
    with pytest.raises(ModelError, match=r"subgraphs\[0\], at byte 32: null offset"):
        load(data)


@pytest.mark.parametrize(("data", "text"), [
    (b"", "0 bytes, too few for a model"),
    (b"\0\1" * 50, "the identifier at byte 4 is"),
    (b"\xff\xfe" * 50, "the identifier at byte 4 is"),
    (b"\0" * 100, "full of zeros.*fetch it again"),
    (b"\x93NUMPY\1\0", "an array of numpy"),
    (b"cat\ndog\n", r"it is text, which begins 'cat\\ndog\\n'\. Is it the file of labels"),
    (("x" * 39 + "\u00e9").encode(), "it is text"),
    (b'{"message": "Not Found"}', "the error of a download"),
    (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    (b"PK\3\4" + b"\0" * 20, "zip archive"),
    (b"<!DOCTYPE html>", "web page"),
    (b"\x89HDF\r\n\x1a\n", r"HDF5 file.*from_keras_model\(\)"),
    (b"\x08\x07\x12\x07pytorch", "an ONNX model; convert it"),
    (b"\n\x14\n\x05input\x12\x0bPlaceholder", r"frozen graph of TensorFlow; .*from_frozen_graph\(\)"),
    (b"\x08\x01\x12\x80\x01\n\x04\x22", r"SavedModel.*from_saved_model\(\)"),
])
def test_other_files(data, text):
    with pytest.raises(ValueError, match=text) as caught:
        load(data)
    assert str(caught.value).startswith(INVALID)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(ValueError, match=r"Could not open '/nope.tflite'\. No such file"):
        load("/nope.tflite")
    with pytest.raises(ValueError, match="It is a folder; give the path of a model in it"):
        load(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(ValueError, match=r"TensorFlow SavedModel; convert it with .*from_saved_model\(\)"):
        load(tmp_path)
    with pytest.raises(ValueError, match=r"No such file or directory; only a shell replaces ~.*expanduser"):
        load("~/nope.tflite")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(ValueError, match="not a regular file"):
        load(fifo)
    with pytest.raises(ValueError, match="Could not open"):
        load("nul\0.tflite")
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="0 bytes"):
        load(str(tmp_path / "empty"))


def test_paths_and_bytes(tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(RICH)
    for source in (path, str(path), RICH, bytearray(RICH), memoryview(RICH), np.frombuffer(RICH, np.uint8)):
        model = load(source)
        assert model.size == len(RICH) and not model.subgraphs[0].tensors[1].data.flags.writeable


def test_misaligned_constants_are_copied():
    bias = np.arange(4, dtype=np.int32)
    data = bytearray(OUTSIDE)
    data += b"?" * (3 - len(data) % 2)       # an odd length
    start = data.index(struct.pack("<Q", data.index(bias.tobytes())))
    struct.pack_into("<Q", data, start, len(data))
    found = load(bytes(data + bias.tobytes())).subgraphs[0].tensors[2].data
    np.testing.assert_array_equal(found.view(np.int32), bias)
    assert found.__array_interface__["data"][0] % 4 == 0 and not found.flags.writeable


def change(path, value):
    """The rich model with one field changed: "subgraphs.0.tensors.1.buffer"."""
    record = read(RICH)
    owner = record
    *steps, last = path.split(".")
    for step in steps:
        owner = owner[int(step)] if step.isdigit() else getattr(owner, step)
    setattr(owner, last, value)
    return write(record)


def test_a_variable_is_one_output_of_an_operator():
    m = ModelBuilder()
    x, y = m.tensor("x", (3,), "int32"), m.tensor("y", (3,), "int32", variable=True)
    m.operator("UNIQUE", [x], [y, y])
    m.inputs([x])
    m.outputs([y])
    with pytest.raises(ModelError, match="operator 0 UNIQUE: it writes tensor 1 'y', which is two of its outputs"):
        load(m.build())


@pytest.mark.parametrize(("path", "value", "text"), [
    ("version", 2, "schema version 2"),
    ("subgraphs", [], "no subgraph"),
    ("subgraphs.0.inputs", (99,), r"subgraph 0: its inputs \[99\]"),
    ("subgraphs.0.outputs", (-1,), r"subgraph 0: its outputs \[-1\]"),
    ("subgraphs.0.operators.0.opcode_index", 77, "operator 0: operator code 77 of 5"),
    ("subgraphs.0.operators.0.inputs", (0, 1, 99), "operator 0 CONV_2D: operands"),
    ("subgraphs.0.operators.0.outputs", (-2,), "operator 0 CONV_2D: operands"),
    ("subgraphs.0.operators.0.outputs", (0,), "tensor 0 is both input and output"),
    ("subgraphs.0.operators.0.outputs", (2,), "operator 0 CONV_2D: tensor 2 is both"),
    ("subgraphs.0.operators.1.outputs", (3,), "operator 1 IF: it writes tensor 3 'y', which is an input, a const"),
    ("subgraphs.0.operators.1.outputs", (1,), "operator 1 IF: it writes tensor 1 'w', which is an input, a const"),
    ("subgraphs.0.operators.1.outputs", (8, 8), "operator 1 IF: it writes tensor 8 'z'"),
    ("subgraphs.0.operators.1.inputs", (4, 11), "operator 1 IF: it reads tensor 11 'part', which nothing has computed"),
    ("subgraphs.0.operators.1.builtin_options.then_subgraph_index", 5, "then_subgraph_index is 5"),
    ("subgraphs.0.operators.1.builtin_options.else_subgraph_index", 0, "call each other in a circle"),
    ("subgraphs.0.tensors.1.buffer", 99, "tensor 1 'w': buffer 99 of"),
    ("subgraphs.0.tensors.1.type", 50, "tensor 1 'w': unknown data type 50"),
    ("subgraphs.0.tensors.1.type", "int16", "has 108 bytes; shape .* of int16 takes 216"),
    ("subgraphs.0.tensors.1.shape", (4, 3, 3), "has 108 bytes; shape .* of int8 takes 36"),
    ("subgraphs.0.tensors.0.shape", (1, -8, 8, 3), "tensor 0 'x': impossible shape"),
    ("subgraphs.0.tensors.0.shape", (2**31 - 1,) * 4, "tensor 0 'x': impossible shape"),
    ("subgraphs.0.tensors.0.shape_signature", (1, 8), "shape signature"),
    ("subgraphs.0.tensors.1.quantization.quantized_dimension", 4, "4 scales along axis 4"),
    ("subgraphs.0.tensors.1.quantization.quantized_dimension", 1, "4 scales along axis 1"),
    ("subgraphs.0.tensors.1.quantization.scale", np.array([1, 2, 3, np.inf], np.float32), "not finite"),
    ("subgraphs.0.tensors.0.quantization.scale", np.array([np.nan], np.float32), "its scale is nan"),
    ("subgraphs.0.tensors.1.quantization.zero_point", np.zeros(3, np.int64), "4 scales, 3 zero points"),
    ("subgraphs.0.tensors.0.quantization.zero_point", np.array([128]), "its zero point 128 lies outside -128 to 127"),
    ("subgraphs.0.tensors.7.sparsity.traversal_order", (0, 0), "sparse traversal order"),
    ("subgraphs.0.tensors.7.sparsity.block_map", (7,), "sparse traversal order"),
    ("subgraphs.0.tensors.7.external_buffer", 3, "unknown external buffer 3"),
    ("operator_codes.3.custom_code", None, "operator code 3 is CUSTOM but has no custom code"),
    ("signature_defs.0.inputs.0.tensor_index", 99, "signature 0 'serving_default': 'image' is tensor 99 of"),
    ("signature_defs.0.subgraph_index", 9, "subgraph 9 of 2"),
    ("metadata.0.buffer", 99, "metadata 0: buffer 99"),
])
def test_invalid_values_are_named(path, value, text):
    with pytest.raises(ModelError, match=text):
        load(change(path, value))


def test_data_outside_the_file():
    data = bytearray(OUTSIDE)
    with pytest.raises(ModelError, match=r"buffers\[1\].data, at byte \d+: 108 bytes that reach beyond the end"):
        load(bytes(data[:read_offset(data) + 50]))


def read_offset(data):
    """The offset of the first constant, in a file with constants outside the flatbuffer."""
    return data.index(np.arange(108, dtype=np.int8).tobytes())


def test_string_offsets_out_of_bounds_are_refused():
    m = ModelBuilder()
    m.tensor("s", (2,), "string", buffer=m.buffer(struct.pack("<5i", 2, 16, 17, 99, 0)))
    with pytest.raises(ModelError, match="out of order or out of bounds"):
        load(m.build())


def test_names_that_are_not_utf_8():
    m = ModelBuilder()
    m.tensor("a\udcff", (1,))
    record = read(m.build())
    assert record.subgraphs[0].tensors[0].name == "a\udcff"
    assert load(m.build()).subgraphs[0].tensors[0].name == "a\\xff"


def test_strings_are_checked_before_there_is_room_for_them():
    """A plug-in that gave its strings a large shape and no bytes took 16 GB before the error."""
    with pytest.raises(ValueError, match="1099511627776 strings do not fit in 8 bytes"):
        encodings.unpack_strings(np.zeros(8, np.uint8), (1 << 40,))
