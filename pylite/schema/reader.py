"""Reads the bytes of a .tflite file into the Record of its Model table.

The file is not trusted: the decoder checks every position, and the file's size limits how much is decoded.
"""
import numpy as np

from pylite import errors
from pylite._core.graph.decoder import Damage, Decoder
from pylite.schema import tables

INVALID = "The model is not a valid Flatbuffer buffer"
IDENTIFIER = b"TFL3"
_MAX_TABLES = 1 << 19       # far more than any graph has; limits a hostile file to 200 MB of memory
_MAX_BYTES = 1 << 25        # most bytes of strings and tuples; arrays are views, which take no memory
_MAX_VTABLES = 10_000
_KNOWN_FILES = ((b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with `git lfs pull`"),
                (b"\x89HDF", "an HDF5 file, as of Keras; convert it with tf.lite.TFLiteConverter.from_keras_model()"),
                (b"\x08\x01\x12", "a TensorFlow SavedModel; convert its folder with "
                                  "tf.lite.TFLiteConverter.from_saved_model()"),
                *((bytes((8, version, 0x12)), "an ONNX model; convert it to a .tflite file, for example with onnx2tf")
                  for version in range(3, 16)),     # its IR version, then its producer's name
                (b"\x1f\x8b", "compressed with gzip"), (b"<", "a web page or XML"), (b"\x93NUMPY", "an array of numpy"),
                (bytes(16), "full of zeros, as after a copy or download that failed; fetch it again"))
_FROZEN_OPS = b"Placeholder", b"Const", b"VarHandleOp"      # a frozen graph of TensorFlow begins with one of these


def read(source, share=False):
    """The Record of the Model table in `source`, a bytes-like object; its arrays are views of `source`.

    share: may operators with equal options share one Record?  `Buffer.data` and `Operator.custom_options` are set even
    if the file has the data outside the flatbuffer.  Raises ModelError (a ValueError), which says what is wrong and
    where.
    """
    contents = memoryview(source).cast("B").toreadonly()
    size = len(contents)
    if size < 8:
        raise errors.ModelError(f"{INVALID}: it has {errors.counted(size, 'byte')}, too few for a model")
    _identify(contents)
    contents = np.frombuffer(contents, np.uint8)
    try:
        model = _root(contents, "Model", share)
        _fetch_outside(model, contents)
    except Damage as damage:
        raise errors.ModelError(f"{INVALID}: {_place(damage, 'the model')}. The file may be cut off or damaged: fetch "
                                "or convert it again") from None
    return model


def read_metadata(source):
    """The Record of the ModelMetadata table in `source`, a model's metadata TFLITE_METADATA.

    Raises ModelError, which says what is wrong and where.
    """
    try:
        return _root(np.frombuffer(source, np.uint8), "ModelMetadata")
    except Damage as damage:
        raise errors.ModelError(f"The model's metadata are damaged: {_place(damage, 'they')}") from None


def _root(contents, name, share=False):
    size = len(contents)
    return Decoder(contents, tables, min(size // 8 + 1024, _MAX_TABLES), min(2 * size + 65536, _MAX_BYTES),
                   _MAX_VTABLES, share).root(name)


def _place(damage, whole):
    """Where the damage is, and what it is; whole: words for the full file."""
    path = "".join(step if step[0] == "[" else "." + step for step in reversed(damage.path)).lstrip(".")
    return f"{path or whole}, at byte {damage.position}: {damage.text}"


def _identify(contents):
    identifier = bytes(contents[4:8])
    if identifier != IDENTIFIER:
        for start, what in _KNOWN_FILES:
            if contents[:len(start)] == start:
                raise errors.ModelError(f"{INVALID}: it is {what}")
        if contents[:1] == b"\n" and any(op in bytes(contents[:512]) for op in _FROZEN_OPS):
            raise errors.ModelError(f"{INVALID}: it is a frozen graph of TensorFlow; convert it with "
                                    "tf.compat.v1.lite.TFLiteConverter.from_frozen_graph()")
        start = bytes(contents[:40])
        text = start.decode(errors="ignore")
        if len(text.encode()) > len(start) - 4 and "".join(text.split()).isprintable():     # the last may be cut off
            raise errors.ModelError(f"{INVALID}: it is text, which begins {text!r}. Is it the file of labels, the "
                                    "source code of an array, or the error of a download?")
        raise errors.ModelError(f"{INVALID}: the identifier at byte 4 is {identifier!r} instead of {IDENTIFIER!r}")


def _fetch_outside(model, contents):
    """Set the data that is stored outside the flatbuffer, by offset and size, in files larger than 2 GB."""
    for i, buffer in enumerate(model.buffers or ()):
        if buffer.offset or buffer.size:
            data = _outside(contents, buffer.offset, buffer.size, f"buffers[{i}].data")
            if buffer.data is None or not len(buffer.data):
                buffer.data = data
            buffer.offset = buffer.size = 0
    for s, subgraph in enumerate(model.subgraphs or ()):
        for i, op in enumerate(subgraph.operators or ()):
            if op.large_custom_options_offset or op.large_custom_options_size:
                data = _outside(contents, op.large_custom_options_offset, op.large_custom_options_size,
                                f"subgraphs[{s}].operators[{i}].custom_options")
                if op.custom_options is None:
                    op.custom_options = data
                op.large_custom_options_offset = op.large_custom_options_size = 0


def _outside(contents, offset, size, name):
    """Data stored outside the flatbuffer; None for the offsets 0 and 1, which mean that there is none."""
    if offset <= 1 or size == 0:
        return None
    if offset + size > len(contents):
        damage = Damage(f"{size} bytes that reach beyond the end of the file ({len(contents)} bytes)", offset)
        damage.path.append(name)
        raise damage
    return contents[offset:offset + size]
