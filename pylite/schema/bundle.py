"""Bundles: zip archives with models, such as MediaPipe's `.task` files.

The path of a model in a bundle is the bundle's path and the member's name: "gestures.task/hand_detector.tflite".
"""
from __future__ import annotations

import io
import os
import zipfile
from typing import TYPE_CHECKING

from pylite import errors

if TYPE_CHECKING:
    from typing import Any

MAGIC = b"PK\3\4"
MOST = 1 << 31          # most bytes of a member: flatbuffers are smaller


def members(source: Any) -> dict[str, int]:
    """{name: size in bytes} of the models in a bundle.  source: its path or its contents.

    Raises ModelError if the bundle is damaged.
    """
    with _opened(source) as archive:
        return {info.filename: info.file_size for info in archive.infolist() if _is_model(archive, info)}


def read(source: Any, member: str | None = None) -> bytes:
    """The bytes of a model in a bundle.  source: its path or its contents; member: may be omitted for a single model.

    Raises ModelError if there is no such model, or if there are several and no member was named.
    """
    name = source if isinstance(source, str) else "the bundle"
    model = member is not None and _is_model_file(source)
    zipped = not model or zipfile.is_zipfile(source if isinstance(source, str) else io.BytesIO(source))
    known = members(source) if zipped else {}
    if model and not known:
        what = f"'{errors.shortened(name)}'" if isinstance(source, str) else "model_content"
        raise errors.ModelError(f"{what} is a model, not a bundle; leave out the member {errors.shortened(member)!r}")
    chosen = _chosen(source, name, known, member)
    if known[chosen] >= MOST:
        raise errors.ModelError(f"{chosen!r} in '{errors.shortened(name)}' has {known[chosen]} bytes; a model has less "
                                f"than {MOST}")
    with _opened(source) as archive:
        try:
            return archive.read(chosen)
        except Exception as error:      # zipfile raises exceptions of many types for damaged archives
            raise _damaged(name, error) from None


def _chosen(source: Any, name: str, known: dict[str, int], member: str | None) -> str:
    """The member that is meant; ModelError says how to name one of the `known` ones."""
    listed = ", ".join(map(repr, known)) or "no model"
    first, bundle = next(iter(known), ""), errors.shortened(name)
    if member is None and len(known) != 1:
        raise errors.ModelError(f"'{bundle}' is a zip archive that holds {listed}; " + (
            _expected(source) if not known else f"open one of them by its path, such as '{bundle}/{first}'"
            if isinstance(source, str) else f"pass the name of one of them, such as member={first!r}"))
    if member is not None and member not in known:
        raise errors.ModelError(f"'{bundle}' holds no model {errors.shortened(member)!r}; " + (
            f"its models are {listed}" if known else "the files in it are not models"))
    return first if member is None else member


def split(path: str) -> tuple[str, str] | None:
    """(path of the bundle, name of the member) of a path such as "a.task/b.tflite"; None if no part of it is a file."""
    head, name = os.path.split(path)
    while head and name:
        if os.path.isfile(head):
            return head, path[len(head) + 1:]
        head, name = os.path.split(head)
    return None


def _expected(source: Any) -> str:
    """What to do about an archive without a model."""
    with _opened(source) as archive:
        names = archive.namelist()
    if "model.weights.h5" in names:
        return "it is a Keras model; convert it with tf.lite.TFLiteConverter.from_keras_model()"
    if any(name.endswith("/data.pkl") for name in names):
        return "it is a PyTorch model; convert it to a .tflite file, for example with litert-torch"
    return "expected a .tflite file, or a bundle with one"


def _opened(source: Any) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source if isinstance(source, str) else io.BytesIO(source))
    except Exception as error:
        raise _damaged(source if isinstance(source, str) else "the bundle", error) from None


def _is_model(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bool:
    try:
        with archive.open(info) as file:
            return file.read(8)[4:] == b"TFL3"
    except Exception:       # encrypted, or compressed by a method that zipfile lacks
        return False


def _is_model_file(source: Any) -> bool:
    """Does `source` begin with a model?  An archive may follow, such as one of labels."""
    with open(source, "rb") if isinstance(source, str) else io.BytesIO(source) as file:
        return file.read(8)[4:] == b"TFL3"


def _damaged(name: str, error: Exception) -> errors.ModelError:
    return errors.ModelError(f"The model is not a valid Flatbuffer buffer: '{errors.shortened(name)}' is a damaged zip "
                             f"archive: {str(error) or type(error).__name__}")
