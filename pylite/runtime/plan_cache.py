"""Reads programs that earlier processes have bound from a cache folder; they need neither the graph nor the compiler.

This module only reads, for a fast start; plan_store writes.  The record of a file is (key, summary of the model, why no
plan is possible or "", plan, name of the model's file); its data are the arrays that kernels read, which processes
share.  The plan is None if none is possible, or only the summary is known.  Otherwise it consists of

bytes       of the arena
body        input of _core.run.plans.bind(): the arrays and programs; regions of arrays are the arena, the file's
            data, the model's file, and memory of the state
visible     {index: (number of its array, type, is it overwritten?)} of the tensors that callers read and write
state       None, or the record for plan_state.State
failures    marshalled, for each program: (the number of a text for each call, the texts): the message if a call
            fails, with WHY in place of the reason
"""
import marshal
import os
import stat
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

import pylite
from pylite import _core, errors
from pylite._core import simd
from pylite._core.kernels import kernel_class
from pylite._core.run import plans
from pylite._core.run.memory import LARGE_ARENA, Pages, checksum, memory_limit
from pylite.runtime.cache_folder import Folder
from pylite.runtime.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.program import Program

KEY, SUMMARY, PROBLEM, PLAN = range(4)           # the first fields of a record
ARENA, DATA, CONTENTS = range(3)        # the first regions of arrays
WHY = "\0"
DTYPES = [np.dtype(name) for name in (
    "int8", "uint8", "bool", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64", "float64",
    "complex64", "complex128")]
NOT_PLAIN = "plug-ins or delegates take part"    # why there is no plan
_warned: "set[tuple[str, str]]" = set()      # folders and reasons of which there was a warning


class PlanCache:
    """The programs of one model in the cache folder `folder`, for an interpreter with the default ops.

    preserve: does the interpreter keep every tensor?  precision: its argument.  has_plan: is there a plan, so that the
    model's graph need not be read?  writing: is the program that is being prepared to be written?  digest: of the
    model's contents, None before it is known; identity: identity_of() its file, or None; problem: why there is no plan.
    """

    def __init__(self, folder: "str | os.PathLike[str]", preserve: bool, precision: "str | None" = None) -> None:
        self.folder = folder
        self.preserve = preserve
        self.precision = precision
        self.has_plan = False
        self.writing = False
        self.problem = ""
        # history_keys for which this process has written a plan of a second set of shapes
        self._written_again: set[Any] = set()
        self.refused: set[Any] = set()      # input shapes of which there can be no plan
        self.digest: bytes | None = None
        self.identity: str | None = None
        self.source: Any = None
        self._contents: Any = None
        self._first: Any = None         # (record, data, pages) for the input shapes of the file

    def model(self, source: "Any") -> "Model | None":
        """The Model of `source`, a path or bytes, whose graph is read on demand; None if no plan is found."""
        self.source = source
        self._contents, self.identity = _opened(source)
        if self._contents is None or ops_registered():
            return None
        try:
            with Folder(self.folder) as folder:
                self.digest = remembered = self._remembered(folder)
                self._first = self._read(folder, self.key(None))
            if remembered is None and self._first is not None:
                from pylite.runtime.cache_files import Store, remember  # once for each file
                with Store(self.folder) as store:
                    remember(self, store)
        except FileNotFoundError:       # there is no folder yet
            pass
        except OSError as error:        # the folder is not trusted, or reading or writing failed
            if self._first is None:
                self._warn(error)
        self.has_plan = self._first is not None and not self._refused(None, self._first[0])
        return Model(source, None, (self._contents, _summary(self._first[0][SUMMARY]))) if self.has_plan else None

    def could_not_write(self, error: OSError) -> None:
        """Note that there is no plan because of the folder, and warn the user who named it."""
        self._warn(error)
        self.problem = f"{os.fspath(self.folder)} cannot be written: {error.strerror}" if error.strerror else str(error)

    def _warn(self, error: OSError) -> None:
        """Warn once that the folder is of no use, unless it is the user's cache folder, which nobody named."""
        import warnings  # for this message

        from pylite.runtime.cache_files import default_folder
        folder, reason = os.fspath(self.folder), str(error.strerror or error)
        name = "PYLITE_CACHE_DIR" if os.environ.get("PYLITE_CACHE_DIR") == folder else "cache_dir"
        if (name == "PYLITE_CACHE_DIR" or folder != default_folder()) and (folder, reason) not in _warned:
            _warned.add((folder, reason))
            frame, level = sys._getframe(), 1
            while frame.f_back is not None and frame.f_code.co_filename.startswith(os.path.dirname(pylite.__file__)):
                frame, level = frame.f_back, level + 1
            warnings.warn(f"{name}={folder!r} keeps no plans: {reason}; give a folder that this user owns and "
                          "others cannot write, with free space", stacklevel=level)

    def adopt(self, model: Model) -> None:
        """Use `model`, which was loaded because model() found no plan.

        Does nothing if the file has changed since, or if it is a bundle, whose offsets differ from the model's.
        """
        whole = isinstance(model.contents, Pages) == isinstance(self._contents, Pages)
        if not whole:
            self.problem = "its file is a bundle"
        self._contents = model.contents if self._contents is not None and whole and self.unchanged() else None

    def unchanged(self) -> bool:
        """Is the model's file still the one that was opened?"""
        if self.identity is None:
            return True
        try:
            return identity_of(os.stat(self.source)) == self.identity
        except OSError:
            return False

    def plan(self, executor: "Any") -> "Any":
        """(program, data, pages) of the plan for the current input shapes of `executor`, or None."""
        if not self.usable(executor):
            return None
        key, stored = self.key(self.shapes(executor)), self._first
        if stored is None or stored[0][KEY] != key:
            try:
                with Folder(self.folder) as folder:
                    stored = self._read(folder, key)
            except OSError:
                return None
        if stored is None:
            return None
        record, data, pages = stored
        return None if self._refused(key[-1], record) or record[PLAN] is None else (record[PLAN], data, pages)

    def decide(self, history_key: "Any") -> bool:
        """Set `writing` for input shapes that have no plan.

        The first shapes with their ranks get one, and so does one other set of shapes per process.  All others get
        their program from a recording, which takes less time than reading a plan.
        history_key: what ProgramCache.note() returned for the shapes.
        """
        self.writing = history_key is None or history_key not in self._written_again
        if self.writing and history_key is not None:
            self._written_again.add(history_key)
        return self.writing

    def _refused(self, shapes: "Any", record: "Any") -> bool:
        """Does the record say that no plan is possible for `shapes`?"""
        if not record[PROBLEM]:
            return False
        self.problem = record[PROBLEM]
        self.refused.add(shapes)
        return True

    def usable(self, executor: "Any") -> bool:
        """May the cache hold programs of `executor`?  Not if it has plug-ins, delegates or similar extensions."""
        return not (executor.plugins or executor.known_inputs or executor.subgraph.index
                    or executor.delegation is not None or executor.access is not None or self._contents is None
                    or ops_registered())

    def shapes(self, executor: "Any") -> "tuple[tuple[int, ...], ...] | None":
        """The input shapes of `executor`; None if they are the file's."""
        subgraph, shapes = executor.subgraph, tuple(executor.shapes)
        return None if shapes == tuple([subgraph.tensors[i].shape for i in subgraph.inputs]) else shapes

    def key(self, shapes: "Any") -> "tuple[Any, ...]":
        """The key of a plan: (build, ISA level, digest, is everything preserved?, precision, input shapes or
        None for the file's)."""
        if self.digest is None:
            from pylite.runtime.cache_files import digest_of  # only for files without a known digest
            self.digest = digest_of(self._contents)
        return build(), simd.current, self.digest, self.preserve, self.precision, shapes

    def _remembered(self, folder: Folder) -> "bytes | None":
        """The digest stored for this file's identity, which saves reading its contents; None if there is none."""
        stored = None if self.identity is None else folder.read(self.identity)
        if stored is None:
            return None
        identity, digest = stored[0]
        return digest if identity == self.identity else None

    def _read(self, folder: Folder, key: "tuple[Any, ...]") -> "Any":
        """(record, data, pages) of the plan for `key`, or None."""
        stored = folder.read(plan_name(key))
        return stored if stored is not None and stored[0][KEY] == key else None


class Tensors(dict):  # type: ignore[type-arg]
    """The tensors of a model's first subgraph: {index: a tensor that callers see}; any other index loads the graph.

    count: number of all tensors.
    """
    __slots__ = ("_model", "_count")

    def __init__(self, model: Model, known: "dict[int, Any]", count: int) -> None:
        super().__init__(known)
        self._model, self._count = model, count

    def __len__(self) -> int:
        return self._count

    def __missing__(self, index: int) -> "Any":
        return self._model.graph.subgraphs[0].tensors[index]


class BoundPlan:
    """A plan, bound to memory.

    visible: {index: (array, type, is it overwritten?)} of the tensors that callers read and write; shapes: of the
    inputs; isa: the ISA level; total: bytes of the arena; stateful: does it have State?
    """
    __slots__ = ("program", "arena", "visible", "shapes", "isa", "total", "pages", "stateful", "_failures")

    def __init__(self, executor: "Any", plan: "Any", allocated: "Callable[[int], NDArray[Any]]") -> None:
        (self.total, body, visible, state, self._failures), data, self.pages = plan
        if self.total > LARGE_ARENA and self.total > memory_limit():
            raise MemoryError       # the compiler then raises it with a message
        self.stateful = state is not None
        self.arena = allocated(self.total)
        regions = [self.arena, data, executor.model.contents]
        resources: list[Any] = []
        if state is not None:
            from pylite.runtime.plan_state import State  # most models have none
            restored = State(executor, state, DTYPES, CONTENTS + 1)
            regions += restored.regions
            resources = restored.resources
        arrays, programs = plans.bind(body, regions, DTYPES, resources, kernel_class, executor.pool,
                                      _failures_of(self._failures))
        self.program = programs[-1]
        self.visible = {index: (arrays[number], dtype, overwritten)
                        for index, (number, dtype, overwritten) in visible.items()}
        self.shapes, self.isa = list(executor.shapes), simd.current

    def failure(self, step: int, status: int) -> "errors.ExecutionError":
        """The ExecutionError for the kernel of `step`, which returned `status`."""
        return _failure(self._failures, self.program, -1, step, status)


def _failures_of(failures: bytes) -> "Callable[[Program, int], Callable[[int, int], errors.ExecutionError]]":
    """failure_of() for bind().  Its results do not refer to the BoundPlan, which would create a cycle."""
    def failure_of(program: "Program", number: int) -> "Callable[[int, int], errors.ExecutionError]":
        return lambda step, status: _failure(failures, program, number, step, status)
    return failure_of


def _failure(failures: bytes, program: "Program", number: int, step: int, status: int) -> "errors.ExecutionError":
    """The ExecutionError for the kernel of `step` of a plan's program `number`."""
    kernel = program.kernels[step]
    numbers, texts = marshal.loads(failures)[number]
    error = errors.ExecutionError(texts[numbers[step]].replace(WHY, kernel.explain(status)))
    error.__cause__ = kernel.cause()
    return error


def bind(executor: "Any", allocated: "Callable[[int], NDArray[Any]]") -> "BoundPlan | None":
    """The BoundPlan for the current input shapes of an executor; None if there is none or it is faulty."""
    plan = executor.plans.plan(executor)
    if plan is None:
        return None
    try:
        return BoundPlan(executor, plan, allocated)
    except Exception:       # the user cannot fix this; the program is compiled from the graph instead
        return None


def ops_registered() -> bool:
    """Has the program registered ops of its own, which may replace others?"""
    registry = sys.modules.get("pylite.ir.registry")        # before its import, nothing can be registered
    return registry is not None and not registry.default.is_plain()


# Tells builds of one version apart.  An upgrade may replace or remove the file while the process still runs this build.
_library = os.stat(simd.__file__)


def build() -> str:
    """The versions of pylite, Python and numpy on which plans depend."""
    time = _library.st_mtime
    if os.path.dirname(simd.__file__) != os.path.dirname(_core.__file__):       # an editable install: edits count
        from pylite.runtime.cache_files import last_edit
        time = max(time, last_edit(os.path.dirname(pylite.__file__)))
    return (f"{pylite.__version__} {_library.st_size} {int(time)} {sys.implementation.cache_tag} {np.__version__} "
            f"{os.uname().machine} {sys.maxsize:x}")


def plan_name(key: "tuple[Any, ...]") -> str:
    """The file name of a plan.  The record contains the whole key, which detects collisions."""
    return f"{checksum(repr(key).encode()):016x}.plan"


def identity_of(status: os.stat_result) -> str:
    """A string that changes whenever a file's contents change: the name of the cache file with its digest."""
    return (f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}"
            ".digest")


def _opened(source: "Any") -> "tuple[Any, str | None]":
    """(the contents of a model, the identity of its file); (None, None) if the file cannot be mapped."""
    if not isinstance(source, str):
        return (bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else None), None
    try:
        file = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and status.st_size:
                return Pages(status.st_size, file), identity_of(status)
        finally:
            os.close(file)
    except (OSError, ValueError):       # ValueError: a zero in a path
        pass
    return None, None


def _summary(record: "Any") -> "Any":
    """The facts about a model that an interpreter needs when it runs plans.  record: see plan_store.summary().

    The objects have the attributes of the records in pylite.ir.graph, whose classes take long to create.
    """
    signatures, name, inputs, outputs, count, known = record
    for tensor in known.values():
        q = tensor["quantization"]
        if q is not None:
            for key, value in q.items():
                if type(value) is list:         # an array: its type and its bytes
                    q[key] = np.frombuffer(value[1], value[0])
            tensor["quantization"] = SimpleNamespace(**q)
    return SimpleNamespace(signatures=[SimpleNamespace(**s) for s in signatures], name=name, inputs=inputs,
                           outputs=outputs, count=count, known={i: SimpleNamespace(**t) for i, t in known.items()})
