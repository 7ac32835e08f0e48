"""MATRIX_DIAG and MATRIX_SET_DIAG: the diagonals of matrices."""
from pylite.ir.registry import register
from pylite.ir.shapes import contiguous_strides
from pylite.ops.moves import copy, filled, movable


def diagonal(value):
    """The diagonals of the matrices in the last two dimensions of `value`, as one view."""
    *outer, rows, columns = value.shape
    strides = contiguous_strides(value.shape)
    return value.view((*outer, min(rows, columns)), (*strides[:-2], columns + 1))


def infer_matrix_diag(node):
    x = node.inputs[0]
    if not x.shape:
        raise node.error("is a scalar, which cannot be a diagonal", x)
    return [x.shape + x.shape[-1:]]


def lower_matrix_diag(node):
    x, y = node.inputs[0], node.outputs[0]
    return [filled(y, 0), copy(x, diagonal(y))]


def infer_matrix_set_diag(node):
    x, d = node.inputs
    if len(x.shape) < 2 or d.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise node.error(f"of shape {list(d.shape)} does not fit the diagonals of {list(x.shape)}", d)
    return [x.shape]


def lower_matrix_set_diag(node):
    x, d, y = node.inputs[0], node.inputs[1], node.outputs[0]
    return [copy(x, y), copy(d, diagonal(y))]


register("MATRIX_DIAG", types=movable("T -> T"), infer=infer_matrix_diag, lower=lower_matrix_diag)
register("MATRIX_SET_DIAG", types=movable("T T -> T"), infer=infer_matrix_set_diag, lower=lower_matrix_set_diag)
