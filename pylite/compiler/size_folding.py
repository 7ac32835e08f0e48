"""Folds tensors that are computed from recorded dimensions, such as the shape operand of a RESHAPE."""
from functools import partial

import numpy as np

from pylite._core.graph.dimensions import Computed, Dim, cells_in, estimate
from pylite._core.graph.settling import give_numbers, has_sizes
from pylite.compiler import constant_folding
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.lowered import COPY
from pylite.ir.values import Alias, Call, Value, as_list, known_array

_SMALL = 64             # most bytes of contents that are compared
_LIMITS = {"int32": 2**31, "int64": 2**62}      # for int64 the limit of a tape, which is lower


def fold(op, node):
    """Compute the outputs of `node`, whose inputs are all known; returns False if constant folding must do it.

    Outputs of fixed size get Dims as contents; others are computed for each set of shapes.  If neither is possible, the
    inputs get numbers, with guards.
    """
    if not any(value is not None and has_sizes(value) for value in node.inputs):
        return False
    results, shapes = None, _shapes(op, node)
    if shapes is not None and None not in node.outputs:
        results = _with_dims(op, node, shapes) or _computed(op, node, shapes)
    if results is None:
        give_numbers_to(node)
        return False
    for value, shape, result in zip(node.outputs, shapes, results, strict=True):
        value.shape, value.data = shape, result
    return True


def give_numbers_to(node):
    """Replace the Dims in the inputs' contents by numbers, with guards; returns whether there were any."""
    values = [value for value in node.inputs if value is not None and has_sizes(value)]
    for value in values:
        give_numbers(value)
    return bool(values)


def retried_with_numbers(node, prepare):
    """Call prepare(), which lowers `node`; if it fails on inputs with Dims, call it again with numbers."""
    try:
        return prepare()
    except Exception:
        if not give_numbers_to(node):
            raise
        return prepare()


def _shapes(op, node):
    """The result of the op's infer(); None if it has none, or needs numbers."""
    try:
        return None if op.lower is None else op.infer(node)
    except Exception:       # numbers in place of Dims may work, or raise an error that explains the fault
        return None


def _with_dims(op, node, shapes):
    """The outputs' contents with Dims; None if they have no fixed size, or if the op's reference disagrees.

    The reference computes with integers and Dims as with any numbers.  It is used only if its result for the current
    shapes equals the kernels'.
    """
    inputs = [value for value in node.inputs if value is not None]
    if op.reference is None or cells_in(list(shapes)) or Computed in [type(value.data) for value in inputs]:
        return None
    results = _referenced(op, node)
    expected = _evaluated(op, node, *[_contents(value, estimate) for value in node.inputs])
    if len(results) != len(expected):
        return None
    checked = [_checked(result, known, _LIMITS.get(value.dtype, 0))
               for value, result, known in zip(node.outputs, results, expected, strict=True)]
    return None if any(result is None for result in checked) else checked


def _referenced(op, node):
    """The results of the op's reference, a list of arrays of objects; empty if it fails."""
    try:
        results = op.reference(*[None if value is None else known_array(value) for value in node.inputs], node.options)
    except Exception:       # it needs numbers, or other operands
        return []
    return [np.array(r, object) for r in (results if isinstance(results, (list, tuple)) else [results])]


def _checked(result, known, limit):
    """A reference's result if it equals `known`, the kernels' for the current shapes, and is all integers and Dims."""
    numbers = [int(n) if isinstance(n, np.integer) else n for n in result.reshape(-1).tolist()]
    if result.shape != known.shape or not {type(n) for n in numbers} <= {int, Dim}:
        return None
    if [estimate(n) for n in numbers] != known.reshape(-1).tolist() or not all(-limit <= n < limit for n in numbers):
        return None
    if Dim not in {type(n) for n in numbers}:
        return known
    result = np.array(numbers, object).reshape(result.shape)
    result.flags.writeable = False
    return result


def _computed(op, node, shapes):
    """The contents of the only output as a Computed."""
    if len(shapes) != 1:
        return None
    contents = tuple([_contents(value) for value in node.inputs])
    known, key = _computed_before(contents), (op.name, node.outputs[0].dtype, repr(node.options), *map(_key, contents))
    if key not in known:
        compute = _copied if _only_copies(op, node) else _only
        known[key] = Computed(partial(compute, op, node), contents)
    return [known[key]]


def _computed_before(contents):
    """The Computed of the recording whose Dims are in `contents`, by key."""
    for content in contents:
        for item in content[1] if content is not None and type(content[1]) is tuple else ():
            if type(item) is Dim:
                return item.recording.computed
    return {}


def _key(content):
    """A key that is equal for contents that are equal for all shapes."""
    if content is None or type(content[1]) is Computed:
        return None if content is None else id(content[1])
    shape, data = content
    if shape is not None:
        return shape, tuple([("Dim", item.cell) if type(item) is Dim else item for item in data])
    return (data.dtype.str, data.shape, data.tobytes()) if data.nbytes <= _SMALL else id(data)


def _only_copies(op, node):
    """Does the node only copy elements, and does the op's reference copy the same ones?

    The reference is then right for all shapes, and takes a tenth of the kernels' time.
    """
    contents = [_contents(value, estimate) for value in node.inputs]
    if op.reference is None or Computed in [type(value.data) for value in node.inputs if value is not None]:
        return False
    copy, emitted = _lowered(op, node, *contents)
    if not all(item.kernel == COPY if type(item) is Call else type(item) is Alias for item in emitted):
        return False
    try:
        result = _copied(op, node, *contents)
    except Exception:       # the reference takes other operands
        return False
    constant_folding.compute(None, copy, emitted, copy.outputs)
    expected = copy.outputs[0].data
    return result.shape == expected.shape and result.tobytes() == expected.tobytes()


def _copied(op, node, *contents):
    """The contents of the only output of `node`, by the op's reference."""
    arrays = [None if content is None else _array(value, *content)
              for value, content in zip(node.inputs, contents, strict=True)]
    result = np.ascontiguousarray(op.reference(*arrays, node.options), NUMPY_DTYPES[node.outputs[0].dtype])
    result.flags.writeable = False
    return result


def _contents(value, number=None):
    """(shape, contents) of an operand, for a Computed; number: a function for its Dims."""
    if value is None or not has_sizes(value):
        return None if value is None else (None, known_array(value))
    if type(value.data) is Computed:
        return None, value.data
    sizes = tuple(value.data.reshape(-1).tolist())
    return value.data.shape, sizes if number is None else tuple([number(n) for n in sizes])


def _only(op, node, *contents):
    """The contents of the only output of `node`."""
    return _evaluated(op, node, *contents)[0]


def _evaluated(op, node, *contents):
    """The outputs that the kernels of `node` compute from inputs with these (shape, contents): a list of arrays."""
    copy, emitted = _lowered(op, node, *contents)
    constant_folding.compute(None, copy, emitted, copy.outputs)
    for value in copy.outputs:
        value.data.flags.writeable = False
    return [value.data for value in copy.outputs]


def _lowered(op, node, *contents):
    """(a copy of `node` with inputs of these (shape, contents), its calls)"""
    inputs = [None if content is None else _copy(value, *content)
              for value, content in zip(node.inputs, contents, strict=True)]
    copy = node.with_operands(inputs, [Value(value.tensor) for value in node.outputs])
    for value, shape in zip(copy.outputs, op.infer(copy), strict=True):
        value.shape = shape
    emitted = op.lower(copy)
    return copy, as_list(emitted)


def _copy(value, shape, contents):
    """A Value with numbers."""
    copy = Value(value.tensor)
    copy.data = _array(value, shape, contents)
    copy.shape, copy.dtype = copy.data.shape, value.dtype
    return copy


def _array(value, shape, contents):
    if shape is None:
        return contents
    array = np.array(contents, NUMPY_DTYPES[value.dtype])
    return array if len(shape) == 1 else array.reshape(shape)
