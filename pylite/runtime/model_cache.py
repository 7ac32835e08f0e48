"""A cache of Models by file, so that interpreters of the same file share one Model."""
import os
import time
import weakref
from _thread import RLock
from typing import TYPE_CHECKING

from pylite._core import simd
from pylite.runtime.model import Model

if TYPE_CHECKING:
    from typing import Any

    Source = str | bytes | bytearray | memoryview

AGED = 2_000_000_000    # nanoseconds after which another change is sure to change a file's times: FAT counts 2 s
_living: "weakref.WeakValueDictionary[Any, Model]" = weakref.WeakValueDictionary()
lock = RLock()         # a forked child creates a new one


def model_of(source: "Source") -> Model:
    """The Model of a path or of a file's bytes, shared with other callers.

    Two loads get the same Model, while it exists, if they pass the same bytes object, or the path of the same file, and
    its inode, size and times have not changed in between.
    """
    key = _key(source)
    if key is None:
        return Model(source)
    model = _found(key)
    if model is not None:
        return model
    model = Model(source)
    if _key(source) != key:         # the file was replaced while it was read
        return model
    with lock:
        cached = _found(key)         # another thread was faster
        if cached is None:
            _living[key] = model
    return model if cached is None else cached


def has_aged(status: os.stat_result) -> bool:
    """Is any later change of the file with this status certain to change its times?"""
    return time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) >= AGED


def _found(key: "Any") -> "Model | None":
    """The living Model for `key`, unless its file has lost pages; else None."""
    model = _living.get(key)
    return None if model is None or model.lost_pages else model


def _key(source: "Source") -> "Any":
    """A key that is equal only for sources with equal contents, or None if there is none."""
    if type(source) is bytes:
        return len(source), id(source), simd.current         # a living Model holds the object
    if type(source) is not str:
        return None
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return None
    if not has_aged(status):
        return None
    return source, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, simd.current
