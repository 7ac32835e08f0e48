"""Flex ops as functions of arrays that follow the definition of TensorFlow's op, with the types that they take."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.flex.node_def import attributes
from pylite.ir.flex_ops import PREFIX
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import matches
from pylite.plugins.python_ops import CustomOp, keywords

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from pylite.plugins.python_ops import CustomNode

    _Function = TypeVar("_Function", bound=Callable[..., Any])

OPS: dict[str, type[FlexOp]] = {}     # custom code -> the class of its nodes


class FlexOp(CustomOp):
    """The base of all Flex ops; `flex_op` creates the classes."""
    raw_options = True
    name = ""
    types: tuple[str, ...] = ()
    sized_by: tuple[int, ...] | None = ()
    shapes: Callable[..., Any] | None = None
    compute: Callable[..., Any]

    def __init__(self, options: bytes) -> None:
        super().__init__(attributes(options, self.name))
        names = keywords(self.compute) or ()
        self.arguments = {name: value for name, value in self.options.items() if name in names and value is not None}

    def prepare(self, node: CustomNode) -> list[tuple[int, ...]] | None:
        """The outputs' shapes, found by running the op on zeros; None if they depend on data."""
        takes, gives = (tuple([None if v is None else v.dtype for v in side]) for side in (node.inputs, node.outputs))
        if not any(matches(signature, takes, gives) for signature in self.types):
            raise node.error(f"does not take the types ({', '.join(map(str, takes))}) -> "
                             f"({', '.join(map(str, gives))}); pylite.flex takes {' or '.join(self.types)}")
        if self.shapes is not None:
            return self.shapes(node, **self.arguments)
        if self.sized_by is None or any(node.inputs[i].data is None for i in self.sized_by if i < len(node.inputs)):
            return None
        with np.errstate(all="ignore"):
            return [np.shape(result) for result in self._results([
                np.broadcast_to(np.zeros((), NUMPY_DTYPES[v.dtype]), v.shape) if v.data is None else v.data
                for v in node.inputs])]

    def evaluate(self, *arrays: Any) -> list[Any]:
        with np.errstate(all="ignore"):
            return self._results(arrays)

    def _results(self, arrays: Any) -> list[Any]:
        results = self.compute(*arrays, **self.arguments)
        return list(results) if isinstance(results, tuple) else [results]


def flex_op(name: str, *types: str, sized_by: tuple[int, ...] | None = (),
            shapes: Callable[..., Any] | None = None) -> Callable[[_Function], _Function]:
    """Decorator: the function is TensorFlow's op `name`, from arrays to an array, or a tuple of them.

    types: signatures as of ir.registry.register; a keyword-only parameter gets the attribute of its name.
    sized_by: the inputs whose contents, not only shapes, determine the outputs' shapes; None if all do.
    shapes(node, **attributes) -> the outputs' shapes, or None if they depend on data; replaces the run on zeros.
    """
    def define(function: _Function) -> _Function:
        OPS[PREFIX + name] = type(name, (FlexOp,), {
            "name": PREFIX + name, "types": types, "sized_by": sized_by,
            "shapes": shapes and staticmethod(shapes), "compute": staticmethod(function)})
        return function
    return define
