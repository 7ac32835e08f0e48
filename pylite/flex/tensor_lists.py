"""Flex ops on lists of tensors, which loops fill.  A tensor of type variant holds a TensorList."""
from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pylite.flex.op import flex_op
from pylite.ir.graph import NUMPY_DTYPES

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    _Array = NDArray[Any]

_ITEMS = ("float32|float64|float16|int32|int64|int16|int8|uint64|uint32|uint16|uint8|bool|complex64|"
          "complex128")
_SHAPE = "int32|int64"
MOST_ITEMS = 1 << 24        # empty items of a list take memory, too


class TensorList:
    """An immutable list of tensors of one type; ops create a new one.

    items: arrays, or None for items that were not set; shape: of an item, with -1 for unknown sizes, None if the rank
    is unknown.
    """

    def __init__(self, items: list[_Array | None], shape: tuple[int, ...] | None, dtype: str) -> None:
        self.items, self.shape, self.dtype = items, shape, dtype

    def changed(self, items: list[_Array | None]) -> _Array:
        return handle(TensorList(items, self.shape, self.dtype))

    def at(self, index: int) -> None:
        if not 0 <= index < len(self.items):
            raise IndexError(f"there is no item {index} in a list of {len(self.items)}")

    def item(self, index: int, shape: tuple[int, ...] | None) -> _Array:
        """An item; zeros of `shape` if it was not set."""
        self.at(index)
        stored = self.items[index]
        if stored is None:
            sizes = _merged(_merged(self.shape, shape), next((i.shape for i in self.items if i is not None), None))
            if sizes is None or -1 in sizes:
                raise ValueError(f"item {index} was not set, and its shape {sizes} is not known")
            return np.zeros(sizes, NUMPY_DTYPES[self.dtype])
        _merged(stored.shape, shape)
        return stored

    def checked(self, item: _Array) -> _Array:
        """A copy of `item`, checked against the list's type and shape."""
        if item.dtype != NUMPY_DTYPES[self.dtype]:
            raise TypeError(f"an item of {item.dtype} does not fit a list of {self.dtype}")
        _merged(self.shape, item.shape)
        return item.copy()


def _checked(count: int) -> int:
    """The number of items of a list."""
    if not 0 <= count <= MOST_ITEMS:
        raise ValueError(f"a list of {count} items; 0 to {MOST_ITEMS} are possible")
    return count


def handle(tensors: TensorList) -> _Array:
    """A tensor of type variant that holds the list."""
    array = np.empty((), object)
    array[()] = tensors
    return array


def list_of(array: _Array) -> TensorList:
    tensors = array.item()
    if not isinstance(tensors, TensorList):
        raise TypeError("the tensor holds no list of tensors")
    return tensors


def _shape(array: _Array) -> tuple[int, ...] | None:
    """The shape in an input element_shape, a vector; a scalar means that the rank is unknown."""
    return None if array.ndim == 0 else tuple(map(int, array))


def _merged(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(n != m and -1 not in (n, m) for n, m in zip(a, b, strict=True)):
        raise ValueError(f"an item of shape {list(b)} does not fit one of {list(a)}")
    return tuple(max(n, m) for n, m in zip(a, b, strict=True))


def _scalars(node: Any, **_: Any) -> list[tuple[int, ...]]:
    return [()] * len(node.outputs)


def _item_shape(position: int) -> Any:
    """shapes() of an op whose result is an item of the shape that input `position` gives."""
    def shapes(node: Any, **_: Any) -> list[tuple[int, ...]] | None:
        data = node.inputs[position].data
        shape = None if data is None else _shape(data)
        return None if shape is None or -1 in shape else [shape]
    return shapes


def _stack_shape(node: Any, num_elements: int = -1, **_: Any) -> list[tuple[int, ...]] | None:
    item = _item_shape(1)(node)
    return None if item is None or num_elements < 0 else [(num_elements, *item[0])]


@flex_op("TensorListReserve", f"{_SHAPE} int32 -> variant", shapes=_scalars)
def reserve(shape: _Array, count: _Array, *, element_dtype: str) -> _Array:
    return handle(TensorList([None] * _checked(int(count)), _shape(shape), element_dtype))


@flex_op("EmptyTensorList", f"{_SHAPE} int32 -> variant", shapes=_scalars)
def empty(shape: _Array, most: _Array, *, element_dtype: str) -> _Array:
    return handle(TensorList([], _shape(shape), element_dtype))


@flex_op("TensorListFromTensor", f"{_ITEMS} {_SHAPE} -> variant", shapes=_scalars)
def from_tensor(x: _Array, shape: _Array, *, element_dtype: str) -> _Array:
    tensors = TensorList([], _shape(shape), element_dtype)
    return tensors.changed([tensors.checked(item) for item in x])


@flex_op("TensorListSetItem", f"variant int32 {_ITEMS} -> variant", shapes=_scalars)
def set_item(handle: _Array, index: _Array, item: _Array, *, resize_if_index_out_of_bounds: bool = False) -> _Array:
    tensors, position = list_of(handle), int(index)
    items = list(tensors.items)
    if resize_if_index_out_of_bounds and position >= len(items):
        items += [None] * (_checked(position + 1) - len(items))
    else:
        tensors.at(position)
    items[position] = tensors.checked(item)
    return tensors.changed(items)


@flex_op("TensorListGetItem", f"variant int32 {_SHAPE} -> {_ITEMS}", shapes=_item_shape(2))
def get_item(handle: _Array, index: _Array, shape: _Array) -> _Array:
    return list_of(handle).item(int(index), _shape(shape))


@flex_op("TensorListStack", f"variant {_SHAPE} -> {_ITEMS}", shapes=_stack_shape)
def stack(handle: _Array, shape: _Array, *, num_elements: int = -1) -> _Array:
    tensors, wanted = list_of(handle), _shape(shape)
    if num_elements not in (-1, len(tensors.items)):
        raise ValueError(f"the list has {len(tensors.items)} items; the op expects {num_elements}")
    if tensors.items:
        return np.stack([tensors.item(i, wanted) for i in range(len(tensors.items))])
    sizes = _merged(tensors.shape, wanted)
    if sizes is None or -1 in sizes:
        raise ValueError(f"the list is empty, and the shape {sizes} of its items is not known")
    return np.zeros((0, *sizes), NUMPY_DTYPES[tensors.dtype])


@flex_op("TensorListGather", f"variant int32 {_SHAPE} -> {_ITEMS}", sized_by=None)
def gather(handle: _Array, indices: _Array, shape: _Array) -> _Array:
    tensors, wanted = list_of(handle), _shape(shape)
    if indices.size:
        return np.stack([tensors.item(int(i), wanted) for i in indices])
    sizes = _merged(tensors.shape, wanted)
    return np.zeros((0, *(() if sizes is None else np.maximum(sizes, 0))), NUMPY_DTYPES[tensors.dtype])


@flex_op("TensorListLength", "variant -> int32", shapes=_scalars)
def length(handle: _Array) -> _Array:
    return np.asarray(len(list_of(handle).items))


@flex_op("TensorListElementShape", "variant -> int32|int64", sized_by=None)
def element_shape(handle: _Array) -> _Array:
    shape = list_of(handle).shape
    return np.asarray(-1 if shape is None else shape, np.int64)


@flex_op("TensorListResize", "variant int32 -> variant", shapes=_scalars)
def resize(handle: _Array, count: _Array) -> _Array:
    tensors, size = list_of(handle), _checked(int(count))
    return tensors.changed([*tensors.items[:size], *[None] * (size - len(tensors.items))])


@flex_op("TensorListPushBack", f"variant {_ITEMS} -> variant", shapes=_scalars)
def push_back(handle: _Array, item: _Array) -> _Array:
    tensors = list_of(handle)
    return tensors.changed([*tensors.items, tensors.checked(item)])


@flex_op("TensorListPopBack", f"variant {_SHAPE} -> variant {_ITEMS}",
         shapes=lambda node, **_: None if (item := _item_shape(1)(node)) is None else [(), *item])
def pop_back(handle: _Array, shape: _Array) -> tuple[_Array, _Array]:
    tensors = list_of(handle)
    return tensors.changed(tensors.items[:-1]), tensors.item(len(tensors.items) - 1, _shape(shape))
