"""PluginStructs: what plug-ins see of one subgraph, filled from the model and updated while it is lowered."""
import functools

import numpy as np

from pylite._core.capi.hosting import Externals, PluginHost
from pylite._core.capi.kernels import Plugin, ReadBack
from pylite._core.run.memory import Pages, memory_limit
from pylite.errors import MemoryLimitError
from pylite.ir.graph import DTYPE_BITS, packed_size
from pylite.ir.values import Call, Value, View
from pylite.plugins.host.layouts import TYPE_CODES, builtin_data
from pylite.schema.encodings import pack
from pylite.schema.tables import enum_numbers

MMAP_RO, ARENA_RW, ARENA_PERSISTENT, DYNAMIC, PERSISTENT_RO = 1, 2, 3, 4, 5     # TfLiteAllocationType
ARENA = ARENA_RW, ARENA_PERSISTENT
TYPE_NAMES = {code: name for name, code in TYPE_CODES.items()}
PACKED = {name for name, bits in DTYPE_BITS.items() if bits and bits < 8}     # for plug-ins, as in the file
EMPTY = b""


class PluginStructs:
    """The PluginHost of the subgraph of one Executor.

    subgraph: as the model declares it; host: the PluginHost; native: how many nodes of delegates in native code exist.
    """

    def __init__(self, executor):
        subgraph = executor.subgraph if executor.delegation is None else executor.delegation.original
        self.native = 0
        self.subgraph = subgraph
        if executor.shared.externals is None:
            executor.shared.externals = Externals()
        most = memory_limit() if executor.max_memory is None else executor.max_memory
        self.host = PluginHost(len(subgraph.tensors), executor.shared.externals, most)
        contents = protected_constants(subgraph.tensors)
        for tensor in subgraph.tensors:
            self._add_tensor(tensor, contents.get(tensor.index, tensor.data))
            self._add_sparsity(tensor)
            self._add_quantization(tensor)
        for operator in subgraph.operators:
            self._add_node(operator)
        self.host.threads = executor.pool.threads
        variables = [t.index for t in subgraph.tensors if t.is_variable]
        self.host.finish([o.index for o in subgraph.operators], subgraph.inputs, subgraph.outputs, variables,
                         subgraph.name)

    def _add_tensor(self, tensor, contents):
        data, signature = 0, None
        if contents is not None:
            where, nbytes = MMAP_RO, contents.nbytes
            if contents.size:
                data = contents.ctypes.data
        else:
            nbytes = packed_size(tensor.dtype, tensor.shape) or 0
            where = ARENA_PERSISTENT if tensor.is_variable else ARENA_RW
            if tensor.dtype == "string":
                where = DYNAMIC
            if -1 in tensor.shape_signature:
                signature = tensor.shape_signature
        self.host.set_tensor(tensor.index, tensor.name, TYPE_CODES.get(tensor.dtype, 0), tensor.shape, signature,
                             where, data, nbytes, tensor.is_variable, contents)

    def _add_sparsity(self, tensor):
        s = tensor.sparsity
        if s is not None:
            self.host.set_sparsity(tensor.index, s.traversal_order, s.block_map,
                                   [(d.size, None, None) if d.format == "DENSE" else (0, d.segments, d.indices)
                                    for d in s.dimensions])

    def _add_quantization(self, tensor):
        q = tensor.quantization
        if q is None:
            return
        if q.block_size:
            self.host.set_blockwise(tensor.index, q.scale_tensor, q.zero_point_tensor, q.block_size, q.axis)
        elif len(q.scale):
            self.host.set_quantization(
                tensor.index, np.ascontiguousarray(q.scale, np.float32),
                np.ascontiguousarray(np.broadcast_to(q.zero_point, q.scale.shape), np.int64), q.axis)

    def _add_node(self, operator):
        params, references = builtin_data(operator)
        codes = enum_numbers("BuiltinOperator")
        self.host.add_node(codes["CUSTOM"] if operator.custom else operator.builtin_code,
                           operator.name if operator.custom else None, operator.version, operator.inputs,
                           operator.outputs, operator.intermediates, EMPTY if params is None else bytes(params),
                           operator.custom_options, references)

    def set_shapes(self, values):
        """Update the shapes of `values` (Value, or None to skip), except for constants of the model."""
        reshape = self.host.reshape
        for value in values:
            if value is not None and value.tensor.data is None:
                reshape(value.index, value.shape, packed_size(value.dtype, value.shape) or 0)

    def update(self, delegation):
        """Update the nodes, the plan and the shapes from a Delegation, before a delegate in native code sees them."""
        for operator in delegation.operators[self.host.num_nodes:]:
            self.host.add_node(operator.builtin_code, None, operator.version, operator.inputs, operator.outputs, (),
                               EMPTY, EMPTY)
        self.host.set_plan(delegation.plan)
        self.set_shapes(delegation.current_values())
        self.clear_addresses(range(self.host.model_tensors))

    def remove_delegate_node(self):
        """Count a delegate's node that was closed; after the last one, restore the model's graph."""
        if self.native:
            self.native -= 1
            if not self.native:
                self.host.undo_delegates()

    def remove_delegates(self):
        """Restore the model's graph at once."""
        self.native = 0
        self.host.undo_delegates()

    def finish(self, lowered):
        """Insert a ReadBack before the first reader of each tensor that a delegate may leave in its own buffer."""
        if not self.native:
            return
        pending = {}        # root of a value -> (value, the node of a delegate that writes it)
        calls = []
        for call in lowered.calls:
            delegate = self.host.delegate_of(call.args[1]) if call.kernel in (Plugin, StringPlugin) else 0
            for root in _read_roots(call) & pending.keys():
                if self.host.delegate_of(pending[root][1].index) != delegate:
                    calls.append(self._read_back(*pending.pop(root)))
            calls.append(call)
            if delegate:
                pending.update((v.root, (v, call.node)) for v in call.node.outputs if v is not None and v.size)
        for index in lowered.subgraph.outputs:
            arguments = pending.pop(lowered.values[index].root, None)
            if arguments is not None:
                calls.append(self._read_back(*arguments))
        lowered.calls[:] = calls

    def _read_back(self, value, node):
        call = Call(ReadBack, self.host, value.index, value.bytes)
        call.node = node
        return call

    def clear_addresses(self, indices):
        """Clear the data pointers of tensors in the arena: it has no memory for them while nothing runs."""
        host = self.host
        for i in indices:
            if i >= 0 and host.facts(i)[2] in ARENA:
                host.set_address(i, 0)


def StringPlugin(host, index, tensors, banded, string_tensors, *arrays):
    """A Plugin with inputs of strings: before each run, the first arrays are copied to the tensors `string_tensors`."""
    count = len(string_tensors)
    before = functools.partial(set_strings, host, string_tensors, arrays[:count])
    return Plugin(host, index, tensors, banded, before, *arrays[count:])


def set_strings(host, indices, arrays):
    """Set the tensors `indices` of a PluginHost to the strings of `arrays`, packed as plug-ins expect them."""
    for index, array in zip(indices, arrays, strict=True):
        host.set_bytes(index, pack(array, "string").tobytes())


def _read_roots(call):
    """The roots of the values among the arguments of a call."""
    return {a.root if type(a) is Value else a.value.root for a in call.args if type(a) in (Value, View)}


def structs_of(executor):
    """The PluginStructs of an Executor, made on the first call."""
    if executor.plugin_structs is None:
        executor.plugin_structs = PluginStructs(executor)
    return executor.plugin_structs


# ---- constants that plug-ins cannot write to -------------------------------------------------------------------
_ALIGNMENT = 64


def protected_constants(tensors):
    """{tensor index: its contents in memory that only can be read}; constants of mapped files already are there."""
    unprotected = [t for t in tensors if t.data is not None and t.data.size and not _is_protected(t.data)]
    sizes = [(t.data.nbytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT for t in unprotected]
    if not unprotected:
        return {}
    try:
        pages = Pages(sum(sizes))
    except MemoryError as problem:
        raise MemoryLimitError(f"{problem} of constants that plug-ins may read: open the model by its path, which is "
                               "mapped") from None
    memory = np.frombuffer(memoryview(pages), np.uint8)
    contents, start = {}, 0
    for tensor, size in zip(unprotected, sizes, strict=True):
        part = memory[start:start + tensor.data.nbytes]
        part[:] = tensor.data.reshape(-1).view(np.uint8)
        contents[tensor.index] = part
        start += size
    pages.protect()
    return contents


def _is_protected(array):
    """Does the memory of an array belong to Pages that trap writes?"""
    owner = array
    while isinstance(owner, (np.ndarray, memoryview)):
        owner = owner.base if isinstance(owner, np.ndarray) else owner.obj
    return isinstance(owner, Pages) and owner.is_protected
