"""The Models of the files that interpreters use: another interpreter of the same file gets the same Model."""
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

SETTLED = 2_000_000_000     # nanoseconds after which a change of a file changes its times: FAT's have 2 seconds
_living: "weakref.WeakValueDictionary[Any, Model]" = weakref.WeakValueDictionary()
lock = RLock()         # a forked child makes another


def model_of(source: "Source") -> Model:
    """The Model of a path or of a file's bytes, which others may use, too.

    Two loads get the same one while it lives if they give one bytes object, or the path of one file that was not
    changed in between, which its number, size and times tell.
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
        found = _found(key)         # another thread was faster
        if found is None:
            _living[key] = model
    return model if found is None else found


def _found(key: "Any") -> "Model | None":
    """The living Model for `key` whose file is whole, or None."""
    model = _living.get(key)
    return None if model is None or model.lost_pages else model


def _key(source: "Source") -> "Any":
    """What tells sources of equal contents, or None where nothing does."""
    if type(source) is bytes:
        return len(source), id(source), simd.current         # a living Model holds the object
    if type(source) is not str:
        return None
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return None
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < SETTLED:
        return None
    return source, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, simd.current
