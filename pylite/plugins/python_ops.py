"""Ops in Python: classes and functions that run custom ops, or replace the builtin ops of pylite."""
from __future__ import annotations

import functools
import inspect
import operator
from typing import TYPE_CHECKING

import numpy as np

from pylite.errors import OpError, counted
from pylite.ir import registry, shapes
from pylite.ir.graph import DTYPE_BITS, NUMPY_DTYPES
from pylite.ir.values import Call, Node, Scratch
from pylite.schema import flex

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from pylite._core.run.kernel import Kernel
    from pylite.ir.graph import Operator
    from pylite.plugins.protocols import DelegateKernel, OutputShapes, Shape
    from pylite.runtime.executor import Executor


MANY = 6        # an error does not name each of so many operands


class CustomOp:
    """The base of an op in Python.  One object is made for each node of each interpreter.

    The runtime calls `__init__(options)` once, when the interpreter is created; `prepare(node)` before memory is
    planned, and again after each resize; `invoke(*inputs, *outputs, *temporaries)` per inference; and `free()` once,
    when the interpreter is collected.  An exception in any of them is the cause of an error that names the node.

    A class whose output shapes depend on data has `evaluate(*inputs)` instead of invoke(): it returns the outputs, an
    array or a list of arrays.  If prepare() returns None, the nodes after it are prepared when it has run; if it
    returns shapes, these must be the results'.

    Instead of invoke() a class may have `kernel`, a Kernel class written in Cython or a function that makes a Kernel.
    It is called with the same arrays when memory has been planned, and the Kernel runs without the GIL.
    """
    raw_options = False     # True: custom options are passed as bytes, not decoded

    def __init__(self, options: Any) -> None:
        """options: of a custom op, decoded from FlexBuffers ({} if there are none); of a builtin op, as attributes."""
        self.options = options

    def prepare(self, node: CustomNode) -> OutputShapes:
        """The outputs' shapes: a list with one for each, or the shape of a single output; None to keep them.

        node: a CustomNode; pylite.typing.OpNode lists what it offers.  By default every output gets the
        broadcast shape of the inputs.
        """
        return None if hasattr(self, "evaluate") else broadcast(node)

    def invoke(self, *arrays: Any, **_: Any) -> Any:      # typed so that a subclass may take any number of arrays
        """Compute the outputs: read the inputs (None if absent), write the outputs, and use the temporaries freely.

        Each is a numpy array on the tensor's own memory, with the shape and type that it was prepared with.
        """
        raise NotImplementedError(f"{type(self).__name__} has no invoke()")

    def free(self) -> None:
        """Release the resources of the op."""


class CustomNode(Node):
    """The node that an op prepares: `inputs` and `outputs` (Values, None if absent), `options`, `error()`, ...

    An op may set the `dtype` of an output to the name of another type.
    """
    __slots__ = ("temporaries",)

    def __init__(self, index: int, operator: Operator, values: Sequence[Any]) -> None:
        super().__init__(index, operator, values)
        self.temporaries: list[Scratch] = []

    def temporary(self, shape: Sequence[int], dtype: str = "float32") -> None:
        """Request memory for the time that this node runs: invoke() gets it as one more array after the outputs."""
        shape = _shape(self, shape, "temporary")
        _check_dtype(self, dtype, "temporary")
        self.temporaries.append(Scratch(shape, dtype))


def broadcast(node: Node) -> list[Shape] | None:
    """The broadcast shape of the inputs of `node`, once for each output; None if it has no inputs."""
    if not node.inputs:
        return None
    try:
        common = shapes.broadcast(*[v.shape for v in node.inputs if v is not None])
    except ValueError as error:
        raise node.error(f"{error}; its prepare() or `shapes` must give the shapes of the outputs") from None
    return [common] * len(node.outputs)


class PythonRegistration:
    """An op in Python as a resolver registers it, with its name and versions.

    implementation: a class that takes the options, whose objects have invoke() and optionally prepare() and free(); or
    a function, which is the invoke().  shapes: see `custom_op`.
    """
    stateful = True

    def __init__(self, name: str, implementation: Any, versions: tuple[int, int] | None = None,
                 shapes: Callable[..., OutputShapes] | None = None) -> None:
        known = registry.find(name)
        self.name = name
        self.versions = versions or (known.versions if known else (1, 1))
        if not callable(implementation):
            raise TypeError(f"op {name!r}: {implementation!r} is neither a class nor a function")
        if isinstance(implementation, type):
            if not runnable(implementation):
                raise TypeError(f"op {name!r}: {implementation.__name__} has no invoke(), evaluate() or kernel(); set "
                                "a Kernel in Cython as `kernel` of a pylite.CustomOp")
            if getattr(implementation, "invoke", CustomOp.invoke) is not CustomOp.invoke and callable(
                    getattr(implementation, "evaluate", None)):
                raise TypeError(f"op {name!r}: {implementation.__name__} has invoke() and evaluate(), and a node runs "
                                "one of them: keep evaluate() if the outputs' shapes depend on data, else invoke()")
            if shapes is not None:
                raise TypeError(f"op {name!r}: `shapes` is for functions; {implementation.__name__} has prepare()")
            self._make: Callable[[Any], DelegateKernel] = implementation
            self._raw = getattr(implementation, "raw_options", False)
        else:
            self._make = functools.partial(_Function, implementation, shapes, keywords(implementation))
            self._raw = False

    def __repr__(self) -> str:
        return f"<op {self.name!r} in Python>"

    def accepts(self, inputs: Any, outputs: Any) -> bool:
        return True

    def attach(self, executor: Executor, operator: Operator) -> PythonNodeOp:
        """The Op of one node, with a new object of the implementation."""
        if not operator.custom:
            options = operator.options
        elif self._raw:
            options = bytes(operator.custom_options)
        else:
            options = flex.decode(operator.custom_options, operator.name)
        where = f"node {operator.index} {operator.name}"
        try:
            return PythonNodeOp(where, self._make(options))
        except Exception as error:
            made = failure(where, "could not be created", error)
            if isinstance(error, TypeError) and error.__traceback__.tb_next is None:  # type: ignore[union-attr]
                name = getattr(self._make, "__name__", "NAME")      # the call failed, and nothing within it
                made.args = f"{made}. Derive it from pylite.CustomOp: class {name}(pylite.CustomOp)",
            raise made from error


class PythonNodeOp:
    """The Op of one node that a Python object runs.

    where: the node, for error messages; op: the object, such as a CustomOp.
    """
    attach = None           # it is the Op of its node already
    stateful = True
    blockwise = False
    fuses_activation = False
    conditions = ()
    versions = (0, 1 << 31)

    def __init__(self, where: str, op: Any) -> None:
        self.where = where
        self.op = op
        self._prepared: Any = None     # the CustomNode

    def accepts(self, inputs: Any, outputs: Any) -> bool:
        return True

    def infer(self, node: Node) -> list[Shape] | None:
        """The shapes of the outputs, from prepare()."""
        self._prepared = node = CustomNode(node.index, node.operator, node.values)
        prepare = getattr(self.op, "prepare", None) or self.default_prepare
        try:
            result = prepare(node)
        except OpError:
            raise
        except Exception as error:
            raise failure(self.where, "failed to prepare", error) from error
        for i, value in enumerate(node.outputs):
            if value is not None:
                _check_dtype(node, value.dtype, f"output {i}")
        if self._evaluates():
            _check_arrays(node, self.op.evaluate)
        elif getattr(self.op, "kernel", None) is None:
            _check_arrays(node, self.op.invoke, ("y", len(node.outputs)), ("t", len(node.temporaries)))
        return None if result is None and self._evaluates() else output_shapes(node, result)

    def _evaluates(self) -> bool:
        return callable(getattr(self.op, "evaluate", None))

    def evaluate(self, node: Node, *inputs: NDArray[Any] | None) -> list[NDArray[Any] | None]:
        """The outputs of an op whose shapes depend on data, as arrays of the outputs' types."""
        try:
            return _results(node, self.op.evaluate(*[None if array is None else _to_read(array, v) for array, v in zip(
                inputs, node.inputs, strict=True)]))
        except Exception as error:
            raise node.failure(f"{type(error).__name__}: {error}") from error

    def default_prepare(self, node: CustomNode) -> OutputShapes:
        """The outputs' shapes if the object has no prepare()."""
        return None if self._evaluates() else broadcast(node)

    def lower(self, node: Node) -> Call:
        arrays = (*node.inputs, *node.outputs, *self._prepared.temporaries)
        kernel = getattr(self.op, "kernel", None)
        if kernel is not None:
            return Call(_KernelFactory(self.where, kernel, arrays), *arrays)
        if not self._evaluates() and getattr(self.op.invoke, "__func__", None) is CustomOp.invoke:
            raise node.error(f"{type(self.op).__name__} has no invoke(), evaluate() or kernel()")
        states = [i for i, v in enumerate(node.inputs) if v is not None and v.kind == "variable"]
        invoke = _Filled(node, self.op.evaluate) if self._evaluates() else self.op.invoke
        return Call("python_op.CustomOp", invoke, len(node.inputs), len(node.outputs), states, *arrays)

    def reset(self) -> None:
        """Call the object's reset(), if it has one."""
        try:
            getattr(self.op, "reset", bool)()
        except Exception as error:
            raise failure(self.where, "failed to be reset", error) from error

    def close(self) -> None:
        """Free the object, at most once."""
        op, self.op, self._prepared = self.op, None, None
        if op is not None and hasattr(op, "free"):
            try:
                op.free()
            except Exception as error:
                raise failure(self.where, "failed to be freed", error) from error


def _check_arrays(node: Node, call: Any, *further: tuple[str, int]) -> None:
    """Raise an OpError unless `call` takes the inputs of the node and further arrays: (a letter for them, how many)."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):     # of many functions in C
        return
    needed = [p.name for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    names = [letter + str(i) * (n > 1) for letter, n in (("x", len(node.inputs)), *further) for i in range(n)]
    written = names if len(names) < MANY else ["*arrays"]
    own = ["self"] if inspect.ismethod(call) else []
    name = getattr(getattr(call, "func", call), "__name__", "invoke")
    try:
        signature.bind(*names, **dict.fromkeys(needed))
    except TypeError:
        raise node.error(f"{name}{signature} does not take the arrays of the node. Write def "
                         f"{name if name.isidentifier() else 'op'}("
                         f"{', '.join(own + written)}): its inputs{', outputs and temporaries' if further else ''}"
                         ) from None
    if needed:
        raise node.error(f"{name}{signature} needs {needed[0]!r}, and the node has no such option; give it a "
                         "default")


def _results(node: Node, results: Any) -> list[NDArray[Any] | None]:
    """The results of an evaluate(), converted to an array of the output's type for each output."""
    results = list(results) if isinstance(results, list | tuple) else [results]
    if len(results) != len(node.outputs):
        raise ValueError(f"it returned {counted(len(results), 'array')} for {counted(len(node.outputs), 'output')}")
    if any(v is not None and result is None for v, result in zip(node.outputs, results, strict=True)):
        raise TypeError("it returned None; evaluate() must return the outputs")
    return [None if v is None else _converted(result, NUMPY_DTYPES[v.dtype], f"output {i}, {v!r}")
            for i, (v, result) in enumerate(zip(node.outputs, results, strict=True))]


def _converted(result: Any, dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """`result` as an array of `dtype`; TypeError or ValueError if the conversion would change values."""
    array = np.asarray(result)
    if array.dtype.kind in "biu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if array.size and not limits.min <= array.min() <= array.max() <= limits.max:
            raise ValueError(f"it returned {array.min()} to {array.max()} for {what}, which holds {limits.min} to "
                             f"{limits.max}; clip the result")
    elif not (dtype.hasobject or np.can_cast(array.dtype, dtype, "same_kind")):
        raise TypeError(f"it returned {array.dtype} for {what}; convert the result, with rounding if that is meant")
    return np.asarray(array, dtype, order="C")


class _Filled:
    """The invoke() of an op with evaluate() whose output shapes prepare() has given."""

    def __init__(self, node: Node, evaluate: Callable[..., Any]) -> None:
        self._node, self._evaluate = node, evaluate

    def __call__(self, *arrays: Any) -> None:
        count = len(self._node.inputs)
        results = _results(self._node, self._evaluate(*arrays[:count]))
        for i, (array, result) in enumerate(zip(arrays[count:], results, strict=False)):
            if array is not None and result is not None:
                if result.shape != array.shape:
                    raise ValueError(f"it returned the shape {list(result.shape)} for output {i}; its prepare() had "
                                     f"given {list(array.shape)}")
                array[...] = result


class _KernelFactory:
    """Calls `make` for the Kernel of a node; an error names the node and its operands."""

    def __init__(self, where: str, make: Callable[..., Kernel], operands: Sequence[Any] = ()) -> None:
        self._where, self._operands = where, operands
        self._make = make
        self.__name__ = getattr(make, "__name__", "Kernel")

    def __call__(self, *arrays: Any) -> Kernel:
        from pylite._core.run.kernel import Kernel
        try:
            kernel = self._make(*arrays)
            if not isinstance(kernel, Kernel):
                raise TypeError(f"{kernel!r} is not a Kernel, an object of a class in Cython (docs/cython-kernels.md)")
            if not kernel.computes:
                raise TypeError(f"{type(kernel).__name__} has set no function, so it would compute nothing; end its "
                                "__init__() with self.fn = <kernel_fn>FUNCTION (docs/cython-kernels.md)")
            return kernel
        except Exception as error:
            cure = "; let a method kernel() flatten them: x.reshape(-1)" if "of dimensions" in str(error) else ""
            raise OpError(f"{self._where} could not bind its kernel: {type(error).__name__}: {error}; it got "
                          f"{', '.join(map(repr, self._operands)) or 'no arrays'}{cure}") from error


class _Function(CustomOp):
    """A function as an op.

    shapes: as for `custom_op`; names: the options that it takes, None for all.
    """

    def __init__(self, function: Callable[..., Any], shapes: Callable[..., OutputShapes] | None,
                 names: tuple[str, ...] | None, options: Any) -> None:
        super().__init__(options)
        arguments = options if isinstance(options, dict) else {}
        arguments = {key: value for key, value in arguments.items() if names is None or key in names}
        self.invoke = (  # type: ignore[method-assign]
            functools.partial(function, **arguments) if arguments else function)
        self._arguments = arguments
        self._shapes = shapes

    def prepare(self, node: CustomNode) -> OutputShapes:
        if self._shapes is None:
            return broadcast(node)
        return self._shapes(*[None if v is None else v.shape for v in node.inputs], **self._arguments)


def keywords(function: Any) -> tuple[str, ...] | None:
    """The names of the keyword-only parameters of a Python function; None if it has **parameters."""
    if not inspect.isfunction(function):
        return ()
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def _to_read(array: NDArray[Any], value: Any) -> NDArray[Any]:
    """A view for an op, writable if the tensor is a variable."""
    view = array.view()
    if value.kind != "variable":
        view.flags.writeable = False
    return view


def runnable(implementation: object) -> bool:
    """True if the implementation has a method that computes the outputs."""
    return any(callable(getattr(implementation, name, None)) for name in ("invoke", "evaluate", "kernel"))


def failure(where: str, what: str, error: BaseException) -> OpError:
    """The OpError to raise from `error`: what failed, at which node."""
    return OpError(f"{where} {what}: {type(error).__name__}: {error}")


def output_shapes(node: Node, result: Any) -> list[Any]:
    """The `result` of a prepare() as a list with a tuple of int for each output."""
    if result is None:
        return [None if v is None else v.shape for v in node.outputs]
    if isinstance(result, tuple) and all(hasattr(n, "__index__") for n in result):
        result = [result]
    if not isinstance(result, list | tuple) or len(result) != len(node.outputs):
        raise node.error(f"{result!r}, from prepare() or shapes=, are not the shapes of "
                         f"{counted(len(node.outputs), 'output')}; a shape is a tuple of int")
    return [_shape(node, shape, f"output {i}") for i, shape in enumerate(result)]


def _shape(node: Node, shape: Any, what: str) -> Shape:
    try:
        shape = tuple(map(operator.index, shape))
    except TypeError:
        raise node.error(f"{shape!r} is not a shape for {what}; expected a tuple of int") from None
    if any(n < 0 for n in shape):
        raise node.error(f"the shape {list(shape)} for {what} has a negative size")
    return shape


def _check_dtype(node: Node, dtype: str, what: str) -> None:
    if dtype not in DTYPE_BITS:
        raise node.error(f"{dtype!r} is not a data type for {what}; their names are {', '.join(DTYPE_BITS)}")
