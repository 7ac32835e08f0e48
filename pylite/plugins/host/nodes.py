"""The Op of a node that a plug-in in C runs: calls its prepare() while lowering, and lowers to a Plugin kernel."""
import numpy as np

from pylite._core.capi.kernels import BAND as NATIVE_BAND
from pylite._core.capi.kernels import Plugin
from pylite._core.run.memory import aligned
from pylite.errors import OpError
from pylite.ir.graph import packed_size
from pylite.ir.values import BAND, Banded, Call, Constant, Scratch, raw
from pylite.plugins.host.plugin_structs import (
    ARENA,
    ARENA_PERSISTENT,
    ARENA_RW,
    DYNAMIC,
    PACKED,
    PERSISTENT_RO,
    TYPE_NAMES,
    StringPlugin,
    set_strings,
)
from pylite.schema.encodings import pack, unpack

assert NATIVE_BAND == BAND, "PL_BAND of _core/capi/host.h must equal BAND of ir/values.py, by which tensors are placed"


class NativeNodeOp:
    """The Op of one node whose kernel is native code, in the PluginStructs of its subgraph.

    name: of the kernel, in errors.  A node is evaluated, and the nodes after it are lowered when it has run, if its
    outputs get their sizes at run time (kTfLiteDynamic, as all strings are) or have integers smaller than a byte.
    """
    stateful = True
    versions = (0, 1 << 31)
    attach = None           # it is the Op of its node already
    blockwise = True        # a plug-in may read any byte of a blockwise quantized tensor
    fuses_activation = False
    conditions = ()

    def __init__(self, structs, index, name):
        self.structs = structs
        self.host = structs.host
        self.index = index
        self.name = name
        self._persistent = {}       # tensor that the plug-in added -> its memory
        self._temporaries = ()

    def accepts(self, inputs, outputs):
        return True

    def close(self):
        """Call free() of the plug-in."""
        self.host.finalize(self.index)

    def infer(self, node):
        """Call prepare() of the plug-in, and check all that it may have changed."""
        host = self.host
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.dtype == "variant":
                raise node.error("native plug-ins cannot take variants, which are objects of the runtime",
                                 value)
        self.structs.set_shapes(node.inputs)
        self.structs.clear_addresses([*node.operator.inputs, *node.operator.outputs, *self._temporaries])
        status = host.prepare(self.index)
        if status:
            why = host.errors()
            raise OpError(f"{why + ' ' if why else ''}Node number {self.index} ({self.name}) failed to prepare."
                          f" ({node})")
        host.log(f"prepare() of {node}")
        self._temporaries = self._checked_temporaries(node)
        for value in node.inputs:
            if value is not None and value.tensor.data is None and value.kind != "variable" and (
                    host.facts(value.index)[1] != value.shape):
                raise node.error("its prepare() changed the shape of an input", value)
        shapes = [() if value is None else self._output_shape(node, value) for value in node.outputs]
        return None if self._is_evaluated(node) else shapes

    def _is_evaluated(self, node):
        return any(v is not None and self.host.facts(v.index)[2] == DYNAMIC for v in node.outputs) or any(
            v is not None and v.dtype in PACKED and v.tensor.data is None for v in (*node.inputs, *node.outputs))

    def _checked_temporaries(self, node):
        """Indices of the temporary tensors after prepare()."""
        indices = self.host.temporaries(self.index)
        for i in indices:
            if not -1 <= i < self.host.tensors:
                raise node.error(f"its prepare() lists tensor {i} as temporary, and there are {self.host.tensors}")
            if 0 <= i < self.host.model_tensors:
                raise node.error(f"its prepare() lists tensor {i} of the model as temporary: AddTensors makes them")
            if i >= 0:
                self._checked_facts(node, i)
        return tuple(i for i in indices if i >= 0)

    def _checked_facts(self, node, index):
        """The PluginHost's facts of a tensor after prepare(), if they are consistent."""
        code, shape, where, nbytes, address = facts = self.host.facts(index)
        dtype = TYPE_NAMES.get(code)
        if where in ARENA:
            if dtype is None or shape is None:
                raise node.error(f"its prepare() left tensor {index} without a type or a shape")
            if address:
                raise node.error(f"its prepare() gave tensor {index} memory of its own, which only the host may "
                                 f"allocate")
            if min(shape, default=0) < 0 or nbytes != packed_size(dtype, shape):
                raise node.error(f"its prepare() left tensor {index} with the shape {list(shape)} and {nbytes} bytes")
        return facts

    def _output_shape(self, node, value):
        """The shape of an output after prepare(), which may also have changed its type."""
        if value.index < self.host.model_tensors and value.tensor.data is not None:
            raise node.error("it writes to a constant of the model", value)
        code, shape, where, _, _ = self._checked_facts(node, value.index)
        if where not in (*ARENA, DYNAMIC, PERSISTENT_RO):
            raise node.error(f"its prepare() set the allocation type {where}", value)
        dtype = TYPE_NAMES.get(code)
        if dtype is None:
            raise node.error(f"its prepare() set the unknown type {code}", value)
        value.dtype = dtype
        return value.shape if shape is None else shape

    def lower(self, node):
        strings, placed = self._inputs(node)
        bindings, items = _Bindings(), []
        for value in placed:
            bindings.add(value.index, value.bytes)
        for value in node.outputs:
            if value is None:
                continue
            if self.host.facts(value.index)[2] == PERSISTENT_RO:
                items.append(Constant(value, self._prepared_contents(node, value)))
            elif value.kind != "variable" and value.size:
                bindings.add(value.index, Banded(value), band=True)
            else:
                bindings.add(value.index, value.bytes)
        for index in self._temporaries:
            array = self._temporary_memory(index)
            if array is not None:
                bindings.add(index, array, band=True)
        where = self.host, self.index, tuple(bindings.tensors), tuple(bindings.banded)
        if strings:
            return [*items, Call(StringPlugin, *where, tuple([v.index for v in strings]), *strings, *bindings.arrays)]
        return [*items, Call(Plugin, *where, None, *bindings.arrays)]

    def _inputs(self, node):
        """The inputs that are not constants: (those of strings, those whose memory the host provides).

        Tensors that another plug-in allocated itself are in neither.
        """
        inputs = [v for v in dict.fromkeys(node.inputs) if v is not None and v.tensor.data is None]
        strings = [v for v in inputs if v.dtype == "string"]
        return strings, [v for v in inputs if v.dtype != "string" and self.host.facts(v.index)[2] in ARENA]

    def evaluate(self, node, *inputs):
        """Run the node once; its outputs as new arrays."""
        contents = dict(zip(node.inputs, inputs, strict=True))
        strings, placed = self._inputs(node)
        set_strings(self.host, [value.index for value in strings], [contents[value] for value in strings])
        bindings = _Bindings()
        for value in placed:
            array = contents[value]
            bindings.add(value.index, pack(array, value.dtype) if value.dtype in PACKED else raw(array))
        outputs = [value for value in node.outputs if value is not None]
        for index in dict.fromkeys([*[value.index for value in outputs], *self._temporaries]):
            _, _, where, nbytes, _ = self.host.facts(index)
            if where in ARENA:
                bindings.add(index, self._persistent_memory(index, nbytes), band=True)
        self._run(node, outputs, bindings)
        memory = dict(zip(bindings.tensors, bindings.arrays, strict=True))
        return [None if v is None else self._result(node, v, memory.get(v.index)) for v in node.outputs]

    def _run(self, node, outputs, bindings):
        """Run the plug-in, and read outputs back that a delegate left in a buffer of its own."""
        kernel = Plugin(self.host, self.index, tuple(bindings.tensors), tuple(bindings.banded), None, *bindings.arrays)
        status = kernel.run()
        if status:
            raise node.failure(kernel.explain(status))
        for value in outputs:
            if self.host.read_back(value.index):
                raise node.failure(self.host.errors() or "CopyFromBufferHandle failed and reported no error")

    def _result(self, node, value, memory):
        """The array of an output after the node has run; memory: its bytes between guard bands, None if dynamic."""
        shape = self.host.facts(value.index)[1]
        content = np.frombuffer(self.host.get_bytes(value.index), np.uint8) if memory is None else memory[BAND:-BAND]
        if shape is None or min(shape, default=0) < 0:
            raise node.failure(f"it left the output {value!r} without a shape")
        value.shape = shape
        if value.dtype == "string":
            try:
                return unpack(content, "string", shape)
            except ValueError as error:
                raise node.failure(f"it wrote no valid strings to {value!r}: {error}") from None
        if content.nbytes != packed_size(value.dtype, shape):
            raise node.failure(f"it left {content.nbytes} bytes in the output {value!r}")
        return unpack(content, value.dtype, shape)

    def _temporary_memory(self, index):
        """Memory and guard bands for temporary tensor `index`; None if it needs none, or the plug-in allocates it."""
        _, _, where, nbytes, _ = self.host.facts(index)
        if where == ARENA_RW and nbytes:
            return Scratch((nbytes + 2 * BAND,), "uint8")
        return self._persistent_memory(index, nbytes) if where == ARENA_PERSISTENT else None

    def _persistent_memory(self, index, nbytes):
        """Memory and guard bands for tensor `index`, the same one as long as its size stays."""
        array = self._persistent.get(index)
        if array is None or array.nbytes != nbytes + 2 * BAND:
            array = self._persistent[index] = aligned(nbytes + 2 * BAND)
        return array

    def _prepared_contents(self, node, value):
        """A copy of an output that prepare() computed."""
        content = np.frombuffer(self.host.get_bytes(value.index), np.uint8)
        nbytes = packed_size(value.dtype, value.shape)
        if nbytes is not None and len(content) < nbytes:     # strings have no fixed size
            raise node.error(f"its prepare() left {len(content)} bytes in a persistent output of {nbytes}; it must "
                             "call ResizeTensor for it", value)
        return unpack(content[:nbytes], value.dtype, value.shape)


class _Bindings:
    """The tensors that a Plugin kernel binds to memory: their indices, their arrays, and which have guard bands."""

    def __init__(self):
        self.tensors, self.banded, self.arrays = [], [], []

    def add(self, index, array, band=False):
        self.tensors.append(index)
        self.banded.append(band)
        self.arrays.append(array)
