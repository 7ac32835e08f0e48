"""The Op of a node that a plug-in in C runs: prepare while lowering, a Plugin kernel to run."""
import numpy as np

from pylite._core.capi.kernels import BAND, Plugin
from pylite._core.memory import aligned
from pylite.errors import OpError
from pylite.ir.graph import packed_size
from pylite.ir.kernels import raw
from pylite.ir.values import Banded, Call, Constant, Scratch
from pylite.plugins.host.tables import (
    ARENA,
    ARENA_PERSISTENT,
    ARENA_RW,
    DYNAMIC,
    PACKED,
    PERSISTENT_RO,
    TYPE_NAMES,
    StringPlugin,
    feed,
)
from pylite.schema.encodings import pack, unpack


class NativeNode:
    """The Op of one node whose kernel is native code in the tables of its subgraph.

    name: what errors call the kernel.  A node with outputs that it sizes while it runs (kTfLiteDynamic, as all strings
    are), or with integers below a byte, is evaluated: what follows it is lowered when it has run.
    """
    stateful = True
    versions = (0, 1 << 31)
    attach = None           # it is one already
    blockwise = True        # a plug-in may look at anything
    fuses_activation = False

    def __init__(self, tables, index, name):
        self.tables = tables
        self.host = tables.host
        self.index = index
        self.name = name
        self._persistent = {}       # tensor that the plug-in added -> its memory
        self._temporaries = ()

    def accepts(self, inputs, outputs):
        return True

    def close(self):
        """free() of the plug-in."""
        self.host.finalize(self.index)

    def infer(self, node):
        """prepare() of the plug-in; then look at all that it may have touched."""
        host = self.host
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.dtype == "variant":
                raise node.error("plug-ins in native code cannot take variants, which are objects of the runtime",
                                 value)
        self.tables.sync(node.inputs)
        self.tables.unplace([*node.operator.inputs, *node.operator.outputs, *self._temporaries])
        status = host.prepare(self.index)
        if status:
            why = host.errors()
            raise OpError(f"{why + ' ' if why else ''}Node number {self.index} ({self.name}) failed to prepare."
                          f" ({node})")
        self._temporaries = self._audited(node, host.temporaries(self.index), "temporary")
        for value in node.inputs:
            if value is not None and value.tensor.data is None and value.kind != "variable" and (
                    host.facts(value.index)[1] != value.shape):
                raise node.error("its prepare() changed the shape of an input", value)
        shapes = [() if value is None else self._output(node, value) for value in node.outputs]
        return None if self._evaluated(node) else shapes

    def _evaluated(self, node):
        """Must it run apart from the others?"""
        return any(v is not None and self.host.facts(v.index)[2] == DYNAMIC for v in node.outputs) or any(
            v is not None and v.dtype in PACKED and v.tensor.data is None for v in (*node.inputs, *node.outputs))

    def _audited(self, node, indices, what):
        """Indices of tensors that the plug-in listed, checked."""
        for i in indices:
            if not -1 <= i < self.host.tensors:
                raise node.error(f"its prepare() lists tensor {i} as {what}, and there are {self.host.tensors}")
            if i >= 0:
                self._checked(node, i)
        return tuple(i for i in indices if i >= 0)

    def _checked(self, node, index):
        """The facts of a tensor after prepare(), if they fit together."""
        code, shape, where, nbytes, address = facts = self.host.facts(index)
        dtype = TYPE_NAMES.get(code)
        if where in ARENA:
            if dtype is None or shape is None:
                raise node.error(f"its prepare() left tensor {index} without a type or a shape")
            if address:
                raise node.error(f"its prepare() gave tensor {index} memory of its own, which the host places")
            if min(shape, default=0) < 0 or nbytes != packed_size(dtype, shape):
                raise node.error(f"its prepare() left tensor {index} with the shape {list(shape)} and {nbytes} bytes")
        return facts

    def _output(self, node, value):
        """The shape of an output after prepare()."""
        if value.index < self.host.model_tensors and value.tensor.data is not None:
            raise node.error("it writes to a constant of the model", value)
        code, shape, where, _, _ = self._checked(node, value.index)
        if where not in (*ARENA, DYNAMIC, PERSISTENT_RO):
            raise node.error(f"its prepare() set the allocation type {where}", value)
        dtype = TYPE_NAMES.get(code)
        if dtype is None:
            raise node.error(f"its prepare() set the unknown type {code}", value)
        value.dtype = dtype
        return value.shape if shape is None else shape

    def lower(self, node):
        texts, placed = self._read(node)
        tensors = [value.index for value in placed]
        arrays = [value.bytes for value in placed]
        banded = [False] * len(tensors)
        items = []
        for value in node.outputs:
            if value is None:
                continue
            where, address = self.host.facts(value.index)[2::2]
            if where == PERSISTENT_RO:
                items.append(Constant(value, self._contents(value, address)))
                continue
            self._place(value, tensors, banded, arrays)
        for index in self._temporaries:
            self._temporary(index, tensors, banded, arrays)
        where = self.host, self.index, tuple(tensors), tuple(banded)
        if texts:
            return [*items, Call(StringPlugin, *where, tuple([v.index for v in texts]), *texts, *arrays)]
        return [*items, Call(Plugin, *where, None, *arrays)]

    def _read(self, node):
        """The inputs that are no constants: (those of strings, those whose memory the host finds).

        What another plug-in made in memory of its own lies where that put it.
        """
        found = [v for v in dict.fromkeys(node.inputs) if v is not None and v.tensor.data is None]
        texts = [v for v in found if v.dtype == "string"]
        return texts, [v for v in found if v.dtype != "string" and self.host.facts(v.index)[2] in ARENA]

    def evaluate(self, node, *inputs):
        """Run the node once; its outputs, in memory of their own."""
        host, contents = self.host, dict(zip(node.inputs, inputs, strict=True))
        texts, placed = self._read(node)
        feed(host, [value.index for value in texts], [contents[value] for value in texts])
        tensors = [value.index for value in placed]
        arrays = [pack(contents[v], v.dtype) if v.dtype in PACKED else raw(contents[v]) for v in placed]
        banded = [False] * len(tensors)
        for index in dict.fromkeys([*[v.index for v in node.outputs if v is not None], *self._temporaries]):
            _, _, where, nbytes, _ = host.facts(index)
            if where in ARENA:
                tensors.append(index)
                banded.append(True)
                arrays.append(self._kept(index, nbytes))
        kernel = Plugin(host, self.index, tuple(tensors), tuple(banded), None, *arrays)
        status = kernel.run()
        if status:
            raise node.failure(kernel.explain(status))
        for value in node.outputs:      # which a delegate may have left in a buffer of its own
            if value is not None and host.read_back(value.index):
                raise node.failure(host.errors() or "CopyFromBufferHandle failed and reported no error")
        own = dict(zip(tensors, arrays, strict=True))
        return [None if v is None else self._result(node, v, own.get(v.index)) for v in node.outputs]

    def _result(self, node, value, memory):
        """The array of an output after the node has run, `memory` with a band or the plug-in's own."""
        shape = self.host.facts(value.index)[1]
        content = np.frombuffer(self.host.get_bytes(value.index), np.uint8) if memory is None else memory[:-BAND]
        if shape is None or min(shape, default=0) < 0:
            raise node.failure(f"it left the output {value!r} without a shape")
        value.shape = shape
        if value.dtype == "string":
            try:
                return unpack(content, "string", shape)
            except ValueError as error:
                raise node.failure(f"what it wrote to {value!r} are no strings: {error}") from None
        if content.nbytes != packed_size(value.dtype, shape):
            raise node.failure(f"it left {content.nbytes} bytes in the output {value!r}")
        return unpack(content, value.dtype, shape)

    def _place(self, value, tensors, banded, arrays):
        in_arena = value.kind != "variable" and value.size
        tensors.append(value.index)
        banded.append(bool(in_arena))
        arrays.append(Banded(value) if in_arena else value.bytes)

    def _temporary(self, index, tensors, banded, arrays):
        _, _, where, nbytes, _ = self.host.facts(index)
        if where == ARENA_RW and nbytes:
            array = Scratch((nbytes + BAND,), "uint8")
        elif where == ARENA_PERSISTENT:
            array = self._kept(index, nbytes)
        else:
            return
        tensors.append(index)
        banded.append(True)
        arrays.append(array)

    def _kept(self, index, nbytes):
        """Memory for tensor `index` that lasts, and a band."""
        array = self._persistent.get(index)
        if array is None or array.nbytes != nbytes + BAND:
            array = self._persistent[index] = aligned(nbytes + BAND)
        return array

    def _contents(self, value, address):
        """A copy of what prepare() computed."""
        content = np.frombuffer(self.host.get_bytes(value.index), np.uint8)
        return unpack(content[:packed_size(value.dtype, value.shape)], value.dtype, value.shape)
