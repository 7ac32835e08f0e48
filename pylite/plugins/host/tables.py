"""Fills a Host with a subgraph of a model, and keeps it in step with what lowering finds out."""
import functools

import numpy as np

from pylite._core.capi.hosting import Externals, Host
from pylite._core.capi.kernels import Plugin, ReadBack
from pylite.ir.graph import DTYPE_BITS, packed_size
from pylite.ir.values import Call, Value, View
from pylite.plugins.host.layouts import TYPE_CODES, builtin_data
from pylite.schema.encodings import pack
from pylite.schema.tables import enum_numbers

MMAP_RO, ARENA_RW, ARENA_PERSISTENT, DYNAMIC, PERSISTENT_RO = 1, 2, 3, 4, 5     # TfLiteAllocationType
ARENA = ARENA_RW, ARENA_PERSISTENT
TYPE_NAMES = {code: name for name, code in TYPE_CODES.items()}
PACKED = {name for name, bits in DTYPE_BITS.items() if bits and bits < 8}     # by plug-ins; pylite keeps them unpacked
EMPTY = b""


class Tables:
    """The Host of one subgraph, and where it stands.

    executor: that of the subgraph.
    """

    def __init__(self, executor):
        subgraph = executor.subgraph if executor.delegation is None else executor.delegation.original
        self.native = 0                 # nodes of delegates in native code that are alive
        self.subgraph = subgraph        # as the model has it
        if "externals" not in executor.shared:
            executor.shared["externals"] = Externals()
        self.host = Host(len(subgraph.tensors), executor.shared["externals"])
        for tensor in subgraph.tensors:
            self._tensor(tensor)
        for operator in subgraph.operators:
            self._node(operator)
        self.host.threads = executor.pool.threads
        variables = [t.index for t in subgraph.tensors if t.is_variable]
        self.host.finish([o.index for o in subgraph.operators], subgraph.inputs, subgraph.outputs, variables,
                         subgraph.name)

    def _tensor(self, tensor):
        host, q = self.host, tensor.quantization
        constant = tensor.data is not None
        if constant:
            where = MMAP_RO
        elif tensor.dtype == "string":
            where = DYNAMIC
        else:
            where = ARENA_PERSISTENT if tensor.is_variable else ARENA_RW
        data = tensor.data.ctypes.data if constant and tensor.data.size else 0
        signature = tensor.shape_signature if not constant and -1 in tensor.shape_signature else None
        nbytes = tensor.data.nbytes if constant else packed_size(tensor.dtype, tensor.shape) or 0
        host.set_tensor(tensor.index, tensor.name, TYPE_CODES.get(tensor.dtype, 0), tensor.shape, signature, where,
                        data, nbytes, tensor.is_variable, tensor.data)
        if tensor.sparsity is not None:
            s = tensor.sparsity
            host.set_sparsity(tensor.index, s.traversal_order, s.block_map,
                              [(d.size, None, None) if d.format == "DENSE" else (0, d.segments, d.indices)
                               for d in s.dimensions])
        if q is None:
            return
        if q.block_size:
            host.set_blockwise(tensor.index, q.scale_tensor, q.zero_point_tensor, q.block_size, q.axis)
        elif len(q.scale):
            host.set_quantization(tensor.index, np.ascontiguousarray(q.scale, np.float32),
                                  np.ascontiguousarray(np.broadcast_to(q.zero_point, q.scale.shape), np.int64), q.axis)

    def _node(self, operator):
        params, kept = builtin_data(operator)
        codes = enum_numbers("BuiltinOperator")
        self.host.add_node(codes["CUSTOM"] if operator.custom else operator.builtin_code,
                           operator.name if operator.custom else None, operator.version, operator.inputs,
                           operator.outputs, operator.intermediates, EMPTY if params is None else bytes(params),
                           operator.custom_options, kept)

    def sync(self, values):
        """Tell the table the shapes of `values` (Value; None is skipped) that are no constants of the model."""
        reshape = self.host.reshape
        for value in values:
            if value is not None and value.tensor.data is None:
                reshape(value.index, value.shape, packed_size(value.dtype, value.shape) or 0)

    def follow(self, delegation):
        """Have the nodes, the plan and the shapes of a Delegation that goes on to native code."""
        for operator in delegation.operators[self.host.num_nodes:]:
            self.host.add_node(operator.builtin_code, None, operator.version, operator.inputs, operator.outputs, (),
                               EMPTY, EMPTY)
        self.host.set_plan(delegation.plan)
        self.sync(delegation.seen())
        self.unplace(range(self.host.model_tensors))

    def ended(self):
        """A delegate's node was ended; the last one takes the graph back to the model's."""
        if self.native:
            self.native -= 1
            if not self.native:
                self.host.undo_delegates()

    def forget_delegates(self):
        self.native = 0
        self.host.undo_delegates()

    def finish(self, lowered):
        """Put a ReadBack before the first reader of each tensor that a delegate may leave in a buffer of its own."""
        if not self.native:
            return
        waiting = {}        # root of the value -> (value, delegate of its node)
        calls = []
        for call in lowered.calls:
            mine = self.host.delegate_of(call.args[1]) if call.kernel in (Plugin, StringPlugin) else 0
            for root in _reads(call) & waiting.keys():
                if self.host.delegate_of(waiting[root][1].index) != mine:
                    calls.append(self._read_back(*waiting.pop(root)))
            calls.append(call)
            if mine:
                waiting.update((v.root, (v, call.node)) for v in call.node.outputs if v is not None and v.size)
        for index in lowered.subgraph.outputs:
            found = waiting.pop(lowered.values[index].root, None)
            if found is not None:
                calls.append(self._read_back(*found))
        lowered.calls[:] = calls

    def _read_back(self, value, node):
        call = Call(ReadBack, self.host, value.index, value.bytes)
        call.node = node
        return call

    def unplace(self, indices):
        """Outside of invoke a tensor of the arena has no memory."""
        host = self.host
        for i in indices:
            if i >= 0 and host.facts(i)[2] in ARENA:
                host.set_address(i, 0)


def StringPlugin(host, index, tensors, banded, texts, *arrays):
    """A Plugin that is fed the strings of the tensors `texts` first; the first arrays are theirs."""
    count = len(texts)
    return Plugin(host, index, tensors, banded, functools.partial(feed, host, texts, arrays[:count]), *arrays[count:])


def feed(host, indices, arrays):
    """Give the tables the strings of `arrays`, packed as plug-ins expect them."""
    for index, array in zip(indices, arrays, strict=True):
        host.set_bytes(index, pack(array, "string").tobytes())


def _reads(call):
    """The roots of the values among the arguments of a call."""
    return {a.root if type(a) is Value else a.value.root for a in call.args if type(a) in (Value, View)}


def tables_of(executor):
    """The Tables of an Executor, made when first asked for."""
    if executor.tables is None:
        executor.tables = Tables(executor)
    return executor.tables
