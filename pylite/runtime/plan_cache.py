"""Programs that earlier processes have bound: read from a cache folder, they need no graph and no compiler.

This module reads, since that is what a fast start takes; plan_store writes.  The record of a file is (key, summary of
the model, plan, name of the model's file); its data are the arrays that kernels read, which processes share.  A plan is
None where only the summary is known, and a str where there can be none: the reason.  Else it is

bytes       of the arena that it takes
body        what _core.run.plans.bind() makes the arrays and programs of; regions of arrays are the arena, the file's
            data, the model's file, and memory of the state
visible     {index: (number of its array, type, is it overwritten?)} of the tensors that callers read and write
state       None, or what plan_state.State takes
failures    marshalled: of each program (for each call the number of a text, the texts): what the failure of a call
            says, with WHY in the place of the reason
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
from pylite._core.run.memory import Pages, checksum, memory_limit
from pylite._core.run.plans import bind
from pylite.runtime.cache_folder import Folder
from pylite.runtime.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.program import Program

ARENA, DATA, CONTENTS = range(3)        # regions of arrays; others follow
WHY = "\0"
LARGE_ARENA = 1 << 28   # bytes from which an arena is compared with the machine's memory
DTYPES = [np.dtype(name) for name in (
    "int8", "uint8", "bool", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64", "uint64", "float64",
    "complex64", "complex128")]


class PlanCache:
    """The programs of one model in the cache folder `folder`, for an interpreter with the default ops.

    preserve: does it keep every tensor?  found: is there a plan, so that the model's graph is not read?  digest: of the
    model's contents, None before it is known; identity: that of its file, or None; problem: why there is no plan.
    """

    def __init__(self, folder: "str | os.PathLike[str]", preserve: bool) -> None:
        self.folder = folder
        self.preserve = preserve
        self.found = False
        self.problem = ""
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
                self.digest = self._remembered(folder)
                self._first = self._read(folder, self.key(None))
        except OSError:         # no folder yet, or one that is not trusted
            pass
        self.found = self._first is not None and not self._refused(None, self._first)
        return Model(source, None, (self._contents, _summary(self._first[0][1]))) if self.found else None

    def adopt(self, model: Model) -> None:
        """Use `model`, which was loaded since model() found no plan; not if its file has changed meanwhile.

        Nor if the file is a bundle, whose offsets are not the model's.
        """
        whole = isinstance(model.contents, Pages) == isinstance(self._contents, Pages)
        if not whole:
            self.problem = "its file is a bundle"
        self._contents = model.contents if self._contents is not None and whole and self.unchanged() else None

    def unchanged(self) -> bool:
        """Is the file of the model still what was opened?"""
        if self.identity is None:
            return True
        try:
            return identity_of(os.stat(self.source)) == self.identity
        except OSError:
            return False

    def plan(self, executor: "Any") -> "Any":
        """(program, data, pages) of the plan for the present input shapes of `executor`, or None."""
        if not self.usable(executor):
            return None
        key, found = self.key(self.shapes(executor)), self._first
        if found is None or found[0][0] != key:
            try:
                with Folder(self.folder) as folder:
                    found = self._read(folder, key)
            except OSError:
                return None
        if found is None or found[0][2] is None or self._refused(key[-1], found):
            return None
        return found[0][2], *found[1:]

    def _refused(self, shapes: "Any", found: "Any") -> bool:
        """Does what was found say that there can be no plan for `shapes`?"""
        if type(found[0][2]) is not str:
            return False
        self.problem = found[0][2]
        self.refused.add(shapes)
        return True

    def usable(self, executor: "Any") -> bool:
        """May programs of `executor` be in the cache?  Not with plug-ins, delegates and the like."""
        return not (executor.plugins or executor.given or executor.subgraph.index
                    or executor.delegation is not None or executor.access is not None or self._contents is None
                    or ops_registered())

    def shapes(self, executor: "Any") -> "tuple[tuple[int, ...], ...] | None":
        """The input shapes of `executor`, None where they are those of the file."""
        subgraph, shapes = executor.subgraph, tuple(executor.shapes)
        return None if shapes == tuple([subgraph.tensors[i].shape for i in subgraph.inputs]) else shapes

    def key(self, shapes: "Any") -> "tuple[Any, ...]":
        """(build, ISA level, digest, is everything preserved?, input shapes, None for those of the file) of a plan."""
        if self.digest is None:
            from pylite.runtime.cache_files import digest_of  # only where the file is not known
            self.digest = digest_of(self._contents)
        return build(), simd.current, self.digest, self.preserve, shapes

    def _remembered(self, folder: Folder) -> "bytes | None":
        """The digest of a file of this identity, whose contents need not be read."""
        found = None if self.identity is None else folder.read(self.identity)
        return found[0][1] if found is not None and found[0][0] == self.identity else None

    def _read(self, folder: Folder, key: "tuple[Any, ...]") -> "Any":
        """(record, data, pages) of the plan for `key`, or None."""
        found = folder.read(plan_name(key))
        return found if found is not None and found[0][0] == key else None


class Tensors(dict):  # type: ignore[type-arg]
    """Stands for the tensors of the first subgraph of a model: {index: those that callers see}; others are read.

    count: of all.
    """
    __slots__ = ("_model", "_count")

    def __init__(self, model: Model, known: "dict[int, Any]", count: int) -> None:
        super().__init__(known)
        self._model, self._count = model, count

    def __len__(self) -> int:
        return self._count

    def __missing__(self, index: int) -> "Any":
        return self._model.graph.subgraphs[0].tensors[index]


class Bound:
    """A plan, bound to memory.

    visible: {index: (array, type, is it overwritten?)} of the tensors that callers read and write; shapes: of the
    inputs; isa: the ISA level; total: bytes of the arena that the plan takes; stateful: has it State?
    """
    __slots__ = ("program", "arena", "visible", "shapes", "isa", "total", "pages", "stateful", "_failures")

    def __init__(self, executor: "Any", plan: "Any", allocated: "Callable[[int], NDArray[Any]]") -> None:
        (self.total, body, visible, state, self._failures), data, self.pages = plan
        if self.total > LARGE_ARENA and self.total > memory_limit():
            raise MemoryError       # the compiler says so
        self.stateful = state is not None
        self.arena = allocated(self.total)
        regions = [self.arena, data, executor.model.contents]
        held: list[Any] = []
        if state is not None:
            from pylite.runtime.plan_state import State  # most models have none
            found = State(executor, state, DTYPES, CONTENTS + 1)
            regions += found.regions
            held = found.held
        arrays, programs = bind(body, regions, DTYPES, held, kernel_class, executor.pool, _failures_of(self._failures))
        self.program = programs[-1]
        self.visible = {index: (arrays[number], dtype, overwritten)
                        for index, (number, dtype, overwritten) in visible.items()}
        self.shapes, self.isa = list(executor.shapes), simd.current

    def failure(self, step: int, status: int) -> "errors.ExecutionError":
        """The ExecutionError for the kernel of `step`, which returned `status`."""
        return _failure(self._failures, self.program, -1, step, status)


def _failures_of(failures: bytes) -> "Callable[[Program, int], Callable[[int, int], errors.ExecutionError]]":
    """failure_of() for bind(); what it returns does not refer to the Bound, which would make a cycle."""
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


def bound(executor: "Any", allocated: "Callable[[int], NDArray[Any]]") -> "Bound | None":
    """The Bound for the present input shapes of an executor, None where there is none or something is wrong with it."""
    plan = executor.plans.plan(executor)
    if plan is None:
        return None
    try:
        return Bound(executor, plan, allocated)
    except Exception:       # nothing that the user could mend: the program is made of the graph
        return None


def ops_registered() -> bool:
    """Has the program registered ops of its own, which may take the place of others?"""
    registry = sys.modules.get("pylite.ir.registry")        # where it is not imported, nothing is registered
    return registry is not None and not registry.default.is_plain()


def build() -> str:
    """The pylite, Python and numpy that make plans and read them."""
    library = os.stat(simd.__file__)        # of another build of the same version, too
    time = library.st_mtime
    if os.path.dirname(simd.__file__) != os.path.dirname(_core.__file__):       # an editable install: edits count
        from pylite.runtime.cache_files import last_edit
        time = last_edit(os.path.dirname(pylite.__file__))
    return (f"{pylite.__version__} {library.st_size} {int(time)} {sys.implementation.cache_tag} {np.__version__} "
            f"{os.uname().machine} {sys.maxsize:x}")


def plan_name(key: "tuple[Any, ...]") -> str:
    """The name of the file of a plan; another key with the same name is found out by the record."""
    return f"{checksum(repr(key).encode()):016x}.plan"


def identity_of(status: os.stat_result) -> str:
    """What changes with the contents of a file, as the name of the one that remembers its digest."""
    return (f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ctime_ns:x}"
            ".digest")


def _opened(source: "Any") -> "tuple[Any, str | None]":
    """(the contents of a model, the identity of its file); (None, None) where they cannot be mapped."""
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
    """What an interpreter asks of a model that it runs by plans; record: see plan_store.summary().

    Its objects have the attributes of records of pylite.ir.graph, whose classes take long to make.
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
