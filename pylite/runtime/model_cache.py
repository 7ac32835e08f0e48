"""The Models of the files that interpreters use: another interpreter of the same file gets the same Model.

Of a Model that nothing uses any more, an Outline is kept: its memory is freed, and loading its file again is fast.
"""
import os
import sys
import time
import weakref
from _thread import RLock
from typing import TYPE_CHECKING

from pylite._core import simd
from pylite.runtime.model import Model

if TYPE_CHECKING:
    from typing import Any

    from pylite.runtime.outline import Outline

    Source = str | bytes | bytearray | memoryview

SETTLED = 2_000_000_000     # nanoseconds after which a change of a file changes its times: FAT's have 2 seconds
OUTLINES = 8                # Models of which outlines are kept,
NODES = 8192                # and operators in all of them
HASHED = 1 << 24            # bytes of a file, given as bytes, that are hashed to know it again
_living: "dict[Any, weakref.ref[Model]]" = {}
_references: "set[weakref.ref[Model]]" = set()      # all of _living, and of Models that another has replaced there
_outlines: "dict[Any, Outline]" = {}        # by the hash of bytes, or as in _living; the newest at the end
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
    model = _outlined(key, source) or Model(source)
    if _key(source) != key:         # the file was replaced while it was read
        return model
    with lock:
        found = _found(key)         # another thread was faster
        if found is None:
            model.retired = True
            _living[key] = reference = weakref.ref(model, _Retirement(key, model))
            _references.add(reference)
    return model if found is None else found


def _found(key: "Any") -> "Model | None":
    """The living Model for `key` whose file is whole, or None."""
    reference = _living.get(key)
    model = None if reference is None else reference()
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


def _outlined(key: "Any", source: "Source") -> "Model | None":
    """The Model by the outline of `source`, which it takes; None where none is kept."""
    if type(source) is bytes:
        if len(source) not in [other[0] for other in _outlines]:
            return None
        key = len(source), hash(source), simd.current
    with lock:
        outline = _outlines.pop(key, None)
    return None if outline is None else outline.model(source)


class _Retirement:
    """Keeps the Outline of a Model once its last reference is gone.

    It is called when nobody can get the Model any more.  In __del__ another thread still could, and would run what an
    Outline is taking apart.
    """
    __slots__ = ("key", "state")

    def __init__(self, key: "Any", model: Model) -> None:
        self.key = key
        self.state = vars(model)        # it outlives the Model

    def __call__(self, reference: "weakref.ref[Model]") -> None:
        if sys.is_finalizing():
            return
        with lock:
            _references.discard(reference)
            if _living.get(self.key) is reference:
                del _living[self.key]
        if not self._is_outlined():
            for blueprint in self.state["blueprints"].values():
                blueprint.release()

    def _is_outlined(self) -> bool:
        """Keep an Outline; False where none can be had."""
        key, graph, kept = self.key, self.state["graph"], self.state["blueprints"]
        while len(kept) > 1 and sum([len(blueprint.lowered.nodes) for blueprint in kept.values()]) > NODES:
            kept.popitem()[1].release()         # the first one has the file's shapes, most likely
        contents = graph.contents.obj
        if (not kept or getattr(contents, "lost", False)
                or max([blueprint.owners for blueprint in kept.values()]) > 1):     # a program has not been freed yet
            return False
        if type(contents) is bytes:
            if len(contents) > HASHED:
                return False
            key = len(contents), hash(contents), key[2]
        from pylite.runtime.outline import NotKept, Outline
        try:
            outline = Outline(graph, kept, self.state["checked"])
        except NotKept:
            return False
        _keep(key, outline)
        return True


def _keep(key: "Any", outline: "Outline") -> None:
    """Keep an Outline, and drop the oldest beyond the limits."""
    with lock:
        dropped = [_outlines.pop(key)] if key in _outlines else []
        _outlines[key] = outline
        while len(_outlines) > OUTLINES or sum([o.nodes for o in _outlines.values()]) > NODES:
            dropped.append(_outlines.pop(next(iter(_outlines))))
    for old in dropped:
        old.release()
