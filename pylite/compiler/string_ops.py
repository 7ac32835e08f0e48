"""Nodes with strings run in Python, because tensors of strings are arrays of objects.

The bytes of such an array are addresses, and kernels that copy bytes do not count references.  `run_in_python`
therefore leaves no such kernel.
"""
import numpy as np

from pylite.compiler import binding
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.lowered import COPY
from pylite.ir.values import Alias, Call, Constant, Value, as_list, runs_python

OBJECTS = frozenset(name for name, dtype in NUMPY_DTYPES.items() if dtype.hasobject)
NUMBERS = "int64"       # the type of the numbers that stand for strings


def run_in_python(op, node, emitted):
    """The calls of a node: `emitted`, or equivalent Python code if `emitted` passes objects to kernels."""
    if not _has_objects(node):
        return emitted
    types = [tuple([value and value.dtype for value in values]) for values in (node.inputs, node.outputs)]
    if not op.accepts(*types):      # a plug-in may change the type that the file declares
        raise node.error(f"cannot take {', '.join(map(str, types[0]))} to give {', '.join(map(str, types[1]))}")
    if all(_is_python(item) for item in emitted):
        return emitted
    return [_by_numbers(op, node)]


def _has_objects(node):
    return any(value is not None and value.dtype in OBJECTS for value in (*node.inputs, *node.outputs))


def _is_python(item):
    """Is it a constant, Python code, or a plug-in (which gets copies)?  An Alias does not count: it may become a
    copy."""
    return type(item) is Constant or (type(item) is Call and runs_python(item.kernel))


def _by_numbers(op, node):
    """A Call that runs the op's kernels on numbers in place of strings, for ops that move or compare elements.

    Equal strings have the same number.  The empty string is 0, because ops fill gaps with zeros.
    """
    words = {b"": 0}
    numbers = {}
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.dtype in OBJECTS:
            if value.dtype != "string":
                raise node.error("its elements have no fixed size, which no kernel moves", value)
            numbers[value.index] = _number_value(value, words)
    inputs, outputs = ([value and numbers.get(value.index, value) for value in values]
                       for values in (node.inputs, node.outputs))
    emitted = op.lower(node.with_operands(inputs, outputs))
    run = _OnNumbers(node, as_list(emitted), inputs, outputs, words)
    return Call("python_op.PythonOp", run, len(inputs), len(outputs), *node.inputs, *node.outputs)


def _number_value(value, words):
    """A Value of numbers in place of a Value of strings; adds its contents, if known, to `words`."""
    number = Value(value.tensor)
    number.dtype, number.shape = NUMBERS, value.shape
    if value.data is not None:
        number.data = _numbered(value.data, words)
    return number


def _numbered(array, words, known=()):
    """An array with the numbers of the strings in `array`; adds new strings to `words`.  known: {string: number}"""
    first = len(known)
    numbers = [known[word] if word in known else words.setdefault(word, first + len(words))
               for word in array.reshape(-1).tolist()]
    return np.array(numbers, np.int64).reshape(array.shape)


def _array(words):
    return np.array([*words, None])[:-1]        # None makes it an array of objects in any case


class _OnNumbers:
    """Runs the calls of a node on numbers in place of strings.  known: {constant string: its number}."""

    def __init__(self, node, emitted, inputs, outputs, known):
        self.inputs, self.outputs = inputs, outputs
        self.known, self.strings = known, _array(known)
        self.calls = []
        for item in emitted:
            if type(item) is Call:
                item.node = node
                self.calls.append(item)
            elif type(item) is Alias:
                self.calls.append(Call(COPY, item.x.bytes, item.y.bytes))

    def __call__(self, *arrays):
        operands, words = {}, {}
        results = arrays[len(self.inputs):]
        for value, array in zip(self.inputs, arrays, strict=False):
            if value is not None:
                operands[value.index] = array if not array.dtype.hasobject else (
                    _numbered(array, words, self.known) if value.data is None else value.data)
        for value, array in zip(self.outputs, results, strict=True):
            if value is not None:
                operands[value.index] = np.zeros(array.shape, np.int64) if array.dtype.hasobject else array
        for kernel in binding.bind(self.calls, binding.Storage(dict(operands)), None):
            status = kernel.run()
            if status:
                raise ValueError(kernel.explain(status))
        strings = np.concatenate([self.strings, _array(words)])
        for value, array in zip(self.outputs, results, strict=True):
            if value is not None and array.dtype.hasobject:
                array[...] = strings[operands[value.index]]
