"""Interpreter: the public class, compatible with tf.lite's, over one Executor per subgraph.

Importing takes half of a small model's time to the first result, so modules that few models need are imported lazily.
This file is longer than others because users look for all methods of the class in one place.
"""
import operator
import os
import sys
import warnings
import weakref
from _thread import RLock  # threading.RLock, without importing threading
from typing import TYPE_CHECKING

import numpy as np

import pylite
from pylite import errors
from pylite._core.run.fast_path import FastPath, Lock
from pylite._core.simd import Pool
from pylite.ir.interpreter_state import InterpreterState
from pylite.tflite import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Literal, Self, SupportsIndex

    from numpy.typing import ArrayLike, NDArray

    from pylite.plugins.delegates import Delegate, load_delegate
    from pylite.plugins.python_delegates import PythonDelegate
    from pylite.plugins.resolver import OpResolver
    from pylite.runtime.executor import Executor
    from pylite.runtime.model import Model
    from pylite.runtime.plan_cache import PlanCache
    from pylite.tflite.resolver_type import OpResolverType
    from pylite.tflite.signature import SignatureRunner
    from pylite.tflite.types import ModelContents, OpDetails, Precision, SignatureIndices, SignatureList, TensorDetails

__all__ = ["Delegate", "Interpreter", "InterpreterWithCustomOps", "OpResolverType", "SignatureRunner", "load_delegate"]
OBJECTS = np.dtype(object)      # the dtype of string tensors
_living: "weakref.WeakSet[Interpreter]" = weakref.WeakSet()     # every Interpreter of this process, for _after_fork()


def __getattr__(name: str) -> "Any":
    if name not in __all__:
        raise AttributeError(f"module 'pylite.interpreter' has no attribute {name!r}", name=name,
                             obj=sys.modules[__name__])
    attribute = globals()[name] = getattr(pylite, name)
    return attribute


def __dir__() -> list[str]:
    """All names, including names that are not loaded yet, because some programs copy them."""
    return sorted({*globals(), *__all__})


class Interpreter(FastPath):
    """Runs a `.tflite` model with numpy arrays in and out, with the arguments and methods of tf.lite, and others.

    model_path: str or os.PathLike.
    model_content: the file's bytes instead.
    experimental_delegates: a list of delegates from load_delegate(), or of PythonDelegates.
    num_threads: threads for one invoke(), at least 1; by default 1.
    experimental_preserve_all_tensors: keep every intermediate tensor readable, at the cost of memory.
    The other experimental arguments are accepted and do not change results.

    Arguments that tf.lite lacks:
    guard_bands: find kernels that write out of bounds (slow).
    max_memory: the most bytes that all tensors may take; the file and its packed weights do not count.
    model: a pylite.Model to share with other interpreters.
    overrides: {index or name of a constant: array of its shape and type} to use instead of the file's contents.
    member: the name of a model in a bundle, such as MediaPipe's `.task` files; without it, the only one.
    op_resolver: an OpResolver with the ops to use; by default all ops of pylite and of `custom_op`.
    cache_dir: a folder for plans, which let later processes start faster; by default what the environment variable
    PYLITE_CACHE_DIR names, "" for none.
    cached_shapes: the number of sets of input shapes whose programs are kept, those used last, at least 1.  Returning
    to one of them takes microseconds.  Fewer are kept if they need more memory than the present program.

    precision: "float32", or "float16", which computes convolutions, FULLY_CONNECTED and some element-wise ops in
    float16 where that is faster; inputs and outputs stay float32.  It needs a CPU with Armv8.2's half precision; on
    others it raises ValueError, "prefer_float16" means float32, and "emulate_float16" gives the same results slowly.
    None: float16 if the CPU has it and the model's metadata allow it (reduced_precision_support).

    Raises ValueError for a file that is not a model, for unknown operators (one error names all of them), and for
    arguments that contradict each other.  Every method takes the interpreter's lock, and invoke() releases the GIL;
    several interpreters on one Model run at the same time.
    """

    _closed = _checked = False
    _executors: "dict[int, Executor]" = {}      # until __init__ has made its own
    _finalizer: "Any" = None

    def __init__(self, model_path: "str | bytes | os.PathLike[str] | None" = None,
                 model_content: "ModelContents | None" = None,
                 experimental_delegates: "Sequence[Delegate | PythonDelegate] | None" = None,
                 num_threads: "SupportsIndex | None" = None,
                 experimental_op_resolver_type: "OpResolverType | Literal['AUTO']" = "AUTO",
                 experimental_preserve_all_tensors: bool = False,
                 experimental_disable_delegate_clustering: bool = False,
                 experimental_default_delegate_latest_features: bool = False,
                 experimental_compress_quantization_zero_points: bool = False,
                 experimental_disable_delegate_node_fusion: bool = False,
                 experimental_force_delegate_node_profiling: bool = False, *, guard_bands: bool = False,
                 max_memory: "int | None" = None, model: "Model | None" = None,
                 op_resolver: "OpResolver | None" = None,
                 cache_dir: "str | os.PathLike[str] | None" = None, member: "str | None" = None,
                 overrides: "Mapping[int | str, ArrayLike] | None" = None, cached_shapes: "SupportsIndex" = 8,
                 precision: "Precision | None" = None) -> None:
        before = set(vars(self))        # a derived class may have set attributes
        self._lock = Lock()
        self._shared = InterpreterState()
        self._executors = self._shared.executors
        self._views: set[Any] = set()   # weak references to the _MemoryView of each array from tensor()
        flags = {"experimental_preserve_all_tensors": experimental_preserve_all_tensors,
                 "experimental_disable_delegate_clustering": experimental_disable_delegate_clustering,
                 "experimental_default_delegate_latest_features": experimental_default_delegate_latest_features,
                 "experimental_compress_quantization_zero_points": experimental_compress_quantization_zero_points,
                 "experimental_disable_delegate_node_fusion": experimental_disable_delegate_node_fusion,
                 "experimental_force_delegate_node_profiling": experimental_force_delegate_node_profiling,
                 "guard_bands": guard_bands}
        self._options: dict[str, Any] = {
            "num_threads": num_threads, "experimental_delegates": experimental_delegates,
            "experimental_op_resolver_type": experimental_op_resolver_type,
            "max_memory": arguments.memory_limit(max_memory), "op_resolver": op_resolver, "cache_dir": cache_dir,
            "member": member, "overrides": overrides, "cached_shapes": arguments.shape_count(cached_shapes),
            "precision": arguments.precision(precision),
            **{name: arguments.flag(name, value) for name, value in flags.items()}}
        kind = arguments.resolver_type(experimental_op_resolver_type)
        if self._options["experimental_preserve_all_tensors"] and kind in ("AUTO", "BUILTIN"):
            warnings.warn("experimental_preserve_all_tensors keeps every intermediate tensor in memory of its own: it "
                          "is meant for debugging. As in LiteRT, OpResolverType.BUILTIN_REF silences this warning; the "
                          "results are the same", stacklevel=2)
        self._pool = Pool(arguments.thread_count(num_threads))
        plans = arguments.plans(cache_dir, self._options)
        self._model = _opened(model_path, model_content, model, self._options, plans)
        self._signatures: dict[str, Any] = {}
        for signature in self._model.signatures:
            self._signatures.setdefault(signature.key, signature)       # of equal keys the first one counts
        self._main = self._main_executor(plans)
        if model_content is not None:
            self._model_content = model_content
        self._custom_op_registerers: Sequence[Any] = []
        self._use_fast_path(self._lock, self._main, self._views)
        self._delegates = arguments.delegates(experimental_delegates)
        if self._delegates:
            self._delegate(self._delegates)
        self._signature_defs = self.get_signature_list()    # these two: as in tf.lite's Interpreter
        self._metrics = None
        self._own = {"_own", *vars(self)} - before      # attributes that are not pickled
        _living.add(self)

    def allocate_tensors(self) -> None:
        """Plan and bind memory for the current input shapes.

        Must be called before set_tensor() and invoke(), and again after resize_tensor_input().  RuntimeError names the
        node and tensor that cannot be prepared.
        """
        with self._lock:
            if self._closed or self._views:
                self._ensure_safe()
            self._lock.run(self._main.allocate)

    def invoke_nodes(self, start: int, stop: "int | None" = None) -> None:
        """Run the nodes from `start` to `stop` (by default the last one), both included, on the tensors as they are.

        Needs experimental_preserve_all_tensors; set_tensor() then writes any tensor.  Nodes are numbered as in
        _get_ops_details().  RuntimeError without that option, before allocate_tensors(), or if a node fails;
        ValueError for nodes that the model lacks.
        """
        with self._lock:
            self._ensure_safe()
            self._lock.run(self._main.run_nodes, arguments.whole("start", start),
                           None if stop is None else arguments.whole("stop", stop))

    def _invoke_checked(self) -> None:
        """The full invoke(), when FastPath cannot run."""
        with self._lock:
            if self._closed or self._views:
                self._ensure_safe()
            self._lock.run(self._main.invoke)

    def set_tensor(self, tensor_index: "SupportsIndex", value: "ArrayLike") -> None:
        """Copy `value`, an array of the tensor's shape and type, into an input.  ValueError if shape or type differ."""
        if not self._set_again(tensor_index, value):
            with self._lock:
                self._set(self._main, tensor_index, value)

    def get_tensor(self, tensor_index: "SupportsIndex", subgraph_index: int = 0) -> "NDArray[Any]":
        """A copy of a tensor: an input, an output, a constant, or an intermediate tensor that was not overwritten.

        ValueError if the tensor has no memory (call allocate_tensors() first), or another tensor overwrote it.
        """
        if type(subgraph_index) is not int:
            subgraph_index = arguments.whole("subgraph_index", subgraph_index)
        if subgraph_index == 0 and (again := self._get_again(tensor_index)) is not None:
            return again
        with self._lock:
            return self._get(self._main if subgraph_index == 0 else self._executor(subgraph_index), tensor_index)

    def tensor(self, tensor_index: "SupportsIndex") -> "Callable[[], NDArray[Any]]":
        """A function that returns the tensor's own memory as an array, to read and write without a copy.

        Keep the function, not the array: invoke(), allocate_tensors() and resize_tensor_input() raise RuntimeError
        while any such array, or a slice of one, is alive.
        """
        return lambda: self._view(tensor_index)

    def resize_tensor_input(self, input_index: "SupportsIndex", tensor_size: "Sequence[int] | NDArray[Any]",
                            strict: bool = False) -> None:
        """Change the shape of an input; allocate_tensors() must follow.

        strict: only dimensions that are -1 in the `shape_signature` may change.
        Raises ResizeError (a RuntimeError and ValueError).
        """
        with self._lock:
            self._ensure_safe()
            self._resize(self._main, input_index, tensor_size, strict and arguments.flag("strict", strict))

    def modify_graph_with_delegate(self, delegate: "Delegate | PythonDelegate") -> None:
        """Let another delegate claim nodes, after those in `experimental_delegates`.

        Allocated tensors stay allocated: inputs keep their contents, variables are reset.  DelegateError for an object
        that is not a delegate; DelegationError (a RuntimeError) if it fails, and all nodes are the file's again.
        """
        with self._lock:
            self._ensure_safe()
            main = self._main
            contents = [(i, main.array(i).copy()) for i in main.subgraph.inputs] if main.ready else None
            try:
                self._delegate([delegate])
                self._delegates.append(delegate)
            finally:
                if contents is not None:
                    self._lock.run(main.allocate)
                    for index, data in contents:
                        array = main.array(index)
                        if array.flags.writeable:
                            array[...] = data

    def _delegate(self, delegates: "list[Any]") -> None:
        from pylite.plugins.delegates import apply
        self._close_at_exit()
        self._main.use_graph()
        options = self._options
        apply(self._executors_of_all(), delegates, not options["experimental_disable_delegate_clustering"],
              not (options["experimental_disable_delegate_node_fusion"]
                   or options["experimental_preserve_all_tensors"]))

    def reset_all_variables(self) -> None:
        """Set all variable tensors to zero, and call reset() of the ops in Python that have one.

        They otherwise keep their state between calls of invoke().  As in tf.lite, resource variables (VAR_HANDLE) keep
        theirs as long as the interpreter lives: make another one of the same pylite.Model to start over.
        """
        with self._lock:
            self._lock.check_idle()
            for executor in self._executors.values():
                executor.reset_variables_and_ops()

    def close(self) -> None:
        """Free the memory of the tensors, and close plug-ins, now rather than with the last reference to this object.

        Nothing can run afterwards.  Arrays from get_tensor() and tensor() stay valid.  `with Interpreter(...) as i:`
        closes at its end.
        """
        with self._lock:
            self._lock.check_idle()
            self._closed = True
            self._release()

    def __enter__(self) -> "Self":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self, ending: "Callable[[], bool]" = sys.is_finalizing) -> None:
        if not ending():    # when Python ends, plug-ins are closed already, and modules may be empty
            self._release()

    def _release(self) -> None:
        """Close plug-ins and drop every program: nodes and executors refer to each other until then."""
        finalizer, self._finalizer = self._finalizer, None
        if finalizer is None:
            _close(self._executors)
        else:
            finalizer()

    def num_subgraphs(self) -> int:
        """Number of subgraphs in the model."""
        return len(self._model.graph.subgraphs)

    def get_input_details(self) -> "list[TensorDetails]":
        """One dict for each input: name, index, shape (int32 array), shape_signature (-1: any size), dtype,
        quantization (scale, zero_point), quantization_parameters (all scales) and sparsity_parameters.
        """
        return self._details(self._main.subgraph.inputs)

    def get_output_details(self) -> "list[TensorDetails]":
        """One dict for each output, with the keys of get_input_details()."""
        return self._details(self._main.subgraph.outputs)

    def get_tensor_details(self, subgraph_index: int = 0) -> "list[TensorDetails]":
        """One dict for each tensor of a subgraph, with the keys of get_input_details()."""
        subgraph_index = arguments.whole("subgraph_index", subgraph_index)
        if not 0 <= subgraph_index < self.num_subgraphs():
            raise ValueError(f"subgraph_index is out of range: {subgraph_index} for the model, which has "
                             f"{errors.counted(self.num_subgraphs(), 'subgraph')}")
        tensors = self._model.graph.subgraphs[subgraph_index].tensors
        return self._details(range(len(tensors)), subgraph_index)

    def _details(self, indices: "Iterable[int]", subgraph_index: int = 0) -> "list[TensorDetails]":
        from pylite.tflite.details import Details
        return Details([self._get_tensor_details(i, subgraph_index) for i in indices])

    def __repr__(self) -> str:
        if not self._executors:
            return f"<{type(self).__name__}, closed>"
        main = self._main
        ends = [", ".join(f"{main.subgraph.tensors[i].name} {main.dtype(i)} {list(main.shape(i))}" for i in indices)
                for indices in (main.subgraph.inputs, main.subgraph.outputs)]
        return f"<{type(self).__name__} {self._model._file_name}: {' -> '.join(ends)}>"

    def _repr_html_(self) -> str:
        from pylite.display import notebook
        arena = sum([segment.placement.total for segment in self._main.segments])
        return notebook.model(self._model.graph, threads=self._pool.threads,
                              arena=f"{arena:,} bytes" if arena else "not allocated")

    def get_signature_list(self) -> "SignatureList":
        """{signature key: {"inputs": [name, ...], "outputs": [name, ...]}}"""
        return {key: {"inputs": list(names["inputs"]), "outputs": list(names["outputs"])}
                for key, names in self._get_full_signature_list().items()}

    def get_signature_runner(self, signature_key: "str | None" = None) -> "SignatureRunner":
        """A SignatureRunner: call it with the inputs by name.  The key is optional if there is one signature."""
        try:
            hash(signature_key)     # as in a dict, where tf.lite looks it up
        except TypeError:
            raise TypeError("a signature's key must be a string, not "
                            f"{errors.shortened(repr(signature_key))}") from None
        if signature_key is None:
            if len(self._signatures) != 1:
                raise ValueError(f"SignatureDef signature_key is None and model has {len(self._signatures)} "
                                 "Signatures. None is only allowed when the model has 1 SignatureDef. This one has "
                                 f"{', '.join(map(repr, self._signatures)) or 'none'}")
            signature_key = next(iter(self._signatures))
        from pylite.tflite.signature import SignatureRunner
        return SignatureRunner(self, signature_key)

    @property
    def experimental_compress_quantization_zero_points(self) -> bool:
        return self._options["experimental_compress_quantization_zero_points"]

    # Private attributes of tf.lite's Interpreter that clients use.

    @property
    def _interpreter(self) -> "Any":
        from pylite.tflite.wrapper import Wrapper
        return Wrapper(self)

    def _get_full_signature_list(self) -> "dict[str, SignatureIndices]":
        return {key: {"inputs": dict(sorted(s.inputs.items())), "outputs": dict(sorted(s.outputs.items()))}
                for key, s in self._signatures.items()}

    def _get_tensor_details(self, tensor_index: "SupportsIndex", subgraph_index: int = 0) -> "TensorDetails":
        from pylite.tflite.details import tensor_details
        executor = self._executor(subgraph_index)
        index = arguments.checked_index(executor, tensor_index)
        tensor = executor.subgraph.tensors[index]
        return tensor_details(self._model, tensor, executor.shape(index), executor.dtype(index))

    def _get_ops_details(self) -> "list[OpDetails]":
        from pylite.tflite.details import Details
        return Details([self._get_op_details(i) for i in range(len(self._main.operators))])

    def _get_op_details(self, op_index: int) -> "OpDetails":
        from pylite.tflite.details import op_details
        operators = self._main.operators
        op_index = arguments.whole("op_index", op_index)
        if not 0 <= op_index < len(operators):
            raise ValueError(f"Invalid node index {op_index}: the graph has nodes 0 to {len(operators) - 1}")
        return op_details(self._main.subgraph, operators[op_index])

    def _native_handle(self) -> int:
        raise NotImplementedError("pylite has no tflite::Interpreter in C++ whose address it could give")

    def _safe_to_run(self) -> bool:
        """True if no array from tensor() is alive."""
        if self._views:
            import gc
            gc.collect()        # arrays in reference cycles are only freed here
        return not self._views

    def _ensure_open(self, error: str = "ExecutionError") -> None:
        if self._closed:
            raise getattr(errors, error)("the interpreter is closed; make another one")

    def _ensure_safe(self) -> None:
        self._ensure_open()
        self._lock.check_idle()
        if self._views and not self._safe_to_run():
            alive = sorted({view.index for view in [reference() for reference in self._views] if view is not None})
            names = ", ".join(f"tensor {i} ({self._main.subgraph.tensors[i].name!r})" for i in alive)
            raise errors.ViewError(
                "There is at least 1 reference to internal data in the interpreter in the form of a numpy array "
                "or slice. Be sure to only hold the function returned from tensor() if you are using raw data access: "
                f"call it again where the data is needed, or copy the array. Arrays of {names} are alive")

    def __reduce__(self) -> "tuple[Any, ...]":
        """Pickle the model (its path or its content), the options, the input shapes, and the attributes that a derived
        class or the caller has set; not the tensors' contents.
        """
        own = self._own.union(vars(Interpreter), vars(InterpreterWithCustomOps))
        added = {name: value for name, value in vars(self).items() if name not in own}
        shapes = {i: list(e.shapes) for i, e in self._executors.items()}
        ready = [i for i, e in self._executors.items() if e.ready]
        return _restore, (type(self), self._model, self._options, shapes, ready), added or None

    # Internals.  Callers of _executors_of_all, _executor, _set, _get and _resize hold the lock.

    def _executors_of_all(self) -> "list[Executor]":
        return [self._executor(subgraph.index) for subgraph in self._model.graph.subgraphs]

    def _check(self) -> None:
        """Raise UnsupportedOpError naming all builtin operators that are unknown, and attach plug-ins."""
        from pylite.compiler.check import check  # on demand: plans do not need it
        model, resolver = self._model, arguments.resolver(self._options["op_resolver"])
        plain = arguments.is_plain(self._options)
        self._checked = (plain and model.checked) or check(model, model.graph.subgraphs, unresolved_only=True,
                                                           find=resolver.find)
        if plain:
            model.checked = self._checked
        if resolver.plugs():
            self._executors_of_all()

    def _main_executor(self, plans: "PlanCache | None") -> "Executor":
        """The Executor of the main subgraph: it runs the plan if there is one, else the graph, which is checked."""
        self._checked = True
        if plans is not None and plans.has_plan:       # its operators were checked when the plan was made
            from pylite.runtime.planned_executor import PlannedExecutor
            planned: Any = PlannedExecutor(self._model, self._pool, self._shared, plans, self._options["cached_shapes"])
            self._executors[0] = planned
        else:
            self._check()
            self._executor(0).plans = plans
        return self._executors[0]

    def _executor(self, subgraph_index: int) -> "Executor":
        executor = self._executors.get(subgraph_index)
        if executor is None and self._shared.planned:
            getattr(self._main.current, "lowered")      # noqa: B009  creates the Executors of a plan's callees
            executor = self._executors.get(subgraph_index)
        if executor is None:
            self._ensure_open()
            subgraphs = self._model.graph.subgraphs
            if not 0 <= subgraph_index < len(subgraphs):
                problem = "is negative" if subgraph_index < 0 else f"exceeds max subgraph index {len(subgraphs)}"
                raise ValueError(f"Invalid subgraph index {subgraph_index} {problem}: the model has "
                                 f"{errors.counted(len(subgraphs), 'subgraph')}")
            pylite._promote("pylite.runtime.executor")
            from pylite.runtime.executor import Executor
            options = self._options
            executor = Executor(self._model, subgraphs[subgraph_index], self._pool,
                                preserve=options["experimental_preserve_all_tensors"], guard=options["guard_bands"],
                                max_memory=options["max_memory"], resolver=arguments.resolver(options["op_resolver"]),
                                shared=self._shared, half=self._model.computes_half(options["precision"]))
            executor.cache.capacity = options["cached_shapes"]
            executor.checked = self._checked and not executor.plugins
            self._executors[int(subgraph_index)] = executor
            if executor.plugins:
                self._close_at_exit()
        return executor

    def _close_at_exit(self) -> None:
        """Close the plug-ins when this interpreter is collected or Python ends."""
        if self._finalizer is None:
            self._finalizer = weakref.finalize(self, _close, self._executors)

    def _allocate(self, subgraph_index: int) -> None:
        with self._lock:
            self._lock.run(self._executor(subgraph_index).allocate)

    def _invoke(self, subgraph_index: int) -> None:
        with self._lock:
            self._lock.run(self._executor(subgraph_index).invoke)

    def _set(self, executor: "Executor", tensor_index: "Any", value: "Any") -> None:
        if type(value) is not np.ndarray:
            try:
                value = np.asarray(value)   # before looking up the memory: it may run code that resizes or closes
            except ValueError as problem:
                index = arguments.checked_index(executor, tensor_index)
                raise errors.TensorError(f"Cannot set tensor: the value for tensor {index}, name: "
                                         f"{executor.subgraph.tensors[index].name}, is not an array; are its lists of "
                                         f"different lengths? {problem}") from None
        try:
            array = executor.writable[operator.index(tensor_index)].array      # a dict also finds 0.0 for 0
        except (KeyError, TypeError):
            self._ensure_open("NotAllocatedError")
            array = executor.to_write(arguments.checked_index(executor, tensor_index))
        self._lock.check_idle()
        if (type(value) is not np.ndarray or value.dtype is not array.dtype or value.shape != array.shape
                or array.dtype is OBJECTS or operator.index(tensor_index) not in executor.writable):
            from pylite.tflite.inputs import checked_value
            value = checked_value(executor.subgraph.tensors[operator.index(tensor_index)], array, value)
        array[...] = value

    def _get(self, executor: "Executor", tensor_index: "Any") -> "NDArray[Any]":
        try:
            array = executor.readable[operator.index(tensor_index)].array
        except (KeyError, TypeError):
            self._ensure_open("NotAllocatedError")
            array = executor.to_read(arguments.checked_index(executor, tensor_index))
        try:
            return array.copy() if array.ndim or array.dtype.hasobject else array[()]      # as tf.lite
        except MemoryError:
            name = executor.subgraph.tensors[int(tensor_index)].name
            raise errors.MemoryLimitError(
                f"there is no memory for a copy of tensor {tensor_index} ({name!r}, {array.dtype} "
                f"{list(array.shape)}): {array.nbytes} bytes. tensor({tensor_index})() gives its own memory") from None

    def _view(self, tensor_index: "SupportsIndex") -> "NDArray[Any]":
        with self._lock:
            self._ensure_open("NotAllocatedError")
            index = arguments.checked_index(self._main, tensor_index)
            array = self._main.to_read(index)
            if array.dtype.hasobject:
                strings = self._main.dtype(index) == "string"
                raise errors.TensorError(
                    f"tensor {index} ({self._main.subgraph.tensors[index].name!r}) holds "
                    + ("strings, which have no fixed memory to look at; use get_tensor() and set_tensor()" if strings
                       else "no numbers but a reference, such as that of a variable, which has no memory to look at"))
            view = _MemoryView(array, index)
            self._views.add(weakref.ref(view, self._views.discard))
            return np.asarray(view).view(array.dtype)

    def _resize(self, executor: "Executor", tensor_index: "SupportsIndex", size: "Any", strict: bool) -> None:
        from pylite.tflite import inputs
        index = arguments.checked_index(executor, tensor_index, "ResizeError")
        subgraph = executor.subgraph
        self._lock.check_idle()
        shape = inputs.checked_shape(subgraph.tensors[index], subgraph, executor.shape(index), size, strict)
        executor.resize(subgraph.inputs.index(index), shape)

    def _set_num_threads(self, count: int) -> None:
        with self._lock:
            self._lock.check_idle()
            self._pool = Pool(max(1, count))
            for executor in self._executors.values():
                executor.rebind(self._pool)


class InterpreterWithCustomOps(Interpreter):
    """An Interpreter for models with custom ops.

    custom_op_registerers: functions that add ops to their argument, a MutableOpResolver that is also the address of a
    tflite::MutableOpResolver, for functions of C++ behind pybind11 or ctypes; or names of such functions in libraries
    that are loaded with RTLD_GLOBAL.
    """
    _custom_op_registerers: "Sequence[Any]" = ()        # of one that was pickled: its ops are in its resolver

    def __init__(self, custom_op_registerers: "Sequence[Callable[[Any], None] | str] | None" = None,
                 **kwargs: "Any") -> None:
        registerers = arguments.registerers(custom_op_registerers)
        if registerers:
            from pylite.tflite.registerers import filled_by  # on demand: few programs have them
            kwargs["op_resolver"] = filled_by(registerers, kwargs.get("op_resolver"))
        super().__init__(**kwargs)
        self._custom_op_registerers = registerers


class _MemoryView:
    """The base object of an array from tensor(), and so alive as long as that array or any slice of it."""
    __slots__ = ("__array_interface__", "__weakref__", "_array", "index")

    def __init__(self, array: "NDArray[Any]", index: int) -> None:
        self._array, self.index = array, index      # of the tensor
        self.__array_interface__ = array.__array_interface__


def _opened(model_path: "Any", model_content: "Any", model: "Model | None", options: "dict[str, Any]",
            plans: "PlanCache | None") -> "Model":
    """The Model that the arguments name.  The error for a missing file suggests a bundled model of a similar name."""
    try:
        return arguments.model_from(model_path, model_content, model, options, plans)
    except errors.ModelError as error:
        from pylite.media import models
        hint = models.hint(model_path)
        if not hint:
            raise
        raise errors.ModelError(f"{error}{hint}") from None


def _close(executors: "dict[int, Executor]") -> None:
    """Close the plug-ins of all executors of an interpreter, and free its programs."""
    try:
        for _, executor in sorted(executors.items()):
            executor.close()
    finally:
        for executor in executors.values():
            executor.release()
        executors.clear()


def _restore(cls: "type[Interpreter]", model: "Model", options: "Mapping[str, Any]",
             shapes: "Mapping[int, Sequence[tuple[int, ...]]]", ready: "Sequence[int]") -> Interpreter:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        interpreter = cls.__new__(cls)
        Interpreter.__init__(interpreter, model=model, **options)      # a derived class may take other arguments
    for subgraph_index, inputs in shapes.items():
        executor = interpreter._executor(subgraph_index)
        for position, shape in enumerate(inputs):
            executor.resize(position, shape)
        if subgraph_index in ready:
            executor.allocate()
    return interpreter


def _after_fork() -> None:
    """Create new locks in a forked child, where a thread that held one of them does not exist."""
    for interpreter in list(_living):
        interpreter._lock.reset()
        interpreter._model.renew_locks()
    for name, module in list(sys.modules.items()):
        if name.startswith("pylite.runtime.") and hasattr(module, "lock"):
            module.lock = RLock()       # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):       # not on Windows
    os.register_at_fork(after_in_child=_after_fork)
