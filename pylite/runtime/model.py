"""A loaded model, which interpreters share: its graph, its weights and its blueprints."""
import os
from _thread import RLock  # threading.RLock, without importing threading
from typing import TYPE_CHECKING

import pylite
from pylite import errors
from pylite._core import simd

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pylite.ir.graph import Model as Graph
    from pylite.ir.graph import Signature
    from pylite.runtime.blueprint import Blueprints
    from pylite.runtime.weights import Weights


class Model:
    """A `.tflite` model, read once and shared by any number of interpreters and threads.

    source: path (str or os.PathLike; the file is mapped, not read) or the file's bytes.
    Raises ModelError (a ValueError), which names the file and its fault.
    """
    graph: "Graph"
    weights: "Weights"
    blueprints: "Blueprints"
    contents: "Any"
    summary: "Any"

    def __init__(self, source: "str | os.PathLike[str] | bytes | bytearray | memoryview",
                 _graph: "Graph | None" = None, _deferred: "tuple[Any, Any] | None" = None) -> None:
        self._source = source
        self._lock = RLock()
        self.half = False           # do Executors compute products of float32 in float16 by default?
        self.checked = False        # does the default resolver support every operator?
        # For a model whose plan is in the cache: its bytes or Pages, and a summary of its graph, which is read on first
        # use.
        self.contents, self.summary = _deferred or (None, None)
        if _deferred is None:
            self._set_graph(_loaded(source) if _graph is None else _graph)

    def _set_graph(self, graph: "Graph") -> None:
        from pylite.runtime.blueprint import Blueprints  # not for a plan of the cache; so are other imports below
        from pylite.runtime.weights import Weights
        self.graph = graph
        self.contents = graph.contents.obj
        if self.lost_pages:
            raise errors.ModelError(f"'{self._source!s}' was truncated while it was read")
        self.weights = Weights(graph)
        self.blueprints = Blueprints()

    if not TYPE_CHECKING:
        def __getattr__(self, name):
            """Load the graph on first use."""
            if name not in ("graph", "weights", "blueprints") or self.__dict__.get("summary") is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            with self._lock:
                if "blueprints" not in self.__dict__:
                    self._set_graph(_loaded(self.contents))
            return self.__dict__[name]

    def renew_locks(self) -> None:
        """Create new locks, in a forked child, where a thread that held one of them does not exist."""
        self._lock = RLock()
        if "weights" in vars(self):
            self.weights.lock = RLock()

    @property
    def signatures(self) -> "Sequence[Signature]":
        """The signatures of the graph."""
        return self.graph.signatures if self.summary is None else self.summary.signatures

    def __reduce__(self) -> "tuple[Any, ...]":
        """Pickles as its path or its content."""
        return Model, (self._source if isinstance(self._source, (str, os.PathLike)) else bytes(self._source),)

    def __repr__(self) -> str:
        count = len(self.graph.subgraphs)
        return f"<pylite.Model {self._file_name}, {count} subgraph{'s' * (count != 1)}>"

    @property
    def _file_name(self) -> str:
        return os.path.basename(self._source) if isinstance(self._source, (str, os.PathLike)) else "of bytes"

    def _repr_html_(self) -> str:
        from pylite.display import notebook
        return notebook.model(self.graph)

    def computes_half(self, precision: "str | None") -> bool:
        """Are products of float32 computed in float16, by an interpreter's `precision` or else by the file's flag?

        The flag names types and, after "acc", types of sums, such as fp16bf16accfp16.
        """
        if precision is not None:
            return precision in ("float16", "emulate_float16") or (precision != "float32" and simd.has_float16())
        if not simd.has_float16():
            return False
        flag = bytes(self.graph.metadata.get("reduced_precision_support", b"")).decode("latin-1")
        types, _, sums = flag.partition("acc")
        return types.startswith("fp16") and "fp16" in sums

    @property
    def associated_files(self) -> "tuple[str, ...]":
        """The names in a zip archive appended to the file, such as lists of labels."""
        from pylite.schema.archive import archive_names
        return archive_names(self.graph.contents)

    @property
    def lost_pages(self) -> int:
        """Number of pages that were read after the mapped file had lost them."""
        return getattr(self.contents, "lost", 0)


def _loaded(source: "Any") -> "Graph":
    """The graph in `source`.  Errors name the file."""
    pylite._promote("pylite.schema")
    from pylite.schema import load
    try:
        return load(source)
    except errors.ModelError as error:
        if isinstance(source, (str, os.PathLike)) and errors.shortened(os.fspath(source)) not in str(error):
            raise errors.ModelError(f"{error} (in '{errors.shortened(os.fspath(source))}')") from None
        raise
