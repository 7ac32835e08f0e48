"""Ops on state that outlives a run: resource variables (VAR_HANDLE, ...) and hash tables (HASHTABLE, ...).

Both belong to the interpreter.  A resource tensor holds the number of a resource, which its handle op assigns while
lowering.
"""
import numpy as np

from pylite._core.kernels import kernel_class
from pylite.ir.graph import NUMPY_DTYPES
from pylite.ir.registry import register
from pylite.ir.values import Call, Constant

VARIABLE, TABLE = "variable", "hash table"      # kinds of resources


def numbered(node, kind, key, make):
    """The number of the resource `key`; it is made on first use."""
    if node.host is None:
        raise node.error("keeps a state, which only an interpreter has")
    numbers, resources = node.host.shared.resource_numbers, node.host.shared.resources
    if (kind, key) not in numbers:
        numbers[kind, key] = len(resources)
        resources.append(make())
    return numbers[kind, key]


def resource(node, kind):
    """The resource to which the first input, a resource tensor, refers; OpError if it is not of this kind."""
    number = node.constant(0, "resource").reshape(-1)[:1].tolist()
    resources = node.host.shared.resources
    entry = resources[number[0]] if number and 0 <= number[0] < len(resources) else None
    if entry is None or kind != entry.KIND:
        raise node.error(f"is not a {kind}: it does not come from a handle op", node.inputs[0])
    return entry


def handle(kind, key, make):
    """The lower() of an op that gives the number of a resource."""
    def lower(node):
        y = node.outputs[0]
        return Constant(y, np.full(y.shape, numbered(node, kind, key(node), make), NUMPY_DTYPES[y.dtype]))
    return lower


def infer_handle(node):
    return [node.outputs[0].tensor.shape]


# ---- resource variables --------------------------------------------------------------------------------------
def expect(node, variable, shape):
    """Note the shape that a variable has here; once it has had another, every run checks its shape."""
    if variable.expected is None:
        variable.expected = shape
    elif variable.expected != shape and not variable.varying:
        variable.varying = True
        node.host.lower_again()


def infer_read(node):
    """The declared shape, or else the shape that is assigned; None if it is unknown or changes."""
    variable, y = resource(node, VARIABLE), node.outputs[0]
    tensor = y.tensor
    if -1 in tensor.shape_signature or not (tensor.shape or tensor.has_rank):
        shape = variable.expected
    else:
        shape = tensor.shape
    if y.dtype == "string" or shape is None:
        return None
    expect(node, variable, shape)
    return None if variable.varying else [shape]


def evaluate_read(node, handle):
    variable, y = resource(node, VARIABLE), node.outputs[0]
    if variable.array is None:
        raise node.error("the variable is read before anything was assigned to it; run the model's initializer first")
    if variable.array.dtype != NUMPY_DTYPES[y.dtype]:
        raise node.error(f"the variable holds {variable.array.dtype}", y)
    return [variable.array]


def infer_assign(node):
    expect(node, resource(node, VARIABLE), node.inputs[1].shape)
    return []


def lower_assign(node):
    variable, x = resource(node, VARIABLE), node.inputs[1]
    variable.reserved = max(variable.reserved, x.nbytes)
    if x.dtype == "string":
        return Call("python_op.PythonOp", variable.assign, 1, 0, x)
    return Call("variables.Assign", variable, x)


register("VAR_HANDLE", types=["-> resource"], infer=infer_handle, stateful=True,
         lower=handle(VARIABLE, lambda node: (node.options.container, node.options.shared_name),
                      lambda: kernel_class("variables.Variable")()))
register("READ_VARIABLE", types=["resource -> any"], infer=infer_read, evaluate=evaluate_read, stateful=True,
         lower=lambda node: Call("variables.Read", resource(node, VARIABLE), node.outputs[0]))
register("ASSIGN_VARIABLE", types=["resource any ->"], infer=infer_assign, lower=lower_assign, stateful=True)


# ---- hash tables ---------------------------------------------------------------------------------------------
_ENTRY = 200        # bytes of an entry, as the dict of a table has it
_BLOCK = 4096       # keys that are looked up at a time


class HashTable:
    """A hash table, which is filled once.

    number: a Variable with the number of its entries, for kernels; reserved: bytes that they may take.
    """

    KIND = TABLE

    def __init__(self):
        self.entries = None
        self.reserved = 0
        self.number = kernel_class("variables.Variable")()
        self.number.assign(np.zeros(1, np.int64))

    def fill(self, keys, values):
        if self.entries is None:
            pairs = zip(keys.reshape(-1).tolist(), values.reshape(-1).tolist(), strict=True)
            self.entries = dict(reversed(list(pairs)))      # of equal keys the first one counts
            self.number.assign(np.array([len(self.entries)], np.int64))

    def find(self, keys, default, y):
        if self.entries is None:
            raise ValueError("the table is used before anything was imported; run the model's initializer first")
        get, otherwise = self.entries.get, default.item()
        if keys.ndim != 1:
            keys, y = keys.reshape(-1), y.reshape(-1)
        for at in range(0, len(keys), _BLOCK):
            y[at:at + _BLOCK] = [get(key, otherwise) for key in keys[at:at + _BLOCK].tolist()]


def table_of(node):
    return resource(node, TABLE)


def infer_find(node):
    table_of(node)
    if node.inputs[2].size != 1:
        raise node.error("is the default value, and must be one value", node.inputs[2])
    return [node.inputs[1].shape]


def lower_find(node):
    return Call("python_op.PythonOp", table_of(node).find, 2, 1, *node.inputs[1:], node.outputs[0])


def infer_import(node):
    _, keys, values = node.inputs
    if keys.shape != values.shape:
        raise node.error(f"has the shape {list(values.shape)} for keys of {list(keys.shape)}", values)
    return []


def lower_import(node):
    table = table_of(node)
    table.reserved = max(table.reserved, _ENTRY * node.inputs[1].size)
    return Call("python_op.PythonOp", table.fill, 2, 0, *node.inputs[1:])


def lower_size(node):
    return Call("variables.Read", table_of(node).number, node.outputs[0])


PAIRS = (("int64", "string"), ("string", "int64"))

register("HASHTABLE", types=["-> resource"], infer=infer_handle, stateful=True,
         lower=handle(TABLE, lambda node: node.options.table_id, HashTable))
register("HASHTABLE_FIND", types=[f"resource {k} {v} -> {v}" for k, v in PAIRS], infer=infer_find, lower=lower_find,
         stateful=True)
register("HASHTABLE_IMPORT", types=[f"resource {k} {v} ->" for k, v in PAIRS], infer=infer_import, lower=lower_import,
         stateful=True)
register("HASHTABLE_SIZE", types=["resource -> int64"], infer=lambda node: table_of(node) and [(1,)], lower=lower_size,
         stateful=True)
